//! LRU: evicts the object whose last request is longest ago. Sizes do not matter to the order.
//!
//! O(1) a request; 8 bytes an object.

use crate::entry::{Build, PolicyEntry};
use crate::list::{Links, List};
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lru",
    citation: "Mattson et al., Evaluation techniques for storage hierarchies, IBM Systems Journal 1970",
    summary: "evicts what was not requested for the longest time",
    parameters: &[],
    complexity: "O(1)",
    bytes_an_object: 8,
    needs_path: false,
    build: Build::Eviction(|_, _| Ok(Box::new(Lru::default()))),
};

#[derive(Default)]
struct Lru {
    links: Links,
    stack: List,
}

impl Policy for Lru {
    fn state_bytes(&self) -> usize {
        self.links.bytes()
    }
}

impl Evict for Lru {
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        self.stack.move_to_head(&mut self.links, slot);
    }

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        self.stack.push_head(&mut self.links, slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.stack.pop_tail(&mut self.links)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        after.map_or(self.stack.tail(), |slot| {
            self.stack.newer(&self.links, slot)
        })
    }

    fn on_remove(&mut self, slot: Slot) {
        self.stack.unlink(&mut self.links, slot);
    }

    fn prefetch(&self, _: u64, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.links.prefetch(slot);
        }
    }

    fn prefetch_further(&self, _: u64, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.links.prefetch_neighbours(slot);
        }
    }

    fn expected_victim(&self) -> Option<Slot> {
        self.stack.tail()
    }

    fn expected_victim_after(&self, slot: Slot) -> Option<Slot> {
        self.stack.newer(&self.links, slot)
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.stack.count(&self.links))
    }
}
