//! The request statistics of AdaptSize: counts of the running interval, and the smoothed rates of
//! those before.
//!
//! r ← 0.7·(count of this interval) + 0.3·r, and objects below 0.1 are forgotten: one seen once is
//! kept for two intervals. Memory: 16 bytes a counted object over the table's load, 20 to 40; 24
//! bytes an object of the history. Both are bounded: an interval counts at most
//! [`ADAPTSIZE_MAX_OBJECTS`], and at most twice as many with a few per cent of popular ones outlast
//! it.

use super::foresight::{Observed, smoothed};
use crate::hash::mix;
use crate::limits::ADAPTSIZE_MAX_OBJECTS;
use crate::prefetch::prefetch;

/// Places of the first table: a page.
const LEAST_PLACES: usize = 256;

/// Objects with a lower rate are forgotten.
const MIN_RATE: f32 = 0.1;

/// Requests of the running interval, by object: open addressing with linear probing, from the high
/// bits of the id's hash on, so that a look is one cache line that can be announced, and reading it
/// from one end to the other is nearly in the order of the hashes.
#[derive(Default)]
pub(super) struct Counts {
    /// A power of two of them, at most four fifths taken.
    places: Vec<Counted>,
    objects: usize,
    requests: u64,
}

/// A free place is one with the count 0.
#[derive(Clone, Copy, Default)]
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
        if self.objects * 5 >= self.places.len() * 4 {
            self.grow();
        }
        let at = self.place(id);
        let object = &mut self.places[at];
        if object.count > 0 {
            object.count = object.count.saturating_add(1);
            object.size = size;
        } else if self.objects < ADAPTSIZE_MAX_OBJECTS {
            *object = Counted { id, size, count: 1 };
            self.objects += 1;
        }
    }

    /// `id` will be counted soon.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        if !self.places.is_empty() {
            prefetch(&self.places, self.home(id));
        }
    }

    /// Where `id` is, or would be put.
    fn place(&self, id: u64) -> usize {
        let mut at = self.home(id);
        while self.places[at].count > 0 && self.places[at].id != id {
            at = (at + 1) & (self.places.len() - 1);
        }
        at
    }

    fn home(&self, id: u64) -> usize {
        ((mix(id) >> 32) as usize * self.places.len()) >> 32
    }

    fn grow(&mut self) {
        let larger = vec![Counted::default(); (2 * self.places.len()).max(LEAST_PLACES)];
        for object in std::mem::replace(&mut self.places, larger)
            .into_iter()
            .filter(|object| object.count > 0)
        {
            let at = self.place(object.id);
            self.places[at] = object;
        }
    }

    /// Those counted, in the order of their hashes.
    fn in_order(self) -> Vec<Counted> {
        let mut counted = self.places;
        counted.retain(|object| object.count > 0);
        // Those that found no place before the table's end are at its beginning.
        let wrapped = counted
            .iter()
            .position(|object| mix(object.id) >> 63 == 0)
            .unwrap_or(0);
        counted.rotate_left(wrapped);
        // The others are some places from where they belong.
        for next in 1..counted.len() {
            let object = counted[next];
            let hash = mix(object.id);
            let mut at = next;
            while at > 0 && mix(counted[at - 1].id) > hash {
                counted[at] = counted[at - 1];
                at -= 1;
            }
            counted[at] = object;
        }
        counted
    }

    /// Objects counted.
    pub fn len(&self) -> usize {
        self.objects
    }

    /// Requests counted.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Requests counted for objects that had been counted before.
    pub fn repeats(&self) -> u64 {
        self.requests - self.objects as u64
    }

    pub fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Counted>()
    }
}

/// What is known of the objects, in the order of their ids' hashes.
#[derive(Default)]
pub(super) struct History {
    objects: Vec<Known>,
}

#[derive(Clone, Copy)]
struct Known {
    id: u64,
    /// In bytes; 4 GiB and more are one size.
    size: u32,
    /// Requests in the last interval.
    last: f32,
    /// Smoothed rate before it, in requests an interval.
    before: f32,
}

impl Known {
    fn rate(&self) -> f32 {
        smoothed(self.last.into(), self.before.into()) as f32
    }
}

impl History {
    /// Takes in the interval that ended.
    pub fn smooth(&mut self, counts: Counts) {
        let counted = counts.in_order();
        let mut objects = Vec::with_capacity(counted.len() + self.objects.len());
        let mut known = self.objects.iter().peekable();
        let unseen = |object: &Known| Known {
            last: 0.0,
            before: object.rate(),
            ..*object
        };
        for Counted { id, size, count } in counted {
            let hash = mix(id);
            while let Some(other) = known.next_if(|object| mix(object.id) < hash) {
                objects.push(unseen(other));
            }
            let before = known
                .next_if(|object| object.id == id)
                .map_or(0.0, Known::rate);
            objects.push(Known {
                id,
                size,
                last: count as f32,
                before,
            });
        }
        objects.extend(known.map(unseen));
        objects.retain(|object| object.rate() >= MIN_RATE);
        objects.shrink_to_fit();
        self.objects = objects;
    }

    /// Objects known.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// What the search looks at.
    pub fn objects(&self) -> impl Iterator<Item = Observed> {
        let size = |object: &Known| f64::from(object.size.max(1));
        self.objects.iter().map(move |object| Observed {
            size: size(object),
            last: object.last.into(),
            before: object.before.into(),
        })
    }

    pub fn bytes(&self) -> usize {
        self.objects.capacity() * size_of::<Known>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(history: &History, id: u64) -> Option<f32> {
        history
            .objects
            .iter()
            .find(|object| object.id == id)
            .map(Known::rate)
    }

    fn interval(requests: &[u64]) -> Counts {
        let mut counts = Counts::default();
        for id in requests.iter() {
            counts.count(*id, 100);
        }
        counts
    }

    #[test]
    fn a_rate_that_forgets_too_fast_or_too_slowly() {
        let mut history = History::default();
        history.smooth(interval(&[1, 1, 2]));
        assert_eq!(
            (rate(&history, 1), rate(&history, 2)),
            (Some(1.4), Some(0.7))
        );
        history.smooth(interval(&[1]));
        assert!((rate(&history, 1).unwrap() - (0.7 + 0.3 * 1.4)).abs() < 1e-6);
        assert!((rate(&history, 2).unwrap() - 0.21).abs() < 1e-6);
        history.smooth(interval(&[]));
        assert_eq!(rate(&history, 2), None, "0.063 is below 0.1");
    }

    #[test]
    fn a_host_that_never_runs_the_job_fills_memory() {
        let mut counts = Counts::default();
        for id in 0..(ADAPTSIZE_MAX_OBJECTS as u64 + 10) {
            counts.count(id, 1);
        }
        assert_eq!(counts.len(), ADAPTSIZE_MAX_OBJECTS);
        assert!(
            counts.bytes() <= 40 * ADAPTSIZE_MAX_OBJECTS,
            "{}",
            counts.bytes()
        );
    }
}
