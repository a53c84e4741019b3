//! A relay without tables. It passes everything from one connection to the other without looking at
//! it. It is the lower bound for every forwarder: the same sockets, the same generator, large reads
//! and writes, and no work per packet.

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
use std::time::Duration;
use tempfile::TempDir;

/// The bytes of one read, as in the node.
const READ_BYTES: usize = 64 << 10;

/// A thread that relays between the first two connections, until one of them is closed.
pub struct Relay {
    directory: TempDir,
    thread_id: mpsc::Receiver<u32>,
}

impl Relay {
    /// Listens, and relays in a thread.
    pub fn start() -> Result<Relay, Failure> {
        let failed = |error: io::Error| {
            Failure::runtime(format!(
                "cannot start the relay: {}",
                system_message(&error)
            ))
        };
        let directory = tempfile::tempdir().map_err(failed)?;
        let listener = UnixListener::bind(directory.path().join("relay.sock")).map_err(failed)?;
        let (sender, thread_id) = mpsc::channel();
        let run = move || {
            let _ = sender.send(rustix::thread::gettid().as_raw_pid() as u32);
            // The thread ends with its connections. An earlier error shows as missing answers.
            let _ = relay(&listener);
        };
        std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(run)
            .map_err(failed)?;
        Ok(Relay {
            directory,
            thread_id,
        })
    }

    /// Returns a connection to the relay. The first two connections are the ends of the relay.
    pub fn connect(&self) -> Result<Client, Failure> {
        let mut client = Client::connect_to(Transport::unix(self.path()).without_shared_memory())
            .map_err(broken)?;
        client.wait_out(Duration::ZERO);
        Ok(client)
    }

    /// Returns the kernel's number of the thread. Call it at most once.
    pub fn thread_id(&mut self) -> Result<u32, Failure> {
        self.thread_id
            .recv()
            .map_err(|_| Failure::runtime("the relay's thread ended"))
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
    let (mut there, mut back) = (
        Direction::new(&first, &second),
        Direction::new(&second, &first),
    );
    loop {
        let wanted = |from_here: &Direction<'_>, to_here: &Direction<'_>| {
            let reading = if from_here.waiting.is_empty() {
                PollFlags::IN
            } else {
                PollFlags::empty()
            };
            let writing = if to_here.waiting.is_empty() {
                PollFlags::empty()
            } else {
                PollFlags::OUT
            };
            reading | writing
        };
        let mut sockets = [
            PollFd::new(&first, wanted(&there, &back)),
            PollFd::new(&second, wanted(&back, &there)),
        ];
        poll(&mut sockets, None)?;
        if !there.pass()? || !back.pass()? {
            return Ok(());
        }
    }
}

/// One direction of the relay.
struct Direction<'a> {
    from: &'a UnixStream,
    to: &'a UnixStream,
    buffer: Vec<u8>,
    /// Bytes that are read and not yet written. While there are some, nothing is read.
    waiting: Range<usize>,
}

impl<'a> Direction<'a> {
    fn new(from: &'a UnixStream, to: &'a UnixStream) -> Self {
        Direction {
            from,
            to,
            buffer: vec![0; READ_BYTES],
            waiting: 0..0,
        }
    }

    /// Passes on available bytes as far as the other end accepts them. Returns false if the
    /// connection is closed.
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
