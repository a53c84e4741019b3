//! Invalidations: responses leave the store, or become stale, because of unsafe requests (RFC 9111
//! §4.4) and purges.

use crate::cache::Cache;
use crate::cache::exchange::Exchange;
use crate::now::Now;
use crate::outbox::{Invalidation, Outbox};
use crate::rfc::key::Key;
use crate::rfc::route::Route;
use crate::store::purge::{Purge, Purged, Scope, Test};
use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, Method, StatusCode};

impl Cache {
    /// One step of a purge of a cache with one shard, from `from` on, which is 0 at first; to be
    /// called again with [`Purged::next`] until there is none, each time with the time of that
    /// moment.
    ///
    /// A host of several shards calls [`Cache::begin_purge`] of the shards in
    /// [`Purge::shards`], then [`Cache::purge_tier`] of one of
    /// them, then [`Cache::continue_purge`] of each, until it is done.
    pub fn purge(&mut self, purge: &Purge, from: usize, now: Now) -> Purged {
        if from == 0 {
            self.begin_purge(purge);
            self.purge_tier(purge);
        }
        self.continue_purge(purge, from, now)
    }

    /// Begins a purge: from now on, until it is done, nothing that it might have to remove is
    /// stored.
    pub fn begin_purge(&mut self, purge: &Purge) {
        if !matches!(purge.scope, Scope::Exact(_)) {
            self.store.begin_walk();
            self.in_flight_table.forget_all();
        }
    }

    /// Carries out a purge of more than one key in the second tier, which all shards share.
    pub fn purge_tier(&mut self, purge: &Purge) {
        if let Some(tier) = self.tier.as_mut().filter(|_| !matches!(purge.scope, Scope::Exact(_))) {
            tier.purge(purge);
        }
    }

    /// One step of a purge of this shard: see [`Cache::purge`].
    pub fn continue_purge(&mut self, purge: &Purge, from: usize, now: Now) -> Purged {
        let test = match &purge.scope {
            Scope::Exact(url) => {
                let Route { key, hash, .. } = self.router.of_key(url.key());
                self.in_flight_table.forget(&key, hash);
                // Memory and second tier in one call: else a response that was requested before
                // could be stored in between.
                let objects = match (purge.soft, &mut self.tier) {
                    (true, tier) => {
                        if let Some(tier) = tier {
                            tier.purge(purge);
                        }
                        self.store.expire(&key, hash, now.time)
                    }
                    (false, _) => {
                        self.remove_from_tier(&key);
                        self.store.invalidate(&key, hash, now.time)
                    }
                };
                self.counters.purged += objects;
                return Purged { objects, next: None };
            }
            Scope::Prefix(url) => Test::Prefix(url.prefix()),
            Scope::Tag(tag) => Test::Tag(tag.as_bytes().into()),
            Scope::Everything => Test::Any,
        };
        if from == 0 && usize::from(self.shard) == purge.shards(&self.router).start {
            self.store.observer.removed_all(test.scope(), purge.soft, now.time);
        }
        let purged = self.store.purge(from, purge.soft, now.time, |stored| test.takes(stored));
        if purged.next.is_none() {
            self.store.end_walk(now.time);
        }
        self.counters.purged += purged.objects;
        purged
    }

    /// RFC 9111 §4.4: a cache MUST invalidate the target of an unsafe method (or one it does not
    /// know) that was answered without an error, and MAY what Location and Content-Location name,
    /// in the same origin only.
    pub(crate) fn invalidate_by(
        &mut self,
        exchange: &Exchange,
        status: StatusCode,
        headers: &HeaderMap,
        now: Now,
        outbox: &mut Outbox,
    ) {
        let safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(&exchange.method);
        if safe || !(status.is_success() || status.is_redirection()) {
            return;
        }
        self.invalidate(&exchange.key, exchange.hash, now);
        for name in [LOCATION, CONTENT_LOCATION] {
            let reference = headers.get(&name).and_then(|value| value.to_str().ok());
            if let Some(key) = reference.and_then(|reference| exchange.key.same_origin_reference(reference)) {
                let route = self.router.of_key(key);
                if route.shard() == usize::from(self.shard) {
                    self.invalidate(&route.key, route.hash, now);
                } else {
                    outbox.invalidations.push(Invalidation(route));
                }
            }
        }
    }

    /// Invalidates a key because of a request to another shard ([`Outbox::invalidations`]).
    pub fn on_invalidation(&mut self, invalidation: &Invalidation, now: Now) {
        self.invalidate(&invalidation.0.key, invalidation.0.hash, now);
    }

    fn invalidate(&mut self, key: &Key<'_>, hash: u64, now: Now) {
        self.remove_from_tier(key);
        self.counters.invalidated += self.store.invalidate(key, hash, now.time);
        // Later requests must not get a response that was requested before.
        self.in_flight_table.forget(key, hash);
    }
}
