//! The cache policy `{{policy}}`. It evicts the object that was stored first, unless it was hit
//! since: then it goes to the back of the queue once (CLOCK). Replace it by your own.
//!
//! The engine owns the objects' sizes and the capacity. A policy knows slots: numbers of stored
//! objects, which are small and are used again after a removal.

#[cfg(feature = "python")]
mod python;

use larder_policy::{Build, Evict, Policy, PolicyEntry, Request, Slot};
use std::collections::{HashSet, VecDeque};

/// The entry for the registry. `larder policies {{policy}}` prints it.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "{{policy}}",
    citation: "this project",
    summary: "evicts what was stored first and was not hit since",
    parameters: &[],
    complexity: "O(1) amortised, O(n) for a removal",
    bytes_an_object: 20,
    needs_path: false,
    build: Build::Eviction(|_arguments, _streams| Ok(Box::<Clock>::default())),
};

#[derive(Default)]
struct Clock {
    /// The stored slots; the next victim is at the front.
    queue: VecDeque<Slot>,
    /// The slots that were hit since they were queued.
    hit: HashSet<Slot>,
}

impl Policy for Clock {}

impl Evict for Clock {
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        self.hit.insert(slot);
    }

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        self.queue.push_back(slot);
    }

    /// Removes the next victim from the queue, and returns it.
    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        while let Some(slot) = self.queue.pop_front() {
            if !self.hit.remove(&slot) {
                return Some(slot);
            }
            self.queue.push_back(slot);
        }
        None
    }

    /// Returns the victim after `after` (the first one if it is `None`), and changes nothing.
    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let cold = self.queue.iter().filter(|slot| !self.hit.contains(slot));
        let mut order = cold.chain(self.queue.iter().filter(|slot| self.hit.contains(slot))).copied();
        match after {
            None => order.next(),
            Some(after) => order.skip_while(|slot| *slot != after).nth(1),
        }
    }

    /// The object was removed for another reason than an eviction, such as a purge.
    fn on_remove(&mut self, slot: Slot) {
        self.queue.retain(|other| *other != slot);
        self.hit.remove(&slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.queue.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_policy::{Registry, Spec};
    use larder_replay::{Access, replay};
    use larder_units::{ByteSize, Time};

    #[test]
    fn an_object_that_was_hit_leaves_first() {
        let registry = Registry::builtin().register(&ENTRY).unwrap();
        let spec = Spec::parse("{{policy}}", &registry).unwrap();
        // Object 3 replaces 2, because 1 was hit.
        let requests = [1, 2, 1, 3, 1].map(|id| Access { id, size: 10, now: Time::ZERO });
        let row = replay("test", requests, &spec, ByteSize::from_bytes(20), 1).unwrap();
        assert_eq!(row.hits, 2);
    }
}
