//! LRU at many capacities in one pass.
//!
//! LRU caches of all capacities have one order: that of last requests. A request moves its object
//! to the end in all of them at once, and a cache holds the end of the order, from its mark on;
//! objects before the mark have been evicted. So one order serves all caches, and each cache has a
//! mark, and the bytes after it. The order is a vector of sizes, the newest last. A request leaves
//! a hole at the old position of its object, and appends the object. If a cache then has too many
//! bytes, its mark advances past holes and evicted objects. A mark passes each position once, in
//! memory order. A tree of stack distances (Mattson et al., Evaluation techniques for storage
//! hierarchies, IBM Systems Journal 1970) reads another cache line at every level: exact at 8
//! capacities, this costs 3.4 replays of one cache, and a tree cost 8.3 (`benches/curves.rs`).
//!
//! **Sizes.** A cache does not store an object that is larger than itself: its mark passes over
//! such objects without counting their bytes, whatever larger caches do. So each cache holds the
//! objects of its replay. More capacity can mean fewer hits, and the curve shows it. If an object
//! changes its size in the trace, caches of different capacities hold it with different sizes. Here
//! it keeps its size while any of them holds it, so hits may differ from the replay's (2511 for
//! 2534 in one trace). Such requests are counted ([`Point::size_changes`](super::Point)); without
//! any, the curve is exact.
//!
//! **Sampled** with a rate R (SHARDS, fixed-rate), an object is evicted when it does not fit
//! together with the later requests' rooms ÷ R ([`Scale`]; a small object's room is its size); its
//! own size is known. **Bounded** (SHARDS,
//! fixed-size), R is halved when too many objects are simulated: the objects whose hash is above
//! the new R are dropped, and hits count twice from then on, in units of the first R. Deviation:
//! the authors lower R by one object at a time.
//!
//! O(k) a request for k capacities, amortised; about 60 bytes for each object within the bytes of
//! the largest capacity, and for each capacity 50 bytes for each large object that is not always
//! simulated ([`Scale`]) and was missed.

use super::misses::{LargeMisses, Misses, Simulated};
use super::sample::{Sample, Sampled};
use crate::limits::CURVE_MAX_BYTES;
use larder_policy::{Scale, Slot, SlotIndex, prefetch};

/// Least slots in the order of recency, so that small caches rarely rebuild it, too.
const MIN_SLOTS: usize = 1 << 12;

/// Slots per object when the order is rebuilt. It lasts for twice as many requests as there are
/// objects, so that rebuilding costs less than a request.
const SLOTS_PER_OBJECT: usize = 3;

/// LRU caches of given capacities.
pub struct LruCurve {
    /// The simulated objects, with the present rate, and their maximum number.
    sample: Sample,
    scale: Scale,
    max_objects: usize,
    /// First rate ÷ present rate.
    weight: f64,
    /// By capacity, ascending.
    caches: Vec<Cache>,
    index: SlotIndex,
    /// By slot.
    objects: Vec<Object>,
    free: Vec<Slot>,
    /// The sizes in the order of last requests, the newest last; 0 is a hole.
    sizes: Vec<u64>,
    /// The length of `sizes` at which the holes are removed.
    room: usize,
    size_changes: u64,
    all: Misses,
    /// Whether it counts the misses of each large object.
    is_measuring: bool,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    /// The position in `sizes`, or [`NOWHERE`] if the slot is free.
    place: u32,
}

/// Positions are below this number, which would be 16 GiB of sizes.
const NOWHERE: u32 = 1 << 31;

/// Requests between two steps of prefetching for one request, as in a replay.
const STEP: usize = 8;

/// One of the caches: all objects from a mark on that are not larger than the cache.
struct Cache {
    capacity: u64,
    /// The capacity × the rate: the bytes that always fit.
    budget: u64,
    /// The mark: a position in the order.
    from: u32,
    /// The bytes from the mark on.
    used: u64,
    hits: Misses,
    large: LargeMisses,
}

