//! Shared memory for local applications that ask for it.

use super::EventLoop;
use crate::ndn::polling::Polling;
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::tokens::{bell, token};
use crate::ndn::transport::stream::Socket;
use crate::ndn::transport::unix_socket::UnixSocket;
use larder_forwarder::FaceId;
use larder_packet::SharedMemory;
use larder_shared_stream::SharedStream;
use larder_units::Time;

impl EventLoop {
    /// Handles a packet by which an application agrees on shared memory.
    pub(super) fn on_shared_memory(&mut self, face: FaceId, step: SharedMemory) {
        let most = self.bounds.shared_faces();
        let Some(socket) = self.links.get_mut(face).and_then(unix_socket) else {
            return;
        };
        match step {
            SharedMemory::Request => {
                let offered = socket.offer_shared_memory(
                    &self.places.shared,
                    most,
                    self.poll.registry(),
                    bell(face),
                );
                if let Err(error) = offered
                    && self.may_warn()
                {
                    tracing::warn!(face = face.0, %error, "no shared memory for an application; it uses its socket");
                }
            }
            SharedMemory::Switch => {
                socket.on_switch();
                // Nobody rings for bytes that came before.
                self.ready.push(token(face));
            }
            SharedMemory::Offer => {}
        }
        // The answer leaves with what is queued, or alone.
        self.links.write_later(face);
    }

    /// Reads and writes a face whose application has rung: it has sent something, or made room.
    pub(super) fn on_bell(&mut self, now: Time, face: FaceId) {
        let Some(link) = self.links.get_mut(face) else {
            return;
        };
        if let Some(socket) = unix_socket(link) {
            socket.on_bell();
        }
        // A paused face is not read, so what a poll of it finds would be found again in each turn.
        if link.pause.is_none() {
            self.polling.on_bell(now, face);
        }
        if link.is_blocked() && is_shared(link) {
            self.links.unblock(face);
        }
        self.read_stream(now, face);
    }

    /// Looks at the shared memory of the active applications. If the loop would wait, this polls
    /// for a while; then applications ring again. Returns true if there is something to read.
    pub(super) fn poll_shared_memory(&mut self, waits: bool) -> bool {
        if self.polling.active.is_empty() {
            return false;
        }
        let now = self.now();
        // A poll does not notice that an application has made room.
        let is_due = waits && !self.links.has_paused() && self.polling.is_due(now);
        let EventLoop {
            polling: Polling { spin, active, .. },
            links,
            ready,
            ..
        } = self;
        let mut look = |has_come: fn(&mut SharedStream) -> bool| {
            let before = ready.len();
            for (face, last) in active.iter_mut() {
                let stream = links
                    .get_mut(*face)
                    .and_then(unix_socket)
                    .and_then(UnixSocket::shared_input);
                if stream.is_some_and(has_come) {
                    *last = now;
                    ready.push(token(*face));
                }
            }
            ready.len() > before
        };
        if !waits {
            return look(SharedStream::poll);
        }
        if is_due && spin.run(|| look(SharedStream::poll)) {
            return true;
        }
        let has_come = look(SharedStream::wait);
        self.polling.forget_inactive(now);
        has_come
    }

    /// Polls a face no longer, because it is not read. Its application rings when the next read
    /// finds nothing.
    pub(super) fn end_polling(&mut self, face: FaceId) {
        self.polling.forget(face);
        if let Some(stream) = self
            .links
            .get_mut(face)
            .and_then(unix_socket)
            .and_then(UnixSocket::shared_input)
        {
            stream.wait();
        }
    }

    /// Returns the faces that use shared memory.
    pub(super) fn shared_faces(&self) -> Vec<FaceId> {
        self.links
            .iter()
            .filter(|(_, link)| is_shared(link))
            .map(|(face, _)| face)
            .collect()
    }
}

fn unix_socket(link: &mut Link) -> Option<&mut UnixSocket> {
    match &mut link.connection {
        Connection::Stream(stream) => match &mut stream.socket {
            Socket::Unix(socket) => Some(socket),
            Socket::Tcp(_) => None,
        },
        _ => None,
    }
}

fn is_shared(link: &Link) -> bool {
    match &link.connection {
        Connection::Stream(stream) => {
            matches!(&stream.socket, Socket::Unix(socket) if socket.is_shared())
        }
        _ => false,
    }
}
