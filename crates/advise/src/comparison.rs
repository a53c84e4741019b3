//! Every policy at every size, over the sample in memory, on all cores.

use crate::advice::Advice;
use crate::candidate::Candidate;
use crate::choice::Choice;
use crate::error::AdviseError;
use crate::gathering::{Gathered, Traffic};
use crate::question::Question;
use larder_policy::{Spec, SpecError};
use larder_replay::limits::CURVE_MAX_BYTES;
use larder_replay::{Curve, Miniature, Size, Unit};
use larder_units::ByteSize;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The number of sizes that are compared by default.
const SIZES: u32 = 10;

/// The requests that a cache is given at a time: its scratch space stays small, and a host that
/// ends the work waits some milliseconds.
const CHUNK_REQUESTS: usize = 1 << 13;

/// The caches to run.
pub struct Comparison<'a> {
    question: &'a Question,
    gathered: Gathered,
    /// Bytes, or objects if they have no sizes: ascending and distinct.
    sizes: Vec<u64>,
}

impl<'a> Comparison<'a> {
    /// Returns the caches that answer this question.
    ///
    /// # Errors
    /// As [`Question::check`]. If a share is less than a byte, a size is beyond measure, a size in
    /// bytes has no meaning for objects without sizes, a policy refuses its parameters at one of
    /// the sizes, or the traffic lacks the sizes or times that prices need.
    pub fn new(question: &'a Question, gathered: Gathered) -> Result<Self, AdviseError> {
        question.check()?;
        if question.prices.is_some() {
            gathered.traffic.check_sizes("costs")?;
            if gathered.traffic.seconds == 0.0 {
                return Err(AdviseError::NoTimes);
            }
        }
        let sizes = sizes(&question.sizes, &gathered.traffic)?;
        let comparison = Comparison {
            question,
            gathered,
            sizes,
        };
        comparison
            .cells()
            .try_for_each(|(spec, size)| comparison.cache(spec, size).map(drop))?;
        Ok(comparison)
    }

    /// The capacities in bytes, or in objects if they have no sizes: ascending and distinct.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The requests that all caches get in total.
    pub fn requests(&self) -> u64 {
        (self.gathered.kept.requests_kept().len() * self.cells().count()) as u64
    }

    /// Runs all caches, and chooses one. `goes_on` is called with the numbers of requests that are
    /// done, by any thread; the work ends if it returns false.
    ///
    /// # Errors
    /// [`AdviseError::Stopped`] if `goes_on` ended the work.
    pub fn advice(self, goes_on: impl Fn(u64) -> bool + Sync) -> Result<Advice, AdviseError> {
        let candidates = self.run(goes_on)?;
        let (question, traffic) = (self.question, self.gathered.traffic);
        let choice = Choice::new(&candidates, &traffic, question.goal, question.prices);
        Ok(Advice {
            traffic,
            candidates,
            choice,
        })
    }

    /// Returns the candidates in the order of the policies, each from the smallest size to the
    /// largest.
    fn run(&self, goes_on: impl Fn(u64) -> bool + Sync) -> Result<Vec<Candidate>, AdviseError> {
        let Gathered { traffic, kept } = &self.gathered;
        let cells: Vec<(&Spec, u64)> = self.cells().collect();
        let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![None; cells.len()]));
        let work = || -> Result<(), AdviseError> {
            loop {
                let place = next.fetch_add(1, Relaxed);
                let Some((spec, size)) = cells.get(place) else {
                    return Ok(());
                };
                let mut curve = self.cache(spec, *size)?;
                for chunk in kept.requests_kept().chunks(CHUNK_REQUESTS) {
                    curve.requests(chunk);
                    if !goes_on(chunk.len() as u64) {
                        return Err(AdviseError::Stopped);
                    }
                }
                let point = curve.points(kept.sample())[0];
                found.lock().unwrap_or_else(PoisonError::into_inner)[place] =
                    Some(Candidate::new(spec, point, traffic));
            }
        };
        let cores = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(cells.len());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })?;
        Ok(found
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .into_iter()
            .flatten()
            .collect())
    }

    fn cells(&self) -> impl Iterator<Item = (&Spec, u64)> {
        self.question
            .policies
            .iter()
            .flat_map(|spec| self.sizes.iter().map(move |size| (spec, *size)))
    }

    fn cache(&self, spec: &Spec, size: u64) -> Result<Curve<Miniature>, SpecError> {
        let sample = self.gathered.kept.sample();
        Curve::miniature(spec, ByteSize::from_bytes(size), sample, self.question.seed)
            .map(Curve::filling)
    }
}

/// Returns the sizes to compare, in bytes, ascending and distinct.
fn sizes(typed: &[Size], traffic: &Traffic) -> Result<Vec<u64>, AdviseError> {
    let all = (traffic.footprint + traffic.footprint_error).ceil() as u64;
    let mut sizes: Vec<u64> = if typed.is_empty() {
        (0..SIZES)
            .map(|halvings| (all >> halvings).max(1))
            .collect()
    } else {
        typed
            .iter()
            .map(|size| size.of(all).map(ByteSize::bytes))
            .collect::<Result<_, _>>()?
    };
    let in_bytes = typed
        .iter()
        .find(|size| matches!(size, Size::Bytes(_)) && traffic.unit == Unit::Objects);
    if let Some(size) = in_bytes {
        return Err(AdviseError::BytesOfObjects(*size));
    }
    if let Some(size) = sizes.iter().find(|size| **size > CURVE_MAX_BYTES) {
        return Err(AdviseError::TooLarge(*size));
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}
