//! Every policy at every size, over the sample in memory, on all cores.

use super::gather::Traffic;
use crate::failure::Failure;
use crate::progress::Bar;
use larder_policy::Spec;
use larder_replay::limits::CURVE_MAX_BYTES;
use larder_replay::{Curve, KeptSample, Point, Size, Unit};
use larder_units::ByteSize;
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The number of sizes that are compared by default.
const SIZES: u32 = 10;

/// The requests that a cache is given at a time, so that its scratch space stays small.
const CHUNK_REQUESTS: usize = 1 << 14;

/// A policy at a size.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    pub policy: String,
    /// Bytes, or objects if they have no sizes.
    pub capacity: u64,
    /// The share of the requests that hit, and its error with 95 % of confidence; 0 if exact.
    pub object_hit_ratio: f64,
    pub object_error: f64,
    /// The share of the bytes that hit, and its error.
    pub byte_hit_ratio: f64,
    pub byte_error: f64,
    /// True if the policy behaves otherwise in a small cache than in a large one: then the true
    /// errors are larger than those stated.
    pub error_is_least: bool,
}

/// Returns the sizes to compare, in bytes, ascending and distinct.
///
/// # Errors
/// If a share is less than a byte, a size is beyond measure, or a size in bytes has no meaning for
/// objects without sizes.
pub fn sizes(typed: &[Size], traffic: &Traffic) -> Result<Vec<u64>, Failure> {
    let all = (traffic.footprint + traffic.footprint_error).ceil() as u64;
    let mut sizes: Vec<u64> = match typed.is_empty() {
        true => (0..SIZES).map(|halvings| (all >> halvings).max(1)).collect(),
        false => typed
            .iter()
            .map(|size| size.of(all).map(ByteSize::bytes).map_err(Failure::refused))
            .collect::<Result<_, _>>()?,
    };
    let in_bytes = typed.iter().find(|size| matches!(size, Size::Bytes(_)) && traffic.unit == Unit::Objects);
    if let Some(size) = in_bytes {
        return Err(Failure::usage(format!(
            "the objects have no sizes, so a cache of {size} has no meaning; give a number of objects (1000) or a share (10%)"
        )));
    }
    if let Some(size) = sizes.iter().find(|size| **size > CURVE_MAX_BYTES) {
        return Err(Failure::usage(format!("size {size} is above {CURVE_MAX_BYTES} bytes (8 PiB)")));
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

/// Runs all caches. Returns the candidates in the order of the policies, each from the smallest
/// size to the largest.
///
/// # Errors
/// If a policy refuses its arguments at one of the sizes.
pub fn run(
    specs: &[Spec],
    sizes: &[u64],
    kept: &KeptSample,
    traffic: &Traffic,
    seed: u64,
    bar: &Bar,
) -> Result<Vec<Candidate>, Failure> {
    let cells: Vec<(&Spec, u64)> = specs.iter().flat_map(|spec| sizes.iter().map(move |size| (spec, *size))).collect();
    let refused = |error: larder_policy::SpecError| Failure::usage(error.to_string());
    let cache = |(spec, size): (&Spec, u64)| {
        let cache = Curve::miniature(spec, ByteSize::from_bytes(size), kept.sample(), seed);
        cache.map(Curve::filling).map_err(refused)
    };
    // A fault in a spec is reported before the work.
    cells.iter().try_for_each(|cell| cache(*cell).map(drop))?;
    let each = kept.requests_kept().len() as u64;
    bar.add(each * cells.len() as u64);
    bar.set_message(format!("comparing {} policies at {} sizes", specs.len(), sizes.len()));
    let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![None; cells.len()]));
    let work = || -> Result<(), Failure> {
        loop {
            let place = next.fetch_add(1, Relaxed);
            let Some(cell) = cells.get(place) else { return Ok(()) };
            let mut curve = cache(*cell)?;
            kept.requests_kept().chunks(CHUNK_REQUESTS).for_each(|chunk| curve.requests(chunk));
            let point = curve.points(kept.sample())[0];
            found.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(candidate(cell.0, point, traffic));
            bar.advance(each);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(cells.len());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect())
}

/// The cache counted the overhead of every object as bytes of it. The byte hit ratio is that of the
/// bodies: their missed bytes are the missed bytes without the overhead of the missed objects.
fn candidate(spec: &Spec, point: Point, traffic: &Traffic) -> Candidate {
    let overhead = traffic.requests as f64 * traffic.overhead as f64;
    let all = traffic.requested_bytes + overhead;
    let missed = (1.0 - point.byte_hit_ratio) * all - (1.0 - point.object_hit_ratio) * overhead;
    let (byte_hit_ratio, scale) = match traffic.requested_bytes > 0.0 {
        true => (1.0 - missed / traffic.requested_bytes, all / traffic.requested_bytes),
        false => (0.0, 0.0),
    };
    Candidate {
        policy: spec.to_string(),
        capacity: point.capacity,
        object_hit_ratio: point.object_hit_ratio,
        object_error: point.object_error,
        byte_hit_ratio: byte_hit_ratio.clamp(0.0, 1.0),
        byte_error: point.byte_error * scale,
        error_is_least: point.error_is_least,
    }
}
