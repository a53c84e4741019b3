//! Long work beside the interpreter: signals and progress.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time between two looks for signals. The package promises that Ctrl-C takes 0.1 s.
const LOOK: Duration = Duration::from_millis(50);

/// The shared state of long work: workers count what is done, and stop when they should.
#[derive(Default)]
pub struct Watch {
    stops: AtomicBool,
    done: AtomicU64,
    working: Mutex<usize>,
    ended: Condvar,
}

/// How long work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All of it is done.
    Whole,
    /// Ctrl-C ended it early.
    Interrupted,
}

/// Runs work whose parts are of no use: Ctrl-C is an error here. `work` looks at its watch now and
/// then. `progress` is called with the finished units.
///
/// # Errors
/// The error of `work`, of `progress` or of a signal's handler; KeyboardInterrupt after Ctrl-C.
pub fn whole<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl Fn(&Watch) -> PyResult<T> + Sync,
) -> PyResult<T> {
    let (watch, result) = (Watch::default(), Mutex::new(None));
    let run = |_| {
        let found = work(&watch)?;
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Ok(())
    };
    let end = watch.run(py, 1, progress, run, || ())?;
    let found = result.into_inner().unwrap_or_else(PoisonError::into_inner);
    found
        .filter(|_| end == End::Whole)
        .ok_or_else(|| PyKeyboardInterrupt::new_err(()))
}

/// Runs work that looks at no watch, such as sorting, on a thread of its own. Returns `None` if the
/// work stops meanwhile: the thread is left behind, and ends by itself.
pub fn unless_stopped<T: Send + 'static>(
    watch: &Watch,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if watch.stops() {
        return None;
    }
    let (ends, ended) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let _ends = ends;
        work()
    });
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        if watch.stops() {
            return None;
        }
    }
    Some(
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    )
}

impl Watch {
    /// Returns true if the workers have to stop.
    pub fn stops(&self) -> bool {
        self.stops.load(Relaxed)
    }

    /// Adds finished units of work.
    pub fn advance(&self, units: u64) {
        self.done.fetch_add(units, Relaxed);
    }

    /// Runs `work` on `threads` threads without the interpreter's lock, and returns when all have
    /// ended. Meanwhile this thread looks for signals and calls `progress` with the finished units.
    /// `on_stop` wakes workers that wait for something.
    ///
    /// # Errors
    /// The first error of a worker, of `progress` or of a signal's handler. KeyboardInterrupt is no
    /// error: the workers stop.
    pub fn run(
        &self,
        py: Python<'_>,
        threads: usize,
        progress: Option<&Py<PyAny>>,
        work: impl Fn(usize) -> PyResult<()> + Sync,
        on_stop: impl Fn() + Sync,
    ) -> PyResult<End> {
        py.detach(|| {
            *self.working() = threads;
            std::thread::scope(|scope| {
                let begin = |nth: usize| {
                    let work = &work;
                    let on_stop = &on_stop;
                    scope.spawn(move || {
                        let _leave = Leave(self);
                        work(nth).inspect_err(|_| {
                            self.stops.store(true, Relaxed);
                            on_stop();
                        })
                    })
                };
                let workers: Vec<_> = (0..threads).map(begin).collect();
                let watched = self.wait(progress);
                if !matches!(watched, Ok(End::Whole)) {
                    self.stops.store(true, Relaxed);
                    on_stop();
                }
                let join = |worker: std::thread::ScopedJoinHandle<'_, PyResult<()>>| {
                    worker
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                let worked: Vec<PyResult<()>> = workers.into_iter().map(join).collect();
                worked.into_iter().collect::<PyResult<()>>()?;
                watched
            })
        })
    }

    /// Waits for the end of all workers.
    fn wait(&self, progress: Option<&Py<PyAny>>) -> PyResult<End> {
        let mut working = self.working();
        while *working > 0 {
            working = self
                .ended
                .wait_timeout(working, LOOK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if *working == 0 {
                break;
            }
            drop(working);
            let looked = Python::attach(|py| {
                py.check_signals()?;
                progress.map_or(Ok(()), |progress| {
                    progress.call1(py, (self.done.load(Relaxed),)).map(drop)
                })
            });
            if let Err(error) = looked {
                let is_interrupt =
                    Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py));
                return if is_interrupt {
                    Ok(End::Interrupted)
                } else {
                    Err(error)
                };
            }
            working = self.working();
        }
        Ok(End::Whole)
    }

    fn working(&self) -> MutexGuard<'_, usize> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a worker's end, also by a panic.
struct Leave<'a>(&'a Watch);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        *self.0.working() -= 1;
        self.0.ended.notify_all();
    }
}
