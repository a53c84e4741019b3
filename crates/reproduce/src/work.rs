//! All cores, and whoever watches the work.

use crate::{Error, Report};
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::time::Duration;

/// Receives the progress of the work: a progress bar. Units are what the experiment says they are,
/// mostly requests.
pub trait Watch: Sync {
    /// An experiment begins that is about `units` of work.
    fn begin(&self, what: &str, units: u64);
    /// What of it runs now.
    fn now(&self, _part: &str) {}
    /// So much of it has been done.
    fn advance(&self, units: u64);
    /// Something was left out, and why: one line.
    fn warn(&self, line: &str);
    /// Whether the work is to end: what builds networks takes them down first
    /// ([`Paper::builds_networks`](crate::Paper::builds_networks)).
    fn is_stopped(&self) -> bool {
        false
    }
    /// An experiment has ended; all that the report can say by now.
    ///
    /// # Errors
    /// [`Error`] that ends the reproduction: what it finds can no longer be kept.
    fn ended(&self, report: &Report) -> Result<(), Error>;
}

/// Watches nothing.
pub struct Unwatched;

impl Watch for Unwatched {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn warn(&self, _: &str) {}
    fn ended(&self, _: &Report) -> Result<(), Error> {
        Ok(())
    }
}

/// Processor time of this thread: what other programs do on the machine does not count.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Runs all `tasks`, a thread a core, and gives their results in the tasks' order. Each thread
/// takes the next task that nobody has, so the long ones should come first.
pub fn on_all_cores<T: Send, R: Send>(tasks: Vec<T>, run: impl Fn(T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(tasks.len());
    let queue = Mutex::new(tasks.into_iter().enumerate());
    // Poisoned only by a panic, which the scope passes on.
    let next = || queue.lock().ok()?.next();
    let worker = || std::iter::from_fn(next).map(|(at, task)| (at, run(task))).collect::<Vec<_>>();
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
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
