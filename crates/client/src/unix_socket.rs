//! A Unix socket to a node, and the shared memory that may take its place.
//!
//! [`SharedMemory`] describes how the two sides agree. The socket stays open beside the shared
//! memory: its end is the end of the node.

use larder_packet::SharedMemory;
use larder_shared_stream::{Descriptors, SharedStream};
use mio::net::UnixStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;

pub(super) struct UnixSocket {
    pub(super) socket: UnixStream,
    /// True until the node answers the request for shared memory. Most other forwarders never do.
    asks: bool,
    shared: Option<Shared>,
    /// True if the last read ended at a message with descriptors: there may be more behind it.
    is_cut: bool,
    /// True if the node sends no more: the rest is read to its end.
    ending: bool,
    /// True if the node has gone: nothing is written.
    has_hung_up: bool,
}

struct Shared {
    stream: SharedStream,
    /// True after this side has changed to the shared memory.
    is_written: bool,
    /// True after the node has changed too.
    is_read: bool,
}

impl UnixSocket {
    pub(super) fn connect(path: &Path, shared_memory: bool) -> io::Result<UnixSocket> {
        let mut socket = std::os::unix::net::UnixStream::connect(path)?;
        if shared_memory {
            // If the node has closed the connection already, the first read tells.
            let _ = socket.write_all(&SharedMemory::Request.packet());
        }
        socket.set_nonblocking(true)?;
        Ok(UnixSocket {
            socket: UnixStream::from_std(socket),
            asks: shared_memory,
            shared: None,
            is_cut: false,
            ending: false,
            has_hung_up: false,
        })
    }

    /// Records that the node sends no more, or that it has gone (`has_hung_up`).
    pub(super) fn set_ending(&mut self, has_hung_up: bool) {
        self.ending = true;
        self.has_hung_up |= has_hung_up;
    }

    /// Reads. The end of the stream is 0 bytes. Events of shared memory get the token.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        registry: &Registry,
        token: Token,
    ) -> io::Result<usize> {
        self.is_cut = false;
        match &mut self.shared {
            Some(shared) if shared.is_read => match shared.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.ending => Ok(0),
                read => read,
            },
            None if self.asks => self.receive(buffer, registry, token),
            _ => self.socket.read(buffer),
        }
    }

    /// Returns true if there may be more to read, although a read has returned less than it could.
    pub(super) fn may_have_more(&self) -> bool {
        self.is_cut
            || self
                .shared
                .as_ref()
                .is_some_and(|shared| shared.is_read && shared.stream.may_have_more())
    }

    /// Reads the socket while the descriptors of shared memory may come.
    fn receive(
        &mut self,
        buffer: &mut [u8],
        registry: &Registry,
        token: Token,
    ) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(buffer)],
            &mut control,
            flags,
        )?;
        // A process that may open no more descriptors gets some of them, or none.
        self.is_cut = received.flags.contains(ReturnFlags::CTRUNC);
        for message in control.drain() {
            let RecvAncillaryMessage::ScmRights(mut descriptors) = message else {
                continue;
            };
            self.is_cut = true;
            if let (Some(memory), Some(ear), Some(bell)) =
                (descriptors.next(), descriptors.next(), descriptors.next())
            {
                // Without memory, both sides go on over the socket.
                self.shared = open(Descriptors { memory, ear, bell }, registry, token).ok();
            }
        }
        Ok(received.bytes)
    }

    /// Handles a packet by which the node agrees on shared memory.
    pub(super) fn on_shared_memory(&mut self, step: SharedMemory) {
        match step {
            SharedMemory::Request => {}
            // Its descriptors have come with it, or do not come any more.
            SharedMemory::Offer => self.asks = false,
            SharedMemory::Switch => {
                if let Some(shared) = &mut self.shared {
                    shared.is_read = shared.is_written;
                }
            }
        }
    }

    /// Handles an event of shared memory.
    pub(super) fn on_event(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.stream.on_event();
        }
    }

    /// Writes. Bytes for a node that has gone are discarded, so that what it left in the memory is
    /// read to its end; that read ends the face.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.shared {
            Some(shared) if shared.is_written => {
                if self.has_hung_up {
                    Ok(bytes.len())
                } else {
                    shared.stream.write(bytes)
                }
            }
            _ => self.socket.write(bytes),
        }
    }

    /// Changes to shared memory, if the node has offered some. Call it between two packets. Returns
    /// true if it changes now.
    pub(super) fn between_packets(&mut self) -> io::Result<bool> {
        let Some(shared) = self.shared.as_mut().filter(|shared| !shared.is_written) else {
            return Ok(false);
        };
        match self.socket.write(&SharedMemory::Switch.packet()) {
            // The kernel takes a packet of this size whole or not at all.
            Ok(_) => shared.is_written = true,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
        Ok(shared.is_written)
    }

    /// Returns the shared memory that is read.
    pub(super) fn shared_input(&mut self) -> Option<&mut SharedStream> {
        self.shared
            .as_mut()
            .filter(|shared| shared.is_read)
            .map(|shared| &mut shared.stream)
    }
}

fn open(descriptors: Descriptors, registry: &Registry, token: Token) -> io::Result<Shared> {
    let stream = SharedStream::open(descriptors)?;
    registry.register(
        &mut SourceFd(&stream.as_raw_fd()),
        token,
        Interest::READABLE,
    )?;
    Ok(Shared {
        stream,
        is_written: false,
        is_read: false,
    })
}
