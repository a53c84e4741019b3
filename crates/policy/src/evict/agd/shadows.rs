//! Small caches of a sample of the objects, one for each power, that all get the same requests.
//!
//! A shadow only orders its objects for eviction. An object's class comes from the cache, because
//! its request count does not depend on the power. So the class is the same in all shadows that
//! store the object, and a request reads one cache line: the time at which each shadow last moved
//! the object, the shadows that store it, and its class. Most requests move nothing in most
//! shadows; one comparison each decides this. A second line, with the links, is for the shadows
//! that move it.
//!
//! The shadow of the power 0 is LRU, one list.

use super::frequency::Standing;
use super::order::{Order, Places, REST};
use crate::Slot;
use crate::index::SlotIndex;
use crate::list::{Link, Linked, List};
use crate::prefetch::prefetch;

/// The power of each shadow; the first is LRU.
pub(super) const POWERS: [f64; POWER_INDEXES] = [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 8.0];
pub(super) const POWER_INDEXES: usize = 7;
/// The shadows with a clock: all but LRU.
const CLOCKS: usize = POWER_INDEXES - 1;
/// A bit for each shadow.
const ALL: u8 = (1 << POWER_INDEXES) - 1;
const LRU: usize = 0;
/// The number of requests between a prefetch and its use.
const STEP: usize = 4;

pub(super) struct Shadows {
    /// The objects that any shadow stores.
    index: SlotIndex,
    objects: Vec<Object>,
    threads: Vec<Threads>,
    free: Vec<Slot>,
    lru: List,
    orders: Box<[Order; CLOCKS]>,
    /// For each class, the share of each shadow's lifetime in which a hit moves nothing.
    rests: Box<[[f64; CLOCKS]]>,
    /// The bytes of each shadow.
    capacity: u64,
    used: [u64; POWER_INDEXES],
    /// The worth of each shadow's hits among the current requests.
    scores: [f64; POWER_INDEXES],
}

/// A request for an object with this standing; a hit counts `worth`.
#[derive(Clone, Copy)]
pub(super) struct Sampled {
    pub id: u64,
    pub size: u64,
    pub worth: f64,
    pub standing: Standing,
}

/// The state that a hit reads.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Object {
    /// The clock of each shadow when it last moved the object.
    since: [f64; CLOCKS],
    id: u64,
    class: u8,
    /// A bit for each shadow that stores the object.
    holders: u8,
}

/// The state that a move reads.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Threads {
    links: [Link; POWER_INDEXES],
    size: u64,
}

impl Shadows {
    /// Creates empty shadows of `capacity` bytes each.
    pub fn new(capacity: u64) -> Self {
        let orders = std::array::from_fn(|clock| Order::new(POWERS[clock + 1]));
        let rests = (0..=u8::MAX)
            .map(|class| std::array::from_fn(|clock| REST * orders[clock].lifetime(class)))
            .collect();
        Shadows {
            index: SlotIndex::default(),
            objects: Vec::new(),
            threads: Vec::new(),
            free: Vec::new(),
            lru: List::default(),
            orders: Box::new(orders),
            rests,
            capacity,
            used: [0; POWER_INDEXES],
            scores: [0.0; POWER_INDEXES],
        }
    }

    /// Empties all shadows, and sets their capacity to `capacity` bytes each. Tables keep their
    /// memory.
    pub fn restart(&mut self, capacity: u64) {
        self.index.clear();
        self.objects.clear();
        self.threads.clear();
        self.free.clear();
        self.lru = List::default();
        for order in self.orders.iter_mut() {
            *order = Order::new(order.power());
        }
        self.capacity = capacity;
        self.used = [0; POWER_INDEXES];
    }

    /// Removes the objects whose ids have left the sample, then those that are due first, until
    /// each shadow has at most `capacity` bytes. The others stay, with their state.
    pub fn thin(&mut self, capacity: u64, is_sampled: impl Fn(u64) -> bool) {
        self.capacity = capacity;
        for slot in (0..self.objects.len() as u32).map(Slot::new) {
            let Object {
                id, class, holders, ..
            } = self.objects[slot.index()];
            if holders == 0 || is_sampled(id) {
                continue;
            }
            for power_index in bits(holders) {
                let mut view = View {
                    objects: &mut self.objects,
                    threads: &mut self.threads,
                    power_index,
                };
                match power_index {
                    LRU => self.lru.unlink(&mut view, slot),
                    _ => self.orders[power_index - 1].remove(&mut view, slot, class),
                }
                self.used[power_index] -= view.size(slot);
            }
            self.objects[slot.index()].holders = 0;
            self.index.remove(id, slot);
            self.free.push(slot);
        }
        for power_index in 0..POWER_INDEXES {
            self.shrink(power_index, capacity);
        }
    }

