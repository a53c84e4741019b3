//! CLOCK: FIFO with a second chance (Corbató, A paging experiment with the Multics system, MIT
//! Project MAC report, 1968).
//!
//! Objects form a ring in the order of their arrival, each with one bit. A hit sets the bit and
//! moves nothing. The hand is at the oldest object: if its bit is set, the bit is cleared and the
//! object counts as the newest; otherwise it leaves.
//!
//! The ring is a queue whose tail is the position of the hand. Sizes: the hand advances until the
//! newcomer fits; nothing else changes. A look ahead moves the hand, so it clears bits earlier than
//! the eviction would. An object that is hit after it was chosen stays.
//!
//! O(1) a hit, O(1) amortised an eviction (each step of the hand clears a bit that a hit has set);
//! 9 bytes an object.

use super::foreseen::Foreseen;
use crate::entry::{Build, PolicyEntry};
use crate::list::{Links, List};
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "clock",
    citation: "Corbató, A paging experiment with the Multics system, MIT Project MAC 1968",
    summary: "evicts what was stored first, but spares once what was requested since",
    parameters: &[],
    complexity: "O(1) amortised",
    bytes_an_object: 9,
    needs_path: false,
    build: Build::Eviction(|_, _| Ok(Box::new(Clock::default()))),
};

#[derive(Default)]
struct Clock {
    links: Links,
    /// All objects but the foreseen; the hand is at the tail.
    circle: List,
    foreseen: Foreseen,
    /// The bits, by slot.
    requested: Vec<bool>,
}

impl Clock {
    /// Moves the hand to the next victim, and unlinks it.
    fn choose(&mut self) -> Option<Slot> {
        loop {
            let slot = self.circle.tail()?;
            if !std::mem::take(&mut self.requested[slot.index()]) {
                self.circle.unlink(&mut self.links, slot);
                return Some(slot);
            }
            self.circle.move_to_head(&mut self.links, slot);
        }
    }
}

impl Policy for Clock {
    fn state_bytes(&self) -> usize {
        self.links.bytes() + self.requested.capacity() + self.foreseen.bytes()
    }
}

impl Evict for Clock {
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        self.requested[slot.index()] = true;
        if self.foreseen.take(slot) {
            self.circle.push_tail(&mut self.links, slot);
        }
    }

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        if slot.index() >= self.requested.len() {
            self.requested.resize(slot.index() + 1, false);
        }
        self.requested[slot.index()] = false;
        self.circle.push_head(&mut self.links, slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.foreseen.pop().or_else(|| self.choose())
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
            self.circle.unlink(&mut self.links, slot);
        }
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.circle.count(&self.links) + self.foreseen.len())
    }
}
