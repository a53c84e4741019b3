//! The cache of a node, for the purges that come from other nodes.

use crate::exchange::proxy::Proxy;
use larder_http::Purge;
use larder_units::Time;
use std::sync::Arc;

/// The cache of a node, for the purges of its fleet.
#[derive(Clone)]
pub struct Purger(pub(crate) Arc<Proxy>);

impl Purger {
    /// Executes a purge in memory, and queues it for the disk tier. Returns the number of responses
    /// that it found in memory.
    pub fn purge(&self, purge: &Purge) -> u64 {
        let objects = self.0.shards().purge(purge);
        let content = self.0.observers().current();
        content.content().add_purge(&purge.to_string(), objects);
        objects
    }

    /// Waits until no restart can bring back what has been purged.
    ///
    /// # Errors
    /// One line if the disk fails.
    pub async fn settle(&self) -> Result<(), larder_tier_host::Error> {
        self.0.settle().await
    }

    /// Returns the present time of the cache.
    pub fn now(&self) -> Time {
        self.0.shards().now().time
    }
}