    pub fn bytes(&self) -> usize {
        let an_object = size_of::<Object>() + size_of::<Threads>();
        let tables = size_of_val(&*self.orders) + size_of_val(&*self.rests);
        let lists: usize = self.orders.iter().map(Order::bytes).sum();
        self.index.bytes()
            + self.objects.capacity() * an_object
            + self.free.capacity() * size_of::<Slot>()
            + tables
            + lists
    }

    /// Returns the number of objects in any shadow.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Passes the requests in this order through all shadows. Returns the worth of each shadow's
    /// hits.
    pub fn scores_of(&mut self, requests: &[Sampled]) -> [f64; POWER_INDEXES] {
        self.scores = [0.0; POWER_INDEXES];
        for next in 0..requests.len() + 2 * STEP {
            if let Some(request) = next.checked_sub(2 * STEP).and_then(|due| requests.get(due)) {
                self.request(request);
            }
            if let Some(request) = next.checked_sub(STEP).and_then(|due| requests.get(due))
                && let Some(slot) = self.index.guess(request.id)
            {
                prefetch(&self.objects, slot.index());
                prefetch(&self.threads, slot.index());
            }
            if let Some(request) = requests.get(next) {
                self.index.prefetch(request.id);
            }
        }
        self.scores
    }

    fn request(&mut self, request: &Sampled) {
        let Sampled {
            id,
            size,
            worth,
            standing: Standing { class, .. },
        } = *request;
        let Some(slot) = self
            .index
            .find(id, |slot| self.objects[slot.index()].id == id)
        else {
            return self.miss(id, size, class);
        };
        let holders = self.objects[slot.index()].holders;
        for (power_index, score) in self.scores.iter_mut().enumerate() {
            *score += if holders & 1 << power_index != 0 {
                worth
            } else {
                0.0
            };
        }
        self.touch(slot, class);
        // The stored size: the byte counts of the shadows that store the object need it.
        let size = self.threads[slot.index()].size;
        if holders != ALL {
            for power_index in bits(ALL & !holders) {
                self.offer(power_index, slot, size, class);
            }
        }
    }

    /// Reports to all shadows that store the object in `slot` that it is in `class`. A shadow moves
    /// it if that postpones it enough.
    #[inline]
    fn touch(&mut self, slot: Slot, class: u8) {
        let object = &mut self.objects[slot.index()];
        let mut moved = 1 << LRU;
        for (clock, order) in self.orders.iter().enumerate() {
            let waited = order.clock() - object.since[clock];
            moved |= u8::from(waited > self.rests[usize::from(class)][clock]) << (clock + 1);
        }
        let old = std::mem::replace(&mut object.class, class);
        let moved = object.holders & if old == class { moved } else { ALL };
        for power_index in bits(moved) {
            let mut view = View {
                objects: &mut self.objects,
                threads: &mut self.threads,
                power_index,
            };
            match power_index {
                LRU => self.lru.move_to_head(&mut view, slot),
                _ => self.orders[power_index - 1].relink(&mut view, slot, old, class),
            }
        }
    }

    /// Offers an object that no shadow stores to each of them.
    fn miss(&mut self, id: u64, size: u64, class: u8) {
        if size > self.capacity {
            return;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.objects.push(Object::default());
            self.threads.push(Threads::default());
            Slot::new((self.objects.len() - 1) as u32)
        });
        self.objects[slot.index()] = Object {
            id,
            class,
            ..Object::default()
        };
        self.threads[slot.index()].size = size;
        for power_index in bits(ALL) {
            self.offer(power_index, slot, size, class);
        }
        match self.objects[slot.index()].holders {
            0 => self.free.push(slot),
            _ => self.index.insert(id, slot),
        }
    }

    /// Stores the object in `slot` in the shadow `power_index`, if it is worth that.
    fn offer(&mut self, power_index: usize, slot: Slot, size: u64, class: u8) {
        let short = self.used[power_index]
            .saturating_add(size)
            .saturating_sub(self.capacity);
        let view = View {
            objects: &mut self.objects,
            threads: &mut self.threads,
            power_index,
        };
        if short > 0
            && power_index != LRU
            && !self.orders[power_index - 1].accept(&view, class, short)
        {
            return;
        }
        self.shrink(power_index, self.capacity - size);
        let mut view = View {
            objects: &mut self.objects,
            threads: &mut self.threads,
            power_index,
        };
        match power_index {
            LRU => self.lru.push_head(&mut view, slot),
            _ => self.orders[power_index - 1].push(&mut view, slot, class),
        }
        self.used[power_index] += size;
        self.objects[slot.index()].holders |= 1 << power_index;
    }

    /// Removes objects of the shadow `power_index` by their deadlines, until it stores at most
    /// `bytes`.
    fn shrink(&mut self, power_index: usize, bytes: u64) {
        let mut view = View {
            objects: &mut self.objects,
            threads: &mut self.threads,
            power_index,
        };
        while self.used[power_index] > bytes {
            let victim = match power_index {
                LRU => self
                    .lru
                    .tail()
                    .inspect(|victim| self.lru.unlink(&mut view, *victim)),
                _ => self.orders[power_index - 1].pop(&mut view),
            };
            let Some(victim) = victim else { break };
            self.used[power_index] -= view.size(victim);
            let object = &mut view.objects[victim.index()];
            object.holders &= !(1 << power_index);
            if object.holders == 0 {
                self.index.remove(object.id, victim);
                self.free.push(victim);
            }
        }
    }
}

