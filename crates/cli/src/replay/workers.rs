//! The caches of a sweep on all cores, with their processor time.

use super::progress::Progress;
use super::source::Source;
use crate::failure::Failure;
use larder_replay::{Access, Replay, Row, Sweep};
use larder_reproduce::thread_time;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One cache, and its processor time.
pub struct Cache {
    replay: Replay,
    busy: Duration,
}

impl Cache {
    pub fn new(replay: Replay) -> Cache {
        Cache {
            replay,
            busy: Duration::ZERO,
        }
    }

    fn take(&mut self, chunk: &[Access]) {
        let start = thread_time();
        self.replay.requests(chunk);
        self.busy += thread_time().saturating_sub(start);
    }

    fn row(&self, trace: &str) -> Row {
        let mut row = self.replay.row(trace);
        let seconds = self.busy.as_secs_f64();
        row.requests_per_second = if seconds > 0.0 {
            (row.requests as f64 / seconds).round()
        } else {
            0.0
        };
        row
    }
}

/// Replays the trace with all `caches`. Calls `keep` with the position and the row of each cache as
/// soon as it is finished.
///
/// # Errors
/// If the trace cannot be read, or `keep` fails.
pub fn replay(
    source: &Source<'_>,
    caches: Vec<Cache>,
    progress: &Progress,
    keep: impl FnMut(usize, Row) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    let rows = caches.len();
    let cores = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(rows);
    let sweep = Sweep::new(caches);
    let keep = Mutex::new(keep);
    let name = source.name();
    let take = |cache: &mut Cache, chunk: &[Access]| {
        cache.take(chunk);
        Ok(())
    };
    let finish = |place: usize, cache: Cache| {
        let mut keep = keep.lock().unwrap_or_else(PoisonError::into_inner);
        (*keep)(place, cache.row(&name))
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores)
            .map(|_| scope.spawn(|| sweep.work(take, finish)))
            .collect();
        let _guard = sweep.ends_on_panic();
        let read = source
            .chunks("replaying", progress, rows, |chunk| Ok(sweep.push(chunk)))
            .map(drop);
        sweep.end(read.is_err());
        // A worker that panicked passes its panic on.
        let kept = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        kept.fold(read, Result::and)
    })
}
