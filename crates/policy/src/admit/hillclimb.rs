//! HillClimb: admits with the chance exp(−size/c), and moves c towards the better of two shadow
//! caches (Berger, Sitaraman and Harchol-Balter, AdaptSize, NSDI 2017, section 5.3; its authors'
//! simulator where the paper says nothing).
//!
//! The shadow caches are LRUs of the full capacity that hold only ids and sizes, and admit with c/2
//! and 3c/2. After an interval, c doubles or halves towards the shadow with more hits, and that
//! shadow's contents are copied to the other one. The paper shows that this gets stuck if the hit
//! ratio is flat or has two peaks, and that shadows warm up slowly. It is here for comparison.
//!
//! The paper does not give the size of a step. With `step`, c changes by this number of bytes, and
//! the shadow caches admit with c minus one step and c plus one step.
//!
//! The interval is 10,000 requests below 256 MiB, else 20,000 + 40,000·(log2 C − 28); c starts at
//! 2^(0.92·log2 C) and stays between a byte and the capacity. A missed request counts at admission,
//! when its size is known. An object larger than the capacity is never admitted. The shadows are
//! LRU, as the paper's cache is. Another eviction may be combined with this admission; c is then
//! still tuned for LRU.
//!
//! O(1) a request, amortised (one copy of a shadow cache per interval); about 80 bytes for each
//! object that fits, in two shadows.

use super::expsize::chance;
use super::shadow::Shadow;
use crate::Request;
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::scale::Scale;
use crate::traits::{Admit, Cache, Gauge, Policy};
use larder_units::Stream;

/// Longest interval of HillClimb, in requests: a capacity of 2^63 bytes would make it 1.4 million.
const MAX_INTERVAL: u64 = 1 << 24;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "hillclimb",
    citation: "Berger, Sitaraman, Harchol-Balter, AdaptSize: orchestrating the hot object memory cache in a content delivery network, NSDI 2017 (section 5.3)",
    summary: "admits with the chance exp(-size/c), c moved by two shadow caches",
    parameters: &[
        Parameter {
            name: "interval",
            unit: "requests",
            values: Values::Integer(1, MAX_INTERVAL),
            default: Preset::Derived(
                "10000 below 256 MiB, else 20000 + 40000 (log2 capacity - 28)",
            ),
            doc: "requests from one step of c to the next",
        },
        Parameter {
            name: "start",
            unit: "bytes",
            values: Values::Bytes(1, u64::MAX),
            default: Preset::Derived("capacity to the power of 0.92"),
            doc: "c before the first step",
        },
        Parameter {
            name: "step",
            unit: "bytes",
            values: Values::Bytes(1, u64::MAX),
            default: Preset::Derived("c doubles or halves"),
            doc: "bytes by which c moves",
        },
    ],
    complexity: "O(1)",
    bytes_an_object: 80,
    needs_path: false,
    build: Build::Admission(|arguments, context| Ok(Box::new(HillClimb::new(arguments, context)))),
};

struct HillClimb {
    scale: Scale,
    stream: Stream,
    capacity: u64,
    interval: Option<u64>,
    c: f64,
    /// The bytes by which c changes, if it does not double or halve.
    step: Option<f64>,
    /// The shadow caches with less than c and with more than c.
    shadows: [Shadow; 2],
    requests: u64,
    steps: u64,
}

impl HillClimb {
    fn new(arguments: &Arguments<'_>, context: &BuildContext<'_>) -> HillClimb {
        let start = arguments.get("start").map_or(
            (0.92 * log2(context.scale.full(context.capacity))).exp2(),
            |bytes| bytes as f64,
        );
        let mut climb = HillClimb {
            scale: context.scale,
            stream: context.stream(),
            capacity: context.capacity,
            interval: arguments.get("interval"),
            c: start,
            step: arguments.get("step").map(|bytes| bytes as f64),
            shadows: Default::default(),
            requests: 0,
            steps: 0,
        };
        climb.bound();
        climb
    }

    /// Returns the interval for the capacity, by the authors' rule.
    fn interval(&self) -> u64 {
        let log = log2(self.scale.full(self.capacity));
        let derived = if log < 28.0 {
            10_000
        } else {
            20_000 + (40_000.0 * (log - 28.0)) as u64
        };
        self.interval.unwrap_or(self.scale.requests(derived))
    }

    fn bound(&mut self) {
        let most = self.scale.full(self.capacity).max(1);
        self.c = self.c.clamp(1.0, most as f64);
    }

    /// Returns the values of c that the shadow caches use.
    fn probes(&self) -> [f64; 2] {
        self.step.map_or([0.5 * self.c, 1.5 * self.c], |step| {
            [(self.c - step).max(1.0), self.c + step]
        })
    }

    /// Passes a request to both shadow caches, and changes c if the interval has ended.
    fn request(&mut self, id: u64, size: u64) {
        let probes = self.probes();
        for (shadow, c) in self.shadows.iter_mut().zip(probes) {
            if !shadow.hit(id)
                && size <= self.capacity
                && self.stream.chance(chance(self.scale.size(size), c))
            {
                shadow.insert(id, size, self.capacity);
            }
        }
        self.requests += 1;
        if self.requests >= self.interval() {
            self.climb();
        }
    }

    fn climb(&mut self) {
        let [low, high] = &mut self.shadows;
        if high.hits > low.hits {
            self.c = self.step.map_or(2.0 * self.c, |step| self.c + step);
            low.clone_from(high);
        } else if low.hits > high.hits {
            self.c = self.step.map_or(0.5 * self.c, |step| self.c - step);
            high.clone_from(low);
        }
        (low.hits, high.hits) = (0, 0);
        self.bound();
        self.requests = 0;
        self.steps += 1;
    }
}

fn log2(bytes: u64) -> f64 {
    (bytes.max(1) as f64).log2()
}

impl Policy for HillClimb {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.bound();
        for shadow in &mut self.shadows {
            shadow.shrink(capacity);
        }
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "c_bytes",
            value: self.c,
        });
        out.push(Gauge {
            name: "steps",
            value: self.steps as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        self.shadows.iter().map(Shadow::bytes).sum()
    }
}

impl Admit for HillClimb {
    fn on_request(&mut self, request: &Request, hit: bool) {
        if hit {
            self.request(request.id, request.size);
        }
    }

    fn admit(&mut self, request: &Request, _: &mut Cache<'_>) -> bool {
        self.request(request.id, request.size);
        let size = self.scale.size(request.size);
        self.stream.chance(chance(size, self.c))
    }
}
