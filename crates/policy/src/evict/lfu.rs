//! LFU in cache, and with dynamic ageing (Arlitt, Cherkasova, Dilley, Friedrich and Jin, Evaluating
//! content management techniques for web proxy caches, ACM SIGMETRICS Performance Evaluation Review
//! 2000: LFU-DA).
//!
//! Evicts the object with the fewest requests since it was stored; of equals, the one whose last
//! request is longest ago. Evicted objects are not remembered. So an object that was popular once
//! stays for ever. With `ageing=dynamic` an object's key is its number of requests plus L at its
//! last request. L is the key of the last victim, so objects without requests fall behind.
//!
//! Sizes do not matter to the order.
//!
//! O(1) a hit, otherwise O(log n) amortised; 52 bytes an object.

use super::heap::Heap;
use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Parameter, Preset, Values};
use crate::prefetch::prefetch;
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lfu",
    citation: "Arlitt et al., Evaluating content management techniques for web proxy caches, ACM SIGMETRICS Performance Evaluation Review 2000",
    summary: "evicts what was requested least often since it was stored",
    parameters: &[Parameter {
        name: "ageing",
        unit: "",
        values: Values::Choice(&["none", "dynamic"]),
        default: Preset::Value("none"),
        doc: "dynamic: the last victim's key is added to those of later requests (LFU-DA)",
    }],
    complexity: "O(1) a hit, O(log n) amortised an eviction",
    bytes_an_object: 52,
    needs_path: false,
    build: Build::Eviction(|arguments, _| {
        Ok(Box::new(Lfu {
            is_ageing: arguments.get("ageing") == Some(1),
            ..Lfu::default()
        }))
    }),
};

#[derive(Default)]
struct Lfu {
    is_ageing: bool,
    /// L.
    age: u64,
    /// By key and last request.
    heap: Heap<(u64, u64)>,
    /// Requests since the insertion, by slot.
    counts: Vec<u32>,
}

impl Policy for Lfu {
    fn state_bytes(&self) -> usize {
        self.heap.bytes() + self.counts.capacity() * size_of::<u32>()
    }
}

impl Evict for Lfu {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        let count = &mut self.counts[slot.index()];
        *count = count.saturating_add(1);
        self.heap
            .raise(slot, (self.age + u64::from(*count), request.seq));
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        if slot.index() >= self.counts.len() {
            self.counts.resize(slot.index() + 1, 0);
        }
        self.counts[slot.index()] = 1;
        self.heap.insert(slot, (self.age + 1, request.seq));
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.heap.pop()?;
        if self.is_ageing {
            self.age = self.heap.key(slot).0;
        }
        Some(slot)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        self.heap.peek(after)
    }

    fn on_remove(&mut self, slot: Slot) {
        self.heap.remove(slot);
    }

    fn prefetch(&self, _: u64, slot: Option<Slot>) {
        if let Some(slot) = slot {
            prefetch(&self.counts, slot.index());
            self.heap.prefetch(slot);
        }
    }

    fn expected_victim(&self) -> Option<Slot> {
        self.heap.expected()
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.heap.len())
    }
}
