//! How often objects of other nodes were requested here: a node keeps a copy of an object that
//! another one owns when it has asked for it [`limits::PEER_REQUESTS`] times. So copies do not
//! displace what the node owns.

use crate::base::limits;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// A count-min sketch: each object has a counter in each of two rows, and the lower one counts.
pub(super) struct RequestCounts {
    rows: [Box<[AtomicU8]>; 2],
    /// The counters of a row that are used: as many as requests until they are halved, or more.
    used: AtomicUsize,
    /// Requests since all counters were halved.
    requests: AtomicU64,
    /// The number of them after which that is done again.
    interval: AtomicU64,
}

impl RequestCounts {
    pub(super) fn new() -> RequestCounts {
        let row = || {
            (0..limits::PEER_COUNTERS)
                .map(|_| AtomicU8::new(0))
                .collect()
        };
        RequestCounts {
            rows: [row(), row()],
            used: AtomicUsize::new(counters_for(limits::PEER_COUNTS_LEAST)),
            requests: AtomicU64::new(0),
            interval: AtomicU64::new(limits::PEER_COUNTS_LEAST),
        }
    }

    /// Sets the number of objects that this node stores now. An object that is requested often, but
    /// seldom among so many, is not worth a copy.
    pub(super) fn set_stored(&self, objects: u64) {
        let interval = objects.saturating_mul(limits::PEER_COUNTS_HALVED);
        let interval = interval.clamp(limits::PEER_COUNTS_LEAST, limits::PEER_COUNTERS as u64);
        self.interval.store(interval, Ordering::Relaxed);
        let used = counters_for(interval);
        if self.used.swap(used, Ordering::Relaxed) != used {
            // Objects have other counters now.
            self.change_all(|_| 0);
        }
    }

    /// Counts a request. Returns how often the object was requested, perhaps too many.
    pub(super) fn count(&self, key: u64) -> u8 {
        let interval = self.interval.load(Ordering::Relaxed);
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        // One thread halves them.
        let is_due = requests > interval
            && self
                .requests
                .compare_exchange(requests, 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_due {
            self.change_all(|count| count / 2);
        }
        let used = self.used.load(Ordering::Relaxed);
        let mut least = u8::MAX;
        for (row, shift) in self.rows.iter().zip([0, 32]) {
            let counter = &row[(key >> shift) as usize % used];
            let raised = counter.load(Ordering::Relaxed).saturating_add(1);
            counter.store(raised, Ordering::Relaxed);
            least = least.min(raised);
        }
        least
    }

    fn change_all(&self, change: impl Fn(u8) -> u8) {
        let used = self.used.load(Ordering::Relaxed);
        for counter in self.rows.iter().flat_map(|row| &row[..used]) {
            counter.store(change(counter.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }
}

/// Returns the counters of a row for so many requests, so that few objects share one.
fn counters_for(interval: u64) -> usize {
    let counters = interval.saturating_mul(4).next_power_of_two();
    usize::try_from(counters).map_or(limits::PEER_COUNTERS, |counters| {
        counters.min(limits::PEER_COUNTERS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    /// Failure: an object that is requested often is never kept; one that was requested long ago
    /// is; or others count for it.
    #[test]
    fn copies_are_kept_of_what_is_rare() {
        let counts = RequestCounts::new();
        counts.set_stored(10_000);
        let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seen: Vec<u8> = (0..8).map(|_| counts.count(key(1))).collect();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8]);
        let others = (2..5_000).map(|number| counts.count(key(number)));
        assert!(others.filter(|count| *count > 2).count() < 5);
        for _ in 0..4 {
            let interval = counts.interval.load(Ordering::Relaxed);
            counts.requests.store(interval, Ordering::Relaxed);
            counts.count(key(7_777_777));
        }
        assert!(counts.count(key(1)) <= 3);
        for _ in 0..300 {
            counts.count(key(1));
        }
        assert_eq!(counts.count(key(1)), u8::MAX);
    }

    /// Failure: a node that stores millions of objects keeps copies of what it was asked for once,
    /// because objects share their counters.
    #[test]
    fn a_large_node_keeps_no_copy_of_what_is_rare() {
        let counts = RequestCounts::new();
        counts.set_stored(50_000_000);
        let hasher = foldhash::fast::FixedState::with_seed(7);
        let key = |number: u64| hasher.hash_one(number);
        let kept = (0..2_000_000).filter(|number| counts.count(key(*number)) >= 8);
        let kept = kept.count();
        assert!(kept < 200, "{kept} of 2,000,000");
        let hot = (0..600_000).filter(|number| counts.count(key(number % 20_000)) >= 8);
        let hot = hot.count();
        assert!(hot > 300_000, "{hot} of 600,000");
    }
}
