//! Faces with link reliability: processes the link headers of their frames before the forwarder
//! sees them, and keeps their time.
//!
//! A face is reliable if a route or management says so. A face that its neighbour has opened
//! becomes reliable with the first frame that offers it.

use super::EventLoop;
use crate::ndn::guard::udp_faces::PeerSetting;
use larder_forwarder::FaceId;
use larder_packet::tlv::Tlv;
use larder_packet::types::{LP_PACKET, LP_TX_SEQUENCE};
use larder_units::Time;

impl EventLoop {
    /// Passes frames of a face to the forwarder, without duplicates.
    pub(super) fn handle_frames<'a>(
        &mut self,
        now: Time,
        face: FaceId,
        frames: impl Iterator<Item = &'a mut [u8]>,
    ) {
        let mut frames = frames.peekable();
        if frames.peek().is_some_and(|frame| offers(frame)) {
            self.accept_reliability(face);
        }
        match self.links.frames(face).filter(|link| link.is_reliable()) {
            None => self.handle(now, face, frames),
            Some(link) => {
                let new: Vec<&mut [u8]> = frames.filter(|frame| link.receive(now, frame)).collect();
                self.links.watch_reliable(face);
                self.handle(now, face, new.into_iter());
            }
        }
    }

    /// Numbers our frames too, if the neighbour numbers its own and has opened the face.
    fn accept_reliability(&mut self, face: FaceId) {
        let Some(peer) = self.links.udp_peer(face) else {
            return;
        };
        if !peer.permanent && peer.frames.accept_reliability() {
            self.be_reliable(face, true);
        }
    }

    /// Switches the reliability of a face on or off, for a reason that its configuration does not
    /// know.
    pub(super) fn be_reliable(&mut self, face: FaceId, reliable: bool) {
        self.change_peer(face, PeerSetting::Reliable(reliable));
    }

    /// Switches the reliability of a face on or off, as its configuration says.
    pub(super) fn set_reliable(&mut self, face: FaceId, reliable: bool) {
        if let Some(frames) = self.links.frames(face) {
            frames.set_reliable(reliable);
        }
    }
}

/// Returns true if the sender numbers its frames for acknowledgement.
fn offers(frame: &[u8]) -> bool {
    let packet = Tlv::only(frame, LP_PACKET);
    packet.is_ok_and(|packet| {
        packet
            .children()
            .flatten()
            .any(|field| field.typ == LP_TX_SEQUENCE)
    })
}
