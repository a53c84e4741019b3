//! Hyperbolic caching (Blankstein, Sen and Freedman, Hyperbolic caching: flexible caching for web
//! applications, USENIX ATC 2017).
//!
//! An object's priority is n/t: n requests since it was stored, t the time since then. So all
//! priorities decay, those of popular objects slowly, and a newcomer is safe while its one request
//! is recent. All priorities change all the time, so no order is kept. The least of 64 random
//! objects leaves (section 3.2).
//!
//! Sizes: the priority is divided by the size, as in section 4.1 for the object hit ratio. t is
//! counted in requests, at least 1. A victim that was looked at ahead and is not requested
//! meanwhile remains the next victim.
//!
//! O(1) a request, an eviction reads 64 objects; 24 bytes an object.

use super::foreseen::Foreseen;
use super::pool::Pool;
use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Parameter, Preset, Values};
use crate::scale::Scale;
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};
use larder_units::Stream;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "hyperbolic",
    citation: "Blankstein, Sen, Freedman, Hyperbolic caching: flexible caching for web applications, USENIX ATC 2017",
    summary: "evicts the least requests per byte and time since it was stored, of a sample",
    parameters: &[Parameter {
        name: "sample",
        unit: "objects",
        values: Values::Integer(1, 1024),
        default: Preset::Value("64"),
        doc: "how many are drawn for a victim",
    }],
    complexity: "O(1), an eviction reads the sample",
    bytes_an_object: 24,
    needs_path: false,
    build: Build::Eviction(|arguments, context| {
        Ok(Box::new(Hyperbolic {
            sample: arguments.get("sample").unwrap_or(64) as usize,
            scale: context.scale,
            stream: context.stream(),
            now: 0,
            pool: Pool::default(),
            sampled: Vec::new(),
            foreseen: Foreseen::default(),
            objects: Vec::new(),
        }))
    }),
};

struct Hyperbolic {
    scale: Scale,
    sample: usize,
    stream: Stream,
    /// Requests so far.
    now: u64,
    /// All objects but the foreseen.
    pool: Pool,
    sampled: Vec<Slot>,
    foreseen: Foreseen,
    /// By slot.
    objects: Vec<Object>,
}

#[derive(Clone, Copy)]
struct Object {
    size: u64,
    stored: u64,
    count: u32,
}

impl Hyperbolic {
    fn choose(&mut self) -> Option<Slot> {
        let Hyperbolic {
            now,
            scale,
            ref objects,
            ..
        } = *self;
        let mut least = None;
        self.pool
            .sample(self.sample, &mut self.stream, objects, &mut self.sampled);
        for &slot in &self.sampled {
            let Object {
                size,
                stored,
                count,
            } = objects[slot.index()];
            let priority =
                f64::from(count) / (scale.size(size) as f64 * (now - stored).max(1) as f64);
            // Of equals, the oldest.
            if least.is_none_or(|(p, s, _)| (priority, stored) < (p, s)) {
                least = Some((priority, stored, slot));
            }
        }
        let (_, _, slot) = least?;
        self.pool.remove(slot);
        Some(slot)
    }
}

impl Policy for Hyperbolic {
    fn state_bytes(&self) -> usize {
        self.pool.bytes() + self.foreseen.bytes() + self.objects.capacity() * size_of::<Object>()
    }
}

impl Evict for Hyperbolic {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        self.now = request.seq;
        let count = &mut self.objects[slot.index()].count;
        *count = count.saturating_add(1);
        if self.foreseen.take(slot) {
            self.pool.insert(slot);
        }
    }

    fn on_miss(&mut self, request: &Request) {
        self.now = request.seq;
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let object = Object {
            size: request.size,
            stored: request.seq,
            count: 1,
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        self.pool.insert(slot);
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
            self.pool.remove(slot);
        }
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.pool.len() + self.foreseen.len())
    }
}
