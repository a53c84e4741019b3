//! What a call leaves for its host to do.

use crate::collapse::in_flight::FollowerId;

/// The effects of a call beside its result. The host owns it, carries it out after the call, and
/// empties it.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Followers that have something to join now: call [`Cache::join`](crate::Cache::join).
    pub woken: Vec<FollowerId>,
}
