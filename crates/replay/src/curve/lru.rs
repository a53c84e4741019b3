//! LRU at many capacities in one pass.
//!
//! LRU caches of all capacities keep one order: that of last requests. An object moves to its end
//! in all of them at once, and a cache is the end of it, from a mark on: what stands before the
//! mark has left. So one order serves all caches, and each has a mark, and the bytes behind it. The
//! order is a line of sizes, the newest last; a request leaves a hole where its object stood, and
//! puts it behind all others. Where that is more than a cache holds, its mark goes on, past holes
//! and past what leaves. A mark passes each place once, in memory's order, where a tree of stack
//! distances (Mattson et al., Evaluation techniques for storage hierarchies, IBM Systems Journal
//! 1970) reads another cache line at every level: exact at 8 capacities, this costs 3.4 replays of
//! one cache, and a tree did 8.3 (`benches/curves.rs`).
//!
//! **Sizes.** A cache does not store what is larger than itself: its mark passes over such objects
//! and counts nothing, whatever larger caches do. So each cache holds what its replay holds, more
//! capacity can mean fewer hits, and the curve shows it. Where an object changes its size in the
//! trace, caches of different capacities hold it with different sizes: here it keeps its size while
//! any of them holds it, and hits may differ from the replay's (2511 for 2534 in one trace). Such
//! requests are counted ([`Point::size_changes`](super::Point)); without any, the curve is exact.
//!
//! **Sampled** with a rate R (SHARDS, fixed-rate), an object has left when what was asked for
//! since, ÷ R, and the object do not fit together: its own size is known. **Bounded** (SHARDS,
//! fixed-size), R is halved when more objects are followed than may be: those go whose hash is
//! above what R stands for now, and hits count twice from then on, in units of the first R.
//! Deviation: the authors take R down by one object at a time.
//!
//! O(k) a request for k capacities, amortised; some 60 bytes for each object among as many bytes as
//! the largest capacity.

use super::misses::{Misses, Simulated};
use super::sample::Sample;
use crate::Access;
use crate::limits::{CURVE_MAX_BYTES, CURVE_MIN_SLOTS, CURVE_SLOTS_AN_OBJECT};
use larder_policy::{Slot, SlotIndex, prefetch};

/// LRU caches of given capacities.
pub struct LruCurve {
    /// Which objects are followed, at the rate that has come about, and how many of them may be.
    sample: Sample,
    max_objects: usize,
    /// First rate ÷ present rate.
    weight: f64,
    /// By capacity, ascending.
    caches: Vec<Cache>,
    index: SlotIndex,
    /// By slot.
    objects: Vec<Object>,
    free: Vec<Slot>,
    /// In the order of last requests, the newest last; 0 where nobody stands any more.
    sizes: Vec<u64>,
    /// Places there may be before the holes are closed.
    room: usize,
    size_changes: u64,
    all: Misses,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    /// In `sizes`, or [`NOWHERE`] if the slot is free.
    place: u32,
}

/// Places are below this: it would be 16 GiB of sizes.
const NOWHERE: u32 = 1 << 31;

/// Requests between two steps of preparing one, as in a replay.
const STEP: usize = 8;

/// One of the caches: all of the order from a mark on that is not larger than it.
struct Cache {
    capacity: u64,
    /// The capacity × the rate: as many bytes always fit.
    budget: u64,
    /// The mark: a place in the order.
    from: u32,
    /// Bytes from there on.
    used: u64,
    hits: Misses,
}

impl LruCurve {
    /// Empty caches of `capacities` bytes, to be shown the objects of `sample`, all requests for
    /// these. Capacities above [`CURVE_MAX_BYTES`] count as that. It follows at most `max_objects`
    /// of the objects.
    pub fn new(capacities: &[u64], sample: Sample, max_objects: usize) -> LruCurve {
        let mut capacities: Vec<u64> = capacities
            .iter()
            .map(|capacity| *capacity.min(&CURVE_MAX_BYTES))
            .collect();
        capacities.sort_unstable();
        capacities.dedup();
        let cache = |capacity| Cache {
            capacity,
            budget: 0,
            from: 0,
            used: 0,
            hits: Misses::default(),
        };
        let mut curve = LruCurve {
            sample,
            max_objects,
            weight: 1.0,
            caches: capacities.into_iter().map(cache).collect(),
            index: SlotIndex::default(),
            objects: Vec::new(),
            free: Vec::new(),
            sizes: Vec::with_capacity(CURVE_MIN_SLOTS),
            room: CURVE_MIN_SLOTS,
            size_changes: 0,
            all: Misses::default(),
        };
        curve.set_budgets();
        curve
    }

    fn set_budgets(&mut self) {
        let rate = self.sample.rate();
        for cache in self.caches.iter_mut() {
            cache.budget = (cache.capacity as f64 * rate) as u64;
        }
    }

    /// Whether a cache holds an object of `size` that stands at `place`.
    fn is_held(&self, place: u32, size: u64) -> bool {
        self.caches
            .iter()
            .rev()
            .any(|cache| cache.capacity >= size && cache.from <= place)
    }

