//! LookAhead and Static, the offline tuners that AdaptSize is compared with (Berger, Sitaraman and
//! Harchol-Balter, AdaptSize, NSDI 2017, sections 5.1 and 5.3). There is no published code. The
//! choices that the paper leaves open are Larder's.
//!
//! * `lookahead` chooses c every 250,000 requests, as often as AdaptSize: the one with which the
//!   next 1,000,000 requests have the most hits, starting with the present cache. Then it admits
//!   with the chance exp(−size/c), or if size ≤ c.
//! * `static` chooses c once, for the whole trace or its first `window` requests, starting with an
//!   empty cache.
//! * Candidates are all powers of two up to the capacity, then the half-octaves beside the best. Of
//!   equal ones it takes the largest.
//! * Neither is a bound. `lookahead` is greedy: on a short web-like trace (67,000 requests, 4 MiB,
//!   an interval of 10,000) LRU hits .262, `static` .269 and .276 with chance, `lookahead` .280 to
//!   .284 depending on its window, and AdaptSize .288.
//! * The cache is modelled as an LRU, as in the paper: a shadow of it follows every decision. With
//!   another eviction, or with further admission stages, c is still the best for LRU alone.
//! * The candidates' random draws depend on the request, and are the same for every c. They differ
//!   from the draws by which objects are then admitted.
//!
//! O(1) a request, and about log2(capacity) replays of the window at each choice ([`Window`]):
//! `lookahead` with 1 GiB costs ten times as much as LRU. 80 bytes for each object that fits, and
//! 28 for each request of the window while it chooses (of the whole trace, for `static`).

use super::expsize::chance;
use super::shadow::Shadow;
use super::window::Window;
use crate::Request;
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::future::Future;
use crate::hash::mix;
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::traits::{Admit, Cache, Gauge, Policy};
use larder_units::Stream;
use std::sync::Arc;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lookahead",
    citation: "Berger, Sitaraman, Harchol-Balter, AdaptSize: orchestrating the hot object memory cache in a content delivery network, NSDI 2017 (sections 5.1, 5.3)",
    summary: "knows the trace ahead: AdaptSize with the best c for the next requests",
    parameters: &[
        shape("chance"),
        Parameter {
            name: "interval",
            unit: "requests",
            values: Values::Integer(1, u64::MAX),
            default: Preset::Value("250000"),
            doc: "requests from one choice of c to the next",
        },
        Parameter {
            name: "window",
            unit: "requests",
            values: Values::Integer(1, u64::MAX),
            default: Preset::Value("1000000"),
            doc: "requests ahead over which hits are counted",
        },
    ],
    complexity: "O(1), O(window log(capacity)) an interval",
    bytes_an_object: 80,
    needs_path: false,
    build: Build::OfflineAdmission(|arguments, context, future| {
        Ok(Box::new(LookAhead::new(arguments, context, future)))
    }),
};

pub(crate) const ENTRY_STATIC: PolicyEntry = PolicyEntry {
    name: "static",
    citation: ENTRY.citation,
    summary: "knows the trace ahead: AdaptSize with the one c that has the most hits",
    parameters: &[
        shape("threshold"),
        Parameter {
            name: "window",
            unit: "requests",
            values: Values::Integer(1, u64::MAX),
            default: Preset::Derived("the whole trace"),
            doc: "requests from the start over which hits are counted",
        },
    ],
    complexity: "O(1), O(window log(capacity)) once",
    bytes_an_object: 80,
    needs_path: false,
    build: ENTRY.build,
};

/// The parameter for AdaptSize's two forms. The paper compares `lookahead` with chance and `static`
/// with threshold.
const fn shape(default: &'static str) -> Parameter {
    Parameter {
        name: "shape",
        unit: "",
        values: Values::Choice(&["chance", "threshold"]),
        default: Preset::Value(default),
        doc: "chance: admits with exp(-size/c); threshold: admits where size <= c",
    }
}

