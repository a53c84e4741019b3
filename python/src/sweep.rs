//! Several caches over one trace, on all cores.
//!
//! Over arrays, each core takes one cache after another, so a cache is finished early and few of
//! them are in memory. A file is read once for all caches ([`Sweep`]), so they are finished at its
//! end.

use crate::trace::{Requests, wrong};
use crate::watch::{End, Watch};
use larder_replay::{Access, Sweep};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The largest number of caches in one call. Those of a file stay in memory until it ends.
const MAX_ROWS: usize = 10_000;

/// The requests that a worker copies out of the arrays at a time, 400 kB.
const CHUNK_REQUESTS: usize = 1 << 14;

/// A cache that gets the requests of a trace.
pub trait Cache: Send {
    /// Takes the next requests, unless the work stops meanwhile.
    ///
    /// # Errors
    /// The exception of a policy in Python.
    fn take(&mut self, chunk: &[Access], watch: &Watch) -> PyResult<()>;

    /// Returns the rows, each as JSON.
    ///
    /// # Errors
    /// If the trace was too short.
    fn rows(self) -> PyResult<Vec<String>>;
}

/// Passes the trace to `caches` caches on `threads` threads; without a number, on all cores.
/// Returns the rows of those that are finished, in their order, and whether all are.
///
/// # Errors
/// If the trace cannot be read, a cache cannot be made, or one fails.
pub fn sweep<C: Cache>(
    py: Python<'_>,
    requests: &Requests<'_>,
    caches: usize,
    make: impl Fn(usize) -> PyResult<C> + Sync,
    progress: Option<&Py<PyAny>>,
    threads: Option<usize>,
) -> PyResult<(Vec<String>, bool)> {
    if caches > MAX_ROWS {
        return Err(wrong(format!(
            "{caches} rows, more than {MAX_ROWS}; call it several times"
        )));
    }
    let finished = Mutex::new(Vec::new());
    let keep = |place: usize, cache: C| {
        let rows = cache.rows()?;
        finished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((place, rows));
        Ok(())
    };
    let all_cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let cores = threads.unwrap_or_else(all_cores).clamp(1, caches.max(1));
    let watch = Watch::default();
    let end = match requests {
        Requests::Columns(columns) => {
            let next = AtomicUsize::new(0);
            let work = |_| {
                let mut chunk = Vec::new();
                loop {
                    let place = next.fetch_add(1, Relaxed);
                    if place >= caches || watch.stops() {
                        return Ok(());
                    }
                    let mut cache = make(place)?;
                    for start in (0..columns.len()).step_by(CHUNK_REQUESTS) {
                        columns.read(start, CHUNK_REQUESTS, &mut chunk);
                        cache.take(&chunk, &watch)?;
                        if watch.stops() {
                            return Ok(());
                        }
                    }
                    keep(place, cache)?;
                }
            };
            watch.run(py, cores, progress, work, || ())?
        }
        Requests::File(_) => {
            let sweep = Sweep::new((0..caches).map(make).collect::<PyResult<Vec<C>>>()?);
            let work = |nth| match nth {
                0 => {
                    let _guard = sweep.ends_on_panic();
                    let read = requests.chunks(|chunk| Ok(sweep.push(chunk) && !watch.stops()));
                    sweep.end(read.is_err() || watch.stops());
                    read.map(drop)
                }
                _ => sweep.work(|cache: &mut C, chunk| cache.take(chunk, &watch), keep),
            };
            watch.run(py, 1 + cores, progress, work, || sweep.end(true))?
        }
    };
    let mut finished = finished
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    finished.sort_unstable_by_key(|(place, _)| *place);
    Ok((
        finished.into_iter().flat_map(|(_, rows)| rows).collect(),
        end == End::Whole,
    ))
}
