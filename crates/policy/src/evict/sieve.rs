//! SIEVE (Zhang, Yang, Yue, Vigfusson and Rashmi, SIEVE is simpler than LRU, NSDI 2024, algorithm
//! 1).
//!
//! A queue in the order of arrival, one bit an object, and a hand that walks from the oldest to the
//! newest and then begins again. A hit sets the bit. The hand takes the bits of those it passes and
//! stops at the first without one, who leaves. Unlike CLOCK nobody is moved: who survives keeps its
//! place, so newcomers behind the hand are sifted soon, and what is popular stays out of its way.
//!
//! Sizes: the hand goes on until the newcomer fits; nothing else changes. A look ahead moves the
//! hand, and so takes bits earlier than the eviction would; whoever is hit after it was chosen is
//! spared and has kept its place.
//!
//! O(1) a hit, O(1) amortised an eviction (each step of the hand takes a bit that a hit has set, or
//! begins a new round); 9 bytes an object.

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
    /// All objects, the foreseen too: they keep their places until they leave.
    queue: List,
    len: usize,
    /// Where the hand goes on; `None`: at the oldest.
    hand: Option<Slot>,
    foreseen: Foreseen,
    /// The bits, by slot.
    requested: Vec<bool>,
}

impl Sieve {
    /// Walks the hand past who leaves.
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
        // Whoever was chosen ahead has been passed by the hand, and is spared without a bit for the
        // next round as well.
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
