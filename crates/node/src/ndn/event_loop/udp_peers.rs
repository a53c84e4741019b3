//! UDP peers: the face of each sender, and the proof that a sender holds its address.
//!
//! While many new peers come and places are scarce, each gets one probe when it is new and one when
//! it becomes known: an Interest whose name has a token that depends on the peer's address. A
//! forwarder without a route for it returns it in a Nack, as NFD and Larder do. Any packet with the
//! token proves that the peer received the probe. An application that does not answer keeps its
//! standing: it is served, and its place depends on its prefix's share. No probe is sent while
//! there is room.

use super::packets::NOBODY;
use super::{EventLoop, Places};
use crate::limits;
use crate::ndn::datagram::{Origin, Via};
use crate::ndn::udp_places::Standing;
use larder_forwarder::{Body, DropReason, FaceId, Persistency, Send};
use larder_packet::{InterestBuilder, LpHeader, LpPacket, Name};
use larder_units::Time;
use memchr::memmem;
use std::net::SocketAddr;

impl EventLoop {
    /// Returns the face of the sender of these datagrams. Creates one for a new peer.
    pub(super) fn udp_face(&mut self, now: Time, via: Via, origin: &Origin, datagrams: &[u8]) -> Option<FaceId> {
        let from = origin.from;
        let Some(heard) = self.places.udp_places.hear(now, from) else {
            return self.new_udp_peer(now, via, origin, datagrams);
        };
        if heard.is_asked && memmem::find(datagrams, &self.places.udp_places.token(from)).is_some() {
            self.places.udp_places.set_standing(from, Standing::Proven);
            self.make_room_for_udp();
        } else if heard.is_promoted {
            self.make_room_for_udp();
            self.probe(now, heard.face, from);
        }
        Some(heard.face)
    }

    /// Creates a face for a new sender, if it sends a valid packet.
    fn new_udp_peer(&mut self, now: Time, via: Via, origin: &Origin, datagrams: &[u8]) -> Option<FaceId> {
        let Origin { from, to, length, .. } = *origin;
        if via == Via::Outgoing {
            self.forwarder.count_drop(NOBODY, DropReason::Stranger);
            return None;
        }
        if let Err(error) = LpPacket::decode(datagrams.chunks(length).next()?) {
            self.forwarder.count_drop(NOBODY, DropReason::Malformed);
            tracing::debug!(%from, %error, "a datagram of a stranger is no packet");
            return None;
        }
        let local = SocketAddr::new(to.unwrap_or(self.listeners.udp_address.ip()), self.listeners.udp_address.port());
        let face = self.add_peer(now, from, local, |config| config.with_persistency(Persistency::OnDemand))?;
        self.places.udp_places.insert(now, from, face, Standing::New);
        self.make_room_for_udp();
        self.probe(now, face, from);
        Some(face)
    }

    /// Closes the faces of displaced UDP peers.
    pub(super) fn make_room_for_udp(&mut self) {
        if !self.places.udp_places.is_overfull() {
            return;
        }
        let EventLoop { places: Places { udp_places, .. }, forwarder, .. } = self;
        let displaced = udp_places.make_room(|face| forwarder.has_answered(face));
        if self.may_warn() {
            tracing::warn!("many new UDP peers: perhaps a flood with forged addresses; others keep their places");
        }
        for face in displaced {
            self.forwarder.count_drop(face, DropReason::PeerDisplaced);
            self.close(face, Some("other UDP peers needed its place".to_owned()));
        }
    }

    /// While places are scarce, asks a peer for a proof that it receives packets at its address. A
    /// probe is as small as a short Interest, so forged senders cannot use it for amplification.
    fn probe(&mut self, now: Time, face: FaceId, address: SocketAddr) {
        if !self.places.udp_places.are_scarce() {
            return;
        }
        let token = self.places.udp_places.probe(address);
        let Ok(mut name) = "/localhop/probe".parse::<Name>() else { return };
        name.push_generic(&token);
        let nonce = u32::from_be_bytes([token[0], token[1], token[2], token[3]]);
        let interest = InterestBuilder::new(name).nonce(nonce).lifetime(limits::PROBE_LIFETIME).hop_limit(1).build();
        let most = self.longest_queue();
        let mut send = Send { face, header: LpHeader::default(), body: Body::Input, index: 0 };
        self.queue(now, most, &mut send, &interest);
    }
}
