//! LIRS (Jiang and Zhang, LIRS: an efficient low inter-reference recency set replacement policy,
//! SIGMETRICS 2002, section 3).
//!
//! Objects with a low inter-reference recency (LIR) are requested again soon, and are protected;
//! they have nearly all of the cache. The others (HIR) share the rest as a FIFO queue Q, whose
//! front is the next victim. A stack S by recency reaches down to the LIR object whose last request
//! is longest ago. If an HIR object is requested while it is in S, stored or not, its
//! inter-reference recency is lower than that LIR object's, and the two change places.
//!
//! S is not built: an object is in S if its last request is later than the floor, which is the last
//! request of the oldest LIR object. The LIR objects in the order of their last requests, Q, and
//! the ghosts in the order of theirs are three plain lists. To prune the stack is to raise the
//! floor.
//!
//! Sizes: both parts are measured in bytes. HIR has the share `hir` (1 % in the paper). When an
//! object becomes LIR, the oldest LIR objects become HIR until it fits. An object larger than the
//! LIR part stays HIR. Newcomers are LIR until one does not fit (in the paper, while the part is
//! not full), and again if less than half of the part is in use, because the room that a large
//! object leaves over is not unused room. Ghosts are bounded by the capacity, and the oldest are
//! removed first; the paper has no bound. With `large=refuse`, an object larger than Q's share that
//! is not in S is not stored, as in libCacheSim.
//!
//! Misses are libCacheSim's to three digits: Zipf 1.0 over 1e5 objects of one size, a hundredth and
//! a tenth cached, .404 and .221; Zipf 0.8 over 1e7, a tenth, .462; twitter cluster 52 at one size,
//! 20,000 and 200,000 objects, .187 and .109.
//!
//! O(1) amortised a request (a ghost is pruned once); 40 bytes an object, 35 to 69 a ghost.

use super::ghosts::{Ghost, Ghosts};
use super::large::{LARGE, are_refused};
use crate::entry::{Build, PolicyEntry};
use crate::list::{Links, List};
use crate::parameters::{Parameter, Preset, Values};
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lirs",
    citation: "Jiang, Zhang, LIRS: an efficient low inter-reference recency set replacement policy, SIGMETRICS 2002",
    summary: "protects what came back soon, and lets all else pass through a small queue",
    parameters: &[
        Parameter {
            name: "hir",
            unit: "",
            values: Values::Share,
            default: Preset::Value("1%"),
            doc: "share of the capacity for what is not protected",
        },
        LARGE,
    ],
    complexity: "O(1) amortised",
    bytes_an_object: 100,
    needs_path: false,
    build: Build::Eviction(|arguments, context| {
        Ok(Box::new(Lirs {
            capacity: context.capacity,
            share: 1.0 - arguments.share("hir"),
            refuses_large: are_refused(arguments),
            is_filling: true,
            ..Lirs::default()
        }))
    }),
};

#[derive(Default)]
struct Lirs {
    capacity: u64,
    /// The share of the LIR part.
    share: f64,
    refuses_large: bool,
    /// True until a newcomer finds the LIR part full.
    is_filling: bool,
    /// The floor, which only rises: the last request of the oldest LIR object. S holds the objects
    /// requested later.
    floor: u64,
    links: Links,
    /// By last request.
    lir: List,
    lir_bytes: u64,
    /// Q; the front is the tail.
    queue: List,
    /// The notes are the last requests. All ghosts are in S, in its order.
    ghosts: Ghosts<u64>,
    /// By slot.
    objects: Vec<Object>,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
    /// The last request.
    requested: u64,
    is_lir: bool,
}

impl Lirs {
    fn lir_limit(&self) -> u64 {
        (self.capacity as f64 * self.share) as u64
    }

    /// Links `slot`, which is in no list, as the newest of its part. The oldest LIR objects make
    /// room for it.
    fn enter(&mut self, slot: Slot) {
        let Object { size, is_lir, .. } = self.objects[slot.index()];
        if !is_lir {
            self.queue.push_head(&mut self.links, slot);
            return;
        }
        self.lir.push_head(&mut self.links, slot);
        self.lir_bytes += size;
        self.make_room();
        self.prune();
    }

    /// Turns the oldest LIR objects into HIR until the others fit.
    fn make_room(&mut self) {
        while self.lir_bytes > self.lir_limit()
            && let Some(oldest) = self.lir.pop_tail(&mut self.links)
        {
            let object = &mut self.objects[oldest.index()];
            object.is_lir = false;
            self.lir_bytes -= object.size;
            self.queue.push_head(&mut self.links, oldest);
        }
    }

    /// Removes `slot` from its list.
    fn leave(&mut self, slot: Slot) {
        let Object { size, is_lir, .. } = self.objects[slot.index()];
        if is_lir {
            self.lir.unlink(&mut self.links, slot);
            self.lir_bytes -= size;
            self.prune();
        } else {
            self.queue.unlink(&mut self.links, slot);
        }
    }

    /// Prunes S after the oldest LIR object.
    fn prune(&mut self) {
        if let Some(oldest) = self.lir.tail() {
            self.floor = self.floor.max(self.objects[oldest.index()].requested);
            while self
                .ghosts
                .oldest()
                .is_some_and(|ghost| ghost.note <= self.floor)
            {
                self.ghosts.pop_oldest();
            }
        }
    }

    /// Returns true if a newcomer that is not in S becomes LIR.
    fn fills(&mut self, size: u64) -> bool {
        let limit = self.lir_limit();
        self.is_filling |= self.lir_bytes < limit / 2;
        self.is_filling &= self.lir_bytes.saturating_add(size) <= limit;
        self.is_filling
    }
}

impl Policy for Lirs {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.make_room();
        self.prune();
        self.ghosts.trim(capacity);
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "lir_bytes",
            value: self.lir_bytes as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        self.links.bytes()
            + self.objects.capacity() * size_of::<Object>()
            + self.ghosts.state_bytes()
    }
}

impl Evict for Lirs {
    #[inline]
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        let limit = self.lir_limit();
        let object = &mut self.objects[slot.index()];
        let was_in_stack = object.requested > self.floor;
        object.requested = request.seq;
        if object.is_lir {
            self.lir.move_to_head(&mut self.links, slot);
            self.prune();
        } else {
            object.is_lir = was_in_stack && object.size <= limit;
            self.queue.unlink(&mut self.links, slot);
            self.enter(slot);
        }
    }

    fn accept(&mut self, request: &Request, _: u64) -> bool {
        // An object whose ghost is in S enters the LIR part.
        !self.refuses_large
            || request.size <= self.capacity - self.lir_limit()
            || self.ghosts.get(request.id).is_some()
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let Request { id, size, seq, .. } = *request;
        let came_back = self.ghosts.remove(id).is_some() && size <= self.lir_limit();
        let object = Object {
            id,
            size,
            requested: seq,
            is_lir: came_back || self.fills(size),
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        self.enter(slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.peek(None)?;
        self.leave(slot);
        let Object {
            id,
            size,
            requested,
            ..
        } = self.objects[slot.index()];
        if requested > self.floor {
            self.ghosts.push(
                Ghost {
                    id,
                    size,
                    note: requested,
                },
                self.capacity,
            );
        }
        Some(slot)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let Some(after) = after else {
            return self.queue.tail().or(self.lir.tail());
        };
        if self.objects[after.index()].is_lir {
            return self.lir.newer(&self.links, after);
        }
        self.queue.newer(&self.links, after).or(self.lir.tail())
    }

    fn on_remove(&mut self, slot: Slot) {
        self.leave(slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.lir.count(&self.links) + self.queue.count(&self.links))
    }
}
