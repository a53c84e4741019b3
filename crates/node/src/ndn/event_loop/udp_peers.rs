//! UDP peers: the face of each sender, and the proof that a sender holds its address.
//!
//! While many new peers come and places are scarce, each gets one probe when it is new and one when
//! it becomes known: an Interest whose name has a token that depends on the peer's address. A
//! forwarder without a route for it returns it in a Nack, as NFD and Larder do. Any packet with the
//! token proves that the peer received the probe. An application that does not answer keeps its
//! standing: it is served, and its place depends on its prefix's share. No probe is sent while
//! there is room.

use super::EventLoop;
use super::packets::NOBODY;
use crate::limits;
use crate::limits::PATHS_AT_ONCE;
use crate::ndn::guard::udp_faces::{Datagrams, NewPeer, PeerSetting};
use crate::ndn::guard::udp_places::Standing;
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::shards::command::Command;
use crate::ndn::transport::udp::datagram;
use crate::ndn::transport::udp::datagram::{Origin, Via};
use larder_forwarder::{Body, DropReason, FaceId, Persistency, Send};
use larder_packet::{InterestBuilder, LpHeader, LpPacket, Name};
use larder_units::Time;
use memchr::memmem;
use std::net::SocketAddr;

impl EventLoop {
    /// Passes the datagrams of one sender to the forwarder, or to the thread of its face.
    pub(super) fn take_datagrams(
        &mut self,
        now: Time,
        via: Via,
        origin: &Origin,
        datagrams: &mut [u8],
    ) {
        let Some(face) = self.udp_face(now, via, origin, datagrams) else {
            return;
        };
        if let Some(peer) = self.links.udp_peer(face) {
            peer.last_heard = now;
            peer.local = origin.to;
        }
        self.links.mark_next_data_if(origin.congested);
        self.handle_frames(now, face, datagrams.chunks_mut(origin.length));
    }

    /// Takes datagrams that another thread has received.
    pub(super) fn take_passed(&mut self, now: Time, mut datagrams: Datagrams) {
        self.shard_channel.own().stranger_taken(datagrams.weight());
        // After a reload, datagrams of the socket before may still be on their way.
        if self.listeners.udp.is_some() {
            self.take_datagrams(now, Via::Listening, &datagrams.origin, &mut datagrams.bytes);
        }
    }

    /// Returns the face of the sender of these datagrams. Creates one for a new peer. Returns
    /// `None` if the datagrams have gone to another thread.
    fn udp_face(
        &mut self,
        now: Time,
        via: Via,
        origin: &Origin,
        datagrams: &[u8],
    ) -> Option<FaceId> {
        let from = origin.from;
        let Some(heard) = self.places.udp_places.hear(now, from) else {
            return self.new_udp_peer(now, via, origin, datagrams);
        };
        if heard.is_asked && memmem::find(datagrams, &self.places.udp_places.token(from)).is_some()
        {
            self.places.udp_places.set_standing(from, Standing::Proven);
            self.make_room_for_udp();
        } else if heard.is_promoted {
            self.make_room_for_udp();
            self.probe(now, heard.face, from);
        }
        Some(heard.face)
    }

    /// Creates a face for a sender without one at this thread, if it sends a valid packet. The
    /// first thread does that, and gives the face to the thread that receives from it.
    fn new_udp_peer(
        &mut self,
        now: Time,
        via: Via,
        origin: &Origin,
        datagrams: &[u8],
    ) -> Option<FaceId> {
        let Origin {
            from, to, length, ..
        } = *origin;
        if via == Via::Outgoing {
            self.forwarder.count_drop(NOBODY, DropReason::Stranger);
            return None;
        }
        if !LpPacket::is_packet(datagrams.chunks(length).next()?) {
            self.forwarder.count_drop(NOBODY, DropReason::Malformed);
            tracing::debug!(%from, "a datagram of a stranger is no packet");
            return None;
        }
        let (own, home) = (self.shard_channel.shard.number(), self.home_of(from));
        if own != 0 {
            self.pass_datagrams(if own == home { 0 } else { home }, origin, datagrams);
            return None;
        }
        if home != 0 && self.places.udp_faces.get(from).is_some() {
            self.pass_datagrams(home, origin, datagrams);
            return None;
        }
        let local = SocketAddr::new(
            to.unwrap_or(self.listeners.udp_address.ip()),
            self.listeners.udp_address.port(),
        );
        let (face, peer) = self.new_peer(now, from, local, |config| {
            config.with_persistency(Persistency::OnDemand)
        })?;
        let first = (home != 0)
            .then(|| self.datagrams_for(home, origin, datagrams))
            .flatten();
        self.place_peer(
            now,
            NewPeer {
                face,
                peer,
                standing: Standing::New,
                first,
            },
        );
        (home == 0).then_some(face)
    }

