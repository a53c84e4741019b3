//! CAR (Bansal and Modha, CAR: clock with adaptive replacement, FAST 2004, figure 2).
//!
//! ARC with clocks for its lists: T1 of objects with one request, and T2 of objects with more, each
//! with a hand and a bit per object, and the ghosts of both, B1 and B2. A hit sets the bit and
//! moves nothing. T1's hand moves objects with a bit to T2; T2's hand gives them another round.
//! T1's target p adapts as in ARC, when an object with a ghost is stored again.
//!
//! Sizes: all lengths and p are in bytes, and p changes by the size of the ghost (in the paper by
//! one). T1 with B1 is at most the capacity, all four at most twice the capacity; the ghosts are
//! trimmed after the insertion. A look ahead moves the hands. An object that is hit after it was
//! chosen goes back to the position of the hand.
//!
//! O(1) a hit, O(1) amortised an eviction; 32 bytes an object, 27 to 53 a ghost.

use super::foreseen::Foreseen;
use super::ghosts::{Ghost, Ghosts};
use crate::entry::{Build, PolicyEntry};
use crate::list::{Links, List};
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "car",
    citation: "Bansal, Modha, CAR: clock with adaptive replacement, FAST 2004",
    summary: "arc with clocks: a hit only sets a bit",
    parameters: &[],
    complexity: "O(1) amortised",
    bytes_an_object: 72,
    needs_path: false,
    build: Build::Eviction(|_, context| {
        Ok(Box::new(Car {
            capacity: context.capacity,
            ..Car::default()
        }))
    }),
};

#[derive(Default)]
struct Car {
    capacity: u64,
    /// p: the bytes that T1 should have.
    target: f64,
    links: Links,
    /// T1, B1.
    recent: Half,
    /// T2, B2.
    frequent: Half,
    foreseen: Foreseen,
    /// By slot.
    objects: Vec<Object>,
}

#[derive(Default)]
struct Half {
    /// The hand is at the tail.
    clock: List,
    bytes: u64,
    ghosts: Ghosts,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
    is_frequent: bool,
    requested: bool,
}

impl Car {
    /// Returns the list that `slot` is or will be in, the links and the object.
    fn parts(&mut self, slot: Slot) -> (&mut Half, &mut Links, &mut Object) {
        let object = &mut self.objects[slot.index()];
        let half = if object.is_frequent {
            &mut self.frequent
        } else {
            &mut self.recent
        };
        (half, &mut self.links, object)
    }

    fn enter(&mut self, slot: Slot) {
        let (half, links, object) = self.parts(slot);
        half.clock.push_head(links, slot);
        half.bytes += object.size;
    }

    fn leave(&mut self, slot: Slot) {
        let (half, links, object) = self.parts(slot);
        half.clock.unlink(links, slot);
        half.bytes -= object.size;
    }

    /// The paper's replace(): moves the hands to the next victim, and unlinks it.
    fn choose(&mut self) -> Option<Slot> {
        loop {
            let slot = match (self.recent.clock.tail(), self.frequent.clock.tail()) {
                (Some(slot), frequent)
                    if self.recent.bytes as f64 >= self.target || frequent.is_none() =>
                {
                    slot
                }
                (_, frequent) => frequent?,
            };
            self.leave(slot);
            let object = &mut self.objects[slot.index()];
            if !std::mem::take(&mut object.requested) {
                return Some(slot);
            }
            object.is_frequent = true;
            self.enter(slot);
        }
    }

    /// Adapts p to the ghost of a newcomer. Returns true if there was one.
    fn learn(&mut self, id: u64) -> bool {
        let recent = self.recent.ghosts.bytes() as f64;
        let frequent = self.frequent.ghosts.bytes() as f64;
        let left_recent = self.recent.ghosts.remove(id);
        let left_frequent = self.frequent.ghosts.remove(id);
        if let Some(ghost) = left_recent {
            self.target = (self.target + ghost.size as f64 * (frequent / recent).max(1.0))
                .min(self.capacity as f64);
        } else if let Some(ghost) = left_frequent {
            self.target = (self.target - ghost.size as f64 * (recent / frequent).max(1.0)).max(0.0);
        }
        left_recent.is_some() || left_frequent.is_some()
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

impl Policy for Car {
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
        let own = self.links.bytes()
            + self.foreseen.bytes()
            + self.objects.capacity() * size_of::<Object>();
        own + self.recent.ghosts.state_bytes() + self.frequent.ghosts.state_bytes()
    }
}

impl Evict for Car {
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        self.objects[slot.index()].requested = true;
        if self.foreseen.take(slot) {
            let (half, links, object) = self.parts(slot);
            half.clock.push_tail(links, slot);
            half.bytes += object.size;
        }
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let is_frequent = self.learn(request.id);
        let object = Object {
            id: request.id,
            size: request.size,
            is_frequent,
            requested: false,
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        self.enter(slot);
        self.cut_ghosts();
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.foreseen.pop().or_else(|| self.choose())?;
        let capacity = self.capacity;
        let (half, _, object) = self.parts(slot);
        half.ghosts.push(
            Ghost {
                id: object.id,
                size: object.size,
                note: (),
            },
            capacity,
        );
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
        if !self.foreseen.take(slot) {
            self.leave(slot);
        }
    }

    fn object_count(&self) -> Option<usize> {
        Some(
            self.recent.clock.count(&self.links)
                + self.frequent.clock.count(&self.links)
                + self.foreseen.len(),
        )
    }
}
