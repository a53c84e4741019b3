//! Invalidations: unsafe requests (RFC 9111 §4.4) and purges remove responses from the store, or
//! make them stale.

use crate::cache::Cache;
use crate::cache::exchange::Exchange;
use crate::now::Now;
use crate::outbox::{Invalidation, Outbox};
use crate::rfc::freshness::Freshness;
use crate::rfc::key::Key;
use crate::rfc::route::Route;
use crate::rfc::vary::Selector;
use crate::store::purge::{Purge, Purged, Scope, Url};
use crate::store::purge_table::{Position, PurgeVerdict};
use crate::store::stored::Stored;
use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, Method, StatusCode};
use larder_policy::observe;

impl Cache {
    /// Does one step of a purge of a cache with one shard, from `from` on, which is 0 at first.
    /// Call it again with [`Purged::next`] until that is `None`, each time with the present time.
    ///
    /// A host of several shards calls it for a purge of one URL, of the shard in
    /// [`Purge::shards`]. For other purges, it calls [`Cache::note_purge`] of one shard, then
    /// [`Cache::begin_purge`] of each, then [`Cache::purge_tier`] of one, then
    /// [`Cache::continue_purge`] of each, until it is done.
    pub fn purge(&mut self, purge: &Purge, from: usize, now: Now) -> Purged {
        if let Scope::Exact(url) = &purge.scope {
            return self.purge_url(url, purge, now);
        }
        if from == 0 {
            let position = self.note_purge(purge);
            self.begin_purge(purge);
            self.purge_tier(purge, position);
        }
        self.continue_purge(purge, from, now)
    }

    /// Records a purge of more than one key. From now on, a response that it names is not stored if
    /// it was requested before. The position goes to [`Cache::purge_tier`].
    pub fn note_purge(&mut self, purge: &Purge) -> Position {
        purge
            .scope
            .with_purged(|what| self.store.purges.open(what, purge.soft))
    }

    /// Begins a purge in this shard: no request follows an earlier one for a response that the
    /// purge names. The requests whose response has not begun are compared with the purge when it
    /// begins.
    pub fn begin_purge(&mut self, purge: &Purge) {
        purge
            .scope
            .with_purged(|what| self.in_flight_table.forget_purged(what));
    }

    /// Carries out a purge of more than one key in the second tier, which all shards share. Call it
    /// after each shard has begun the purge: it does not apply to responses that a shard stores in
    /// the tier later.
    pub fn purge_tier(&mut self, purge: &Purge, position: Position) {
        if let Some(tier) = &mut self.tier {
            tier.purge(purge);
        }
        self.store.purges.close(position);
    }

    /// Does one step of a purge of more than one key in this shard: see [`Cache::purge`].
    pub fn continue_purge(&mut self, purge: &Purge, from: usize, now: Now) -> Purged {
        if from == 0 && self.shard == 0 {
            self.store
                .observer
                .removed_all(observed_scope(&purge.scope), purge.soft, now.time);
        }
        let purged = match &purge.scope {
            Scope::Exact(url) => return self.purge_url(url, purge, now),
            Scope::Tag(tag) => self.store.purge_tag(tag, from, purge.soft, now.time),
            Scope::Prefix(url) => {
                self.store
                    .purge_prefix(&url.prefix(), from, purge.soft, now.time)
            }
            Scope::Everything => self.store.purge(from, purge.soft, now.time, |_| true),
        };
        self.counters.purged += purged.objects;
        purged
    }

    /// Purges memory and second tier in one call. Otherwise a response that was requested before
    /// could be stored in between.
    fn purge_url(&mut self, url: &Url, purge: &Purge, now: Now) -> Purged {
        let Route { key, hash, .. } = self.router.of_key(url.key());
        self.in_flight_table.forget(&key);
        let objects = if purge.soft {
            if let Some(tier) = &mut self.tier {
                tier.purge(purge);
            }
            self.store.expire(&key, hash, now.time)
        } else {
            self.remove_from_tier(&key);
            self.store.invalidate(&key, hash, now.time)
        };
        self.counters.purged += objects;
        Purged {
            objects,
            next: None,
        }
    }