    /// Returns the number of the thread that receives from this address.
    fn home_of(&self, peer: SocketAddr) -> usize {
        self.listeners
            .udp
            .as_ref()
            .map_or(0, |udp| udp.home_of(peer))
    }

    /// Passes datagrams to another thread. They are dropped if it is too slow.
    fn pass_datagrams(&mut self, shard: usize, origin: &Origin, datagrams: &[u8]) {
        if let Some(datagrams) = self.datagrams_for(shard, origin, datagrams) {
            self.shard_channel
                .port(shard)
                .send(Command::Datagrams(datagrams));
        }
    }

    /// Copies datagrams for another thread, if that one has room. Otherwise they are dropped.
    fn datagrams_for(
        &mut self,
        shard: usize,
        origin: &Origin,
        datagrams: &[u8],
    ) -> Option<Datagrams> {
        let datagrams = Datagrams {
            origin: *origin,
            bytes: datagrams.to_vec(),
        };
        let fits = self
            .shard_channel
            .port(shard)
            .reserve_stranger(datagrams.weight());
        if !fits {
            self.forwarder.count_drop(NOBODY, DropReason::ShardFull);
        }
        fits.then_some(datagrams)
    }

    /// Gives a new face to the thread that receives from its peer.
    pub(super) fn place_peer(&mut self, now: Time, new: NewPeer) {
        let (face, address) = (new.face, new.peer.address);
        self.places
            .udp_faces
            .insert(face, address, new.peer.permanent);
        match self.home_of(address) {
            0 => self.adopt_peer(now, new),
            home => {
                self.shard_channel.tell_place(face, home);
                self.shard_channel
                    .port(home)
                    .send(Command::AdoptPeer(Box::new(new)));
            }
        }
    }

    /// Takes over a new face.
    pub(super) fn adopt_peer(&mut self, now: Time, new: NewPeer) {
        let NewPeer {
            face,
            peer,
            standing,
            first,
        } = new;
        let address = peer.address;
        self.links.insert(face, Link::new(Connection::Udp(peer)));
        self.places.udp_places.insert(now, address, face, standing);
        self.make_room_for_udp();
        if standing == Standing::New {
            self.probe(now, face, address);
        }
        let Some(mut first) = first else { return };
        self.shard_channel.own().stranger_taken(first.weight());
        // In a flood, the face may have lost its place at once. Its datagrams would make another.
        if self.links.contains(face) {
            self.take_datagrams(now, Via::Listening, &first.origin, &mut first.bytes);
        }
    }

    /// Changes a setting of a face, here and at the other thread that has to know it: that of the
    /// face, or the first one.
    pub(super) fn change_peer(&mut self, face: FaceId, setting: PeerSetting) {
        self.set_peer(face, setting);
        let first = (self.shard_channel.shard.number() != 0).then_some(0);
        if let Some(shard) = first.or_else(|| self.shard_channel.thread_of(face)) {
            self.shard_channel
                .port(shard)
                .send(Command::Peer(face, setting));
        }
    }

