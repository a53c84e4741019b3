//! Faces with link reliability: what their frames say of the link is taken in before the forwarder
//! sees them, and their time is kept.
//!
//! A face is reliable where a route or management says so; one that its neighbour has opened, from
//! the first frame on in which the neighbour offers it.

use super::event_loop::EventLoop;
use super::link::Connection;
use larder_forwarder::{DropReason, FaceId};
use larder_packet::tlv::Tlv;
use larder_packet::types::{LP_PACKET, LP_TX_SEQUENCE};
use larder_units::Time;

impl EventLoop {
    /// Hands frames of a face to the forwarder, but for those that came before.
    pub(super) fn handle_frames<'a>(&mut self, now: Time, face: FaceId, frames: impl Iterator<Item = &'a mut [u8]>) {
        let mut frames = frames.peekable();
        if frames.peek().is_some_and(|frame| offers(frame)) {
            self.accept_reliability(face);
        }
        let link = self.links.get_mut(&face).and_then(|link| link.connection.frames());
        match link.filter(|link| link.is_reliable()) {
            None => self.handle(now, face, frames),
            Some(link) => {
                let new: Vec<&mut [u8]> = frames.filter(|frame| link.receive(now, frame)).collect();
                if link.begins_to_wait() {
                    self.reliable.push(face);
                }
                self.handle(now, face, new.into_iter());
            }
        }
    }

    /// The neighbour numbers its frames: where it is the neighbour's face, ours are numbered too.
    fn accept_reliability(&mut self, face: FaceId) {
        let Some(Connection::Udp(peer)) = self.links.get_mut(&face).map(|link| &mut link.connection) else { return };
        if !peer.permanent && peer.frames.accept_reliability() {
            self.forwarder.set_link_reliability(face, true);
        }
    }

    /// A route's face is reliable from now on, or is not.
    pub(super) fn be_reliable(&mut self, face: FaceId, reliable: bool) {
        self.forwarder.set_link_reliability(face, reliable);
        self.set_reliable(face, reliable);
    }

    /// The face is reliable from now on, or is not, as its configuration says.
    pub(super) fn set_reliable(&mut self, face: FaceId, reliable: bool) {
        let Some(frames) = self.links.get_mut(&face).and_then(|link| link.connection.frames()) else { return };
        frames.set_reliable(reliable);
    }

    /// When [`EventLoop::keep_reliable`] must be called next.
    pub(super) fn next_reliable(&mut self) -> Option<Time> {
        let EventLoop { reliable, links, .. } = self;
        let frames = reliable.iter().filter_map(|face| links.get_mut(face)?.connection.frames()?.next_timeout());
        frames.min()
    }

    /// Sends again what was lost, and Acks that found no frame to go in.
    pub(super) fn keep_reliable(&mut self, now: Time) {
        let EventLoop { reliable, links, forwarder, dirty, .. } = self;
        reliable.retain(|face| {
            let Some(frames) = links.get_mut(face).and_then(|link| link.connection.frames()) else { return false };
            if frames.next_timeout().is_some_and(|at| at <= now) {
                let given_up = frames.on_timeout(now);
                (0..given_up).for_each(|_| forwarder.count_drop(*face, DropReason::LinkLoss));
                dirty.push(*face);
            }
            frames.still_waits()
        });
    }
}

/// Whether a frame is numbered for its receiver to acknowledge.
fn offers(frame: &[u8]) -> bool {
    let packet = Tlv::only(frame, LP_PACKET);
    packet.is_ok_and(|packet| packet.children().flatten().any(|field| field.typ == LP_TX_SEQUENCE))
}
