//! The request statistics of AdaptSize: the counts of the running interval, and the smoothed rates
//! of the intervals before.
//!
//! r ← 0.7·(count of this interval) + 0.3·r. Objects with r below 0.1 are forgotten, so an object
//! with one request is kept for two intervals. Memory: 20 to 40 bytes per counted object (16 bytes
//! divided by the load of the table), and 24 bytes per object of the history. Both are bounded: an
//! interval counts at most [`MAX_COUNTED_OBJECTS`], and the history keeps at most twice as many,
//! and a few per cent of popular ones.

use super::foresight::{Observed, smoothed};
use crate::hash::mix;
use crate::prefetch::prefetch;
use crate::scale::Scale;

/// Objects that AdaptSize counts in one interval, for a host that does not run its jobs. Further
/// new objects are not counted. 16 bytes each.
const MAX_COUNTED_OBJECTS: usize = 1 << 20;

/// Slots of the first table: one page.
const LEAST_PLACES: usize = 256;

/// Objects with a lower rate are forgotten.
const MIN_RATE: f32 = 0.1;

/// The requests of the running interval, by object. A hash table with open addressing and linear
/// probing, indexed by the high bits of the id's hash. A lookup reads one cache line, which can be
/// prefetched. A walk from one end to the other is nearly in the order of the hashes.
#[derive(Default)]
pub(super) struct Counts {
    /// The slots. Their number is a power of two, and at most four fifths are in use.
    places: Vec<Counted>,
    objects: usize,
    requests: u64,
}

/// A slot with the count 0 is free.
#[derive(Clone, Copy, Default)]
struct Counted {
    id: u64,
    /// In bytes; sizes of 4 GiB and more count as one size.
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
        } else if self.objects < MAX_COUNTED_OBJECTS {
            *object = Counted { id, size, count: 1 };
            self.objects += 1;
        }
    }

    /// Begins to load the slot of `id`, which will be counted soon.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        if !self.places.is_empty() {
            prefetch(&self.places, self.home(id));
        }
    }

    /// Returns the slot that holds `id`, or would hold it.
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

    /// Returns the counted objects in the order of their hashes.
    fn in_order(self) -> Vec<Counted> {
        let mut counted = self.places;
        counted.retain(|object| object.count > 0);
        // Entries that wrapped around the end of the table are at its beginning.
        let wrapped = counted
            .iter()
            .position(|object| mix(object.id) >> 63 == 0)
            .unwrap_or(0);
        counted.rotate_left(wrapped);
        // The other entries are a few slots away from their order.
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

    /// Returns the number of counted objects.
    pub fn len(&self) -> usize {
        self.objects
    }

    /// Returns the number of counted requests.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of requests for objects that had been counted before.
    pub fn repeats(&self) -> u64 {
        self.requests - self.objects as u64
    }

    pub fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Counted>()
    }
}

/// The rates of the known objects, in the order of their ids' hashes.
#[derive(Default)]
pub(super) struct History {
    objects: Vec<Known>,
}

#[derive(Clone, Copy)]
struct Known {
    id: u64,
    /// In bytes; sizes of 4 GiB and more count as one size.
    size: u32,
    /// Requests in the last interval.
    last: f32,
    /// The smoothed rate before it, in requests per interval.
    before: f32,
}

impl Known {
    fn rate(&self) -> f32 {
        smoothed(self.last.into(), self.before.into()) as f32
    }
}

impl History {
    /// Adds the interval that has ended.
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

    /// Returns the number of known objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns the input of the search: each object, and the number of objects that it stands for
    /// at this scale.
    pub fn objects(&self, scale: Scale) -> impl Iterator<Item = (Observed, f64)> {
        self.objects.iter().map(move |object| {
            let room = object.size.max(1).into();
            let observed = Observed {
                size: scale.size(room) as f64,
                last: object.last.into(),
                before: object.before.into(),
            };
            (observed, scale.weight(room) / scale.rate())
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
        for id in requests {
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
        for id in 0..(MAX_COUNTED_OBJECTS as u64 + 10) {
            counts.count(id, 1);
        }
        assert_eq!(counts.len(), MAX_COUNTED_OBJECTS);
        assert!(
            counts.bytes() <= 40 * MAX_COUNTED_OBJECTS,
            "{}",
            counts.bytes()
        );
    }
}