impl LruCurve {
    /// Creates empty caches of `capacities` bytes for requests to the objects of this scale, some
    /// or all of those of `sample`. Capacities above [`CURVE_MAX_BYTES`] are lowered to that. It
    /// simulates at most `max_objects` of the objects; the scale is then that of the sample.
    pub fn new(capacities: &[u64], sample: Sample, scale: Scale, max_objects: usize) -> LruCurve {
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
            large: LargeMisses::default(),
        };
        let mut curve = LruCurve {
            sample,
            scale,
            max_objects,
            weight: 1.0,
            caches: capacities.into_iter().map(cache).collect(),
            index: SlotIndex::default(),
            objects: Vec::new(),
            free: Vec::new(),
            sizes: Vec::with_capacity(MIN_SLOTS),
            room: MIN_SLOTS,
            size_changes: 0,
            all: Misses::default(),
            is_measuring: false,
        };
        curve.set_budgets();
        curve
    }

    fn set_budgets(&mut self) {
        let rate = self.scale.rate();
        for cache in &mut self.caches {
            cache.budget = (cache.capacity as f64 * rate) as u64;
        }
    }

    /// Returns true if a cache holds an object of `size` at `place`.
    fn is_held(&self, place: u32, size: u64) -> bool {
        self.caches
            .iter()
            .rev()
            .any(|cache| cache.capacity >= size && cache.from <= place)
    }

    /// Removes the holes, and the objects that no cache holds any more.
    fn close_holes(&mut self) {
        // For each position, the number of kept objects before it.
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
        for cache in &mut self.caches {
            cache.from = kept[cache.from as usize] & !NOWHERE;
        }
        self.sizes.truncate(places as usize);
        self.room = MIN_SLOTS.max(places as usize * SLOTS_PER_OBJECT);
        self.sizes.reserve_exact(self.room - self.sizes.len());
    }

    /// Drops objects until there are few enough, with room for the next requests.
    fn thin(&mut self) {
        self.close_holes();
        while self.index.len() > self.max_objects / 2 && self.sample.halve() {
            self.weight *= 2.0;
            self.scale = self.sample.scale();
            for slot in 0..self.objects.len() {
                let Object { id, place } = self.objects[slot];
                if place != NOWHERE && !self.sample.has_small(id) {
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
        let (scale, sizes) = (self.scale, &self.sizes);
        for cache in &mut self.caches {
            cache.fit(sizes, &scale);
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

    /// Forgets the object, which has no size in the order any more.
    fn forget(&mut self, slot: Slot) {
        self.index.remove(self.objects[slot.index()].id, slot);
        self.objects[slot.index()].place = NOWHERE;
        self.free.push(slot);
    }

    /// Simulates one request. Its object is probably in the slot `guess`, or not known.
    #[inline]
    fn request(&mut self, sampled: &Sampled, guess: Option<Slot>) {
        let access = &sampled.access;
        if self.weight > 1.0 && !self.sample.has_small(access.id) {
            return;
        }
        if self.sizes.len() == self.room {
            self.close_holes();
        }
        let requests = self.weight * sampled.weight(&self.scale);
        let bytes = access.size as f64 * requests;
        self.all.requests += requests;
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
        // The caches whose marks are below `held_from` hold the object.
        let (size, held_from) = match place.map(|place| (place, self.sizes[place as usize])) {
            Some((place, size)) if size == asked => (size, place + 1),
            Some((place, size)) if self.is_held(place, size) => {
                self.size_changes += 1;
                (size, place + 1)
            }
            // Marks below its position have passed over the object, because it is too large for
            // their caches.
            _ => (asked, 0),
        };
        if let Some(place) = place {
            self.sizes[place as usize] = 0;
        }
        // The first cache that the object fits into.
        let first = self.caches.partition_point(|cache| cache.capacity < size);
        let scale = self.scale;
        let is_measured = self.is_measuring && sampled.weight(&scale) < 1.0;
        if is_measured {
            for cache in &mut self.caches[..first] {
                cache.large.count(sampled, requests, &scale);
            }
        }
        if first == self.caches.len() {
            if let Some(slot) = known {
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
        let room = scale.room(size);
        for cache in &mut self.caches[first..] {
            if cache.from < held_from {
                cache.hits.requests += requests;
                cache.hits.bytes += bytes;
            } else {
                cache.used += room;
                if is_measured {
                    cache.large.count(sampled, requests, &scale);
                }
            }
            cache.fit(&self.sizes, &scale);
        }
        if self.index.len() > self.max_objects {
            self.thin();
        }
    }
}

impl Cache {
    /// Evicts the oldest objects until the rest fits.
    #[inline]
    fn fit(&mut self, sizes: &[u64], scale: &Scale) {
        while self.used > self.budget {
            let size = sizes[self.from as usize];
            if size <= self.capacity {
                let above = self.used - scale.room(size);
                if above as f64 / scale.rate() + size as f64 <= self.capacity as f64 {
                    break;
                }
                self.used = above;
            }
            self.from += 1;
        }
    }
}

impl Simulated for LruCurve {
    fn requests(&mut self, requests: &[Sampled]) {
        let mut guesses = [None; 2 * STEP];
        for next in 0..requests.len() + 3 * STEP {
            let due = |steps: usize| requests.get(next.wrapping_sub(steps * STEP));
            if let Some(sampled) = due(3) {
                self.request(sampled, guesses[next % (2 * STEP)]);
            }
            if let (Some(_), Some(slot)) = (due(2), guesses[(next + STEP) % (2 * STEP)]) {
                prefetch(&self.sizes, self.objects[Slot::index(slot)].place as usize);
            }
            if let Some(Sampled { access, .. }) = due(1) {
                let guess = self.index.guess(access.id);
                guesses[next % (2 * STEP)] = guess;
                if let Some(slot) = guess {
                    prefetch(&self.objects, slot.index());
                }
            }
            if let Some(Sampled { access, .. }) = due(0) {
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

    fn measuring(self) -> LruCurve {
        LruCurve {
            is_measuring: true,
            ..self
        }
    }

    fn variances(&self) -> Vec<Misses> {
        let of = |cache: &Cache| cache.large.variance();
        self.caches.iter().map(of).collect()
    }

    fn rate(&self) -> f64 {
        self.scale.rate()
    }

    fn least_error(&self) -> f64 {
        0.0
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
    use crate::Access;
    use larder_units::Time;

    fn sampled(id: u64, size: u64) -> Sampled {
        Sampled::of_all(Access {
            id,
            size,
            now: Time::ZERO,
        })
    }

    /// Returns the caches after 60,000 objects with one request each.
    fn shown(capacities: &[u64], max_objects: usize, size: fn(u64) -> u64) -> LruCurve {
        let mut curve = LruCurve::new(
            capacities,
            Sample::of(1.0, 1).unwrap(),
            Scale::FULL,
            max_objects,
        );
        let request = |id| sampled(id, size(id));
        curve.requests(&(0..60_000).map(request).collect::<Vec<_>>());
        curve
    }

    #[test]
    fn memory_grows_with_the_trace() {
        // Sizes by the number of the request: only large objects, only small ones, both, and large
        // ones that a middle capacity holds.
        let patterns: [fn(u64) -> u64; 4] = [
            |_| 1000,
            |_| 1,
            |id| if id % 2 == 0 { 5 } else { 5000 },
            |id| if id % 3 == 0 { 100 } else { 5000 },
        ];
        for (pattern, size) in patterns.into_iter().enumerate() {
            let curve = shown(&[10, 1000, 10_000], usize::MAX, size);
            // The caches hold at most 10,000 objects of one byte.
            let bound = if pattern == 1 {
                10_000 * SLOTS_PER_OBJECT
            } else {
                3 * MIN_SLOTS
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
            let mut curve = LruCurve::new(
                &[10, 1000],
                Sample::of(rate, 1).unwrap(),
                Scale::new(rate, u64::MAX),
                usize::MAX,
            );
            let request = |(id, size): &(u64, u64)| sampled(*id, *size);
            curve.requests(&requests.iter().map(request).collect::<Vec<_>>());
            curve
        };
        // Too large for the smaller cache, evicted from the larger one, then small.
        let smaller = [(1, 500), (2, 600), (1, 5)];
        let curve = shown(&smaller, 1.0);
        assert_eq!((curve.misses()[0].1.requests, curve.size_changes), (3.0, 0));
        assert_eq!(curve.caches[0].used, 5);
        // The object that the smaller cache did not hold before is evicted again.
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
