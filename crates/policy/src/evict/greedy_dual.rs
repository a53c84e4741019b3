//! GreedyDual-Size (Cao and Irani, Cost-aware WWW proxy caching algorithms, USITS 1997), and with
//! Frequency (Cherkasova, Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching
//! policy, HP Laboratories 98-69R1, 1998). For the object hit ratio, every miss costs 1.
//!
//! An object's value is H = L + f/s, with its size of s bytes, its f requests since it was stored
//! (always 1 in GDS), and L, the value of the last victim at the time of the object's last request.
//! The object with the least value leaves; of equals, the one whose last request is longest ago. L
//! only rises, so objects without requests fall behind.
//!
//! `admission=bypass`, the default of GDSF here, refuses a newcomer that is worth less than one of
//! its victims; `always` is the published form. In the published form, L rises at every miss of a
//! full cache. So each refusal moves L towards the value that the newcomer failed to reach, by one
//! part in as many as objects are stored. Otherwise a cache whose objects were all requested twice
//! would refuse every later object of their sizes for ever.
//!
//! H is a float: if L is so large that 1/s is below its precision, the object's value is L.
//!
//! O(1) a hit, otherwise O(log n) amortised; 64 bytes an object.

use super::heap::Heap;
use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::prefetch::prefetch;
use crate::scale::Scale;
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "gds",
    citation: "Cao, Irani, Cost-aware WWW proxy caching algorithms, USITS 1997",
    summary: "evicts the largest of what was not requested lately: least 1/size, ageing",
    parameters: &[admission("always")],
    complexity: COMPLEXITY,
    bytes_an_object: 64,
    needs_path: false,
    build: Build::Eviction(|arguments, context| {
        Ok(Box::new(GreedyDual::new(arguments, context.scale, false)))
    }),
};

pub(crate) const ENTRY_WITH_FREQUENCY: PolicyEntry = PolicyEntry {
    name: "gdsf",
    citation: "Cherkasova, Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy, HP Laboratories 98-69R1, 1998",
    summary: "evicts the least requests a byte, ageing, and refuses what is worth less",
    parameters: &[admission("bypass")],
    complexity: COMPLEXITY,
    bytes_an_object: 64,
    needs_path: false,
    build: Build::Eviction(|arguments, context| {
        Ok(Box::new(GreedyDual::new(arguments, context.scale, true)))
    }),
};

const COMPLEXITY: &str = "O(1) a hit, O(log n) amortised an eviction";

const fn admission(default: &'static str) -> Parameter {
    Parameter {
        name: "admission",
        unit: "",
        values: Values::Choice(&["always", "bypass"]),
        default: Preset::Value(default),
        doc: "bypass: refuse what is worth less than one of those that would have to leave for it, and age them by a part; Cherkasova's and Cao's papers: always",
    }
}

struct GreedyDual {
    scale: Scale,
    counts_requests: bool,
    bypasses: bool,
    /// L.
    age: f64,
    /// By H and last request.
    heap: Heap<(Value, u64)>,
    /// By slot.
    objects: Vec<Object>,
}

#[derive(Clone, Copy)]
struct Object {
    size: u64,
    /// f.
    count: u32,
}

impl GreedyDual {
    fn new(arguments: &Arguments<'_>, scale: Scale, counts_requests: bool) -> GreedyDual {
        let bypasses = arguments.get("admission") == Some(1);
        GreedyDual {
            scale,
            counts_requests,
            bypasses,
            age: 0.0,
            heap: Heap::default(),
            objects: Vec::new(),
        }
    }

    fn value(&self, object: Object) -> Value {
        Value::new(self.age + f64::from(object.count) / self.scale.size(object.size) as f64)
    }
}

/// H, which is positive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Value(u64);

impl Value {
    fn new(h: f64) -> Value {
        // The bits of positive floats have the order of the floats.
        Value(h.to_bits())
    }

    fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Policy for GreedyDual {
    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "age",
            value: self.age,
        });
    }

    fn state_bytes(&self) -> usize {
        self.heap.bytes() + self.objects.capacity() * size_of::<Object>()
    }
}

impl Evict for GreedyDual {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        let object = &mut self.objects[slot.index()];
        if self.counts_requests {
            object.count = object.count.saturating_add(1);
        }
        let object = *object;
        self.heap.raise(slot, (self.value(object), request.seq));
    }

    fn accept(&mut self, request: &Request, short_bytes: u64) -> bool {
        if !self.bypasses {
            return true;
        }
        let value = self.value(Object {
            size: request.size,
            count: 1,
        });
        let mut freed = 0;
        let mut last = None;
        while freed < short_bytes
            && let Some(slot) = self.heap.peek(last)
        {
            let required = self.heap.key(slot).0;
            if required > value {
                self.age += (required.get() - self.age) / self.heap.len() as f64;
                return false;
            }
            freed += self.objects[slot.index()].size;
            last = Some(slot);
        }
        true
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let object = Object {
            size: request.size,
            count: 1,
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        self.heap.insert(slot, (self.value(object), request.seq));
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.heap.pop()?;
        // Refusals may have moved L beyond the value of an object that was not requested since.
        self.age = self.age.max(self.heap.key(slot).0.get());
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
            prefetch(&self.objects, slot.index());
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
