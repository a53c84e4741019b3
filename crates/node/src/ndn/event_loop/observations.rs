//! What the Content Store reports to the what-if analysis.

use super::EventLoop;
use crate::ndn::command::Observations;
use larder_what_if_host::CacheState;

impl EventLoop {
    /// Takes the observations since the last call. From now on, the sample is up to `last`.
    pub(super) fn observations(&mut self, last: Option<u64>) -> Observations {
        let mut taken = Vec::new();
        let totals = self.forwarder.take_observations(last, &mut taken);
        let engine = self.forwarder.engine();
        let (policy, capacity) = (engine.spec().clone(), engine.capacity());
        let state = CacheState {
            policy,
            capacity,
            used: engine.used(),
            objects: engine.len(),
        };
        Observations {
            totals,
            taken,
            state,
        }
    }
}
