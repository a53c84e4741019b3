//! ARC (Megiddo and Modha, ARC: a self-tuning, low overhead replacement cache, FAST 2003, figure
//! 4).
//!
//! Two LRU lists: T1 of objects with one request, T2 of objects with more; and for each the ghosts
//! of its victims, B1 and B2. T1's target p adapts: a request for a ghost of B1 shows that T1 was
//! too short and raises p, one for a ghost of B2 lowers it. The rarer these ghosts are, the larger
//! the step. T1 evicts while it is longer than p, otherwise T2.
//!
//! Sizes: all lengths and p are in bytes, and p changes by the size of the ghost (in the paper by
//! one). p adapts at the request, whether or not admission then stores the object; the ghost stays
//! until the object is stored. T1 with B1 is at most the capacity, all four at most twice the
//! capacity. The ghosts are trimmed after the insertion, in the paper before it, with the same
//! result for equal sizes.
//!
//! O(1) a request; 24 bytes an object, 27 to 53 a ghost.

use super::ghosts::{Ghost, Ghosts};
use crate::entry::{Build, PolicyEntry};
use crate::list::{Links, List};
use crate::prefetch::prefetch;
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "arc",
    citation: "Megiddo, Modha, ARC: a self-tuning, low overhead replacement cache, FAST 2003",
    summary: "two LRU lists, requested once and again, whose shares follow what each evicted",
    parameters: &[],
    complexity: "O(1)",
    bytes_an_object: 80,
    needs_path: false,
    build: Build::Eviction(|_, context| {
        Ok(Box::new(Arc {
            capacity: context.capacity,
            ..Arc::default()
        }))
    }),
};

#[derive(Default)]
struct Arc {
    capacity: u64,
    /// p: the bytes that T1 should have.
    target: f64,
    /// True if the last miss was for a ghost of B2: T1 then evicts already if it is as long as p.
    missed_frequent: bool,
    links: Links,
    /// T1, B1.
    recent: Half,
    /// T2, B2.
    frequent: Half,
    /// By slot.
    objects: Vec<Object>,
    ahead: Ahead,
}

#[derive(Default)]
struct Half {
    list: List,
    bytes: u64,
    ghosts: Ghosts,
}

/// 16 bytes: four fill a line of the processor's cache. With 24 bytes, one in four would lie across
/// two lines.
#[derive(Clone, Copy)]
struct Object {
    id: u64,
    /// The size in the high 63 bits, and in the low bit whether the object is in T2. Sizes of 2^63
    /// bytes or more count as one byte less than 2^63.
    size_and_half: u64,
}

impl Object {
    fn new(id: u64, size: u64, is_frequent: bool) -> Object {
        Object {
            id,
            size_and_half: size.min(u64::MAX >> 1) << 1 | u64::from(is_frequent),
        }
    }

    #[inline]
    fn size(&self) -> u64 {
        self.size_and_half >> 1
    }

    #[inline]
    fn is_frequent(&self) -> bool {
        self.size_and_half & 1 != 0
    }

    #[inline]
    fn become_frequent(&mut self) {
        self.size_and_half |= 1;
    }
}

/// The state of a look ahead: the next object of each list, and the bytes left in T1.
#[derive(Clone, Copy, Default)]
struct Ahead {
    recent: Option<Slot>,
    frequent: Option<Slot>,
    recent_bytes: u64,
}

impl Arc {
    fn enter(&mut self, slot: Slot) {
        let object = self.objects[slot.index()];
        let half = if object.is_frequent() {
            &mut self.frequent
        } else {
            &mut self.recent
        };
        half.list.push_head(&mut self.links, slot);
        half.bytes += object.size();
    }

    fn leave(&mut self, slot: Slot) {
        let object = self.objects[slot.index()];
        let half = if object.is_frequent() {
            &mut self.frequent
        } else {
            &mut self.recent
        };
        half.list.unlink(&mut self.links, slot);
        half.bytes -= object.size();
    }

    fn cut_ghosts(&mut self) {
        self.recent
            .ghosts
            .trim(self.capacity.saturating_sub(self.recent.bytes));
        let others = [
            self.recent.bytes,
            self.recent.ghosts.bytes(),
            self.frequent.bytes,
        ];
        let room = others
            .iter()
            .fold(self.capacity.saturating_mul(2), |room, bytes| {
                room.saturating_sub(*bytes)
            });
        self.frequent.ghosts.trim(room);
    }
}

