//! The HTTP cache, as the what-if analysis observes it.

use crate::cache::shards::Shards;
use larder_policy::observe::{Observation, Totals};
use larder_units::Time;
use larder_what_if_host::{CacheState, ObservedCache};
use std::sync::Arc;

/// The HTTP cache.
pub(crate) struct ObservedHttpCache(pub(crate) Arc<Shards>);

impl ObservedCache for ObservedHttpCache {
    fn now(&self) -> Time {
        self.0.now().time
    }

    fn take(&self, last: Option<u64>, taken: &mut Vec<Observation>) -> Option<Totals> {
        Some(self.0.take_observations(last, taken))
    }

    fn state(&self) -> Option<CacheState> {
        let engine = self.0.engine();
        let (policy, capacity) = (engine.spec().clone(), engine.capacity());
        Some(CacheState {
            policy,
            capacity,
            used: engine.used(),
            objects: engine.len(),
        })
    }
}
