//! Makes room: closes faces for others, and gives up incomplete packets.

use super::EventLoop;
use crate::ndn::guard::partial_input::{Holder, Place, Verdict, victims};
use crate::ndn::guard::places::Places;
use crate::ndn::send::link::Link;
use crate::ndn::transport::reading::Partial;
use larder_forwarder::{DropReason, FaceId, Persistency};
use larder_units::Time;

impl EventLoop {
    /// Makes room for another face. Returns false if that is impossible.
    pub(super) fn make_room(&mut self, is_remote: bool) -> bool {
        if self.has_room(is_remote) {
            return true;
        }
        is_remote && self.close_least_entitled() && self.has_room(is_remote)
    }

    fn has_room(&self, is_remote: bool) -> bool {
        let faces = self.links.len() + self.shard_channel.remote_faces();
        self.places.has_room(&self.bounds, faces, is_remote)
    }

    /// Closes the connection from another machine that is the least entitled to its place. Returns
    /// false if there is none.
    pub(super) fn close_least_entitled(&mut self) -> bool {
        let (now, most) = (self.now(), self.bounds.remote_faces);
        let EventLoop {
            places: Places { stream_places, .. },
            forwarder,
            ..
        } = self;
        let on_demand = |face| {
            forwarder
                .face(face)
                .is_some_and(|face| face.persistency == Persistency::OnDemand)
        };
        let may_go = |face| on_demand(face) && !forwarder.has_routes(face);
        let Some(face) = stream_places.least_entitled(now, most, may_go) else {
            return false;
        };
        if self.may_warn() {
            tracing::warn!(
                remote_faces = most,
                "too many connections from other machines: the least entitled are closed for new ones"
            );
        }
        self.forwarder.count_drop(face, DropReason::PeerDisplaced);
        self.close(face, Some("other connections needed its place".to_owned()));
        true
    }

    /// Closes the faces of displaced UDP peers.
    pub(super) fn make_room_for_udp(&mut self) {
        if !self.places.udp_places.is_overfull() {
            return;
        }
        let EventLoop {
            places: Places { udp_places, .. },
            forwarder,
            ..
        } = self;
        let displaced = udp_places.make_room(|face| forwarder.has_answered(face));
        if self.may_warn() {
            tracing::warn!(
                "many new UDP peers: perhaps a flood with forged addresses; others keep their places"
            );
        }
        for face in displaced {
            self.forwarder.count_drop(face, DropReason::PeerDisplaced);
            self.close(face, Some("other UDP peers needed its place".to_owned()));
        }
    }

    /// Gives up partial input, here or at another shard, as the budget demands.
    pub(super) fn obey_budget(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Fits => {}
            Verdict::Wake(shard) => self.shard_channel.port(shard).wake(),
            Verdict::GiveUp(bytes) => self.give_up_partial(bytes),
        }
    }

    fn give_up_partial(&mut self, bytes: usize) {
        let before = self.places.partial.held();
        let connections = self.links.iter().filter_map(|(face, link)| {
            let partial = link.connection.partial()?;
            Some(Holder {
                id: Place::Connection(face),
                bytes: partial.held(),
                since: partial.since()?,
            })
        });
        let reassembly = self.forwarder.partial_holders();
        let reassembly = reassembly.map(|(face, bytes, since)| Holder {
            id: Place::Reassembly(face),
            bytes,
            since,
        });
        let holders: Vec<_> = connections.chain(reassembly).collect();
        for place in victims(holders, bytes) {
            match place {
                Place::Connection(face) => self.give_up_connection(face),
                Place::Reassembly(face) => self.forwarder.give_up_partial(face),
            }
        }
        self.places
            .partial
            .fragments_are(self.forwarder.partial_bytes());
        // It may not be enough.
        if self.places.partial.held() < before {
            self.obey_budget(self.places.partial.verdict());
        }
    }

    /// Drops the connection's packet and skips its rest. If that is impossible, closes the
    /// connection. A permanent face is connected again.
    fn give_up_connection(&mut self, face: FaceId) {
        let Some(link) = self.links.get_mut(face) else {
            return;
        };
        let before = link.connection.partial_bytes();
        let is_skipped = link.connection.give_up_partial();
        self.places
            .partial
            .connection_changed(before, link.connection.partial_bytes());
        self.forwarder
            .count_drop(face, DropReason::PartialReclaimed);
        if !is_skipped {
            self.disconnected(
                self.now(),
                face,
                Some(
                    "partial input takes all its memory, and this packet was the largest"
                        .to_owned(),
                ),
            );
        }
    }

    /// Closes the connections whose packet takes too long.
    pub(super) fn close_stalled(&mut self, now: Time) {
        let timeout = self.bounds.partial_timeout;
        let since = |link: &Link| link.connection.partial().and_then(Partial::since);
        let stalled = |link: &Link| since(link).is_some_and(|since| now.since(since) >= timeout);
        let over: Vec<FaceId> = self
            .links
            .iter()
            .filter(|(_, link)| stalled(link))
            .map(|(face, _)| face)
            .collect();
        for face in over {
            self.forwarder.count_drop(face, DropReason::PartialTimeout);
            self.disconnected(
                now,
                face,
                Some("the rest of a packet did not come in time".to_owned()),
            );
        }
    }
}
