//! One cache with one policy, at one size, with one seed.

use crate::python_policy::Failure;
use crate::sweep::Cache;
use crate::trace::wrong;
use crate::watch::Watch;
use larder_replay::{Access, Breakdown, Figures, Replay, Row};
use pyo3::prelude::*;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The least and the most requests between two looks whether the work stops. A policy in Python may
/// take a millisecond for one, and one in Rust 50 ns.
const STEP_REQUESTS: std::ops::RangeInclusive<usize> = 16..=1 << 14;

/// The time that a step may take, about, on the clock: a policy may wait for a file or a device. It
/// is short beside the tenth of a second in which Ctrl-C works.
const STEP: Duration = Duration::from_millis(8);

/// A cache during a replay.
pub struct Cell {
    trace: String,
    replay: Replay,
    figures: Option<Figures>,
    /// The name of a policy in Python, and the place of its exceptions.
    python: Option<(String, Arc<Failure>)>,
    busy: Duration,
    /// Requests until the warm-up is over.
    warm_up_left: usize,
    /// The number of requests of the next step.
    step: usize,
}

/// A row of the table: what the command line prints, and the counts behind the ratios.
#[derive(Serialize)]
struct WholeRow {
    #[serde(flatten)]
    row: Row,
    insertions: u64,
    bytes: u64,
    hit_bytes: u64,
    #[serde(flatten)]
    figures: Option<Figures>,
}

impl Cell {
    /// Returns a cell over an empty cache, whose first `warm_up` requests count in no figure.
    pub fn new(
        trace: &str,
        replay: Replay,
        warm_up: usize,
        breakdown: Breakdown,
        python: Option<(String, Arc<Failure>)>,
    ) -> Cell {
        Cell {
            trace: trace.to_owned(),
            replay,
            figures: (breakdown != Breakdown::default()).then(|| Figures::new(breakdown)),
            python,
            busy: Duration::ZERO,
            warm_up_left: warm_up,
            step: *STEP_REQUESTS.start(),
        }
    }

    fn requests(&mut self, accesses: &[Access]) {
        match &mut self.figures {
            Some(figures) => self.replay.requests_with(accesses, figures),
            None => self.replay.requests(accesses),
        };
    }
}

impl Cache for Cell {
    fn take(&mut self, chunk: &[Access], watch: &Watch) -> PyResult<()> {
        let mut rest = chunk;
        while !rest.is_empty() && !watch.stops() {
            let step = match self.warm_up_left {
                0 => self.step,
                left => left.min(self.step),
            };
            let (now, later) = rest.split_at(step.min(rest.len()));
            let (begun, start) = (Instant::now(), thread_time());
            match &self.python {
                // The lock is taken once for many calls, and other threads get it between them.
                Some((_, failure)) => {
                    let failure = failure.clone();
                    Python::attach(|_| self.requests(now));
                    failure.check()?;
                }
                None => self.requests(now),
            }
            self.busy += thread_time().saturating_sub(start);
            let step = if begun.elapsed() > STEP {
                self.step / 2
            } else {
                self.step * 2
            };
            self.step = step.clamp(*STEP_REQUESTS.start(), *STEP_REQUESTS.end());
            if self.warm_up_left > 0 {
                self.warm_up_left -= now.len();
                if self.warm_up_left == 0 {
                    self.replay.reset_counts();
                    self.figures.iter_mut().for_each(Figures::reset);
                    self.busy = Duration::ZERO;
                }
            }
            watch.advance(now.len() as u64);
            rest = later;
        }
        Ok(())
    }

    fn rows(self) -> PyResult<Vec<String>> {
        let mut row = self.replay.row(&self.trace);
        if self.warm_up_left > 0 {
            return Err(wrong(format!(
                "warmup: the trace {} ended {} requests before the warm-up; give fewer",
                self.trace, self.warm_up_left
            )));
        }
        let seconds = self.busy.as_secs_f64();
        row.requests_per_second = if seconds > 0.0 {
            (row.requests as f64 / seconds).round()
        } else {
            0.0
        };
        let counts = self.replay.counts();
        if let Some((name, _)) = &self.python {
            row.policy.clone_from(name);
        }
        let (insertions, bytes, hit_bytes) = (counts.insertions, counts.bytes, counts.hit_bytes);
        let whole = WholeRow {
            row,
            insertions,
            bytes,
            hit_bytes,
            figures: self.figures,
        };
        // The policy's objects are dropped under the lock.
        Python::attach(|_| drop(self.replay));
        Ok(vec![serde_json::to_string(&whole).map_err(wrong)?])
    }
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}
