//! Belady's MIN (A study of replacement algorithms for a virtual-storage computer, IBM Systems
//! Journal 1966), and its form for sizes (Berger, Beckmann and Harchol-Balter, Practical bounds on
//! optimal caching with variable object sizes, SIGMETRICS 2018: Belady-Size).
//!
//! Both know the trace ahead. `belady` evicts the object whose next request is last; sizes do not
//! matter to the order. For equal sizes no policy has more hits. `belady-size` evicts the greatest
//! product of the size and the requests until the object's next one. This is a heuristic; the best
//! choice with sizes is NP-hard. Objects without a further request leave first, in `belady-size`
//! the largest of them.
//!
//! * The newcomer is ranked like its victims, and refused if one of them is requested before it, or
//!   has the smaller product. MIN stores every page, because a processor cannot bypass its memory.
//!   `always` stores everything, as published and as in libCacheSim.
//! * The product changes with time, but its order among equal sizes does not. So objects are in
//!   heaps by size, eight to an octave, and the exact products of the tops are compared. The
//!   product of the victim is at least 8/9 of the greatest. libCacheSim takes the greatest of 128
//!   samples.
//!
//! The results of `always` equal those of libCacheSim (0.3.5) to its four digits: of a block
//! trace's 113,872 requests miss .7642, .5431 and .4301 in caches of 1,000, 10,000 and 25,000 equal
//! objects, and by bytes .7997, .6476 and .4301 in 20, 200 and 1,000 MiB. libCacheSim's sampled
//! BeladySize misses .7736, .5967 and .4301 there, this one .7706, .5970 and .4301.
//!
//! A hit leaves the old entry in the heap, at its low end, until half of the heap is such entries;
//! so 64 bytes an object. O(1) a hit, amortised; O(log n) an eviction, and for `belady-size` a
//! comparison of the classes: eight for each octave from the smallest to the largest size.

use crate::entry::{Build, PolicyEntry};
use crate::future::Future;
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "belady",
    citation: "Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal 1966",
    summary: "knows the trace ahead: evicts what is requested again last",
    parameters: &[ADMISSION],
    complexity: "O(1) a hit, O(log n) an eviction",
    bytes_an_object: 64,
    needs_path: false,
    build: Build::OfflineEviction(|arguments, _, future| {
        Ok(Box::new(Belady::new(arguments, future, false)))
    }),
};

pub(crate) const ENTRY_BY_SIZE: PolicyEntry = PolicyEntry {
    name: "belady-size",
    citation: "Berger, Beckmann, Harchol-Balter, Practical bounds on optimal caching with variable object sizes, SIGMETRICS 2018",
    summary: "knows the trace ahead: evicts the greatest size * requests until its next",
    parameters: &[ADMISSION],
    complexity: "O(1) a hit, O(log n + 8 log(largest / smallest size)) an eviction",
    bytes_an_object: 64,
    needs_path: false,
    build: Build::OfflineEviction(|arguments, _, future| {
        Ok(Box::new(Belady::new(arguments, future, true)))
    }),
};

const ADMISSION: Parameter = Parameter {
    name: "admission",
    unit: "",
    values: Values::Choice(&["always", "bypass"]),
    default: Preset::Value("bypass"),
    doc: "bypass: a newcomer that would itself be the victim is not stored",
};

struct Belady {
    future: Arc<Future>,
    by_size: bool,
    bypasses: bool,
    /// The number of the present request, from 1.
    now: u64,
    /// By [`class`]; only one class if sizes do not matter.
    classes: Vec<Class>,
    /// By slot.
    objects: Vec<Object>,
    /// Objects that looks ahead have removed from the classes, the first victim first.
    ahead: VecDeque<(Slot, Object)>,
    /// The index in `ahead` of the object that was shown last.
    shown: usize,
}

#[derive(Clone, Copy)]
struct Object {
    size: u64,
    /// The next request, [`Future::NEVER`] or [`OUT`].
    next: u32,
}

/// The slot is in no class.
const OUT: u32 = u32::MAX;

impl Object {
    /// Returns the rank of an object. The greatest is the victim.
    fn rank(&self, by_size: bool, now: u64) -> u128 {
        let distance = u128::from(u64::from(self.next).saturating_sub(now));
        match (by_size, self.next) {
            (false, _) => distance,
            (true, Future::NEVER) => u128::from(self.size) << 64,
            (true, _) => u128::from(self.size) * distance,
        }
    }
}

/// Objects of similar size, the one with the last next request first.
#[derive(Default)]
struct Class {
    /// The next request and the slot. Entries that no longer match the slot's state are skipped.
    /// The top matches.
    heap: BinaryHeap<(u32, Slot)>,
    /// The number of objects in the class.
    len: usize,
}

/// Returns the class of a size. There are eight to an octave, by the three bits after the highest.
fn class(size: u64) -> usize {
    let zeros = size.max(1).leading_zeros();
    let fraction = (size << zeros) >> 60 & 7;
    ((63 - zeros) * 8) as usize + fraction as usize
}

