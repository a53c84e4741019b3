//! Random priority: the policy that ndnSIM (Mastorakis, Afanasyev, Moiseenko and Zhang, ndnSIM 2,
//! NDN-0028, 2015) calls random replacement.
//!
//! Each object draws a priority when it arrives; the object with the least leaves, and this may be
//! the newcomer. So it is not a random choice among the stored objects: objects with a high
//! priority stay, and after n different objects each of them is stored with the same chance, as in
//! a reservoir. Papers with ndnSIM's random policy measured this one; `random` is the textbook's.
//!
//! Sizes: a newcomer that drew less than one of its victims is refused, and no object leaves.
//!
//! O(1) a hit, otherwise O(log n); 40 bytes an object.

use super::heap::Heap;
use crate::entry::{Build, PolicyEntry};
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};
use larder_units::Stream;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "random-priority",
    citation: "Mastorakis, Afanasyev, Moiseenko, Zhang, ndnSIM 2: an updated NDN simulator for NS-3, NDN-0028, 2015",
    summary: "each object draws a priority, and the least leaves (ndnSIM's random)",
    parameters: &[],
    complexity: "O(1) a hit, O(log n) an eviction",
    bytes_an_object: 40,
    needs_path: false,
    build: Build::Eviction(|_, context| {
        Ok(Box::new(RandomPriority {
            stream: context.stream(),
            drawn: None,
            heap: Heap::default(),
            sizes: Vec::new(),
        }))
    }),
};

struct RandomPriority {
    stream: Stream,
    /// The id of the newcomer, and the priority that it drew in `accept`.
    drawn: Option<(u64, u64)>,
    heap: Heap<u64>,
    /// By slot.
    sizes: Vec<u64>,
}

impl Policy for RandomPriority {
    fn state_bytes(&self) -> usize {
        self.heap.bytes() + self.sizes.capacity() * size_of::<u64>()
    }
}

impl Evict for RandomPriority {
    fn on_hit(&mut self, _: Slot, _: &Request) {}

    fn accept(&mut self, request: &Request, short_bytes: u64) -> bool {
        let priority = self.stream.bits();
        self.drawn = Some((request.id, priority));
        let mut freed = 0;
        let mut last = None;
        while freed < short_bytes
            && let Some(slot) = self.heap.peek(last)
        {
            if self.heap.key(slot) > priority {
                return false;
            }
            freed += self.sizes[slot.index()];
            last = Some(slot);
        }
        true
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let drawn = self.drawn.take().filter(|(id, _)| *id == request.id);
        let priority = drawn.map_or_else(|| self.stream.bits(), |(_, priority)| priority);
        if slot.index() >= self.sizes.len() {
            self.sizes.resize(slot.index() + 1, 0);
        }
        self.sizes[slot.index()] = request.size;
        self.heap.insert(slot, priority);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.heap.pop()
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        self.heap.peek(after)
    }

    fn on_remove(&mut self, slot: Slot) {
        self.heap.remove(slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.heap.len())
    }
}
