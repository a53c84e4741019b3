//! SIEVE (Zhang, Yang, Yue, Vigfusson and Rashmi, SIEVE is simpler than LRU, NSDI 2024, algorithm
//! 1).
//!
//! A queue in the order of arrival, one bit an object, and a hand that moves from the oldest to the
//! newest and then starts again. A hit sets the bit. The hand clears the bits of the objects that
//! it passes and stops at the first without one, which leaves. Unlike in CLOCK no object is moved:
//! a survivor keeps its position, so newcomers behind the hand are evicted soon, and popular
//! objects are not met again before that.
//!
//! Sizes: the hand advances until the newcomer fits; nothing else changes. A look ahead moves the
//! hand, so it clears bits earlier than the eviction would. An object that is hit after it was
//! chosen stays at its position.
//!
//! O(1) a hit, O(1) amortised an eviction (each step of the hand clears a bit that a hit has set,
//! or begins a new round); 9 bytes an object.

use super::foreseen::Foreseen;
use crate::entry::{Build, PolicyEntry};
use crate::list::{Links, List};
use crate::prefetch::prefetch;
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "sieve",
    citation: "Zhang, Yang, Yue, Vigfusson, Rashmi, SIEVE is simpler than LRU, NSDI 2024",
    summary: "a hand moves from old to new and evicts the first not requested since last time",
    parameters: &[],
    complexity: "O(1) amortised",
    bytes_an_object: 9,
    needs_path: false,
    build: Build::Eviction(|_, _| Ok(Box::new(Sieve::default()))),
};

#[derive(Default)]
struct Sieve {
    links: Links,
    /// All objects, the foreseen too: they keep their positions until they leave.
    queue: List,
    len: usize,
    /// The next position of the hand; `None` means the oldest.
    hand: Option<Slot>,
    foreseen: Foreseen,
    /// The bits, by slot.
    requested: Vec<bool>,
}

impl Sieve {
    /// Moves the hand past the next victim.
    fn choose(&mut self) -> Option<Slot> {
        if self.foreseen.len() == self.len {
            return None;
        }
        loop {
            let slot = self.hand.or_else(|| self.queue.tail())?;
            self.hand = self.queue.newer(&self.links, slot);
            if !std::mem::take(&mut self.requested[slot.index()]) && !self.foreseen.contains(slot) {
                return Some(slot);
            }
        }
    }

    fn unlink(&mut self, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.queue.newer(&self.links, slot);
        }
        self.queue.unlink(&mut self.links, slot);
        self.len -= 1;
    }
}

impl Policy for Sieve {
    fn state_bytes(&self) -> usize {
        self.links.bytes() + self.requested.capacity() + self.foreseen.bytes()
    }
}

impl Evict for Sieve {
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        // The hand has passed an object that was chosen ahead. The object also stays for the next
        // round, without a bit.
        let chosen = self.foreseen.take(slot);
        self.requested[slot.index()] = !chosen;
    }

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        if slot.index() >= self.requested.len() {
            self.requested.resize(slot.index() + 1, false);
        }
        self.requested[slot.index()] = false;
        self.queue.push_head(&mut self.links, slot);
        self.len += 1;
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.foreseen.pop().or_else(|| self.choose())?;
        self.unlink(slot);
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
        self.foreseen.take(slot);
        self.unlink(slot);
    }

    fn prefetch(&self, _: u64, slot: Option<Slot>) {
        if let Some(slot) = slot {
            prefetch(&self.requested, slot.index());
        }
    }

    fn expected_victim(&self) -> Option<Slot> {
        self.hand.or_else(|| self.queue.tail())
    }

    fn expected_victim_after(&self, slot: Slot) -> Option<Slot> {
        self.queue.newer(&self.links, slot)
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.queue.count(&self.links))
    }
}