    /// Closes the holes, and forgets whom no cache holds any more.
    fn close_holes(&mut self) {
        // By place, how many before it are kept.
        let mut kept = Vec::with_capacity(self.sizes.len() + 1);
        let mut places = 0;
        for place in 0..self.sizes.len() {
            kept.push(places);
            let size = self.sizes[place];
            if size > 0 && self.is_held(place as u32, size) {
                self.sizes[places as usize] = size;
                places += 1;
            } else {
                kept[place] |= NOWHERE;
            }
        }
        kept.push(places);
        for slot in 0..self.objects.len() {
            let place = self.objects[slot].place;
            if place != NOWHERE {
                self.objects[slot].place = kept[place as usize];
                if kept[place as usize] & NOWHERE != 0 {
                    self.forget(Slot::new(slot as u32));
                }
            }
        }
        for cache in self.caches.iter_mut() {
            cache.from = kept[cache.from as usize] & !NOWHERE;
        }
        self.sizes.truncate(places as usize);
        self.room = CURVE_MIN_SLOTS.max(places as usize * CURVE_SLOTS_AN_OBJECT);
        self.sizes.reserve_exact(self.room - self.sizes.len());
    }

    /// Follows no more objects than it may, and after this some requests will not be too many.
    fn thin(&mut self) {
        self.close_holes();
        while self.index.len() > self.max_objects / 2 && self.sample.halve() {
            self.weight *= 2.0;
            for slot in 0..self.objects.len() {
                let Object { id, place } = self.objects[slot];
                if place != NOWHERE && !self.sample.has(id) {
                    let size = std::mem::take(&mut self.sizes[place as usize]);
                    let holds = |cache: &&mut Cache| cache.capacity >= size && cache.from <= place;
                    for cache in self.caches.iter_mut().filter(holds) {
                        cache.used -= size;
                    }
                    self.forget(Slot::new(slot as u32));
                }
            }
        }
        self.set_budgets();
        let (scale, sizes) = (1.0 / self.sample.rate(), &self.sizes);
        for cache in self.caches.iter_mut() {
            cache.fit(sizes, scale);
        }
    }

    fn remember(&mut self, id: u64, place: u32) {
        let object = Object { id, place };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.objects.push(object);
            Slot::new((self.objects.len() - 1) as u32)
        });
        self.objects[slot.index()] = object;
        self.index.insert(id, slot);
    }

    /// The object, which has no size in the order any more.
    fn forget(&mut self, slot: Slot) {
        self.index.remove(self.objects[slot.index()].id, slot);
        self.objects[slot.index()].place = NOWHERE;
        self.free.push(slot);
    }

    /// One request, of an object that is probably in the slot `guess`, or not known.
    #[inline]
    fn request(&mut self, access: &Access, guess: Option<Slot>) {
        if self.weight > 1.0 && !self.sample.has(access.id) {
            return;
        }
        if self.sizes.len() == self.room {
            self.close_holes();
        }
        let bytes = access.size as f64 * self.weight;
        self.all.requests += self.weight;
        self.all.bytes += bytes;
        let is = |slot: Slot| {
            self.objects[slot.index()].id == access.id
                && self.objects[slot.index()].place != NOWHERE
        };
        let known = guess
            .filter(|slot| is(*slot))
            .or_else(|| self.index.find(access.id, is));
        let place = known.map(|slot| self.objects[slot.index()].place);
        let asked = access.size.max(1);
        // Caches hold it whose marks are below `held_from`.
        let (size, held_from) = match place.map(|place| (place, self.sizes[place as usize])) {
            Some((place, size)) if size == asked => (size, place + 1),
            Some((place, size)) if self.is_held(place, size) => {
                self.size_changes += 1;
                (size, place + 1)
            }
            // Marks below its place have passed it over, as too large.
            _ => (asked, 0),
        };
        for place in place.into_iter() {
            self.sizes[place as usize] = 0;
        }
        // The first cache that it fits into.
        let first = self.caches.partition_point(|cache| cache.capacity < size);
        if first == self.caches.len() {
            for slot in known.into_iter() {
                self.forget(slot);
            }
            return;
        }
        let new = self.sizes.len() as u32;
        self.sizes.push(size);
        match known {
            Some(slot) => self.objects[slot.index()].place = new,
            None => self.remember(access.id, new),
        }
        let scale = 1.0 / self.sample.rate();
        for cache in &mut self.caches[first..] {
            if cache.from < held_from {
                cache.hits.requests += self.weight;
                cache.hits.bytes += bytes;
            } else {
                cache.used += size;
            }
            cache.fit(&self.sizes, scale);
        }
        if self.index.len() > self.max_objects {
            self.thin();
        }
    }
}

