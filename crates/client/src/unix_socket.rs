//! A Unix socket to a node, and the shared memory that may take its place.
//!
//! [`SHARED_MEMORY_PACKET`] describes how the two sides agree. The socket stays open beside the
//! shared memory: its end is the end of the node.

use super::limits;
use larder_packet::SHARED_MEMORY_PACKET;
use larder_shared_stream::{Descriptors, SharedStream};
use mio::net::UnixStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

pub(super) struct UnixSocket {
    pub(super) socket: UnixStream,
    /// True until the node answers the request for shared memory. Most other forwarders never do.
    asks: bool,
    shared: Option<Shared>,
}

struct Shared {
    stream: SharedStream,
    /// True after the socket has been read to its end.
    is_read: bool,
    /// True after the node has been told that this side writes here.
    is_written: bool,
}

impl UnixSocket {
    pub(super) fn connect(path: &Path, shared_memory: bool) -> io::Result<UnixSocket> {
        let mut socket = std::os::unix::net::UnixStream::connect(path)?;
        if shared_memory {
            // If the node has closed the connection already, the first read tells.
            let _ = socket.write_all(&SHARED_MEMORY_PACKET);
        }
        socket.set_nonblocking(true)?;
        Ok(UnixSocket { socket: UnixStream::from_std(socket), asks: shared_memory, shared: None })
    }

    /// Reads. The end of the stream is `UnexpectedEof`. `ending` is true if the node has closed the
    /// socket. Events of shared memory get the token.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        ending: bool,
        registry: &Registry,
        token: Token,
    ) -> io::Result<usize> {
        if self.asks {
            return some(self.receive(buffer, registry, token));
        }
        match &mut self.shared {
            None => some(self.socket.read(buffer)),
            Some(shared) => {
                if !shared.is_read {
                    match self.socket.read(buffer) {
                        Ok(0) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        read => return read,
                    }
                    shared.is_read = true;
                }
                match shared.stream.read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && ending => {
                        Err(io::ErrorKind::UnexpectedEof.into())
                    }
                    read => read,
                }
            }
        }
    }

    /// Returns true if there may be more to read, although a read has returned less than it could.
    pub(super) fn may_have_more(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.is_read)
    }

    /// Reads the socket while the descriptors of shared memory may come. They come with the last
    /// bytes that the node sends here.
    fn receive(&mut self, buffer: &mut [u8], registry: &Registry, token: Token) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
        let mut descriptors = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten();
        if let (Some(memory), Some(ear), Some(bell)) = (descriptors.next(), descriptors.next(), descriptors.next()) {
            let stream = SharedStream::open(Descriptors { memory, ear, bell })?;
            registry.register(&mut SourceFd(&stream.as_raw_fd()), token, Interest::READABLE)?;
            self.shared = Some(Shared { stream, is_read: false, is_written: false });
            self.asks = false;
        }
        Ok(received.bytes)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.shared {
            Some(shared) if shared.is_written => shared.stream.write(bytes),
            _ => self.socket.write(bytes),
        }
    }

    /// Begins to write to shared memory, if there is some. Call it between two packets. Returns
    /// true if it begins now.
    pub(super) fn between_packets(&mut self) -> io::Result<bool> {
        let Some(shared) = self.shared.as_mut().filter(|shared| !shared.is_written) else { return Ok(false) };
        match self.socket.write(&SHARED_MEMORY_PACKET) {
            // The kernel takes a packet of this size whole or not at all.
            Ok(_) => shared.is_written = true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(shared.is_written)
    }

    /// Polls shared memory for a short time. Returns true if there is something to read.
    pub(super) fn spin(&mut self) -> bool {
        let Some(Shared { stream, is_read: true, .. }) = &mut self.shared else { return false };
        let start = Instant::now();
        while start.elapsed() < limits::SPIN {
            if stream.poll() {
                return true;
            }
            // Another thread may need this processor, perhaps to make what this one waits for.
            rustix::thread::sched_yield();
        }
        stream.wait()
    }
}

/// Returns the bytes of a read, of which there are none at the end of the stream only.
fn some(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        read => read,
    }
}
