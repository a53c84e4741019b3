//! A relay without tables: what one connection sends, the other gets, as it comes. The floor under
//! every forwarder: the same sockets, the same generator, large reads and writes, and nothing done
//! to a packet.

use crate::connection::broken;
use crate::failure::Failure;
use larder_client::{Client, Transport};
use larder_units::system_message;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc;
use tempfile::TempDir;

/// Bytes read at once, as the node does.
const READ_BYTES: usize = 64 << 10;

/// A thread that relays between the first two that connect, until one of them is gone.
pub struct Relay {
    directory: TempDir,
    thread_id: mpsc::Receiver<u32>,
}

impl Relay {
    /// Listens, and relays from a thread.
    pub fn start() -> Result<Relay, Failure> {
        let failed = |error: io::Error| Failure::runtime(format!("cannot start the relay: {}", system_message(&error)));
        let directory = tempfile::tempdir().map_err(failed)?;
        let listener = UnixListener::bind(directory.path().join("relay.sock")).map_err(failed)?;
        let (sender, thread_id) = mpsc::channel();
        let run = move || {
            let _ = sender.send(rustix::thread::gettid().as_raw_pid() as u32);
            // It ends with the connections; what goes wrong before shows as answers that do not
            // come.
            let _ = relay(&listener);
        };
        std::thread::Builder::new().name("relay".to_owned()).spawn(run).map_err(failed)?;
        Ok(Relay { directory, thread_id })
    }

    /// A connection to it; the second one's other end is the first one.
    pub fn connect(&self) -> Result<Client, Failure> {
        Client::connect_to(Transport::unix(self.path())).map_err(broken)
    }

    /// The thread, as the kernel numbers it; may be asked for once.
    pub fn thread_id(&mut self) -> Result<u32, Failure> {
        self.thread_id.recv().map_err(|_| Failure::runtime("the relay's thread ended"))
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("relay.sock")
    }
}

fn relay(listener: &UnixListener) -> io::Result<()> {
    let (first, _) = listener.accept()?;
    let (second, _) = listener.accept()?;
    first.set_nonblocking(true)?;
    second.set_nonblocking(true)?;
    let (mut there, mut back) = (Direction::new(&first, &second), Direction::new(&second, &first));
    loop {
        let wanted = |from_here: &Direction<'_>, to_here: &Direction<'_>| {
            let reading = if from_here.waiting.is_empty() { PollFlags::IN } else { PollFlags::empty() };
            let writing = if to_here.waiting.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            reading | writing
        };
        let mut sockets = [PollFd::new(&first, wanted(&there, &back)), PollFd::new(&second, wanted(&back, &there))];
        poll(&mut sockets, None)?;
        if !there.pass()? || !back.pass()? {
            return Ok(());
        }
    }
}

/// One direction.
struct Direction<'a> {
    from: &'a UnixStream,
    to: &'a UnixStream,
    buffer: Vec<u8>,
    /// What was read and is not written yet; nothing is read meanwhile.
    waiting: Range<usize>,
}

impl<'a> Direction<'a> {
    fn new(from: &'a UnixStream, to: &'a UnixStream) -> Self {
        Direction { from, to, buffer: vec![0; READ_BYTES], waiting: 0..0 }
    }

    /// Passes on what there is, as far as it is taken; false where the connection is closed.
    fn pass(&mut self) -> io::Result<bool> {
        if self.waiting.is_empty() {
            match would_block(self.from.read(&mut self.buffer))? {
                Some(0) => return Ok(false),
                Some(read) => self.waiting = 0..read,
                None => return Ok(true),
            }
        }
        while !self.waiting.is_empty() {
            match would_block(self.to.write(&self.buffer[self.waiting.clone()]))? {
                Some(written) => self.waiting.start += written,
                None => break,
            }
        }
        Ok(true)
    }
}

fn would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
