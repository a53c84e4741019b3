//! AdaptSize: admits by size, with a parameter c that a Markov model of the cache tunes every Δ
//! requests (Berger, Sitaraman and Harchol-Balter, NSDI 2017, section 3).
//!
//! * Chance admits with the probability exp(−size/c), Threshold if size ≤ c. The paper combines
//!   them with LRU; any eviction works.
//! * Every request counts its object ([`statistics`]); after an interval a job smooths the counts,
//!   predicts the object hit ratio for any c ([`model`], [`foresight`]) and searches the best
//!   ([`search`]). The request path only counts; the host runs the job on any thread.
//!
//! Choices where the paper says nothing: c starts at 32 KiB (the authors' simulators; their Varnish
//! module starts at the capacity) and never exceeds the capacity. A search without a finite answer
//! leaves c unchanged. An object larger than the capacity is never admitted, and the model takes
//! this into account. The paper writes Chance both as exp(−size/c) and exp(−c·size); this uses the
//! first, because the paper's figures have c in bytes. A missed request is counted at admission,
//! when its size is known; one without an answer is not counted.
//!
//! Deviations. `adaptsize(model=paper, interval=250000)` undoes all of them:
//! * The search maximises the theorem's prediction for each request from the *other* requests
//!   ([`foresight`]), not Lemma 2 over the counts, which expects objects with one request to
//!   return.
//! * The theorem is computed exactly; the published form is wrong if p is small ([`published`]).
//! * The interval follows the cache and the catalogue: four times the stored objects, at least
//!   25,000 and at most 250,000 requests, and longer while fewer than 12,500 requests are repeats.
//!   Short intervals follow changes, long ones measure rare objects: with 30,000 / 100,000 /
//!   250,000 / 500,000 a CDN's web class (1 GiB) has .827 / .847 / .844 / .842, its mix .444 / .494
//!   / .518 / .515, Twitter's cluster 52 (5 MiB) .816 / .816 / .809 / .804.
//!
//!  object hit ratio, with LRU | web 1 GiB | mix 1 GiB | Twitter 5 MiB | web and mix alternating |
//! | --- | --- | --- | --- | --- |
//! | LRU alone | .640 | .227 | .816 | |
//! | default | .850 | .513 | .814 | .661 |
//! | `threshold` | .828 | .470 | .816 | .637 |
//! | `prototype` | .845 | .499 | .816 | .655 |
//! | `model=paper` | .853 | .500 | .806 | .663 |
//! | `model=paper,interval=250000` | .839 | .500 | .805 | .660 |
//!
//! `prototype` is Chance as the authors' Varnish module computes it, with integer division: an
//! object smaller than c is always admitted, one up to 2c with the chance 1/e, and so on. The
//! module's tuner, like the one here, models it as Chance.
//!
//! O(1) a request; at most 40 bytes for each object requested in the last intervals (which may be
//! more objects than are stored), within fixed bounds.

pub mod bins;
pub mod foresight;
pub mod model;
mod published;
mod search;
mod statistics;

use crate::Request;
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::scale::Scale;
use crate::traits::{Admit, Cache, Gauge, Policy, Work};
use bins::Shape;
use foresight::Foresight;
use larder_units::Stream;
use model::Form;
use statistics::{Counts, History};
use std::any::Any;

/// Longest interval of AdaptSize, in requests. It bounds the statistics, as `MAX_COUNTED_OBJECTS`
/// does.
const MAX_INTERVAL: u64 = 1_000_000;

/// Shortest interval of AdaptSize. Below a thousand requests every object seems to be requested
/// once.
const MIN_INTERVAL: u64 = 1_000;

/// Least and most requests of AdaptSize's derived interval, if enough of them are repeats. The
/// maximum is the paper's interval; with fewer than the minimum, the rates of most objects are 0 or
/// 1.
const DERIVED_INTERVALS: [u64; 2] = [25_000, 250_000];

/// Requests of AdaptSize's derived interval for each stored object: two to four requests for an
/// object that is just worth storing.
const REQUESTS_PER_OBJECT: u64 = 4;

/// AdaptSize's derived interval continues until this many requests are repeats. The model learns
/// only from repeats, and each of some thousand bins should have a few.
const LEAST_REPEATS: u64 = 12_500;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "adaptsize",
    citation: "Berger, Sitaraman, Harchol-Balter, AdaptSize: orchestrating the hot object memory cache in a content delivery network, NSDI 2017",
    summary: "admits small objects, with a size parameter tuned by a Markov model of the cache",
    parameters: &[
        Parameter {
            name: "shape",
            unit: "",
            values: Values::Choice(&["chance", "threshold", "prototype"]),
            default: Preset::Value("chance"),
            doc: "admits with the probability exp(-size/c), where size <= c, or with exp(-floor(size/c))",
        },
        Parameter {
            name: "model",
            unit: "",
            values: Values::Choice(&["exact", "paper"]),
            default: Preset::Value("exact"),
            doc: "exact: the theorem, each request predicted by the others; paper: as published, with its errors",
        },
        Parameter {
            name: "interval",
            unit: "requests",
            values: Values::Integer(MIN_INTERVAL, MAX_INTERVAL),
            default: Preset::Derived(
                "four times the objects stored, 25000 to 250000, longer where few repeat; the paper: 250000",
            ),
            doc: "requests from one tuning of c to the next",
        },
        Parameter {
            name: "start",
            unit: "bytes",
            values: Values::Bytes(1, u64::MAX),
            default: Preset::Value("32KiB"),
            doc: "c before the first tuning",
        },
    ],
    complexity: "O(1), and a search of some 10 ms an interval as a job",
    bytes_an_object: 40,
    needs_path: false,
    build: Build::Admission(|arguments, context| Ok(Box::new(AdaptSize::new(arguments, context)))),
};

