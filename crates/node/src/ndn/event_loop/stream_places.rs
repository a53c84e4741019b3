//! Gives accepted connections their places.

use super::{EventLoop, Places};
use crate::limits;
use larder_forwarder::{DropReason, Persistency};

impl EventLoop {
    /// Returns true if there may be another face. UDP peers that sent first have places of their
    /// own.
    fn has_room(&self, is_remote: bool) -> bool {
        let udp = self.places.udp_faces.on_demand();
        (self.links.len() + self.remote_shard_faces.len()).saturating_sub(udp)
            < self.bounds.remote_faces + limits::LOCAL_FACES
            && (!is_remote
                || self.places.remote.len().saturating_sub(udp) < self.bounds.remote_faces)
    }

    /// Makes room for another face. Returns false if that is impossible.
    pub(super) fn make_room(&mut self, is_remote: bool) -> bool {
        if self.has_room(is_remote) {
            return true;
        }
        is_remote && self.close_least_entitled() && self.has_room(is_remote)
    }

    /// Returns true if there are more faces to other machines than the configuration allows.
    pub(super) fn has_too_many(&self) -> bool {
        self.places
            .remote
            .len()
            .saturating_sub(self.places.udp_faces.on_demand())
            > self.bounds.remote_faces
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

    /// Returns true if so many peers come that one line for each would fill the log.
    pub(super) fn is_crowded(&self) -> bool {
        self.places.udp_places.are_scarce()
            || self.places.stream_places.places.len() >= self.bounds.remote_faces / 4 * 3
    }
}
