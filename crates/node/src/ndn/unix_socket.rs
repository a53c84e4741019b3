//! The Unix socket of a local application, and the shared memory that may take its place.
//!
//! `larder_packet::SHARED_MEMORY_PACKET` describes how the two sides agree. The socket stays open
//! beside the shared memory: its end is the end of the application.

use larder_packet::SHARED_MEMORY_PACKET;
use larder_shared_stream::{Descriptors, SharedStream};
use mio::net::UnixStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// The socket of a local application.
#[derive(Debug)]
pub(super) struct UnixSocket {
    pub(super) socket: UnixStream,
    shared: Option<Box<Shared>>,
}

/// Shared memory beside a socket.
#[derive(Debug)]
struct Shared {
    stream: SharedStream,
    /// The application's descriptors, until they are sent: then this side writes here.
    unsent: Option<Descriptors>,
    /// True after the application has announced that it writes here.
    is_read: bool,
    /// True if the application has gone: the rest is read to its end.
    ending: bool,
    _place: SharedPlace,
}

/// The places of faces with shared memory, on one thread.
#[derive(Debug, Default)]
pub(super) struct SharedPlaces {
    taken: Arc<()>,
}

/// One place; free again when it is dropped.
#[derive(Debug)]
struct SharedPlace(#[allow(dead_code, reason = "it is counted")] Arc<()>);

impl SharedPlaces {
    /// Takes a place if fewer than `most` are taken.
    fn take(&self, most: usize) -> Option<SharedPlace> {
        let taken = Arc::strong_count(&self.taken) - 1;
        (taken < most).then(|| SharedPlace(self.taken.clone()))
    }
}

impl UnixSocket {
    pub(super) fn new(socket: UnixStream) -> UnixSocket {
        UnixSocket { socket, shared: None }
    }

    /// Handles a [`SHARED_MEMORY_PACKET`]: offers shared memory to an application that can use it
    /// and has none yet, if fewer than `most` faces have some, or reads it from now on. Returns
    /// true if there may be something to read.
    ///
    /// # Errors
    /// The system has no memory or descriptor left. The socket is used as before.
    pub(super) fn on_shared_memory(
        &mut self,
        places: &SharedPlaces,
        most: usize,
        registry: &Registry,
        token: Token,
    ) -> io::Result<bool> {
        if let Some(shared) = &mut self.shared {
            shared.is_read |= shared.unsent.is_none();
            return Ok(shared.is_read);
        }
        let Some(place) = places.take(most) else { return Ok(false) };
        let (stream, descriptors) = SharedStream::create()?;
        registry.register(&mut SourceFd(&stream.as_raw_fd()), token, Interest::READABLE)?;
        let unsent = Some(descriptors);
        self.shared = Some(Box::new(Shared { stream, unsent, is_read: false, ending: false, _place: place }));
        Ok(false)
    }

    /// Returns true if shared memory is in use, or offered.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Records that the application has gone.
    pub(super) fn set_ending(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.ending = true;
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.shared {
            Some(shared) if shared.is_read => match shared.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && shared.ending => Ok(0),
                read => read,
            },
            _ => self.socket.read(buffer),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.shared {
            Some(shared) if shared.unsent.is_none() => shared.stream.write(bytes),
            _ => self.socket.write(bytes),
        }
    }

    /// Sends the descriptors that are offered. Call it between two packets. If the socket has no
    /// room, they wait for the next call.
    pub(super) fn between_packets(&mut self) -> io::Result<()> {
        let Some(Shared { unsent: unsent @ Some(_), .. }) = self.shared.as_deref_mut() else { return Ok(()) };
        let Some(Descriptors { memory, ear, bell }) = &unsent else { return Ok(()) };
        let descriptors = [memory.as_fd(), ear.as_fd(), bell.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // The kernel takes a message of this size whole or not at all.
        match sendmsg(&self.socket, &[IoSlice::new(&SHARED_MEMORY_PACKET)], &mut control, flags) {
            Ok(_) => *unsent = None,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
