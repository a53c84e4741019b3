//! The effects of a call that its host must carry out.

use crate::rfc::route::Route;
use crate::store::policy_engine::Eviction;
use crate::store::purge::Url;
use std::time::Duration;

/// The number of a waiting request among those of its shard; free numbers are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerId(pub(crate) usize);

impl FollowerId {
    /// Returns the number.
    pub fn index(self) -> usize {
        self.0
    }
}

/// A key of another shard that an unsafe request invalidates.
#[derive(Clone, Debug)]
pub struct Invalidation(pub(crate) Route<'static>);

impl Invalidation {
    /// Returns the number of its shard.
    pub fn shard(&self) -> usize {
        self.0.shard()
    }
}

/// The effects of a call besides its result. The host owns it, carries it out after the call, and
/// empties it.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Followers that can continue now: call [`Cache::join`](crate::Cache::join).
    pub woken: Vec<FollowerId>,
    /// Responses of other shards that must be removed. Empty if there is one shard.
    pub evictions: Vec<Eviction>,
    /// Keys of other shards that an unsafe request invalidates: call
    /// [`Cache::on_invalidation`](crate::Cache::on_invalidation) before the client gets its answer.
    /// Empty if there is one shard.
    pub invalidations: Vec<Invalidation>,
    /// The URLs that an unsafe request has invalidated, for other nodes of a fleet. Empty unless
    /// the host asks for them:
    /// [`Cache::report_invalidations`](crate::Cache::report_invalidations).
    pub invalidated: Vec<Url>,
    /// The first origin of a shard whose clock is behind, for a warning.
    pub clock_behind: Option<ClockBehind>,
}

/// An origin whose clock is behind.
#[derive(Clone, Debug)]
pub struct ClockBehind {
    /// The authority of a request to it.
    pub authority: String,
    /// The time by which it is behind.
    pub behind: Duration,
}

impl Outbox {
    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        let Outbox {
            woken,
            evictions,
            invalidations,
            invalidated,
            clock_behind,
        } = self;
        woken.is_empty()
            && evictions.is_empty()
            && invalidations.is_empty()
            && invalidated.is_empty()
            && clock_behind.is_none()
    }
}