impl Belady {
    fn new(arguments: &Arguments<'_>, future: &Arc<Future>, by_size: bool) -> Belady {
        Belady {
            future: future.clone(),
            by_size,
            bypasses: arguments.get("admission") == Some(1),
            now: 0,
            classes: Vec::new(),
            objects: Vec::new(),
            ahead: VecDeque::new(),
            shown: 0,
        }
    }

    fn class_of(&self, slot: Slot) -> usize {
        if self.by_size {
            class(self.objects[slot.index()].size)
        } else {
            0
        }
    }

    /// Inserts the object, which is in no class, into its class.
    fn put(&mut self, slot: Slot) {
        let class = self.class_of(slot);
        if class >= self.classes.len() {
            self.classes.resize_with(class + 1, Class::default);
        }
        self.classes[class].len += 1;
        self.push(class, slot);
    }

    fn push(&mut self, class: usize, slot: Slot) {
        let Class { heap, len } = &mut self.classes[class];
        heap.push((self.objects[slot.index()].next, slot));
        if heap.len() > 2 * *len + 16 {
            let (objects, by_size) = (&self.objects, self.by_size);
            heap.retain(|entry| is_true(objects, by_size, class, entry));
        }
    }

    /// Removes the victim from its class.
    fn take_greatest(&mut self) -> Option<(Slot, Object)> {
        let top = |class: &Class| class.heap.peek().map(|(_, slot)| *slot);
        let rank = |slot: &Slot| self.objects[slot.index()].rank(self.by_size, self.now);
        let slot = self.classes.iter().filter_map(top).max_by_key(rank)?;
        Some((slot, self.take_out(slot)))
    }

    /// Removes the object from its class.
    fn take_out(&mut self, slot: Slot) -> Object {
        let place = self.class_of(slot);
        let object = self.objects[slot.index()];
        self.objects[slot.index()].next = OUT;
        let Class { heap, len } = &mut self.classes[place];
        *len -= 1;
        while heap
            .peek()
            .is_some_and(|top| !is_true(&self.objects, self.by_size, place, top))
        {
            heap.pop();
        }
        object
    }

    /// Returns the next victim after the one that was shown last, or the first one. It stays
    /// stored.
    fn look_ahead(&mut self, is_first: bool) -> Option<(Slot, Object)> {
        self.shown = if is_first { 0 } else { self.shown + 1 };
        if self.shown >= self.ahead.len() {
            let next = self.take_greatest()?;
            self.ahead.push_back(next);
            self.shown = self.ahead.len() - 1;
        }
        Some(self.ahead[self.shown])
    }

    /// Returns the objects of looks ahead to their classes, because the next call may change the
    /// order.
    fn restore(&mut self) {
        while let Some((slot, object)) = self.ahead.pop_back() {
            self.objects[slot.index()] = object;
            self.put(slot);
        }
    }
}

/// Returns true if the heap's entry matches the state of the slot.
fn is_true(objects: &[Object], by_size: bool, place: usize, (next, slot): &(u32, Slot)) -> bool {
    let object = objects[slot.index()];
    object.next == *next && (!by_size || class(object.size) == place)
}

impl Policy for Belady {
    fn state_bytes(&self) -> usize {
        let heaps: usize = self
            .classes
            .iter()
            .map(|class| class.heap.capacity() * size_of::<(u32, Slot)>())
            .sum();
        heaps
            + self.classes.capacity() * size_of::<Class>()
            + self.objects.capacity() * size_of::<Object>()
            + self.ahead.capacity() * size_of::<(Slot, Object)>()
    }
}

impl Evict for Belady {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        self.restore();
        self.now = request.seq;
        self.objects[slot.index()].next = self.future.next(request.seq);
        self.push(self.class_of(slot), slot);
    }

    fn on_miss(&mut self, request: &Request) {
        self.restore();
        self.now = request.seq;
    }

    fn accept(&mut self, request: &Request, short_bytes: u64) -> bool {
        if !self.bypasses {
            return true;
        }
        let newcomer = Object {
            size: request.size,
            next: self.future.next(request.seq),
        };
        let rank = newcomer.rank(self.by_size, self.now);
        let mut freed = 0;
        while freed < short_bytes
            && let Some((_, victim)) = self.look_ahead(freed == 0)
        {
            if victim.rank(self.by_size, self.now) <= rank {
                return false;
            }
            freed += victim.size;
        }
        true
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        self.restore();
        let object = Object {
            size: request.size,
            next: self.future.next(request.seq),
        };
        if slot.index() >= self.objects.len() {
            self.objects
                .resize(slot.index() + 1, Object { size: 0, next: OUT });
        }
        self.objects[slot.index()] = object;
        self.put(slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.shown = 0;
        self.ahead
            .pop_front()
            .or_else(|| self.take_greatest())
            .map(|(slot, _)| slot)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        self.look_ahead(after.is_none()).map(|(slot, _)| slot)
    }

    fn on_remove(&mut self, slot: Slot) {
        self.restore();
        self.take_out(slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.classes.iter().map(|class| class.len).sum::<usize>() + self.ahead.len())
    }
}
