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
    /// Coded forms of responses stored.
    pub coded_forms: u64,
    /// Responses of the origin that had too many header fields, or too large ones.
    pub heads_too_large: u64,
}

/// Where a host shows a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownIn {
    /// On the status page and as a metric.
    PageAndMetrics,
    /// On the status page, and as a metric if there is a second tier.
    PageAndTierMetrics,
    /// On the status page alone.
    Page,
}

/// One of [`Counters`], as a host shows it.
pub struct Counter {
    /// Its key on a status page. The name of its metric ends so.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Where it is shown.
    pub shown: ShownIn,
    /// Reads it.
    pub of: fn(&Counters) -> u64,
    field: fn(&mut Counters) -> &mut u64,
}

/// Makes the table of [`COUNTERS`]: `FIELD: SHOWN, NAME, HELP;`.
macro_rules! counters {
    ($($field:ident: $shown:ident, $name:literal, $help:literal;)*) => {
        [$(Counter {
            name: $name,
            help: $help,
            shown: ShownIn::$shown,
            of: |counters| counters.$field,
            field: |counters| &mut counters.$field,
        }),*]
    };
}

/// All counters but those by a reason: the sums, the status page and the metrics come from here.
pub static COUNTERS: [Counter; 20] = counters! {
    requests: PageAndMetrics, "requests", "Requests of clients";
    hits: PageAndMetrics, "hits", "Requests answered from the store";
    validated: PageAndMetrics, "validated", "Requests answered from the store after a 304";
    stale: PageAndMetrics, "stale", "Requests answered from the store though it was stale";
    collapsed: PageAndMetrics, "collapsed", "Requests that waited for another's response";
    hit_bytes: PageAndMetrics, "hit_bytes", "Body bytes of these";
    unsatisfied: PageAndMetrics, "unsatisfied", "Requests with only-if-cached and no answer";
    stored: PageAndMetrics, "stored", "Responses stored";
    coded_forms: PageAndMetrics, "coded_forms", "Coded forms of responses stored";
    truncated: PageAndMetrics, "truncated", "Bodies that broke off";
    evicted: PageAndMetrics, "evicted", "Responses evicted";
    variants_dropped: PageAndMetrics, "variants_dropped",
        "Variants that left for others of their URL";
    clocks_behind: PageAndMetrics, "clocks_behind", "Responses of origins whose clock is behind";
    uncounted_hits: PageAndMetrics, "uncounted_hits",
        "Hits that the policy did not count, because it was busy";
    invalidated: PageAndMetrics, "invalidated", "Responses removed as outdated";
    purged: PageAndMetrics, "purged", "Responses purged by an operator";
    upstream_failures: PageAndMetrics, "origin_failures", "Requests that the origin did not answer";
    heads_too_large: PageAndMetrics, "origin_heads_too_large",
        "Responses of origins with more header fields, or larger ones, than [http.limits] lets in";
    tier_hits: Page, "recalled", "Requests answered from the disk tier";
    tier_hit_bytes: PageAndTierMetrics, "disk_hit_bytes",
        "Body bytes of requests answered from the disk tier";
};

impl Counters {
    /// Adds the counters of another shard.
    pub fn add(&mut self, other: &Counters) {
        for counter in &COUNTERS {
            *(counter.field)(self) += (counter.of)(other);
        }
        for (to, from) in self.forwarded.iter_mut().zip(other.forwarded) {
            *to += from;
        }
        for (to, from) in self.refused.iter_mut().zip(other.refused) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a counter is missing in the table, so that a sum and the metrics lack it.
    #[test]
    fn a_counter_is_not_in_the_table() {
        // Without `..`: a new field has to stand here, with a number of its own.
        let counters = Counters {
            requests: 1,
            hits: 2,
            tier_hits: 3,
            validated: 4,
            hit_bytes: 5,
            tier_hit_bytes: 6,
            stale: 7,
            collapsed: 8,
            unsatisfied: 9,
            forwarded: [100; ForwardReason::ALL.len()],
            stored: 10,
            refused: [200; Refusal::ALL.len()],
            truncated: 11,
            evicted: 12,
            variants_dropped: 13,
            uncounted_hits: 14,
            invalidated: 15,
            purged: 16,
            upstream_failures: 17,
            clocks_behind: 18,
            heads_too_large: 19,
            coded_forms: 20,
        };
        let mut read: Vec<u64> = COUNTERS
            .iter()
            .map(|counter| (counter.of)(&counters))
            .collect();
        read.sort_unstable();
        assert_eq!(read, (1..=20).collect::<Vec<_>>());
        let mut sum = Counters::default();
        sum.add(&counters);
        assert_eq!(sum, counters);
        sum.add(&counters);
        assert_eq!(
            (sum.purged, sum.forwarded[0], sum.refused[0]),
            (32, 200, 400)
        );
    }
}
