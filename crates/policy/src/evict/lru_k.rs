//! LRU-K (O'Neil, O'Neil and Weikum, The LRU-K page replacement algorithm for database disk
//! buffering, SIGMOD 1993).
//!
//! Evicts the object whose K-th last request is longest ago; objects with fewer than K requests go
//! first, by LRU. So one request does not displace objects with several requests. The times of
//! evicted objects are remembered for a while; otherwise an object that returns after its eviction
//! would always look new.
//!
//! The paper's Correlated Reference Period is 0, as in its experiments. Its Retained Information
//! Period is a time; here it is a bound on the sizes of the remembered objects, as a share of the
//! capacity. Time is counted in requests. Sizes do not matter to the order.
//!
//! O(1) a hit, otherwise O(log n) amortised. With K up to 4 an object takes 104 bytes, and each of
//! as many remembered ones 59 to 117. The times take 32 bytes of these; up to K = 16 they take 128,
//! beyond that 512.

use super::ghosts::{Ghost, Ghosts};
use super::heap::Heap;
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::list::{Links, List};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::prefetch::prefetch;
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};

/// Largest K of LRU-K. The paper finds little gain beyond 3; an experiment that tunes K needs
/// values beyond the best one. Each costs 8 bytes per stored or remembered object.
const MAX_K: usize = 64;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lru-k",
    citation: "O'Neil, O'Neil, Weikum, The LRU-K page replacement algorithm for database disk buffering, SIGMOD 1993",
    summary: "evicts what had its K-th last request the longest time ago",
    parameters: &[
        Parameter {
            name: "k",
            unit: "requests",
            values: Values::Integer(1, MAX_K as u64),
            default: Preset::Value("2"),
            doc: "which of the last requests counts; 1 is LRU",
        },
        Parameter {
            name: "history",
            unit: "% of the capacity",
            values: Values::Integer(0, 100),
            default: Preset::Value("100"),
            doc: "what the sizes of objects that left and are remembered may sum to",
        },
    ],
    complexity: "O(1) a hit, O(log n) amortised an eviction",
    bytes_an_object: 230,
    needs_path: false,
    build: Build::Eviction(|arguments, context| {
        Ok(match arguments.get("k").unwrap_or(2) {
            ..=4 => Box::new(LruK::<4>::new(arguments, context)),
            5..=16 => Box::new(LruK::<16>::new(arguments, context)),
            _ => Box::new(LruK::<MAX_K>::new(arguments, context)),
        })
    }),
};

/// LRU-K with room for `N` times of each object; K is at most `N`.
struct LruK<const N: usize> {
    k: usize,
    history_percent: u64,
    history_capacity: u64,
    /// Objects with fewer than K requests, by their last request.
    few: List,
    links: Links,
    /// The others, by K-th last request and last request.
    heap: Heap<(u64, u64)>,
    history: Ghosts<Times<N>>,
    /// By slot.
    objects: Vec<Object<N>>,
}

/// The last requests, the newest first; 0 for missing ones.
#[derive(Clone, Copy)]
struct Times<const N: usize>([u64; N]);

impl<const N: usize> Default for Times<N> {
    fn default() -> Self {
        Times([0; N])
    }
}

#[derive(Clone, Copy)]
struct Object<const N: usize> {
    id: u64,
    size: u64,
    times: Times<N>,
}

impl<const N: usize> LruK<N> {
    fn new(arguments: &Arguments<'_>, context: &BuildContext<'_>) -> LruK<N> {
        let mut policy = LruK {
            k: arguments.get("k").unwrap_or(2) as usize,
            history_percent: arguments.get("history").unwrap_or(100),
            history_capacity: 0,
            few: List::default(),
            links: Links::default(),
            heap: Heap::default(),
            history: Ghosts::default(),
            objects: Vec::new(),
        };
        policy.on_resize(context.capacity);
        policy
    }

    fn is_few(&self, slot: Slot) -> bool {
        self.objects[slot.index()].times.0[self.k - 1] == 0
    }

    fn key(&self, times: &Times<N>) -> (u64, u64) {
        (times.0[self.k - 1], times.0[0])
    }
}

/// Returns `times` with one more request.
fn requested<const N: usize>(mut times: Times<N>, seq: u64) -> Times<N> {
    times.0.rotate_right(1);
    times.0[0] = seq;
    times
}

impl<const N: usize> Policy for LruK<N> {
    fn on_resize(&mut self, capacity: u64) {
        self.history_capacity =
            (u128::from(capacity) * u128::from(self.history_percent) / 100) as u64;
        self.history.trim(self.history_capacity);
    }

    fn state_bytes(&self) -> usize {
        self.heap.bytes()
            + self.links.bytes()
            + self.history.state_bytes()
            + self.objects.capacity() * size_of::<Object<N>>()
    }
}

impl<const N: usize> Evict for LruK<N> {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        let was_few = self.is_few(slot);
        let object = &mut self.objects[slot.index()];
        object.times = requested(object.times, request.seq);
        let key = self.key(&self.objects[slot.index()].times);
        match (was_few, self.is_few(slot)) {
            (true, true) => self.few.move_to_head(&mut self.links, slot),
            (true, false) => {
                self.few.unlink(&mut self.links, slot);
                self.heap.insert(slot, key);
            }
            _ => self.heap.raise(slot, key),
        }
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let earlier = self
            .history
            .remove(request.id)
            .map_or_else(Times::default, |ghost| ghost.note);
        let object = Object {
            id: request.id,
            size: request.size,
            times: requested(earlier, request.seq),
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        if self.is_few(slot) {
            self.few.push_head(&mut self.links, slot);
        } else {
            self.heap.insert(slot, self.key(&object.times));
        }
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self
            .few
            .pop_tail(&mut self.links)
            .or_else(|| self.heap.pop())?;
        let Object { id, size, times } = self.objects[slot.index()];
        self.history.push(
            Ghost {
                id,
                size,
                note: times,
            },
            self.history_capacity,
        );
        if let Some(next) = self.few.approach(&self.links, &self.objects) {
            self.history.prefetch(self.objects[next.index()].id);
        }
        Some(slot)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let few = match after {
            None => self.few.tail(),
            Some(slot) if self.is_few(slot) => self.few.newer(&self.links, slot),
            known => return self.heap.peek(known),
        };
        few.or_else(|| self.heap.peek(None))
    }

    fn on_remove(&mut self, slot: Slot) {
        if self.is_few(slot) {
            self.few.unlink(&mut self.links, slot);
        } else {
            self.heap.remove(slot);
        }
    }

    fn prefetch(&self, id: u64, slot: Option<Slot>) {
        match slot {
            Some(slot) => {
                prefetch(&self.objects, slot.index());
                self.links.prefetch(slot);
                self.heap.prefetch(slot);
            }
            None => self.history.prefetch(id),
        }
    }

    fn prefetch_further(&self, id: u64, slot: Option<Slot>) {
        match slot {
            Some(slot) => self.links.prefetch_neighbours(slot),
            None => self.history.prefetch_further(id),
        }
    }

    fn expected_victim(&self) -> Option<Slot> {
        self.few.tail().or_else(|| self.heap.expected())
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.few.count(&self.links) + self.heap.len())
    }
}
