//! Invalidations: responses leave the store, or become stale, because of unsafe requests (RFC 9111
//! §4.4) and purges.

use crate::cache::Cache;
use crate::cache::exchange::Exchange;
use crate::now::Now;
use crate::rfc::key::Key;
use crate::store::purge::{Purge, Purged, Scope, Test};
use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, Method, StatusCode};

impl Cache {
    /// One step of a purge, from `from` on, which is 0 at first; to be called again with
    /// [`Purged::next`] until there is none, each time with the time of that moment.
    pub fn purge(&mut self, purge: &Purge, from: usize, now: Now) -> Purged {
        let test = match &purge.scope {
            Scope::Exact(url) => {
                let key = url.key();
                let hash = key.hash(&self.hash_key);
                self.in_flight_table.forget(&key, hash);
                let objects = match purge.soft {
                    true => {
                        self.purge_tier(purge);
                        self.store.expire(&key, hash, now.time)
                    }
                    false => {
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
        if from == 0 {
            self.purge_tier(purge);
            self.store.begin_walk();
            self.in_flight_table.forget_all();
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
    pub(crate) fn invalidate_by(&mut self, exchange: &Exchange, status: StatusCode, headers: &HeaderMap, now: Now) {
        let safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(&exchange.method);
        if safe || !(status.is_success() || status.is_redirection()) {
            return;
        }
        self.invalidate(&exchange.key, exchange.hash, now);
        for name in [LOCATION, CONTENT_LOCATION] {
            let reference = headers.get(&name).and_then(|value| value.to_str().ok());
            if let Some(key) = reference.and_then(|reference| exchange.key.same_origin_reference(reference)) {
                let hash = key.hash(&self.hash_key);
                self.invalidate(&key, hash, now);
            }
        }
    }

    fn invalidate(&mut self, key: &Key<'_>, hash: u64, now: Now) {
        self.remove_from_tier(key);
        self.counters.invalidated += self.store.invalidate(key, hash, now.time);
        // Later requests must not get a response that was requested before.
        self.in_flight_table.forget(key, hash);
    }
}
