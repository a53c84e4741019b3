//! Reads the logs into a sample in memory, and describes the traffic.

use crate::failure::Failure;
use crate::layout::Layout;
use crate::progress::Bar;
use crate::replay::progress::Progress;
use crate::trace_file;
use larder_replay::survey::Report;
use larder_replay::{Format, KeptSample, Unit};
use larder_units::Time;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// The requests read at a time.
const CHUNK_REQUESTS: usize = 1 << 16;

/// The least number of objects in a sample. Below, the eight parts that tell the error have too few
/// each.
const LEAST_OBJECTS: u64 = 200;

/// Bytes that a node needs beside the body of an object in a web server's log: the key and the
/// header fields of a typical response, and its places in the tables (docs/operation.md).
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
}

/// The way in which the files are read.
pub struct Reading<'a> {
    pub layout: &'a Layout,
    /// The most requests to keep in memory.
    pub keep: u64,
    pub seed: u64,
    /// Bytes beside the body of each object, if they are given.
    pub overhead: Option<u64>,
}

/// Reads all files.
///
/// # Errors
/// If one cannot be read, none has a request, or too few objects are left in the sample.
pub fn gather(files: &[PathBuf], reading: &Reading<'_>, bar: &Arc<Bar>) -> Result<(Traffic, KeptSample), Failure> {
    trace_file::check_once(files.iter().map(PathBuf::as_path))?;
    let progress = Progress::on(bar.clone());
    progress.add(files.iter().map(|path| trace_file::units(path)).sum());
    let mut kept = KeptSample::new(usize::try_from(reading.keep).unwrap_or(usize::MAX), reading.seed);
    let mut chunk = Vec::new();
    let (mut names, mut is_log) = (Vec::new(), false);
    let mut times: Option<(Time, Time)> = None;
    for path in files {
        let mut trace = reading.layout.open_once(path)?;
        is_log |= trace.format() == Format::WEB_LOG;
        let name = trace_file::name(path);
        loop {
            trace.read_many(&mut chunk, CHUNK_REQUESTS).map_err(|error| Failure::usage(error.to_string()))?;
            if chunk.is_empty() {
                break;
            }
            kept.requests(chunk.iter().copied());
            for access in &chunk {
                let (first, last) = times.unwrap_or((access.now, access.now));
                times = Some((first.min(access.now), last.max(access.now)));
            }
            progress.at("reading", &name, kept.sample().requests(), trace.progress(), trace_file::units(path));
        }
        progress.done(trace_file::units(path));
        names.push(name);
    }
    if kept.sample().requests() == 0 {
        return Err(Failure::usage(format!("{}: no request was read", names.join(", "))));
    }
    if is_log {
        kept.use_largest_sizes();
    }
    let unit = kept.sample().unit();
    let overhead = reading.overhead.unwrap_or(if is_log && unit == Unit::Bytes { LOG_OVERHEAD } else { 0 });
    let requested_bytes = kept.sample().bytes();
    kept.add_overhead(overhead);
    let (first, last) = times.unwrap_or_default();
    let traffic = describe(names, requested_bytes, overhead, unit, &kept);
    let traffic = Traffic { seconds: last.since(first).as_secs_f64(), ..traffic };
    let objects = traffic.looked_at.objects;
    if traffic.sample < 1.0 && objects < LEAST_OBJECTS {
        return Err(Failure::usage(format!(
            "--keep {}: only {objects} objects are left in the sample, too few to judge by; keep more requests",
            reading.keep
        )));
    }
    Ok((traffic, kept))
}

fn describe(files: Vec<String>, requested_bytes: f64, overhead: u64, unit: Unit, kept: &KeptSample) -> Traffic {
    let looked_at = kept.survey().report();
    let (footprint, footprint_error) = kept.unique_bytes();
    let sample = kept.sample();
    Traffic {
        files,
        requests: sample.requests(),
        requested_bytes,
        seconds: looked_at.seconds,
        sample: sample.rate(),
        objects: looked_at.objects as f64 / sample.rate(),
        footprint,
        footprint_error,
        overhead,
        unit,
        looked_at,
    }
}
