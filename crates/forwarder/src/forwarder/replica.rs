//! The changes that the first of several shards sends to the others, so that they forward as it
//! does: faces, next hops, strategies and the Content Store's settings, in order. Only the first
//! shard has management, the RIB and the notifications of faces.

use super::Forwarder;
use crate::face::{FaceConfig, FaceId};
use crate::tables::rib::{FibUpdate, NextHop};
use crate::verification::{Verification, VerifyRule};
use larder_packet::Name;
use larder_policy::Spec;
use larder_units::{ByteSize, Time};
use std::sync::Arc;

/// One change, for [`Forwarder::apply`].
#[derive(Clone, Debug)]
pub enum Change {
    /// A new or changed face.
    Face(FaceId, Box<FaceConfig>),
    /// The face is gone.
    FaceGone(FaceId),
    /// The FIB entry of a prefix; empty without next hops.
    NextHops(Name, Vec<NextHop>),
    /// The strategy of a prefix; `None` if it was removed.
    Strategy(Name, Option<Name>),
    /// The Content Store's policy, and its capacity over all shards.
    Policy(Spec, ByteSize),
    /// The Content Store's capacity over all shards.
    Capacity(ByteSize),
    /// Whether the Content Store admits, and serves.
    Serving {
        /// New Data is stored.
        admits: bool,
        /// Interests are answered.
        serves: bool,
    },
    /// The Data that has to verify before it is cached.
    Verification(Arc<[VerifyRule]>),
    /// The producers' regions that this node is in.
    NetworkRegions(Vec<Name>),
    /// The number of components by which hits and misses are counted.
    CountBy(usize),
}

impl Forwarder {
    /// Takes out the changes that the other shards need before they get, or send, another packet.
    /// Always empty with one shard.
    pub fn drain_changes(&mut self) -> std::vec::Drain<'_, Change> {
        self.changes.drain(..)
    }

    /// Returns true if there are changes.
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Applies a change of the first shard.
    pub fn apply(&mut self, now: Time, change: Change) {
        match change {
            Change::Face(id, config) => self.faces.put(id, *config),
            Change::FaceGone(id) => self.remove_face(id),
            Change::NextHops(prefix, next_hops) => {
                self.update_fib(vec![FibUpdate { prefix, next_hops }])
            }
            // A change that the first shard accepted fits the others: they have the same tables and
            // bounds.
            Change::Strategy(prefix, Some(strategy)) => drop(self.set_strategy(&prefix, &strategy)),
            Change::Strategy(prefix, None) => self.unset_strategy(&prefix),
            Change::Policy(policy, capacity) => drop(self.set_policy(now, &policy, Some(capacity))),
            Change::Capacity(capacity) => self.set_capacity(now, capacity),
            Change::Serving { admits, serves } => self.set_serving(admits, serves),
            Change::Verification(rules) => self.verification = Verification::of(rules),
            Change::NetworkRegions(regions) => self.set_network_regions(regions),
            Change::CountBy(components) => self.set_figures_by_prefix(components),
        }
    }

    /// Records a change for the others, if this shard manages them.
    pub(crate) fn tell(&mut self, change: impl FnOnce() -> Change) {
        if self.shard.manages() {
            self.changes.push(change());
        }
    }

    pub(crate) fn set_serving(&mut self, admits: bool, serves: bool) {
        (self.content_store.admits, self.content_store.serves) = (admits, serves);
        self.tell(|| Change::Serving { admits, serves });
    }
}
