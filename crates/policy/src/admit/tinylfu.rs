//! TinyLFU: admits a newcomer that was requested more often lately than the objects that would
//! leave for it (Einziger, Friedman and Manes, TinyLFU: a highly efficient cache admission policy,
//! ACM Transactions on Storage 13, 2017).
//!
//! An ageing sketch ([`crate::sketch`]) counts every request. The eviction names its next victim,
//! and the newcomer is admitted if it is more frequent. With the doorkeeper, the first request of
//! an object in a window only sets a mark in a Bloom filter, which is cleared when the sketch ages.
//! So objects with one request do not enter the sketch.
//!
//! For sizes it uses "aggregated victims" of the same authors (Einziger, Eytan, Friedman and Manes,
//! Lightweight robust size aware cache management, ACM Transactions on Storage 18, 2022): a
//! newcomer must have more requests than all objects that it displaces together. Differences:
//! * Every victim counts as requested at least once. So at most sixteen are compared, and a
//!   comparison is O(1).
//! * In a tie, the newcomer wins if it is smaller than the objects that it displaces together. With
//!   equal sizes it loses, as in Caffeine. Object hit ratios with LRU and this rule / with all ties
//!   lost: a CDN's mix, 1 GiB, .508 / .461; its web class, .839 / .819; Twitter's cluster 52, 5
//!   MiB, .786 / .774 (LRU .816: this policy has no window for new objects; `w-tinylfu` has one);
//!   NASA's day, .877 / .868.
//!
//! By default the window follows the cache: ten requests for each stored object.
//!
//! O(1) a request, and up to sixteen lookups of victims at a miss; 8 to 16 bytes an object, with
//! the doorkeeper 13 to 25 more.

use crate::Request;
use crate::bloom::Bloom;
use crate::entry::{Build, PolicyEntry};
use crate::limits::{SKETCH_MAX_WINDOW, SKETCH_MIN_WINDOW};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::scale::Scale;
use crate::sketch::Sketch;
use crate::traits::{Admit, Cache, Gauge, Policy};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "tinylfu",
    citation: "Einziger, Friedman, Manes, TinyLFU: a highly efficient cache admission policy, ACM Transactions on Storage 13, 2017",
    summary: "admits what was requested more often lately than its victims",
    parameters: &[
        Parameter {
            name: "window",
            unit: "requests",
            values: Values::Integer(1, SKETCH_MAX_WINDOW),
            default: Preset::Derived("ten for each stored object, at least 640"),
            doc: "requests after which all counts are halved",
        },
        Parameter {
            name: "doorkeeper",
            unit: "",
            values: Values::Choice(&["off", "on"]),
            default: Preset::Value("off"),
            doc: "whether an object's first request of a window is only marked, not counted",
        },
    ],
    complexity: "O(1)",
    bytes_an_object: 12,
    needs_path: false,
    build: Build::Admission(|arguments, context| {
        Ok(Box::new(TinyLfu::new(arguments, context.scale)))
    }),
};

struct TinyLfu {
    scale: Scale,
    sketch: Sketch,
    window_is_derived: bool,
    doorkeeper: Option<Bloom>,
}

impl TinyLfu {
    fn new(arguments: &Arguments<'_>, scale: Scale) -> TinyLfu {
        let window = arguments.get("window");
        let sketch = Sketch::new(window.unwrap_or(SKETCH_MIN_WINDOW));
        let doorkeeper =
            (arguments.get("doorkeeper") == Some(1)).then(|| Bloom::new(sketch.window()));
        TinyLfu {
            scale,
            sketch,
            window_is_derived: window.is_none(),
            doorkeeper,
        }
    }

    fn frequency(&self, id: u64) -> u32 {
        let marked = self
            .doorkeeper
            .as_ref()
            .is_some_and(|doorkeeper| doorkeeper.contains(id));
        self.sketch.estimate(id) + u32::from(marked)
    }
}

impl Policy for TinyLfu {
    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "window_requests",
            value: self.sketch.window() as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        self.sketch.bytes() + self.doorkeeper.as_ref().map_or(0, Bloom::bytes)
    }
}

impl Admit for TinyLfu {
    fn on_request(&mut self, request: &Request, _: bool) {
        let Some(doorkeeper) = &mut self.doorkeeper else {
            self.sketch.count(request.id);
            return;
        };
        let ended = if doorkeeper.insert(request.id) {
            self.sketch.pass()
        } else {
            self.sketch.count(request.id)
        };
        if ended {
            doorkeeper.clear_for(self.sketch.window());
        }
    }

    fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool {
        if self.window_is_derived {
            self.sketch.set_window(Sketch::window_for(cache.len()));
        }
        let frequency = f64::from(self.frequency(request.id));
        let mut room = cache.capacity() - cache.used();
        let (mut displaced, mut freed) = (0.0, 0_u64);
        while room < request.size {
            let Some(victim) = cache.next_victim() else {
                return false;
            };
            room = room.saturating_add(victim.size);
            freed = freed.saturating_add(victim.size);
            displaced += f64::from(self.frequency(victim.id).max(1))
                * self.scale.displaced(victim.size, request.size);
            if displaced > frequency {
                return false;
            }
        }
        displaced < frequency || request.size < freed || freed == 0
    }
}
