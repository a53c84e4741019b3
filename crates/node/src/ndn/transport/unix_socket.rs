//! The Unix socket of a local application, and the shared memory that may take its place.
//!
//! [`SharedMemory`] describes how the two sides agree. The socket stays open beside the shared
//! memory: its end is the end of the application.

use larder_packet::SharedMemory;
use larder_shared_stream::{Descriptors, SharedStream};
use mio::net::UnixStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::collections::HashMap;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The socket of a local application.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    pub(crate) socket: UnixStream,
    shared: Option<Box<Shared>>,
    /// True after the system refused to offer shared memory. It is not tried again: each try costs
    /// a memory.
    is_refused: bool,
    /// True if the application has gone: the rest is read to its end, and writes are discarded.
    has_hung_up: bool,
}

/// Shared memory beside a socket.
#[derive(Debug)]
struct Shared {
    stream: SharedStream,
    /// The application's descriptors, until they are sent.
    unsent: Option<Descriptors>,
    /// True after the application has changed to the shared memory.
    is_read: bool,
    /// True after this side has changed too.
    is_written: bool,
    /// True if the application sends no more: the rest is read to its end.
    ending: bool,
    _place: SharedPlace,
}

/// The places of faces with shared memory, on one thread, by the user of each application.
#[derive(Debug, Default)]
pub(crate) struct SharedPlaces(Arc<Mutex<HashMap<u32, usize>>>);

/// One place; free again when it is dropped.
#[derive(Debug)]
struct SharedPlace {
    places: SharedPlaces,
    user: u32,
}

impl SharedPlaces {
    fn taken(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one of `most` places for a user that has fewer than are free. So there is always one
    /// for a user that has none.
    fn take(&self, user: u32, most: usize) -> Option<SharedPlace> {
        let mut taken = self.taken();
        let free = most.saturating_sub(taken.values().sum::<usize>());
        if taken.get(&user).copied().unwrap_or_default() >= free {
            return None;
        }
        *taken.entry(user).or_default() += 1;
        Some(SharedPlace {
            places: SharedPlaces(Arc::clone(&self.0)),
            user,
        })
    }
}

impl Drop for SharedPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(count) = taken.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.user);
            }
        }
    }
}

impl UnixSocket {
    pub(crate) fn new(socket: UnixStream) -> UnixSocket {
        UnixSocket {
            socket,
            shared: None,
            is_refused: false,
            has_hung_up: false,
        }
    }

    /// Offers shared memory to an application that asks for it and has none yet, if its user may
    /// have one more of `most` places. The bell gets the token.
    ///
    /// # Errors
    /// The system has no memory or descriptor left. The socket is used as before.
    pub(crate) fn offer_shared_memory(
        &mut self,
        places: &SharedPlaces,
        most: usize,
        registry: &Registry,
        bell: Token,
    ) -> io::Result<()> {
        if self.shared.is_some() || self.is_refused {
            return Ok(());
        }
        let user = socket_peercred(&self.socket)?.uid.as_raw();
        let Some(place) = places.take(user, most) else {
            return Ok(());
        };
        self.is_refused = true;
        let (stream, descriptors) = SharedStream::create()?;
        registry.register(&mut SourceFd(&stream.as_raw_fd()), bell, Interest::READABLE)?;
        self.shared = Some(Box::new(Shared {
            stream,
            unsent: Some(descriptors),
            is_read: false,
            is_written: false,
            ending: false,
            _place: place,
        }));
        self.is_refused = false;
        Ok(())
    }