struct LookAhead {
    future: Arc<Future>,
    has_threshold: bool,
    /// `None` for `static`, which chooses once.
    interval: Option<u64>,
    window: u64,
    capacity: u64,
    stream: Stream,
    /// Makes the candidates' draws depend on the seed.
    salt: u64,
    c: f64,
    choices: u64,
    /// The shadow of the present cache.
    shadow: Shadow,
}

impl LookAhead {
    fn new(
        arguments: &Arguments<'_>,
        context: &BuildContext<'_>,
        future: &Arc<Future>,
    ) -> LookAhead {
        let mut stream = context.stream();
        LookAhead {
            future: future.clone(),
            has_threshold: arguments.get("shape") == Some(1),
            interval: arguments.get("interval"),
            window: arguments.get("window").unwrap_or(u64::MAX),
            capacity: context.capacity,
            salt: stream.bits(),
            stream,
            c: context.capacity as f64,
            choices: 0,
            shadow: Shadow::default(),
        }
    }

    /// Returns the c with the most hits in the window from the request `seq`, which the shadow has
    /// not seen.
    fn best(&self, seq: u64) -> f64 {
        let window = self.window(seq);
        let most = |log_cs: &[f64]| {
            let cs: Vec<f64> = log_cs.iter().map(|log_c| log_c.exp2()).collect();
            window
                .hits(&cs)
                .into_iter()
                .zip(cs)
                .max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))
        };
        let octaves: Vec<f64> = (0..=self.capacity.max(1).ilog2()).map(f64::from).collect();
        let Some(best) = most(&octaves) else {
            return self.c;
        };
        let beside = most(&[best.1.log2() - 0.5, best.1.log2() + 0.5]);
        let (_, c) = beside.filter(|beside| beside.0 > best.0).unwrap_or(best);
        c
    }

    /// Returns the window from the request `seq` on, starting with the present cache.
    fn window(&self, seq: u64) -> Window {
        let least_c = |place: usize, size: u64| match size <= self.capacity {
            true if self.has_threshold => size as f64,
            true => size as f64 / -self.coin(seq + place as u64).ln(),
            false => f64::INFINITY,
        };
        Window::new(
            &self.future,
            seq,
            self.window,
            &self.shadow,
            self.capacity,
            least_c,
        )
    }

    /// Returns a number that is uniform in [0, 1) and depends on the request.
    fn coin(&self, seq: u64) -> f64 {
        (mix(seq ^ self.salt) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Updates the shadow, because the cache has hit or stored the object. Does nothing after the
    /// last choice.
    fn follow(&mut self, request: &Request) {
        if self.interval.is_some() && !self.shadow.hit(request.id) {
            self.shadow.insert(request.id, request.size, self.capacity);
        }
    }

    fn admits(&self, size: u64, c: f64, coin: f64) -> bool {
        if self.has_threshold {
            size as f64 <= c
        } else {
            coin < chance(size, c)
        }
    }
}

impl Policy for LookAhead {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.shadow.shrink(capacity);
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "c_bytes",
            value: self.c,
        });
        out.push(Gauge {
            name: "choices",
            value: self.choices as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        self.shadow.bytes()
    }
}

impl Admit for LookAhead {
    fn on_request(&mut self, request: &Request, hit: bool) {
        let is_due = match self.interval {
            Some(interval) => (request.seq - 1).is_multiple_of(interval),
            None => request.seq == 1,
        };
        if is_due {
            self.c = self.best(request.seq);
            self.choices += 1;
        }
        // The cache may also hold objects that another stage, or a host that fills, has admitted.
        if hit {
            self.follow(request);
        }
    }

    fn admit(&mut self, request: &Request, _: &mut Cache<'_>) -> bool {
        let coin = self.stream.unit();
        let admitted = self.admits(request.size, self.c, coin);
        if admitted && request.size <= self.capacity {
            self.follow(request);
        }
        admitted
    }
}
