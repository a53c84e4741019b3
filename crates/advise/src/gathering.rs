//! Keeps a sample of the requests in memory, and describes the traffic.

use crate::error::AdviseError;
use larder_replay::survey::Report;
use larder_replay::{Access, Format, KeptSample, TraceReport, Unit};
use larder_units::Time;
use serde::Serialize;

/// The least number of objects in a sample. Below, the eight parts that tell the error have too few
/// each.
const LEAST_OBJECTS: u64 = 200;

/// Bytes that a node needs beside the body of an object in a web server's log: the key and the
/// header fields of a typical response, and its places in the tables (docs/guides/running.md).
const LOG_OVERHEAD: u64 = 512;

/// The traffic of all files.
#[derive(Serialize)]
pub struct Traffic {
    /// The names of the files.
    pub files: Vec<String>,
    /// Requests that count.
    pub requests: u64,
    /// Bytes of all requests.
    pub requested_bytes: f64,
    /// From the first to the last request; 0 in traces without times.
    pub seconds: f64,
    /// True for a web server's log, which does not have all that decides what may be stored.
    pub is_log: bool,
    /// True if a log has no hosts, so that equal paths of several sites would be one object.
    pub is_without_host: bool,
    /// What was not read, and why.
    pub left_out: Vec<String>,
    /// What was taken for granted, and how to say otherwise.
    pub guesses: Vec<String>,
    /// The share of the objects that was looked at.
    pub sample: f64,
    /// The number of all objects, which is an estimate if `sample` is below 1.
    pub objects: f64,
    /// Bytes of all objects, with the overhead: the capacity at which a cache never evicts.
    pub footprint: f64,
    /// The error of `footprint`, with 95 % of confidence.
    pub footprint_error: f64,
    /// Bytes beside the body of each object.
    pub overhead: u64,
    /// What capacities count.
    pub unit: Unit,
    /// The objects looked at, with the overhead.
    pub looked_at: Report,
}

impl Traffic {
    /// Returns how often an amount of this traffic happens in `seconds`, if it goes on as it was.
    pub fn in_seconds(&self, amount: f64, seconds: f64) -> Option<f64> {
        (self.seconds > 0.0).then(|| amount / self.seconds * seconds)
    }

    /// Checks that the objects have sizes, because `needed` needs them.
    ///
    /// # Errors
    /// [`AdviseError::NoSizes`] if they have none.
    pub fn check_sizes(&self, needed: &'static str) -> Result<(), AdviseError> {
        match self.unit {
            Unit::Bytes => Ok(()),
            Unit::Objects => Err(AdviseError::NoSizes(needed)),
        }
    }
}

/// Takes the requests of one or several traces, the oldest first.
pub struct Gathering {
    kept: KeptSample,
    names: Vec<String>,
    is_log: bool,
    times: Option<(Time, Time)>,
    is_without_host: bool,
    left_out: Vec<String>,
    guesses: Vec<String>,
}

/// The traffic, and the sample that caches are run over.
pub struct Gathered {
    /// What is known of all requests.
    pub traffic: Traffic,
    pub(crate) kept: KeptSample,
}

impl Gathering {
    /// Keeps at most `keep` requests in memory, 100 bytes each with all caches. With more requests
    /// it keeps those for a share of the objects, which `seed` chooses.
    pub fn new(keep: u64, seed: u64) -> Gathering {
        let kept = KeptSample::new(usize::try_from(keep).unwrap_or(usize::MAX), seed);
        Gathering {
            kept,
            names: Vec::new(),
            is_log: false,
            times: None,
            is_without_host: false,
            left_out: Vec::new(),
            guesses: Vec::new(),
        }
    }

    /// Begins another trace. A web server's log states the bytes sent, so each of its objects gets
    /// the largest size that it had, and the default of the overhead is another.
    pub fn begin(&mut self, name: impl Into<String>, format: Option<Format>) {
        self.names.push(name.into());
        self.is_log |= format == Some(Format::WEB_LOG);
    }

    /// Takes what the reader of the trace `name` says at its end.
    pub fn end(&mut self, name: &str, report: &TraceReport) {
        self.is_without_host |= report.reader.is_without_host;
        let named = |line: String| format!("{name}: {line}");
        self.left_out
            .extend(report.remarks().into_iter().map(named));
        for guess in &report.reader.guesses {
            if !self.guesses.contains(guess) {
                self.guesses.push(guess.clone());
            }
        }
    }

    /// Adds a remark on the files together.
    pub fn remark(&mut self, remark: String) {
        self.left_out.push(remark);
    }

    /// Takes the next requests.
    pub fn requests(&mut self, accesses: &[Access]) {
        self.kept.requests(accesses.iter().copied());
        for access in accesses {
            let (first, last) = self.times.unwrap_or((access.now, access.now));
            self.times = Some((first.min(access.now), last.max(access.now)));
        }
    }

    /// Requests taken.
    pub fn taken(&self) -> u64 {
        self.kept.sample().requests()
    }

    /// Describes the traffic. `overhead` is the bytes that a cache needs beside the body of each
    /// object; by default 512 for a web server's log, and 0 for other traces.
    ///
    /// # Errors
    /// If there was no request, or too few objects are left in the sample.
    pub fn finish(mut self, overhead: Option<u64>) -> Result<Gathered, AdviseError> {
        if self.taken() == 0 {
            return Err(AdviseError::NoRequest {
                files: self.names.join(", "),
                reasons: self.left_out,
            });
        }
        if self.is_log {
            self.kept.use_largest_sizes();
        }
        let unit = self.kept.sample().unit();
        let overhead = overhead.unwrap_or(if self.is_log && unit == Unit::Bytes {
            LOG_OVERHEAD
        } else {
            0
        });
        let requested_bytes = self.kept.sample().bytes();
        self.kept.add_overhead(overhead);
        let (first, last) = self.times.unwrap_or_default();
        let traffic = describe(self.names, requested_bytes, overhead, unit, &self.kept);
        let traffic = Traffic {
            seconds: last.since(first).as_secs_f64(),
            is_log: self.is_log,
            is_without_host: self.is_without_host,
            left_out: self.left_out,
            guesses: self.guesses,
            ..traffic
        };
        let objects = traffic.looked_at.objects;
        if traffic.sample < 1.0 && objects < LEAST_OBJECTS {
            return Err(AdviseError::TooFewObjects(objects));
        }
        Ok(Gathered {
            traffic,
            kept: self.kept,
        })
    }
}

fn describe(
    files: Vec<String>,
    requested_bytes: f64,
    overhead: u64,
    unit: Unit,
    kept: &KeptSample,
) -> Traffic {
    let looked_at = kept.survey().report();
    let (footprint, footprint_error) = kept.unique_bytes();
    let sample = kept.sample();
    Traffic {
        files,
        requests: sample.requests(),
        requested_bytes,
        seconds: looked_at.seconds,
        is_log: false,
        is_without_host: false,
        left_out: Vec::new(),
        guesses: Vec::new(),
        sample: sample.rate(),
        objects: looked_at.objects as f64 / sample.rate(),
        footprint,
        footprint_error,
        overhead,
        unit,
        looked_at,
    }
}
