//! Runs tasks on all cores, and reports their progress.

use crate::{Error, Report};
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::time::Duration;

/// Receives the progress of the work, for a progress bar. The experiment defines its units, which
/// are mostly requests.
pub trait Watch: Sync {
    /// An experiment of about `units` of work starts.
    fn begin(&self, what: &str, units: u64);
    /// Names the part that runs now.
    fn now(&self, _part: &str) {}
    /// This many units are done.
    fn advance(&self, units: u64);
    /// Something was left out; one line with the reason.
    fn warn(&self, line: &str);
    /// Returns true if the work must end. A paper that builds networks removes them first
    /// ([`Paper::builds_networks`](crate::Paper::builds_networks)).
    fn is_stopped(&self) -> bool {
        false
    }
    /// An experiment has ended; `report` has all results so far.
    ///
    /// # Errors
    /// [`Error`] if the report cannot be stored, which ends the reproduction.
    fn ended(&self, report: &Report) -> Result<(), Error>;
}

/// Ignores the progress.
pub struct Unwatched;

impl Watch for Unwatched {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn warn(&self, _: &str) {}
    fn ended(&self, _: &Report) -> Result<(), Error> {
        Ok(())
    }
}

/// Returns the processor time of this thread, which does not depend on other programs.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// Runs all `tasks`, with one thread per core, and returns their results in the order of the tasks.
/// Each thread takes the next free task, so long tasks should come first.
///
/// # Panics
/// If a task panics.
pub fn on_all_cores<T: Send, R: Send>(tasks: Vec<T>, run: impl Fn(T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(tasks.len());
    let queue = Mutex::new(tasks.into_iter().enumerate());
    // Only a panic poisons it, and the scope passes the panic on.
    let next = || queue.lock().ok()?.next();
    let worker = || {
        std::iter::from_fn(next)
            .map(|(at, task)| (at, run(task)))
            .collect::<Vec<_>>()
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_another_order() {
        let squares = on_all_cores((0..100_u64).rev().collect(), |n| n * n);
        assert_eq!(squares, (0..100).rev().map(|n| n * n).collect::<Vec<u64>>());
        assert!(on_all_cores(Vec::<u64>::new(), |n| n).is_empty());
    }
}
