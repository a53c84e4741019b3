//! What the first of several shards tells the others, so that they forward as it does: changes of
//! faces, next hops, strategies and the Content Store's settings, in order. Management, the RIB and
//! the notifications of faces are the first shard's alone.

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
    /// The face is new, or is so now.
    Face(FaceId, Box<FaceConfig>),
    /// The face is gone.
    FaceGone(FaceId),
    /// The FIB entry of a prefix; none where it has no next hops.
    NextHops(Name, Vec<NextHop>),
    /// The strategy of a prefix; `None` where it is forgotten.
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
    /// What must verify before it is cached.
    Verification(Arc<[VerifyRule]>),
    /// By how many components hits and misses are counted.
    CountBy(usize),
}

impl Forwarder {
    /// Takes out what the other shards must be told before they are given, or give, another packet;
    /// always empty where there are none.
    pub fn drain_changes(&mut self) -> std::vec::Drain<'_, Change> {
        self.changes.drain(..)
    }

    /// Whether there is something to be told.
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The first shard's word to the others: they do as it did.
    pub fn apply(&mut self, now: Time, change: Change) {
        match change {
            Change::Face(id, config) => self.faces.put(id, *config),
            Change::FaceGone(id) => self.remove_face(id),
            Change::NextHops(prefix, next_hops) => self.update_fib(vec![FibUpdate { prefix, next_hops }]),
            // What the first shard took the others take: they have the same tables and bounds.
            Change::Strategy(prefix, Some(strategy)) => drop(self.set_strategy(&prefix, &strategy)),
            Change::Strategy(prefix, None) => self.unset_strategy(&prefix),
            Change::Policy(policy, capacity) => drop(self.set_policy(now, &policy, Some(capacity))),
            Change::Capacity(capacity) => self.set_capacity(now, capacity),
            Change::Serving { admits, serves } => self.set_serving(admits, serves),
            Change::Verification(rules) => self.verification = Verification::of(rules),
            Change::CountBy(components) => self.set_figures_by_prefix(components),
        }
    }

    /// Remembers a change for the others, where this shard manages them.
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
