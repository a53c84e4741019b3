//! CLOCK: FIFO with a second chance (Corbató, A paging experiment with the Multics system, MIT
//! Project MAC report, 1968).
//!
//! Objects stand in a circle in the order of their arrival, each with one bit. A hit sets the bit
//! and moves nothing. The hand stands at the oldest: one whose bit is set loses the bit and counts
//! as the newest, one without leaves.
//!
//! The circle is a queue whose tail is where the hand stands. Sizes: the hand goes on until the
//! newcomer fits; nothing else changes. A look ahead moves the hand, and so takes bits earlier than
//! the eviction would; whoever is hit after it was chosen is spared.
//!
//! O(1) a hit, O(1) amortised an eviction (each step of the hand takes a bit that a hit has set); 9
//! bytes an object.

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
    /// All but the foreseen; the hand stands at the tail.
    circle: List,
    foreseen: Foreseen,
    /// The bits, by slot.
    requested: Vec<bool>,
}

impl Clock {
    /// Turns the hand to who leaves, and unlinks it.
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