    /// RFC 9111 §4.4: a cache MUST invalidate the target of an unsafe method (or one it does not
    /// know) that was answered without an error, and MAY what Location and Content-Location name,
    /// in the same origin only.
    pub(crate) fn invalidate_by(
        &mut self,
        exchange: &mut Exchange,
        status: StatusCode,
        headers: &HeaderMap,
        now: Now,
        outbox: &mut Outbox,
    ) {
        let safe =
            [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(&exchange.method);
        if safe || !(status.is_success() || status.is_redirection()) {
            return;
        }
        // A response to POST is stored as later than its own invalidation. So it is not stored if a
        // purge that names it came during the request.
        exchange.forbids_storing |= self.was_purged_meanwhile(exchange, status, headers, now);
        self.invalidate(&exchange.key, exchange.hash, now);
        self.report_invalidated(&exchange.key, outbox);
        for name in [LOCATION, CONTENT_LOCATION] {
            let reference = headers.get(&name).and_then(|value| value.to_str().ok());
            if let Some(key) =
                reference.and_then(|reference| exchange.key.same_origin_reference(reference))
            {
                let route = self.router.of_key(key);
                self.report_invalidated(&route.key, outbox);
                if route.shard() == usize::from(self.shard) {
                    self.invalidate(&route.key, route.hash, now);
                } else {
                    outbox.invalidations.push(Invalidation(route));
                }
            }
        }
    }

    /// Returns true if a purge since the request names the response to it.
    fn was_purged_meanwhile(
        &self,
        exchange: &Exchange,
        status: StatusCode,
        headers: &HeaderMap,
        now: Now,
    ) -> bool {
        if self.store.purges.now() == exchange.asked_at {
            return false;
        }
        let freshness = Freshness::of(
            status,
            headers,
            &self.says(exchange, status, headers),
            exchange.asked,
            now,
        );
        let selector = Selector::of(headers, &exchange.headers);
        let response = Stored::new(
            exchange.key.to_bytes(),
            exchange.hash,
            selector,
            status,
            headers,
            freshness,
        );
        self.store.purges.verdict(&response.at(exchange.asked_at)) != PurgeVerdict::Kept
    }

    /// Reports the URLs that unsafe requests invalidate, from now on or not any more
    /// ([`Outbox::invalidated`]).
    pub fn report_invalidations(&mut self, reports: bool) {
        self.reports_invalidations = reports;
    }

    fn report_invalidated(&self, key: &Key<'_>, outbox: &mut Outbox) {
        if self.reports_invalidations {
            outbox.invalidated.extend(Url::of(key));
        }
    }

    /// Invalidates a key because of a request to another shard ([`Outbox::invalidations`]).
    pub fn on_invalidation(&mut self, invalidation: &Invalidation, now: Now) {
        self.invalidate(&invalidation.0.key, invalidation.0.hash, now);
    }

    fn invalidate(&mut self, key: &Key<'_>, hash: u64, now: Now) {
        self.remove_from_tier(key);
        self.counters.invalidated += self.store.invalidate(key, hash, now.time);
        // Later requests must not get a response to an earlier request.
        self.in_flight_table.forget(key);
    }
}

/// Returns the scope of a purge of more than one key, for observers.
fn observed_scope(scope: &Scope) -> observe::Scope {
    match scope {
        Scope::Exact(url) => observe::Scope::Prefix(url.prefix()),
        Scope::Prefix(url) => observe::Scope::Prefix(url.prefix()),
        Scope::Tag(tag) => observe::Scope::Tag(tag.as_bytes().into()),
        Scope::Everything => observe::Scope::Everything,
    }
}