impl Cache {
    /// The oldest leave until the rest fits.
    #[inline]
    fn fit(&mut self, sizes: &[u64], scale: f64) {
        while self.used > self.budget {
            let size = sizes[self.from as usize];
            if size <= self.capacity {
                let above = self.used - size;
                if above as f64 * scale + size as f64 <= self.capacity as f64 {
                    break;
                }
                self.used = above;
            }
            self.from += 1;
        }
    }
}

impl Simulated for LruCurve {
    fn requests(&mut self, accesses: &[Access]) {
        let mut guesses = [None; 2 * STEP];
        for next in 0..accesses.len() + 3 * STEP {
            let due = |steps: usize| accesses.get(next.wrapping_sub(steps * STEP));
            if let Some(access) = due(3) {
                self.request(access, guesses[next % (2 * STEP)]);
            }
            if let (Some(_), Some(slot)) = (due(2), guesses[(next + STEP) % (2 * STEP)]) {
                prefetch(&self.sizes, self.objects[Slot::index(slot)].place as usize);
            }
            if let Some(access) = due(1) {
                let guess = self.index.guess(access.id);
                guesses[next % (2 * STEP)] = guess;
                for slot in guess.into_iter() {
                    prefetch(&self.objects, slot.index());
                }
            }
            if let Some(access) = due(0) {
                self.index.prefetch(access.id);
            }
        }
    }

    fn misses(&self) -> Vec<(u64, Misses)> {
        let Misses { requests, bytes } = self.all;
        let missed = |Misses {
                          requests: hits,
                          bytes: hit_bytes,
                      }| Misses {
            requests: requests - hits,
            bytes: bytes - hit_bytes,
        };
        self.caches
            .iter()
            .map(|cache| (cache.capacity, missed(cache.hits)))
            .collect()
    }

    fn rate(&self) -> f64 {
        self.sample.rate()
    }

    fn error_is_least(&self) -> bool {
        false
    }

    fn size_changes(&self) -> u64 {
        self.size_changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Time;

    /// After 60,000 objects, each asked for once.
    fn shown(capacities: &[u64], max_objects: usize, size: fn(u64) -> u64) -> LruCurve {
        let mut curve = LruCurve::new(capacities, Sample::of(1.0, 1).unwrap(), max_objects);
        let accesses: Vec<Access> = (0..60_000)
            .map(|id| Access {
                id,
                size: size(id),
                now: Time::ZERO,
            })
            .collect();
        curve.requests(&accesses);
        curve
    }

    #[test]
    fn memory_grows_with_the_trace() {
        // Sizes by the request: nothing but large objects, nothing but small ones, both, and large
        // ones that a middle capacity holds.
        let patterns: [fn(u64) -> u64; 4] = [
            |_| 1000,
            |_| 1,
            |id| if id % 2 == 0 { 5 } else { 5000 },
            |id| if id % 3 == 0 { 100 } else { 5000 },
        ];
        for (pattern, size) in patterns.into_iter().enumerate() {
            let curve = shown(&[10, 1000, 10_000], usize::MAX, size);
            // The caches hold 10,000 objects of a byte at most.
            let bound = if pattern == 1 {
                10_000 * CURVE_SLOTS_AN_OBJECT
            } else {
                3 * CURVE_MIN_SLOTS
            };
            let found = [curve.index.len(), curve.sizes.capacity()];
            assert!(
                found.iter().all(|objects| *objects <= bound),
                "pattern {pattern}: {found:?}, at most {bound}"
            );
        }
    }

    #[test]
    fn a_cache_has_what_it_passed_over() {
        let shown = |requests: &[(u64, u64)], rate| {
            let mut curve = LruCurve::new(&[10, 1000], Sample::of(rate, 1).unwrap(), usize::MAX);
            let access = |(id, size): &(u64, u64)| Access {
                id: *id,
                size: *size,
                now: Time::ZERO,
            };
            curve.requests(&requests.iter().map(access).collect::<Vec<_>>());
            curve
        };
        // Too large for the smaller cache, gone from the larger one, then small.
        let smaller = [(1, 500), (2, 600), (1, 5)];
        let curve = shown(&smaller, 1.0);
        assert_eq!((curve.misses()[0].1.requests, curve.size_changes), (3.0, 0));
        assert_eq!(curve.caches[0].used, 5);
        // What it was not thought to hold leaves again.
        shown(
            &[&smaller[..], &[(3, 1), (4, 9), (5, 9), (6, 9)]].concat(),
            0.1,
        );
    }

    #[test]
    fn more_objects_are_followed_than_may_be() {
        let curve = shown(&[1000, 1 << 30], 500, |_| 1);
        assert!(
            (100..=500).contains(&curve.index.len()),
            "{}",
            curve.index.len()
        );
        assert!(
            (1.0 / 1024.0..=1.0 / 128.0).contains(&curve.rate()),
            "{}",
            curve.rate()
        );
        let (all, expected) = (curve.misses()[1].1.requests, 60_000.0);
        assert!(
            (all / expected - 1.0).abs() < 0.25,
            "{all} misses, each was one"
        );
        assert_eq!(curve.caches[1].used, curve.index.len() as u64);
    }
}