    /// Reads the shared memory from now on, if it was offered: the application writes there.
    pub(crate) fn on_switch(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.is_read = shared.unsent.is_none();
        }
    }

    /// Handles an event of the bell.
    pub(crate) fn on_bell(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.stream.on_event();
        }
    }

    /// Returns true if shared memory is in use, in both directions.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.is_written)
    }

    /// Returns the shared memory that is read.
    pub(crate) fn shared_input(&mut self) -> Option<&mut SharedStream> {
        self.shared
            .as_mut()
            .filter(|shared| shared.is_read)
            .map(|shared| &mut shared.stream)
    }

    /// Records that the application sends no more, or that it has gone (`has_hung_up`).
    pub(crate) fn set_ending(&mut self, has_hung_up: bool) {
        self.has_hung_up |= has_hung_up;
        if let Some(shared) = &mut self.shared {
            shared.ending = true;
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.shared {
            Some(shared) if shared.is_read => match shared.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && shared.ending => Ok(0),
                read => read,
            },
            _ => self.socket.read(buffer),
        }
    }

    /// Returns true if there may be more to read after a read that did not fill its buffer.
    pub(crate) fn may_have_more(&self) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|shared| shared.is_read && shared.stream.may_have_more())
    }

    /// Writes. Bytes for an application that has gone are discarded, so that what it left in the
    /// memory is read to its end; that read ends the face.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
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

    /// Sends the offer of shared memory, or changes to the memory that the application uses. Call
    /// it between two packets. If the socket has no room, the next call does it. If the system
    /// refuses to send descriptors, the socket is used as before.
    pub(crate) fn between_packets(&mut self) -> io::Result<()> {
        let Some(shared) = &mut self.shared else {
            return Ok(());
        };
        if let Some(descriptors) = &shared.unsent {
            match send_offer(&self.socket, descriptors) {
                Ok(()) => shared.unsent = None,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => {
                    tracing::debug!(%error, "cannot offer shared memory to an application; it uses its socket");
                    self.shared = None;
                    self.is_refused = true;
                }
            }
        } else if shared.is_read && !shared.is_written {
            // The kernel takes a packet of this size whole or not at all.
            match self.socket.write(&SharedMemory::Switch.packet()) {
                Ok(_) => shared.is_written = true,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Sends the descriptors with the packet that offers them. The kernel takes a message of this size
/// whole or not at all.
fn send_offer(
    socket: &UnixStream,
    Descriptors { memory, ear, bell }: &Descriptors,
) -> io::Result<()> {
    let descriptors = [memory.as_fd(), ear.as_fd(), bell.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(
        socket,
        &[IoSlice::new(&SharedMemory::Offer.packet())],
        &mut control,
        flags,
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Poll;

    /// The node's socket of an application that is offered shared memory, and its peer.
    fn offering() -> (UnixSocket, UnixStream, Poll) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut socket, poll) = (UnixSocket::new(ours), Poll::new().unwrap());
        socket
            .offer_shared_memory(&SharedPlaces::default(), 2, poll.registry(), Token(1))
            .unwrap();
        (socket, theirs, poll)
    }

    fn read(peer: &mut UnixStream) -> Vec<u8> {
        let mut bytes = [0; 100];
        let count = peer.read(&mut bytes).unwrap();
        bytes[..count].to_vec()
    }

    /// Failure: the users that came first have all places, or a place is never free again.
    #[test]
    fn a_user_takes_the_places_of_all() {
        let places = SharedPlaces::default();
        let take = |user| std::iter::from_fn(|| places.take(user, 126)).collect::<Vec<_>>();
        let shares: Vec<Vec<SharedPlace>> = (0..6).map(take).collect();
        assert_eq!(
            shares.iter().map(Vec::len).collect::<Vec<_>>(),
            [63, 32, 16, 8, 4, 2]
        );
        drop(shares);
        assert_eq!(take(7).len(), 63);
        assert!(places.taken().is_empty());
    }

    #[test]
    fn the_node_changes_to_the_memory_before_the_application() {
        let (mut socket, mut peer, _poll) = offering();
        socket.between_packets().unwrap();
        assert_eq!(read(&mut peer), SharedMemory::Offer.packet());
        for _ in 0..2 {
            socket.write(b"by the socket").unwrap();
            socket.between_packets().unwrap();
            assert_eq!(read(&mut peer), b"by the socket");
            assert!(!socket.is_shared());
        }
        socket.on_switch();
        socket.write(b"by the socket").unwrap();
        socket.between_packets().unwrap();
        assert_eq!(
            read(&mut peer),
            [&b"by the socket"[..], &SharedMemory::Switch.packet()].concat()
        );
        assert!(socket.is_shared());
        socket.write(b"by the memory").unwrap();
        assert_eq!(
            peer.read(&mut [0]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    #[test]
    fn a_change_that_was_not_offered_is_obeyed() {
        let (mut socket, mut peer, _poll) = offering();
        // The offer is not sent yet.
        socket.on_switch();
        peer.write_all(b"by the socket").unwrap();
        assert_eq!(socket.read(&mut [0; 100]).unwrap(), 13);
    }

    #[test]
    fn an_offer_that_the_system_refuses_ends_the_face() {
        let (mut socket, peer, poll) = offering();
        peer.shutdown(std::net::Shutdown::Read).unwrap();
        socket.between_packets().unwrap();
        assert!(socket.shared.is_none(), "it was sent");
        socket
            .offer_shared_memory(&SharedPlaces::default(), 2, poll.registry(), Token(1))
            .unwrap();
        assert!(socket.shared.is_none(), "it is tried again");
        let mut peer = peer;
        peer.write_all(b"by the socket").unwrap();
        assert_eq!(socket.read(&mut [0; 100]).unwrap(), 13);
    }

    #[test]
    fn an_application_that_has_gone_is_written_to() {
        let (mut socket, mut peer, _poll) = offering();
        socket.between_packets().unwrap();
        read(&mut peer);
        socket.on_switch();
        socket.between_packets().unwrap();
        // It sends no more, and still reads.
        socket.set_ending(false);
        assert_eq!(socket.write(b"more").unwrap(), 4);
        socket.set_ending(true);
        // More than the memory has room for, which nobody reads.
        for _ in 0..1_000 {
            assert_eq!(socket.write(&[7; 8_000]).unwrap(), 8_000);
        }
        assert_eq!(socket.read(&mut [0; 100]).unwrap(), 0);
    }
}