/// The objects as the shadow `power_index` stores them.
struct View<'a> {
    objects: &'a mut [Object],
    threads: &'a mut [Threads],
    power_index: usize,
}

impl Linked for View<'_> {
    #[inline]
    fn link(&self, slot: u32) -> &Link {
        &self.threads[slot as usize].links[self.power_index]
    }

    #[inline]
    fn link_mut(&mut self, slot: u32) -> &mut Link {
        &mut self.threads[slot as usize].links[self.power_index]
    }

    /// Every object has links already.
    #[inline]
    fn reach(&mut self, _: Slot) {}
}

impl Places for View<'_> {
    #[inline]
    fn since(&self, slot: Slot) -> f64 {
        self.objects[slot.index()].since[self.power_index - 1]
    }

    #[inline]
    fn set_since(&mut self, slot: Slot, since: f64) {
        self.objects[slot.index()].since[self.power_index - 1] = since;
    }

    #[inline]
    fn size(&self, slot: Slot) -> u64 {
        self.threads[slot.index()].size
    }

    fn change_since(&mut self, change: impl Fn(f64, u8) -> f64) {
        let clock = self.power_index - 1;
        for object in self.objects.iter_mut() {
            object.since[clock] = change(object.since[clock], object.class);
        }
    }
}

/// Returns the indexes of the bits that are set.
#[inline]
fn bits(mut set: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;

    /// Failure: an evicted object is still in a list or in the index, or a stored one is in
    /// neither.
    #[test]
    fn a_sample_that_is_halved_keeps_whom_it_should_not() {
        let mut stream = Streams::new(1).stream("shadows");
        let mut shadows = Shadows::new(20_000);
        let mut requests = |shadows: &mut Shadows, of: u64| {
            for _ in 0..20 {
                let mut draw = || (stream.unit() * stream.unit() * 300.0) as u64 * of;
                let ids: Vec<u64> = (0..100).map(|_| draw()).collect();
                let request = |id: u64| Sampled {
                    id,
                    size: 1 + id % 300,
                    worth: 1.0,
                    standing: Standing {
                        class: (150 + id % 20) as u8,
                        ..Standing::default()
                    },
                };
                shadows.scores_of(&ids.into_iter().map(request).collect::<Vec<_>>());
            }
        };
        requests(&mut shadows, 1);
        for (capacity, of) in [(10_000, 2), (5_000, 4), (2_500, 8)] {
            let stored = shadows.len();
            shadows.thin(capacity, |id| id.is_multiple_of(of));
            assert!(
                shadows.len() > 5 && shadows.len() < stored,
                "{} of {stored}",
                shadows.len()
            );
            check(&shadows, of);
            requests(&mut shadows, of);
            check(&shadows, of);
        }
    }

    fn check(shadows: &Shadows, of: u64) {
        let held = |power_index: usize| {
            let objects = shadows.objects.iter().zip(&shadows.threads);
            objects.filter(move |(object, _)| object.holders & 1 << power_index != 0)
        };
        for power_index in 0..POWER_INDEXES {
            assert!(
                held(power_index).all(|(object, _)| object.id.is_multiple_of(of)),
                "of {of}"
            );
            let bytes: u64 = held(power_index).map(|(_, threads)| threads.size).sum();
            assert!(
                bytes == shadows.used[power_index] && bytes <= shadows.capacity,
                "rung {power_index}: {bytes} bytes"
            );
            let listed = if power_index == LRU {
                held(power_index).count()
            } else {
                shadows.orders[power_index - 1].len()
            };
            assert_eq!(held(power_index).count(), listed, "rung {power_index}");
        }
        let stored = shadows
            .objects
            .iter()
            .filter(|object| object.holders != 0)
            .count();
        assert_eq!(
            (stored, shadows.objects.len() - shadows.free.len()),
            (shadows.len(), stored)
        );
    }
}
