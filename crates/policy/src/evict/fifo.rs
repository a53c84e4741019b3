//! FIFO: evicts the object that was stored first. Hits change nothing, so a hit reads no policy
//! state. Sizes do not matter to the order.
//!
//! O(1) a request; 8 bytes an object.

use crate::entry::{Build, PolicyEntry};
use crate::list::{Links, List};
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fifo",
    citation: "Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal 1966",
    summary: "evicts what was stored first",
    parameters: &[],
    complexity: "O(1)",
    bytes_an_object: 8,
    needs_path: false,
    build: Build::Eviction(|_, _| Ok(Box::new(Fifo::default()))),
};

#[derive(Default)]
struct Fifo {
    links: Links,
    queue: List,
}

impl Policy for Fifo {
    fn state_bytes(&self) -> usize {
        self.links.bytes()
    }
}

impl Evict for Fifo {
    fn on_hit(&mut self, _: Slot, _: &Request) {}

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        self.queue.push_head(&mut self.links, slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.queue.pop_tail(&mut self.links)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        after.map_or(self.queue.tail(), |slot| {
            self.queue.newer(&self.links, slot)
        })
    }

    fn on_remove(&mut self, slot: Slot) {
        self.queue.unlink(&mut self.links, slot);
    }

    fn expected_victim(&self) -> Option<Slot> {
        self.queue.tail()
    }

    fn expected_victim_after(&self, slot: Slot) -> Option<Slot> {
        self.queue.newer(&self.links, slot)
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.queue.count(&self.links))
    }
}
