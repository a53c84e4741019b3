//! The counters of the cache. Cores log nothing; the host turns the counters into metrics.

use crate::rfc::cache_status::ForwardReason;
use crate::rfc::storability::Refusal;

/// Totals since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Client requests.
    pub requests: u64,
    /// Requests answered from the store without the origin.
    pub hits: u64,
    /// Hits from the second tier, which `hits` includes.
    pub tier_hits: u64,
    /// Requests answered from the store after the origin's 304.
    pub validated: u64,
    /// Body bytes of `hits` and `validated`.
    pub hit_bytes: u64,
    /// Body bytes of hits from the second tier, which `hit_bytes` includes.
    pub tier_hit_bytes: u64,
    /// Stale responses among the hits, served during a validation in the background, or because the
    /// origin failed.
    pub stale: u64,
    /// Requests that waited for the response to another one.
    pub collapsed: u64,
    /// Requests with `only-if-cached` that nothing stored could answer.
    pub unsatisfied: u64,
    /// Requests sent to the origin, by [`ForwardReason::ALL`].
    pub forwarded: [u64; ForwardReason::ALL.len()],
    /// Responses stored.
    pub stored: u64,
    /// Responses to GET not stored, by [`Refusal::ALL`].
    pub refused: [u64; Refusal::ALL.len()],
    /// Bodies that ended before their declared length or by an error.
    pub truncated: u64,
    /// Stored responses that were evicted to make room.
    pub evicted: u64,
    /// Stored variants that made room for others of their URL: see
    /// [`Config::variants`](crate::Config).
    pub variants_dropped: u64,
    /// Hits that the policy did not count, because other shards were using it.
    pub uncounted_hits: u64,
    /// Stored responses removed by unsafe methods or because the origin has something newer.
    pub invalidated: u64,
    /// Stored responses that an operator has purged.
    pub purged: u64,
    /// Requests that the origin did not answer.
    pub upstream_failures: u64,
    /// Responses whose `Date` shows that the clock of their origin is behind.
    pub clocks_behind: u64,
    /// Responses of the origin that had too many header fields, or too large ones.
    pub heads_too_large: u64,
}

impl Counters {
    /// Adds the counters of another shard.
    pub fn add(&mut self, other: &Counters) {
        let Counters {
            forwarded, refused, ..
        } = other;
        let one = |to: &mut u64, from: u64| *to += from;
        one(&mut self.requests, other.requests);
        one(&mut self.hits, other.hits);
        one(&mut self.tier_hits, other.tier_hits);
        one(&mut self.validated, other.validated);
        one(&mut self.hit_bytes, other.hit_bytes);
        one(&mut self.tier_hit_bytes, other.tier_hit_bytes);
        one(&mut self.stale, other.stale);
        one(&mut self.collapsed, other.collapsed);
        one(&mut self.unsatisfied, other.unsatisfied);
        one(&mut self.stored, other.stored);
        one(&mut self.truncated, other.truncated);
        one(&mut self.evicted, other.evicted);
        one(&mut self.variants_dropped, other.variants_dropped);
        one(&mut self.uncounted_hits, other.uncounted_hits);
        one(&mut self.invalidated, other.invalidated);
        one(&mut self.purged, other.purged);
        one(&mut self.upstream_failures, other.upstream_failures);
        one(&mut self.clocks_behind, other.clocks_behind);
        one(&mut self.heads_too_large, other.heads_too_large);
        for (to, from) in self.forwarded.iter_mut().zip(forwarded) {
            *to += from;
        }
        for (to, from) in self.refused.iter_mut().zip(refused) {
            *to += from;
        }
    }

    /// Counts a hit of the second tier, with the bytes of a body or a part of it.
    pub(crate) fn tier_hit(&mut self, bytes: u64) {
        self.tier_hits += 1;
        self.hit_bytes += bytes;
        self.tier_hit_bytes += bytes;
    }

    pub(crate) fn forward(&mut self, reason: ForwardReason) {
        self.forwarded[reason as usize] += 1;
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.refused[refusal as usize] += 1;
    }
}
