//! The request statistics of AdaptSize: counts of the running interval, and the smoothed rates of those before.
//!
//! r ← 0.7·(count of this interval) + 0.3·r, and objects below 0.1 are forgotten: one seen once is kept for two intervals.
//! The model does not look at objects but at bins of them, by size (4 an octave) and by rate (8 an octave): some 1,800 bins stand for
//! 100,000 objects, with the same c as the result.

use super::model::Bin;
use crate::hash::mix;
use crate::limits::ADAPTSIZE_MAX_OBJECTS;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::BTreeMap;

/// Weight of the interval that just ended.
const NEW_WEIGHT: f32 = 0.7;
/// Weight of what was known before.
const OLD_WEIGHT: f32 = 0.3;
/// Objects with a lower rate are forgotten.
const MIN_RATE: f32 = 0.1;
/// Bins an octave of size.
const SIZE_BINS: f64 = 4.0;
/// Bins an octave of rate.
const RATE_BINS: f64 = 8.0;

/// Requests of the running interval, by object.
#[derive(Default)]
pub(super) struct Counts {
    objects: HashTable<Counted>,
    requests: u64,
}

struct Counted {
    id: u64,
    /// In bytes; 4 GiB and more are one size.
    size: u32,
    count: u32,
}

impl Counts {
    pub fn count(&mut self, id: u64, size: u64) {
        self.requests += 1;
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let hash = mix(id);
        if let Some(object) = self.objects.find_mut(hash, |object| object.id == id) {
            object.count = object.count.saturating_add(1);
            object.size = size;
        } else if self.objects.len() < ADAPTSIZE_MAX_OBJECTS {
            self.objects.insert_unique(hash, Counted { id, size, count: 1 }, |object| mix(object.id));
        }
    }

    /// Requests counted.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    pub fn bytes(&self) -> usize {
        self.objects.allocation_size()
    }
}

/// Smoothed request rates, by object.
#[derive(Default)]
pub(super) struct History {
    objects: HashTable<Rated>,
}

struct Rated {
    id: u64,
    size: u32,
    /// Requests an interval.
    rate: f32,
}

impl History {
    /// Takes in the interval that ended.
    pub fn smooth(&mut self, counts: Counts) {
        self.objects.iter_mut().for_each(|object| object.rate *= OLD_WEIGHT);
        for Counted { id, size, count } in counts.objects {
            let news = NEW_WEIGHT * count as f32;
            match self.objects.entry(mix(id), |object| object.id == id, |object| mix(object.id)) {
                Entry::Occupied(mut known) => {
                    known.get_mut().rate += news;
                    known.get_mut().size = size;
                }
                Entry::Vacant(place) => {
                    place.insert(Rated { id, size, rate: news });
                }
            }
        }
        self.objects.retain(|object| object.rate >= MIN_RATE);
        self.objects.shrink_to(self.objects.len(), |object| mix(object.id));
    }

    /// The objects in bins, each with the mean size and rate of its objects. In a fixed order, so that sums are the same in every run.
    pub fn bins(&self) -> Vec<Bin> {
        let mut bins: BTreeMap<(i16, i16), Bin> = BTreeMap::new();
        for object in &self.objects {
            let (size, rate) = (f64::from(object.size.max(1)), f64::from(object.rate));
            let key = ((size.log2() * SIZE_BINS).floor() as i16, (rate.log2() * RATE_BINS).floor() as i16);
            let bin = bins.entry(key).or_default();
            bin.objects += 1.0;
            bin.size += size;
            bin.rate += rate;
        }
        bins.into_values()
            .map(|sums| Bin { objects: sums.objects, size: sums.size / sums.objects, rate: sums.rate / sums.objects })
            .collect()
    }

    pub fn bytes(&self) -> usize {
        self.objects.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(history: &History, id: u64) -> Option<f32> {
        history.objects.iter().find(|object| object.id == id).map(|object| object.rate)
    }

    fn interval(requests: &[u64]) -> Counts {
        let mut counts = Counts::default();
        requests.iter().for_each(|id| counts.count(*id, 100));
        counts
    }

    #[test]
    fn a_rate_that_forgets_too_fast_or_too_slowly() {
        let mut history = History::default();
        history.smooth(interval(&[1, 1, 2]));
        assert_eq!((rate(&history, 1), rate(&history, 2)), (Some(1.4), Some(0.7)));
        history.smooth(interval(&[1]));
        assert!((rate(&history, 1).unwrap() - (0.7 + 0.3 * 1.4)).abs() < 1e-6);
        assert!((rate(&history, 2).unwrap() - 0.21).abs() < 1e-6);
        history.smooth(interval(&[]));
        assert_eq!(rate(&history, 2), None, "0.063 is below 0.1");
    }

    #[test]
    fn bins_that_lose_bytes_or_requests() {
        let mut counts = Counts::default();
        for id in 0..5000_u64 {
            for _ in 0..=(id % 37) {
                counts.count(id, 1 + id * id % 100_003);
            }
        }
        let mut history = History::default();
        history.smooth(counts);
        let bins = history.bins();
        assert!(bins.len() < 1800, "{}", bins.len());
        let total = |of: fn(&Bin) -> f64| bins.iter().map(|bin| bin.objects * of(bin)).sum::<f64>();
        let bytes: u64 = (0..5000).map(|id| 1 + id * id % 100_003).sum();
        let requests: u64 = (0..5000).map(|id| 1 + id % 37).sum();
        assert!((total(|bin| bin.size) / bytes as f64 - 1.0).abs() < 1e-9);
        assert!((total(|bin| bin.rate) / (0.7 * requests as f64) - 1.0).abs() < 1e-5);
    }

    #[test]
    fn a_host_that_never_runs_the_job_fills_memory() {
        let mut counts = Counts::default();
        for id in 0..(ADAPTSIZE_MAX_OBJECTS as u64 + 10) {
            counts.count(id, 1);
        }
        assert_eq!(counts.objects.len(), ADAPTSIZE_MAX_OBJECTS);
        assert!(counts.bytes() <= 40 * ADAPTSIZE_MAX_OBJECTS, "{}", counts.bytes());
    }
}
