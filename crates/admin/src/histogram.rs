//! Histograms of times, as Prometheus reads them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets in microseconds. The first takes nearly all hits; the last ones
/// are timeouts.
const BOUNDS: [u64; 15] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000, 30_000_000,
];

/// Counts times. [`Histogram::add`] belongs to one thread, [`Histogram::add_shared`] to all.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

/// A sum of histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    buckets: [u64; BOUNDS.len() + 1],
    nanos: u64,
}

impl Histogram {
    /// Adds a time, on the only thread that adds: without a locked instruction.
    pub fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        add(&self.buckets[bucket(nanos)], 1);
        add(&self.nanos, nanos);
    }

    /// Adds a time, on any thread.
    pub fn add_shared(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Adds what is here to a sum.
    pub fn sum(&self, times: &mut Times) {
        for (sum, count) in times.buckets.iter_mut().zip(&self.buckets) {
            *sum += count.load(Ordering::Relaxed);
        }
        times.nanos = times.nanos.wrapping_add(self.nanos.load(Ordering::Relaxed));
    }
}

impl Times {
    /// Returns the counts between the bounds, the last above all of them.
    pub fn counts(&self) -> &[u64] {
        &self.buckets
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of the times in seconds.
    pub fn seconds(&self) -> f64 {
        self.nanos as f64 / 1e9
    }

    /// Returns the upper bounds in seconds, and the counts between them.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS
            .iter()
            .map(|micros| *micros as f64 / 1e6)
            .chain([f64::INFINITY]);
        bounds.zip(self.buckets).collect()
    }
}

/// Returns a quantile in seconds of the counts between the bounds, as Prometheus'
/// `histogram_quantile` does: by interpolation within its bucket, and the last bound for longer
/// times. `None` without a count.
pub fn quantile(counts: &[u64], of: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    let mut left = of * total as f64;
    let mut from = 0.0;
    for (count, micros) in counts.iter().zip(BOUNDS).filter(|_| total > 0) {
        let (count, to) = (*count as f64, micros as f64 / 1e6);
        if count >= left && count > 0.0 {
            return Some(from + (to - from) * left / count);
        }
        (left, from) = (left - count, to);
    }
    (total > 0).then_some(from)
}

/// Adds to a counter that only this thread changes.
pub fn add(counter: &AtomicU64, more: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

fn bucket(nanos: u64) -> usize {
    BOUNDS
        .iter()
        .position(|micros| nanos <= micros * 1000)
        .unwrap_or(BOUNDS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_above_its_bucket() {
        let (histogram, mut times) = (Histogram::default(), Times::default());
        for micros in [0, 100, 101, 1_000_000, 30_000_001] {
            histogram.add(Duration::from_micros(micros));
        }
        histogram.add_shared(Duration::MAX);
        histogram.sum(&mut times);
        let counted: Vec<(f64, u64)> = times
            .buckets()
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(
            counted,
            [(0.0001, 2), (0.00025, 1), (1.0, 1), (f64::INFINITY, 2)]
        );
        assert_eq!(times.count(), 6);
    }

    /// Failure: a quantile is that of another bucket, or a number where nothing was counted.
    #[test]
    fn a_quantile_is_in_another_bucket() {
        assert_eq!(quantile(&[0; 16], 0.5), None);
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[10, 0, 0], 0.5), Some(50e-6));
        assert_eq!(quantile(&[98, 0, 2], 0.99), Some(375e-6));
        let mut last = [0; 16];
        last[15] = 1;
        assert_eq!(quantile(&last, 0.5), Some(30.0));
    }
}