impl Policy for Arc {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.target = self.target.min(capacity as f64);
        self.cut_ghosts();
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "recent_target_bytes",
            value: self.target,
        });
    }

    fn state_bytes(&self) -> usize {
        let own = self.links.bytes() + self.objects.capacity() * size_of::<Object>();
        own + self.recent.ghosts.state_bytes() + self.frequent.ghosts.state_bytes()
    }
}

impl Evict for Arc {
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        if self.objects[slot.index()].is_frequent() {
            self.frequent.list.move_to_head(&mut self.links, slot);
        } else {
            self.leave(slot);
            self.objects[slot.index()].become_frequent();
            self.enter(slot);
        }
    }

    fn on_miss(&mut self, request: &Request) {
        let recent = self.recent.ghosts.bytes() as f64;
        let frequent = self.frequent.ghosts.bytes() as f64;
        self.missed_frequent = false;
        if let Some(ghost) = self.recent.ghosts.get(request.id) {
            self.target = (self.target + ghost.size as f64 * (frequent / recent).max(1.0))
                .min(self.capacity as f64);
        } else if let Some(ghost) = self.frequent.ghosts.get(request.id) {
            self.target = (self.target - ghost.size as f64 * (recent / frequent).max(1.0)).max(0.0);
            self.missed_frequent = true;
        }
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let was_recent = self.recent.ghosts.remove(request.id).is_some();
        let is_frequent = self.frequent.ghosts.remove(request.id).is_some() || was_recent;
        let object = Object::new(request.id, request.size, is_frequent);
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        self.enter(slot);
        self.cut_ghosts();
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.peek(None)?;
        self.leave(slot);
        let object = self.objects[slot.index()];
        let half = if object.is_frequent() {
            &mut self.frequent
        } else {
            &mut self.recent
        };
        half.ghosts.push(
            Ghost {
                id: object.id,
                size: object.size(),
                note: (),
            },
            self.capacity,
        );
        if let Some(next) = half.list.approach(&self.links, &self.objects) {
            half.ghosts.prefetch(self.objects[next.index()].id);
        }
        Some(slot)
    }

    /// REPLACE of the paper.
    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        if after.is_none() {
            self.ahead = Ahead {
                recent: self.recent.list.tail(),
                frequent: self.frequent.list.tail(),
                recent_bytes: self.recent.bytes,
            };
        }
        let ahead = &mut self.ahead;
        let length = ahead.recent_bytes as f64;
        let beyond = length > self.target || (self.missed_frequent && length == self.target);
        match (ahead.recent, ahead.frequent) {
            (Some(slot), frequent) if beyond || frequent.is_none() => {
                ahead.recent = self.recent.list.newer(&self.links, slot);
                ahead.recent_bytes -= self.objects[slot.index()].size();
                Some(slot)
            }
            (_, Some(slot)) => {
                ahead.frequent = self.frequent.list.newer(&self.links, slot);
                Some(slot)
            }
            _ => None,
        }
    }

    fn on_remove(&mut self, slot: Slot) {
        self.leave(slot);
    }

    fn prefetch(&self, id: u64, slot: Option<Slot>) {
        match slot {
            Some(slot) => {
                prefetch(&self.objects, slot.index());
                self.links.prefetch(slot);
            }
            None => {
                self.recent.ghosts.prefetch(id);
                self.frequent.ghosts.prefetch(id);
            }
        }
    }

    fn prefetch_further(&self, id: u64, slot: Option<Slot>) {
        match slot {
            Some(slot) => self.links.prefetch_neighbours(slot),
            None => {
                self.recent.ghosts.prefetch_further(id);
                self.frequent.ghosts.prefetch_further(id);
            }
        }
    }

    fn expected_victim(&self) -> Option<Slot> {
        let half = if self.recent.bytes as f64 > self.target {
            &self.recent
        } else {
            &self.frequent
        };
        half.list.tail()
    }

    fn expected_victim_after(&self, slot: Slot) -> Option<Slot> {
        self.recent.list.newer(&self.links, slot)
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.recent.list.count(&self.links) + self.frequent.list.count(&self.links))
    }
}
