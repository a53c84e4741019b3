//! LRU at many capacities in one pass.
//!
//! An LRU cache holds the most recently requested objects, as many as fit. So a request hits every cache that holds as much as was asked for
//! since the object's last request, and the object: that sum is its stack distance, [`distance`](super::distance) finds it.
//!
//! **Sizes.** With sizes this is still exact: an object leaves when what came after it and itself exceed the capacity, and what came after it
//! only grows until it is asked for again. But a cache does not store what is larger than itself, so such an object must not push others out of it,
//! though it does in larger caches. Hence large objects (above the least capacity; at most all bytes ÷ that capacity of them) stand in a second order, with a sum for each class of them
//! between two capacities, and the distance is found for each capacity apart. It follows that more capacity can mean fewer hits, and the
//! curve shows it. Where an object changes its size in the trace, caches of different capacities hold it with different sizes: here it keeps its size
//! while any of them holds it, and hits may differ from the replay's (2511 for 2534 in one trace). Such requests are
//! counted ([`Point::size_changes`](super::Point)); without any, the curve is exact.
//!
//! **Sampled** with a rate R (SHARDS, fixed-rate), what was asked for in between is the sample's ÷ R; the object's own size is known.
//!
//! O(log n) a request with n objects, and O(k + log n) for k capacities where large objects came in between; 130 bytes for each small object
//! among as many bytes as the largest capacity, and 32·k more for each large one that any capacity holds.

use super::distance::Recency;
use super::estimate::{Misses, Simulated};
use crate::Access;
use crate::limits::{CURVE_MAX_BYTES, CURVE_MIN_SLOTS, CURVE_SLOTS_AN_OBJECT};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::mem;
use std::ops::Range;

/// LRU caches of given capacities.
pub struct LruCurve {
    rate: f64,
    /// Ascending.
    capacities: Vec<u64>,
    index: HashMap<u64, u32, FixedState>,
    objects: Vec<Object>,
    free: Vec<u32>,
    /// Objects that fit into the least capacity.
    small: Recency,
    /// The others, but for those that fit nowhere; class c is first held by `capacities[c]`.
    large: Recency,
    large_objects: usize,
    /// By class: nobody with an earlier last request is held, as far as was looked.
    held_since: Vec<u64>,
    now: u64,
    size_changes: u64,
    counts: Counts,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
    /// Number of its last request.
    time: u64,
    slot: u32,
    class: u32,
}

impl LruCurve {
    /// Empty caches of `capacities` bytes, to be shown the share `rate` of all objects, all requests for these. Capacities above
    /// [`CURVE_MAX_BYTES`] count as that.
    pub fn new(capacities: &[u64], rate: f64) -> LruCurve {
        let mut capacities: Vec<u64> = capacities.iter().map(|capacity| *capacity.min(&CURVE_MAX_BYTES)).collect();
        capacities.sort_unstable();
        capacities.dedup();
        LruCurve {
            rate,
            index: HashMap::default(),
            objects: Vec::new(),
            free: Vec::new(),
            small: Recency::new(1, CURVE_MIN_SLOTS),
            large: Recency::new(capacities.len(), CURVE_MIN_SLOTS),
            large_objects: 0,
            held_since: vec![0; capacities.len()],
            now: 0,
            size_changes: 0,
            counts: Counts { all: Misses::default(), more: vec![Misses::default(); capacities.len() + 1] },
            capacities,
        }
    }

