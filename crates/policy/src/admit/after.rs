//! After: admits an object at its n-th request, as nginx does (`proxy_cache_min_uses`, `keys_zone`
//! and `inactive` of ngx_http_proxy_module; "admit after x requests" in AdaptSize's comparison,
//! NSDI 2017, section 2).
//!
//! A table counts the requests of objects that are not stored. It holds the `keys` that were
//! requested last, as nginx's zone does, and a key that was not requested for `inactive` starts
//! again from zero. An object that is admitted leaves the table: once evicted, it needs n requests
//! again.
//!
//! Differences: nginx's zone counts in megabytes, of about 8,000 keys each. Here the default
//! follows the cache, ten keys for each stored object and at least as many as in one megabyte of
//! nginx's zone. If another stage refuses an object that this one admits, its count starts again.
//! Sizes do not matter.
//!
//! O(1) a request; 33 to 45 bytes a key, so about 400 bytes for each stored object.

use crate::entry::{Build, PolicyEntry};
use crate::hash::mix;
use crate::list::{Links, List};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::traits::{Admit, Cache, Gauge, Policy};
use crate::{Request, Slot};
use hashbrown::HashTable;
use larder_units::Time;
use std::time::Duration;

/// Keys that After counts for each stored object: as many requests as TinyLFU's window.
const KEYS_PER_OBJECT: u64 = 10;

/// Fewest keys of After's derived table: those in one megabyte of nginx's zone, according to its
/// documentation.
const MIN_DERIVED_KEYS: u64 = 8_000;

/// Most keys that After counts: about 700 MB, as many as in two gigabytes of nginx's zone.
const MAX_KEYS: u64 = 1 << 24;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "after",
    citation: "nginx, ngx_http_proxy_module: proxy_cache_min_uses; Berger, Sitaraman, Harchol-Balter, AdaptSize, NSDI 2017 (section 2)",
    summary: "admits an object at its n-th request",
    parameters: &[
        Parameter {
            name: "n",
            unit: "requests",
            values: Values::Integer(1, u32::MAX as u64),
            default: Preset::Value("2"),
            doc: "requests that admit, the current one included",
        },
        Parameter {
            name: "keys",
            unit: "objects",
            values: Values::Integer(1, MAX_KEYS),
            default: Preset::Derived("ten for each stored object, at least 8000"),
            doc: "objects not stored whose requests are counted",
        },
        Parameter {
            name: "inactive",
            unit: "seconds",
            values: Values::Integer(1, u32::MAX as u64),
            default: Preset::Value("600"),
            doc: "time without a request after which an object's count starts again",
        },
    ],
    complexity: "O(1)",
    bytes_an_object: 400,
    needs_path: false,
    build: Build::Admission(|arguments, _| Ok(Box::new(After::new(arguments)))),
};

struct After {
    n: u32,
    inactive: Duration,
    keys: usize,
    keys_are_derived: bool,
    counted: HashTable<Slot>,
    /// By the slots of this table, which differ from the engine's.
    keeps: Vec<Counted>,
    free: Vec<Slot>,
    links: Links,
    /// The head is the key requested last.
    recency: List,
}

#[derive(Clone, Copy)]
struct Counted {
    id: u64,
    last: Time,
    count: u32,
}

impl After {
    fn new(arguments: &Arguments<'_>) -> After {
        let keys = arguments.get("keys");
        After {
            n: arguments.get("n").unwrap_or(2) as u32,
            inactive: Duration::from_secs(arguments.get("inactive").unwrap_or(600)),
            keys: keys.unwrap_or(MIN_DERIVED_KEYS) as usize,
            keys_are_derived: keys.is_none(),
            counted: HashTable::new(),
            keeps: Vec::new(),
            free: Vec::new(),
            links: Links::default(),
            recency: List::default(),
        }
    }

    fn find(&self, id: u64) -> Option<Slot> {
        self.counted
            .find(mix(id), |slot| self.keeps[slot.index()].id == id)
            .copied()
    }

    fn count(&mut self, request: &Request) {
        if let Some(slot) = self.find(request.id) {
            let known = &mut self.keeps[slot.index()];
            let stale = request.now.since(known.last) > self.inactive;
            known.count = if stale {
                1
            } else {
                known.count.saturating_add(1)
            };
            known.last = request.now;
            self.recency.move_to_head(&mut self.links, slot);
            return;
        }
        // At most two per request, so that it is O(1) even after the table has shrunk by much.
        for _ in 0..2 {
            if self.counted.len() >= self.keys
                && let Some(oldest) = self.recency.tail()
            {
                self.forget(oldest);
            }
        }
        let new = Counted {
            id: request.id,
            last: request.now,
            count: 1,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.keeps[slot.index()] = new;
                slot
            }
            None => {
                self.keeps.push(new);
                Slot::new((self.keeps.len() - 1) as u32)
            }
        };
        self.recency.push_head(&mut self.links, slot);
        let keeps = &self.keeps;
        self.counted
            .insert_unique(mix(request.id), slot, |slot| mix(keeps[slot.index()].id));
    }

    fn forget(&mut self, slot: Slot) {
        if let Ok(entry) = self
            .counted
            .find_entry(mix(self.keeps[slot.index()].id), |known| *known == slot)
        {
            entry.remove();
        }
        self.recency.unlink(&mut self.links, slot);
        self.free.push(slot);
    }
}

impl Policy for After {
    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "counted_objects",
            value: self.counted.len() as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        self.counted.allocation_size()
            + self.keeps.capacity() * size_of::<Counted>()
            + self.free.capacity() * size_of::<Slot>()
            + self.links.bytes()
    }
}

impl Admit for After {
    fn on_request(&mut self, request: &Request, hit: bool) {
        if !hit {
            self.count(request);
        }
    }

    fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool {
        if self.keys_are_derived {
            let wanted = (cache.len() as u64).saturating_mul(KEYS_PER_OBJECT);
            self.keys = wanted.clamp(MIN_DERIVED_KEYS, MAX_KEYS) as usize;
        }
        let found = self.find(request.id);
        let count = found.map_or(0, |slot| self.keeps[slot.index()].count);
        let admitted = count >= self.n;
        if admitted && let Some(slot) = found {
            self.forget(slot);
        }
        admitted
    }
}
