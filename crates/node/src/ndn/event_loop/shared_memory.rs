//! Shared memory for local applications that ask for it.

use super::EventLoop;
use crate::ndn::link::{Connection, Link};
use crate::ndn::stream::Socket;
use crate::ndn::tokens::token;
use larder_forwarder::FaceId;

impl EventLoop {
    /// Handles the packet by which an application asks for shared memory, or begins to write there.
    pub(super) fn on_shared_memory(&mut self, face: FaceId) {
        let Some(Connection::Stream(stream)) = self.links.get_mut(&face).map(|link| &mut link.connection) else {
            return;
        };
        let Socket::Unix(socket) = &mut stream.socket else { return };
        let most = self.bounds.shared_faces();
        match socket.on_shared_memory(&self.places.shared, most, self.poll.registry(), token(face)) {
            // Events of bytes that came before were not for this reader.
            Ok(true) => self.pending.ready.push(token(face)),
            Ok(false) => self.pending.dirty.push(face),
            Err(error) => {
                if self.may_warn() {
                    tracing::warn!(face = face.0, %error, "no shared memory for an application; it uses its socket");
                }
            }
        }
    }

    /// Writes a face again whose application may have made room in shared memory.
    pub(super) fn unblock_shared(&mut self, face: FaceId) {
        if self.links.get(&face).is_some_and(|link| link.is_blocked() && is_shared(link)) {
            self.unblock(face);
        }
    }

    /// Returns the faces that use shared memory.
    pub(super) fn shared_faces(&self) -> Vec<FaceId> {
        self.links.iter().filter(|(_, link)| is_shared(link)).map(|(face, _)| *face).collect()
    }
}

fn is_shared(link: &Link) -> bool {
    match &link.connection {
        Connection::Stream(stream) => matches!(&stream.socket, Socket::Unix(socket) if socket.is_shared()),
        _ => false,
    }
}