    /// Counts the capacities that hold the object; false if none does.
    fn count_hits(&mut self, known: u32, bytes: u64) -> bool {
        let Object { size, time, slot, class, .. } = self.objects[known as usize];
        let from = if class == 0 { slot as usize + 1 } else { self.small.after(time) };
        let mut above = self.small.bytes_from(0, from);
        let scale = 1.0 / self.rate;
        let fits = |above: u64, capacity: u64| above as f64 * scale + size as f64 <= capacity as f64;
        if self.large_objects == 0 {
            let first = self.capacities.partition_point(|capacity| !fits(above, *capacity));
            self.counts.hits(bytes, first..self.capacities.len());
            return first < self.capacities.len();
        }
        let from = if class > 0 { slot as usize + 1 } else { self.large.after(time) };
        let mut is_held = false;
        for (place, capacity) in self.capacities.iter().enumerate() {
            above = above.wrapping_add(if place > 0 { self.large.bytes_from(place, from) } else { 0 });
            if place >= class as usize && fits(above, *capacity) {
                self.counts.hits(bytes, place..place + 1);
                is_held = true;
            }
        }
        is_held
    }

    fn order(&mut self, class: u32) -> &mut Recency {
        if class == 0 { &mut self.small } else { &mut self.large }
    }

    /// Puts the object last in its order.
    fn put(&mut self, owner: u32, object: Object) {
        self.objects[owner as usize] = object;
        if self.order(object.class).is_full() {
            self.rebuild(object.class);
        }
        let Object { size, time, class, .. } = object;
        self.objects[owner as usize].slot = self.order(class).push(class as usize, owner, size, time);
    }

    fn remember(&mut self, id: u64) -> u32 {
        let owner = self.free.pop().unwrap_or(self.objects.len() as u32);
        if owner as usize == self.objects.len() {
            self.objects.push(Object { id, size: 0, time: 0, slot: 0, class: 0 });
        }
        self.index.insert(id, owner);
        owner
    }

    /// The object, which stands in no order any more.
    fn forget(&mut self, owner: u32) {
        let Object { id, class, .. } = self.objects[owner as usize];
        self.index.remove(&id);
        self.free.push(owner);
        self.large_objects -= usize::from(class > 0);
    }

    /// Closes the holes of the order of `class`, and drops those in it whom no capacity holds any more.
    fn rebuild(&mut self, class: u32) {
        let (classes, held_since) = match class {
            0 => (1, self.small_held_since()),
            _ => (self.capacities.len(), self.large_held_since()),
        };
        for (known, found) in self.held_since.iter_mut().zip(held_since) {
            *known = found.max(*known);
        }
        let old = mem::replace(self.order(class), Recency::new(0, 0));
        let (kept, dropped): (Vec<_>, Vec<_>) = old.owners().partition(|(owner, time)| {
            let class = self.objects[*owner as usize].class;
            *time >= self.held_since[class as usize]
        });
        dropped.into_iter().for_each(|(owner, _)| self.forget(owner));
        let mut new = Recency::new(classes, CURVE_MIN_SLOTS.max(kept.len() * CURVE_SLOTS_AN_OBJECT));
        for (owner, time) in kept {
            let Object { size, class, .. } = self.objects[owner as usize];
            self.objects[owner as usize].slot = new.push(class as usize, owner, size, time);
        }
        *self.order(class) = new;
    }

    /// By class, the time before which nobody is held, as far as the small objects tell, whose bytes all capacities count.
    fn small_held_since(&self) -> Vec<u64> {
        let held = self.capacities.last().map_or(0.0, |capacity| *capacity as f64 * self.rate);
        let (mut bytes, mut since) = (0.0, 0);
        for (owner, time) in self.small.owners().rev() {
            if bytes > held {
                since = time + 1;
                break;
            }
            bytes += self.objects[owner as usize].size as f64;
        }
        vec![since; self.capacities.len()]
    }