    /// Applies a setting of a face, whose link may be at another thread.
    pub(super) fn set_peer(&mut self, face: FaceId, setting: PeerSetting) {
        let frames = self.links.frames(face);
        match setting {
            PeerSetting::Mtu(mtu) => {
                let mtu = frames.map_or(mtu, |frames| {
                    frames.set_mtu(mtu);
                    frames.mtu()
                });
                self.forwarder.set_mtu(face, mtu);
            }
            PeerSetting::Reliable(reliable) => {
                self.forwarder.set_link_reliability(face, reliable);
                self.set_reliable(face, reliable);
            }
        }
    }

    /// While places are scarce, asks the other threads which peers have answered: Data and Nacks
    /// are counted where their names are at home.
    pub(super) fn ask_who_answered(&mut self) {
        if self.shard_channel.shard.is_only() || !self.places.udp_places.are_scarce() {
            return;
        }
        let faces = self.places.udp_places.unproven();
        let own = self.shard_channel.shard.number();
        for shard in self.shard_channel.others() {
            self.shard_channel
                .port(shard)
                .send(Command::Answered(faces.clone(), own));
        }
    }

    /// Tells another thread which of these faces have answered.
    pub(super) fn tell_who_answered(&mut self, faces: &[FaceId], shard: usize) {
        let answered: Vec<FaceId> = faces
            .iter()
            .copied()
            .filter(|face| self.forwarder.has_answered(*face))
            .collect();
        if !answered.is_empty() {
            self.shard_channel
                .port(shard)
                .send(Command::Proven(answered));
        }
    }

    /// Records that the peers of these faces have answered.
    pub(super) fn prove(&mut self, faces: &[FaceId]) {
        for face in faces {
            if let Some(Connection::Udp(peer)) = self.links.connection(*face) {
                self.places.udp_places.prove(peer.address, *face);
            }
        }
        self.make_room_for_udp();
    }

    /// While places are scarce, asks a peer for a proof that it receives packets at its address. A
    /// probe is as small as a short Interest, so forged senders cannot use it for amplification.
    fn probe(&mut self, now: Time, face: FaceId, address: SocketAddr) {
        if !self.places.udp_places.are_scarce() {
            return;
        }
        let token = self.places.udp_places.probe(address);
        let Ok(mut name) = "/localhop/probe".parse::<Name>() else {
            debug_assert!(false, "the name of a probe is none");
            return;
        };
        name.push_generic(&token);
        let nonce = u32::from_be_bytes([token[0], token[1], token[2], token[3]]);
        let interest = InterestBuilder::new(name)
            .nonce(nonce)
            .lifetime(limits::PROBE_LIFETIME)
            .hop_limit(1)
            .build();
        let most = self.links.longest_queues();
        let mut send = Send {
            face,
            header: LpHeader::default(),
            body: Body::Input,
            index: 0,
        };
        let udp = self.listeners.udp.as_ref();
        let forwarder = &mut self.forwarder;
        self.links
            .queue(now, most, &mut send, &interest, forwarder, udp);
    }

    /// Reads the MTU of some paths to UDP peers again, and of the others in the next calls: a
    /// router may have reported a narrower one.
    pub(super) fn look_at_paths(&mut self) {
        if self.bounds.udp_mtu.is_some() {
            return;
        }
        let by_path = |(face, link): (FaceId, &Link)| match &link.connection {
            Connection::Udp(peer) if !peer.address.ip().is_loopback() => Some((face, peer.address)),
            _ => None,
        };
        let mut peers: Vec<(FaceId, SocketAddr)> = self.links.iter().filter_map(by_path).collect();
        peers.sort_unstable_by_key(|(face, _)| (*face <= self.path_looked_at, *face));
        for (face, address) in peers.into_iter().take(PATHS_AT_ONCE) {
            self.path_looked_at = face;
            let mtu = datagram::mtu_to(address, None);
            let smaller = self
                .forwarder
                .face(face)
                .is_some_and(|config| config.mtu.is_some_and(|old| mtu < old));
            // Only the operator can make it larger.
            if smaller {
                self.change_peer(face, PeerSetting::Mtu(mtu));
            }
        }
    }
}
