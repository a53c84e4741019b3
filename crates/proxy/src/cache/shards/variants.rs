//! The stored responses of one URL, for the console.

use super::Shards;
use larder_http::{StoredVariant, TierHit};

impl Shards {
    /// Returns the responses that are stored in memory under a URL. `target` is path and query.
    pub fn variants(&self, scheme: &str, authority: &str, target: &str) -> Vec<StoredVariant> {
        let route = self.router.route(scheme, authority, target);
        let now = self.now();
        self.shards[route.shard()]
            .lock()
            .cache
            .variants(&route, now)
    }

    /// Returns the key of a URL in the second tier. `target` is path and query.
    pub fn tier_key(&self, scheme: &str, authority: &str, target: &str) -> Box<[u8]> {
        self.router.route(scheme, authority, target).tier_key()
    }

    /// Returns what the second tier has returned for a URL: see `Cache::variant_in_tier`.
    pub fn variant_in_tier(
        &self,
        (scheme, authority, target): (&str, &str, &str),
        tier_hit: TierHit,
    ) -> Option<StoredVariant> {
        let route = self.router.route(scheme, authority, target);
        let now = self.now();
        self.shards[route.shard()]
            .lock()
            .cache
            .variant_in_tier(&route, tier_hit, now)
    }
}
