//! Connects permanent faces again.

use super::EventLoop;
use super::faces;
use crate::limits::{RECONNECT_FIRST, RECONNECT_MOST};
use crate::ndn::faces::permanent::Permanent;
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::tokens::token;
use crate::ndn::transport::stream::{Socket, StreamConnection};
use larder_forwarder::FaceId;
use larder_units::Time;
use mio::Interest;
use mio::net::TcpStream;
use std::io;
use std::net::SocketAddr;

impl EventLoop {
    /// Makes the face permanent.
    pub(super) fn make_permanent(&mut self, face: FaceId, address: SocketAddr) {
        if !self.outgoing.permanent.iter().any(|one| one.face == face) {
            self.outgoing.permanent.push(Permanent {
                face,
                address,
                retry: None,
                wait: RECONNECT_FIRST,
            });
        }
    }

    /// Ends the permanence of the face. A face without a connection ends.
    pub(super) fn end_permanence(&mut self, face: FaceId) {
        let Some(at) = self
            .outgoing
            .permanent
            .iter()
            .position(|one| one.face == face)
        else {
            return;
        };
        if self.outgoing.permanent.swap_remove(at).retry.is_some() {
            self.close(
                face,
                Some("it has no connection, and is not permanent any more".to_owned()),
            );
        }
    }

    /// Returns the permanent face to this address.
    pub(super) fn permanent_face_to(&self, address: SocketAddr) -> Option<FaceId> {
        self.outgoing
            .permanent
            .iter()
            .find(|one| one.address == address)
            .map(|one| one.face)
    }

    /// Records that something came by this face: the next loss of its connection begins with the
    /// shortest wait again.
    pub(super) fn heard_permanent(&mut self, face: FaceId) {
        if let Some(one) = self
            .outgoing
            .permanent
            .iter_mut()
            .find(|one| one.face == face)
        {
            one.wait = RECONNECT_FIRST;
        }
    }

    /// Ends the face after its connection is gone, unless it is permanent.
    pub(super) fn disconnected(&mut self, now: Time, face: FaceId, why: Option<String>) {
        // If the first connection fails, the command gets the error.
        let first = self.outgoing.connecting.contains_key(&face);
        let Some(one) = self
            .outgoing
            .permanent
            .iter_mut()
            .find(|one| one.face == face && !first)
        else {
            return self.close(face, why);
        };
        one.retry = Some(now + one.wait);
        one.wait = (one.wait * 2).min(RECONNECT_MOST);
        self.drop_link(face);
        tracing::info!(
            face = face.0,
            why = why.as_deref().unwrap_or("closed by the peer"),
            "a permanent face is down"
        );
    }

    /// Connects the permanent faces that are due.
    pub(super) fn connect_permanent(&mut self, now: Time) {
        let mut permanent = std::mem::take(&mut self.outgoing.permanent);
        for one in permanent
            .iter_mut()
            .filter(|one| one.retry.is_some_and(|at| at <= now))
        {
            // A connection that fails later shows it when it is read.
            one.retry = match self.connect_again(one.face, one.address) {
                Ok(()) => None,
                Err(error) => {
                    tracing::debug!(face = one.face.0, %error, "a permanent face cannot be connected");
                    Some(now + one.wait)
                }
            };
        }
        self.outgoing.permanent = permanent;
    }

    fn connect_again(&mut self, face: FaceId, address: SocketAddr) -> io::Result<()> {
        let mut socket = TcpStream::connect(address)?;
        faces::prepare(&socket);
        self.poll.registry().register(
            &mut socket,
            token(face),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let stream = StreamConnection::new(Socket::Tcp(socket), self.bounds.largest_frame);
        self.links
            .insert(face, Link::new(Connection::Stream(stream)));
        Ok(())
    }
}
