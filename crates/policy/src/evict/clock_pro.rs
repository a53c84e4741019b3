//! CLOCK-Pro (Jiang, Chen and Zhang, CLOCK-Pro: an effective improvement of the CLOCK replacement,
//! USENIX ATC 2005, section 4).
//!
//! LIRS with clocks: hot objects are protected, cold ones are not. A cold object is in its test
//! period until the hot hand passes it. If it is requested before that, stored or not, it becomes
//! hot, and the cold part was too small: its target m_c grows by the object. A test that ends
//! without a request makes m_c smaller. The cold hand evicts objects without a request. If an
//! object was requested after its test, the cold hand starts another test. The hot hand clears
//! bits, and turns objects without a bit cold, until the hot ones fit into the rest of the
//! capacity.
//!
//! The one clock of the paper is kept as three queues in the order of their hands: hot, cold and
//! ghosts. Each hand then meets only objects that it acts upon. A stamp records the position of the
//! hot hand: the test period has ended for objects inserted before the last hot object that the
//! hand passed. A stored object's failed test counts when the cold hand reaches it. While the hot
//! hand does not overtake the cold one, this is the paper's order; if it does, newcomers are behind
//! older cold objects. The test hand is replaced by a bound on the ghosts, one capacity.
//!
//! Sizes: all parts and m_c are in bytes, and m_c changes by the size of the object; in the paper
//! by 1. It starts at 1 % of the capacity, which is LIRS's share, and stays above. With less,
//! newcomers leave before their second request (twitter cluster 52 in 5 MiB: .803 without that
//! bound, .828 with it). A look ahead moves the cold hand; an object that is hit after it was
//! chosen goes back to the queue.
//!
//! libCacheSim's implementation is no reference: it starts with all of the capacity cold, and then
//! misses more than LRU (Zipf 1.0 over 1e5 objects of one size, a hundredth cached: .554, LRU .494,
//! LIRS .404, this .402).
//!
//! O(1) a hit, otherwise O(1) amortised; 40 bytes an object, 35 to 69 a ghost.

use super::foreseen::Foreseen;
use super::ghosts::{Ghost, Ghosts};
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::list::{Links, List};
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "clock-pro",
    citation: "Jiang, Chen, Zhang, CLOCK-Pro: an effective improvement of the CLOCK replacement, USENIX ATC 2005",
    summary: "lirs with clocks: a hit only sets a bit, and the small queue's share adapts",
    parameters: &[],
    complexity: "O(1) amortised",
    bytes_an_object: 100,
    needs_path: false,
    build: Build::Eviction(|_, context| Ok(Box::new(ClockPro::new(context)))),
};

/// m_c is at first, and at least, one part in this many of the capacity.
const LEAST_SHARE: u64 = 100;

struct ClockPro {
    capacity: u64,
    /// m_c: the bytes that cold objects should have.
    target: u64,
    /// The number of placements so far.
    clock: u64,
    /// The placement of the last hot object that the hot hand passed. Later placements are in their
    /// test period.
    floor: u64,
    links: Links,
    /// The hot hand is at the tail.
    hot: List,
    hot_bytes: u64,
    /// All cold objects but the foreseen; the cold hand is at the tail.
    cold: List,
    foreseen: Foreseen,
    /// Ghosts in their test period; the note is the placement.
    ghosts: Ghosts<u64>,
    /// By slot.
    objects: Vec<Object>,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
    /// The time of its placement behind the hot hand, in placements.
    placed: u64,
    is_hot: bool,
    /// True if the object is cold and was placed for a test.
    is_tested: bool,
    requested: bool,
}

impl ClockPro {
    fn new(context: &BuildContext<'_>) -> ClockPro {
        ClockPro {
            capacity: context.capacity,
            target: context.capacity / LEAST_SHARE,
            clock: 0,
            floor: 0,
            links: Links::default(),
            hot: List::default(),
            hot_bytes: 0,
            cold: List::default(),
            foreseen: Foreseen::default(),
            ghosts: Ghosts::default(),
            objects: Vec::new(),
        }
    }

    /// Links `slot`, which is in no queue, behind the hot hand.
    fn place(&mut self, slot: Slot) {
        self.clock += 1;
        let object = &mut self.objects[slot.index()];
        object.placed = self.clock;
        if object.is_hot {
            self.hot_bytes += object.size;
            self.hot.push_head(&mut self.links, slot);
        } else {
            self.cold.push_head(&mut self.links, slot);
        }
    }

