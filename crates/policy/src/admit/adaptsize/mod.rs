//! AdaptSize: admits by size, with a parameter c that a Markov model of the cache tunes every Δ requests (Berger, Sitaraman and
//! Harchol-Balter, NSDI 2017, section 3).
//!
//! * Chance admits with the probability exp(−size/c), Threshold where size ≤ c. LRU is meant to stand behind, any eviction may.
//! * Every request counts its object ([`statistics`]); after Δ requests a job smooths the counts, predicts the object hit ratio for any c
//!   ([`model`]) and searches the best ([`search`]). The request path only counts; the job runs wherever the host likes.
//!
//! Where the paper is silent: c starts at 32 KiB (the authors' simulators; their Varnish module starts at the capacity) and never exceeds
//! the capacity; a search without a finite answer leaves c as it is; an object that is larger than the capacity is never admitted, and the
//! model knows it. The paper writes Chance both as exp(−size/c) and exp(−c·size); the first is meant (its figures have c in bytes).
//! A missed request is counted when its size is known, at admission; one that is never answered is not counted.
//!
//! One deviation, in [`model`]: the prediction must come true within `horizon` intervals. Object hit ratios with the horizon 1 / 4 / 16 / as
//! in the paper: traffic of a CDN's web class, 1 GiB, .813 / .823 / .826 / .822; of its mix, .465 / .503 / .520 / .536; Twitter's cluster
//! 52, 5 MiB, .815 / .810 / .805 / .761 (LRU .816). Stable traffic wants it long, changing traffic short; 4 loses little anywhere.
//!
//! Known weakness, the paper's own: an object seen once looks as if it came once every interval, so the predicted ratio is too high (by some
//! four points on independent requests, more on a trace of objects seen once).
//!
//! O(1) a request; 20 to 40 bytes for each object requested in the last intervals (not for each stored).

pub mod model;
mod search;
mod statistics;

use crate::Request;
use crate::engine::Cache;
use crate::limits::{ADAPTSIZE_MAX_INTERVAL, ADAPTSIZE_MIN_INTERVAL};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::registry::{Build, PolicyEntry, Setting};
use crate::traits::{Admit, Gauge, Policy, Work};
use larder_units::Stream;
use model::{Model, Shape};
use statistics::{Counts, History};
use std::any::Any;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "adaptsize",
    citation: "Berger, Sitaraman, Harchol-Balter, AdaptSize: orchestrating the hot object memory cache in a content delivery network, NSDI 2017",
    summary: "admits small objects, with a size parameter tuned by a Markov model of the cache",
    parameters: &[
        Parameter {
            name: "admission",
            unit: "",
            values: Values::Choice(&["chance", "threshold"]),
            default: Preset::Value("chance"),
            doc: "admit with the probability exp(-size/c), or where size <= c",
        },
        Parameter {
            name: "interval",
            unit: "requests",
            values: Values::Integer(ADAPTSIZE_MIN_INTERVAL, ADAPTSIZE_MAX_INTERVAL),
            default: Preset::Value("250000"),
            doc: "requests from one tuning of c to the next",
        },
        Parameter {
            name: "horizon",
            unit: "intervals",
            values: Values::Integer(1, u64::MAX),
            default: Preset::Value("4"),
            doc: "time in which the model must reach what it predicts, from an empty cache",
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
    build: Build::Admission(|arguments, setting| Ok(Box::new(AdaptSize::new(arguments, setting)))),
};

struct AdaptSize {
    shape: Shape,
    stream: Stream,
    capacity: u64,
    interval: u64,
    /// In intervals.
    horizon: f64,
    c: f64,
    counts: Counts,
    /// `None` while a job has it.
    history: Option<History>,
    predicted: f64,
    tunings: u64,
}

/// What a job brings back.
struct Tuned {
    history: History,
    /// `None`: no finite answer.
    c: Option<f64>,
    /// The object hit ratio with it, in the long run.
    predicted: f64,
}

impl AdaptSize {
    fn new(arguments: &Arguments<'_>, setting: &Setting<'_>) -> AdaptSize {
        let start = arguments.get("start").unwrap_or(32 << 10).min(setting.capacity).max(1);
        AdaptSize {
            shape: if arguments.get("admission") == Some(1) { Shape::Threshold } else { Shape::Chance },
            stream: setting.stream(),
            capacity: setting.capacity,
            interval: arguments.get("interval").unwrap_or(250_000),
            horizon: arguments.get("horizon").unwrap_or(4) as f64,
            c: start as f64,
            counts: Counts::default(),
            history: Some(History::default()),
            predicted: 0.0,
            tunings: 0,
        }
    }
}

impl Admit for AdaptSize {
    fn on_request(&mut self, request: &Request, hit: bool) {
        if hit {
            self.counts.count(request.id, request.size);
        }
    }

    fn admit(&mut self, request: &Request, _: &mut Cache<'_>) -> bool {
        self.counts.count(request.id, request.size);
        match self.shape {
            Shape::Threshold => request.size as f64 <= self.c,
            Shape::Chance => self.stream.chance((-(request.size as f64) / self.c).exp()),
        }
    }
}

impl Policy for AdaptSize {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.c = self.c.min(capacity as f64).max(1.0);
    }

    fn work(&mut self) -> Option<Work> {
        if self.counts.requests() < self.interval {
            return None;
        }
        let mut history = self.history.take()?;
        let counts = std::mem::take(&mut self.counts);
        let (capacity, shape, horizon) = (self.capacity, self.shape, self.horizon);
        Some(Box::new(move || {
            history.smooth(counts);
            let mut model = Model { bins: history.bins(), capacity: capacity as f64, shape, horizon };
            let c = search::best(&model);
            model.horizon = f64::INFINITY;
            let predicted = c.map_or(f64::NAN, |c| model.hit_ratio(c));
            Box::new(Tuned { history, c, predicted })
        }))
    }

    fn complete(&mut self, result: Box<dyn Any + Send>) {
        if let Ok(tuned) = result.downcast::<Tuned>() {
            self.history = Some(tuned.history);
            self.tunings += 1;
            if let Some(c) = tuned.c {
                self.c = c.min(self.capacity as f64).max(1.0);
                self.predicted = tuned.predicted;
            }
        }
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge { name: "c_bytes", value: self.c });
        out.push(Gauge { name: "predicted_object_hit_ratio", value: self.predicted });
        out.push(Gauge { name: "tunings", value: self.tunings as f64 });
    }

    fn state_bytes(&self) -> usize {
        self.counts.bytes() + self.history.as_ref().map_or(0, History::bytes)
    }
}
