//! Shared memory for local applications that ask for it.

use super::EventLoop;
use crate::ndn::link::{Connection, Link};
use crate::ndn::stream::Socket;
use crate::ndn::tokens::{bell, token};
use crate::ndn::unix_socket::UnixSocket;
use larder_forwarder::FaceId;
use larder_packet::SharedMemory;
use larder_units::Time;

impl EventLoop {
    /// Handles a packet by which an application agrees on shared memory.
    pub(super) fn on_shared_memory(&mut self, face: FaceId, step: SharedMemory) {
        let most = self.bounds.shared_faces();
        let Some(socket) = self.links.get_mut(&face).and_then(unix_socket) else { return };
        match step {
            SharedMemory::Request => {
                let offered = socket.offer_shared_memory(&self.places.shared, most, self.poll.registry(), bell(face));
                if let Err(error) = offered
                    && self.may_warn()
                {
                    tracing::warn!(face = face.0, %error, "no shared memory for an application; it uses its socket");
                }
            }
            SharedMemory::Switch => {
                socket.on_switch();
                // Nobody rings for bytes that came before.
                self.pending.ready.push(token(face));
            }
            SharedMemory::Offer => {}
        }
        // The answer leaves with what is queued, or alone.
        self.pending.dirty.push(face);
    }

    /// Reads and writes a face whose application has rung: it has sent something, or made room.
    pub(super) fn on_bell(&mut self, now: Time, face: FaceId) {
        let Some(link) = self.links.get_mut(&face) else { return };
        if let Some(socket) = unix_socket(link) {
            socket.on_bell();
        }
        if link.is_blocked() && is_shared(link) {
            self.unblock(face);
        }
        self.read_stream(now, face);
    }

    /// Returns the faces that use shared memory.
    pub(super) fn shared_faces(&self) -> Vec<FaceId> {
        self.links.iter().filter(|(_, link)| is_shared(link)).map(|(face, _)| *face).collect()
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
        Connection::Stream(stream) => matches!(&stream.socket, Socket::Unix(socket) if socket.is_shared()),
        _ => false,
    }
}