struct AdaptSize {
    shape: Shape,
    is_prototype: bool,
    form: Form,
    stream: Stream,
    scale: Scale,
    /// The capacity of the whole cache, of which this may be a miniature.
    capacity: u64,
    /// In requests; `None` if it is derived.
    interval: Option<u64>,
    /// The number of stored objects at the last query.
    stored: u64,
    c: f64,
    counts: Counts,
    /// `None` while a job holds it.
    history: Option<History>,
    predicted: f64,
    tunings: u64,
}

/// The result of a job.
struct Tuned {
    history: History,
    /// c in bytes, and the object hit ratio that is predicted with it; `None` without a finite
    /// answer.
    best: Option<(f64, f64)>,
}

impl AdaptSize {
    fn new(arguments: &Arguments<'_>, context: &BuildContext<'_>) -> AdaptSize {
        let capacity = context.scale.full(context.capacity);
        let start = arguments
            .get("start")
            .unwrap_or(32 << 10)
            .min(capacity)
            .max(1);
        AdaptSize {
            shape: if arguments.get("shape") == Some(1) {
                Shape::Threshold
            } else {
                Shape::Chance
            },
            is_prototype: arguments.get("shape") == Some(2),
            form: if arguments.get("model") == Some(1) {
                Form::Published
            } else {
                Form::Exact
            },
            stream: context.stream(),
            scale: context.scale,
            capacity,
            interval: arguments.get("interval"),
            stored: 0,
            c: start as f64,
            counts: Counts::default(),
            history: Some(History::default()),
            predicted: 0.0,
            tunings: 0,
        }
    }
}

impl AdaptSize {
    fn is_due(&self) -> bool {
        let requests = self.counts.requests();
        match self.interval {
            Some(interval) => requests >= interval,
            None => {
                // A miniature has a part of the requests, and of the objects.
                let scaled = |requests| self.scale.requests(requests);
                let [least, most] = DERIVED_INTERVALS.map(scaled);
                requests >= (REQUESTS_PER_OBJECT * self.stored).clamp(least, most)
                    && (self.counts.repeats() >= scaled(LEAST_REPEATS)
                        || requests >= scaled(MAX_INTERVAL))
            }
        }
    }
}

impl Admit for AdaptSize {
    fn prefetch(&self, id: u64) {
        self.counts.prefetch(id);
    }

    fn on_request(&mut self, request: &Request, hit: bool) {
        if hit {
            self.counts.count(request.id, request.size);
        }
    }

    fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool {
        self.stored = cache.len() as u64;
        self.counts.count(request.id, request.size);
        let size = self.scale.size(request.size);
        match self.shape {
            Shape::Threshold => size as f64 <= self.c,
            Shape::Chance => {
                let parts = size as f64 / self.c;
                self.stream.chance(
                    (-if self.is_prototype {
                        parts.floor()
                    } else {
                        parts
                    })
                    .exp(),
                )
            }
        }
    }
}

impl Policy for AdaptSize {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = self.scale.full(capacity);
        let capacity = self.capacity;
        self.c = self.c.min(capacity as f64).max(1.0);
    }

    fn work(&mut self) -> Option<Work> {
        if !self.is_due() {
            return None;
        }
        let mut history = self.history.take()?;
        let counts = std::mem::take(&mut self.counts);
        let (capacity, shape, form) = (self.capacity as f64, self.shape, self.form);
        let scale = self.scale;
        Some(Box::new(move || {
            history.smooth(counts);
            let foresight = Foresight::weighted(history.objects(scale), capacity, shape);
            let best = match form {
                Form::Exact => foresight.best(),
                Form::Published => foresight.model.in_form(form).best(),
            };
            Box::new(Tuned { history, best })
        }))
    }

    fn complete(&mut self, result: Box<dyn Any + Send>) {
        if let Ok(tuned) = result.downcast::<Tuned>() {
            self.history = Some(tuned.history);
            self.tunings += 1;
            if let Some((c, predicted)) = tuned.best {
                self.c = c.min(self.capacity as f64).max(1.0);
                self.predicted = predicted;
            }
        }
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "c_bytes",
            value: self.c,
        });
        out.push(Gauge {
            name: "predicted_object_hit_ratio",
            value: self.predicted,
        });
        out.push(Gauge {
            name: "tunings",
            value: self.tunings as f64,
        });
        let objects = self.counts.len() + self.history.as_ref().map_or(0, History::len);
        let bytes = self.state_bytes() as f64;
        out.push(Gauge {
            name: "statistics_bytes",
            value: bytes,
        });
        out.push(Gauge {
            name: "bytes_a_counted_object",
            value: bytes / objects.max(1) as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        self.counts.bytes() + self.history.as_ref().map_or(0, History::bytes)
    }
}