    /// As [`LruCurve::small_held_since`], as far as the large objects tell with the small ones between them. A capacity counts the classes that
    /// fit into it, and what is not held has left all capacities that it fits into.
    fn large_held_since(&self) -> Vec<u64> {
        let mut bytes = vec![0_u64; self.capacities.len()];
        let mut since = vec![0; self.capacities.len()];
        for (owner, time) in self.large.owners().rev() {
            let mut above = self.small.bytes_from(0, self.small.after(time));
            for (place, capacity) in self.capacities.iter().enumerate() {
                above = above.wrapping_add(bytes[place]);
                if since[place] == 0 && above as f64 > *capacity as f64 * self.rate {
                    since[place] = time + 1;
                }
            }
            let Object { size, class, .. } = self.objects[owner as usize];
            bytes[class as usize] = bytes[class as usize].wrapping_add(size);
        }
        for place in (1..since.len()).rev() {
            since[place - 1] = since[place].min(since[place - 1]);
        }
        since
    }
}

impl Simulated for LruCurve {
    fn request(&mut self, access: &Access) {
        self.now += 1;
        self.counts.request(access.size);
        let known = self.index.get(&access.id).copied();
        let is_held = known.is_some_and(|known| self.count_hits(known, access.size));
        let size = match known {
            Some(known) if is_held => self.objects[known as usize].size,
            _ => access.size.max(1),
        };
        self.size_changes += u64::from(size != access.size.max(1));
        if let Some(known) = known {
            let Object { size, slot, class, .. } = self.objects[known as usize];
            self.order(class).remove(class as usize, slot, size);
        }
        // How many of the capacities are too small for it.
        let class = self.capacities.partition_point(|capacity| *capacity < size) as u32;
        if class as usize == self.capacities.len() {
            known.into_iter().for_each(|known| self.forget(known));
            return;
        }
        let was_large = known.is_some_and(|known| self.objects[known as usize].class > 0);
        let owner = known.unwrap_or_else(|| self.remember(access.id));
        self.large_objects = self.large_objects + usize::from(class > 0) - usize::from(was_large);
        self.put(owner, Object { id: access.id, size, time: self.now, slot: 0, class });
    }

    fn misses(&self) -> Vec<(u64, Misses)> {
        let misses = self.counts.more.iter().scan(self.counts.all, |misses, more| {
            misses.requests -= more.requests;
            misses.bytes -= more.bytes;
            Some(*misses)
        });
        self.capacities.iter().copied().zip(misses).collect()
    }

    fn error_is_least(&self) -> bool {
        false
    }

    fn size_changes(&self) -> u64 {
        self.size_changes
    }
}

/// Requests and hits.
struct Counts {
    all: Misses,
    /// By capacity: what it hits more than the next smaller one.
    more: Vec<Misses>,
}

impl Counts {
    fn request(&mut self, bytes: u64) {
        self.all.requests += 1.0;
        self.all.bytes += bytes as f64;
    }

    fn hits(&mut self, bytes: u64, capacities: Range<usize>) {
        for (place, sign) in [(capacities.start, 1.0), (capacities.end, -1.0)] {
            self.more[place].requests += sign;
            self.more[place].bytes += sign * bytes as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Time;

    #[test]
    fn memory_grows_with_the_trace() {
        // Sizes by the request: nothing but large objects, nothing but small ones, both, and large ones that a middle capacity holds.
        let patterns: [fn(u64) -> u64; 4] =
            [|_| 1000, |_| 1, |id| if id % 2 == 0 { 5 } else { 5000 }, |id| if id % 3 == 0 { 100 } else { 5000 }];
        for (pattern, size) in patterns.into_iter().enumerate() {
            let mut curve = LruCurve::new(&[10, 1000, 10_000], 1.0);
            for id in 0..60_000 {
                curve.request(&Access { id, size: size(id), now: Time::ZERO });
            }
            // The caches hold 10,000 objects of a byte at most; one more is kept that shows it, and one is new.
            let bound = if pattern == 1 { 10_002 * CURVE_SLOTS_AN_OBJECT } else { 3 * CURVE_MIN_SLOTS };
            let found = [curve.index.len(), curve.objects.len(), curve.large_objects];
            assert!(found.iter().all(|objects| *objects <= bound), "pattern {pattern}: {found:?}, at most {bound}");
        }
    }
}
