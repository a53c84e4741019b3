//! Of which objects of other nodes a node keeps copies.
//!
//! A node keeps a copy of an object that another one owns when it has asked for it
//! [`limits::COPY_REQUESTS`] times, among few requests for each object that it stores. So copies do
//! not displace what the node owns.

use crate::limits;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// How often a node has asked for objects of others, as far as it matters. All threads count.
///
/// A count-min sketch: each object has a counter in each of two rows, and the lower one counts.
#[derive(Debug)]
pub struct CopyCounts {
    rows: RwLock<[Row; 2]>,
    /// Requests since all counters were halved.
    requests: AtomicU64,
    /// The number of them after which that is done again.
    interval: AtomicU64,
}

/// Counters: as many as requests until they are halved, or more.
type Row = Box<[AtomicU8]>;

impl Default for CopyCounts {
    fn default() -> CopyCounts {
        CopyCounts {
            rows: RwLock::new(rows_for(limits::COPY_COUNTS_LEAST)),
            requests: AtomicU64::new(0),
            interval: AtomicU64::new(limits::COPY_COUNTS_LEAST),
        }
    }
}

impl CopyCounts {
    /// Sets the number of objects that this node stores now. An object that is requested often, but
    /// seldom among so many, is not worth a copy.
    pub fn set_stored(&self, objects: u64) {
        let interval = objects.saturating_mul(limits::COPY_COUNTS_HALVED);
        let interval = interval.clamp(limits::COPY_COUNTS_LEAST, limits::COPY_COUNTERS as u64);
        self.interval.store(interval, Ordering::Relaxed);
        if self.rows()[0].len() != counters_for(interval) {
            // Objects have other counters now.
            let new = rows_for(interval);
            *self.rows.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
    }

    /// Counts a request for an object. Returns whether the node keeps a copy of what comes.
    /// `key`: any hash of the object.
    pub fn is_kept(&self, key: u64) -> bool {
        self.count(key) >= limits::COPY_REQUESTS
    }

    /// Returns how often the object was requested, with this time, perhaps too many.
    fn count(&self, key: u64) -> u8 {
        let interval = self.interval.load(Ordering::Relaxed);
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        // One thread halves them.
        let is_due = requests > interval
            && self
                .requests
                .compare_exchange(requests, 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        let rows = self.rows();
        if is_due {
            for counter in rows.iter().flat_map(|row| row.iter()) {
                counter.store(counter.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
        let mut least = u8::MAX;
        for (row, shift) in rows.iter().zip([0, 32]) {
            let counter = &row[(key >> shift) as usize % row.len()];
            let raised = counter.load(Ordering::Relaxed).saturating_add(1);
            counter.store(raised, Ordering::Relaxed);
            least = least.min(raised);
        }
        least
    }

    fn rows(&self) -> RwLockReadGuard<'_, [Row; 2]> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns empty counters for so many requests.
fn rows_for(interval: u64) -> [Row; 2] {
    let row = || {
        (0..counters_for(interval))
            .map(|_| AtomicU8::new(0))
            .collect()
    };
    [row(), row()]
}

/// Returns the counters of a row for so many requests, so that few objects share one.
fn counters_for(interval: u64) -> usize {
    let counters = interval.saturating_mul(4).next_power_of_two();
    usize::try_from(counters).map_or(limits::COPY_COUNTERS, |counters| {
        counters.min(limits::COPY_COUNTERS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: an object that is requested often is never kept; one that was requested long ago
    /// is; or others count for it.
    #[test]
    fn copies_are_kept_of_what_is_rare() {
        let counts = CopyCounts::default();
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
        let counts = CopyCounts::default();
        counts.set_stored(50_000_000);
        let key = |number: u64| crate::owner_key(&number.to_string());
        let kept = (0..2_000_000).filter(|number| counts.count(key(*number)) >= 8);
        let kept = kept.count();
        assert!(kept < 200, "{kept} of 2,000,000");
        let hot = (0..600_000).filter(|number| counts.count(key(number % 20_000)) >= 8);
        let hot = hot.count();
        assert!(hot > 300_000, "{hot} of 600,000");
    }
}