    /// Links `slot`, which is in no queue and was requested in its test period, as hot.
    fn promote(&mut self, slot: Slot) {
        let object = &mut self.objects[slot.index()];
        (object.is_hot, object.is_tested) = (true, false);
        self.target = self.target.saturating_add(object.size).min(self.capacity);
        self.place(slot);
        self.shrink_hot();
    }

    fn shrink_hot(&mut self) {
        while self.hot_bytes > self.capacity - self.target && self.turn_hot_hand() {}
    }

    /// Moves the hot hand past the hot object at its position. Returns false if there is none.
    fn turn_hot_hand(&mut self) -> bool {
        let Some(slot) = self.hot.pop_tail(&mut self.links) else {
            return false;
        };
        let object = &mut self.objects[slot.index()];
        self.floor = self.floor.max(object.placed);
        self.hot_bytes -= object.size;
        object.is_hot = std::mem::take(&mut object.requested);
        self.place(slot);
        self.end_tests();
        true
    }

    /// Forgets the ghosts that the hot hand has passed.
    fn end_tests(&mut self) {
        while let Some(ghost) = self
            .ghosts
            .oldest()
            .filter(|ghost| ghost.note <= self.floor)
        {
            self.ghosts.pop_oldest();
            self.fail(ghost.size);
        }
    }

    /// Records that a test ended without a request.
    fn fail(&mut self, size: u64) {
        self.target = self
            .target
            .saturating_sub(size)
            .max(self.capacity / LEAST_SHARE);
    }

    /// Moves the cold hand to the next victim, and unlinks it.
    fn choose(&mut self) -> Option<Slot> {
        loop {
            let Some(slot) = self.cold.pop_tail(&mut self.links) else {
                if self.turn_hot_hand() {
                    continue;
                }
                return None;
            };
            let object = &mut self.objects[slot.index()];
            let Object {
                size,
                placed,
                is_tested,
                ..
            } = *object;
            let in_test = is_tested && placed > self.floor;
            if is_tested && !in_test {
                object.is_tested = false;
                self.fail(size);
            }
            let object = &mut self.objects[slot.index()];
            if !std::mem::take(&mut object.requested) {
                return Some(slot);
            }
            if in_test {
                self.promote(slot);
            } else {
                object.is_tested = true;
                self.place(slot);
            }
        }
    }

    /// Remembers a victim until its test ends. A ghost that is forgotten to make room has failed
    /// its test.
    fn remember(&mut self, object: Object) {
        let Object {
            id, size, placed, ..
        } = object;
        let room = self.capacity.saturating_sub(size);
        while self.ghosts.bytes() > room
            && let Some(ghost) = self.ghosts.oldest()
        {
            self.ghosts.pop_oldest();
            self.fail(ghost.size);
        }
        self.ghosts.push(
            Ghost {
                id,
                size,
                note: placed,
            },
            self.capacity,
        );
    }
}

impl Policy for ClockPro {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.target = self.target.clamp(capacity / LEAST_SHARE, capacity);
        self.ghosts.trim(capacity);
        self.shrink_hot();
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "cold_target_bytes",
            value: self.target as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        let own = self.links.bytes()
            + self.foreseen.bytes()
            + self.objects.capacity() * size_of::<Object>();
        own + self.ghosts.state_bytes()
    }
}

impl Evict for ClockPro {
    #[inline]
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        self.objects[slot.index()].requested = true;
        if self.foreseen.take(slot) {
            self.cold.push_tail(&mut self.links, slot);
        }
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let Request { id, size, .. } = *request;
        let came_back = self.ghosts.remove(id).is_some();
        let object = Object {
            id,
            size,
            placed: 0,
            is_hot: false,
            is_tested: true,
            requested: false,
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        if came_back {
            self.promote(slot)
        } else {
            self.place(slot)
        }
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.foreseen.pop().or_else(|| self.choose())?;
        let object = self.objects[slot.index()];
        if object.is_tested {
            self.remember(object);
        }
        Some(slot)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        self.foreseen.next(after).or_else(|| {
            let slot = self.choose()?;
            self.foreseen.push(slot);
            Some(slot)
        })
    }

    fn on_remove(&mut self, slot: Slot) {
        if self.foreseen.take(slot) {
            return;
        }
        let Object { size, is_hot, .. } = self.objects[slot.index()];
        if is_hot {
            self.hot.unlink(&mut self.links, slot);
            self.hot_bytes -= size;
        } else {
            self.cold.unlink(&mut self.links, slot);
        }
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.hot.count(&self.links) + self.cold.count(&self.links) + self.foreseen.len())
    }
}
