//! `larder_cache.replay`: every policy at every size with every seed, on all cores.
//!
//! Over arrays, each core replays one cache after another, so a row is finished early and few
//! caches are in memory. A file is read once for all caches ([`Sweep`]), so rows are finished at
//! its end.

use crate::cell::Cell;
use crate::python_policy::{Failure, PythonPolicy};
use crate::trace::{Requests, Source, wrong};
use crate::watch::{End, Watch};
use larder_policy::{Engine, Future, FutureBuilder, Spec};
use larder_replay::{Access, Replay, Size, Sweep};
use larder_units::ByteSize;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The largest number of rows in one call. The caches of a file stay in memory until it ends.
const MAX_ROWS: usize = 10_000;

/// The requests that a worker copies out of the arrays at a time, 400 kB.
const CHUNK_REQUESTS: usize = 1 << 14;

/// A policy as an argument: a spec, or a name and a function that makes a policy from a capacity
/// and a seed.
#[derive(FromPyObject)]
pub enum PolicyArgument {
    /// A policy of the registry.
    Spec(String),
    /// A policy in Python.
    Python(String, Py<PyAny>),
}

/// A checked [`PolicyArgument`].
enum Chosen {
    Spec(Spec),
    Python(String, Py<PyAny>),
}

/// One row to compute.
struct Plan<'a> {
    policy: &'a Chosen,
    capacity: ByteSize,
    seed: u64,
}

/// What all rows of a call have in common.
struct Common {
    fill: bool,
    warm_up: usize,
    future: Option<Arc<Future>>,
}

/// Returns the finished rows as JSON with their places, and whether all are finished.
#[pyfunction]
#[pyo3(signature = (source, policies, sizes, *, seeds, warmup, fill, progress))]
#[allow(clippy::too_many_arguments, reason = "the keyword arguments of a function in Python")]
pub fn replay(
    py: Python<'_>,
    source: &Source,
    policies: Vec<PolicyArgument>,
    sizes: Vec<String>,
    seeds: Vec<u64>,
    warmup: usize,
    fill: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<String>, bool)> {
    let policies: Vec<Chosen> = policies.into_iter().map(Chosen::of).collect::<PyResult<_>>()?;
    let sizes: Vec<Size> = sizes.iter().map(|size| size.parse().map_err(wrong)).collect::<PyResult<_>>()?;
    let rows = policies.len().saturating_mul(sizes.len()).saturating_mul(seeds.len());
    if rows > MAX_ROWS {
        return Err(wrong(format!("{rows} rows, more than {MAX_ROWS}; call replay several times")));
    }
    let borrowed = source.borrow(py)?;
    let requests = borrowed.requests()?;
    let watch = Watch::default();
    let is_offline = |policy: &Chosen| matches!(policy, Chosen::Spec(spec) if spec.is_offline());
    check_units(py, source, &requests, &sizes)?;
    let needs_totals = sizes.iter().any(|size| size.bytes().is_none());
    let measured = measure(py, source, &requests, &watch, needs_totals, policies.iter().any(is_offline))?;
    let Some((unique_bytes, future)) = measured else {
        return Ok((Vec::new(), false));
    };
    let mut plans = Vec::new();
    for policy in &policies {
        for size in &sizes {
            let capacity = size.of(unique_bytes).map_err(wrong)?;
            plans.extend(seeds.iter().map(|seed| Plan { policy, capacity, seed: *seed }));
        }
    }
    let common = Common { fill, warm_up: warmup, future };
    // A fault in a spec is reported before the work.
    for plan in plans.iter().filter(|plan| matches!(plan.policy, Chosen::Spec(_))) {
        plan.cell(&common)?;
    }
    let watch = Watch::default();
    let finished = Mutex::new(Vec::new());
    let keep = |place: usize, cell: Cell| {
        let row = cell.row(source.trace_name())?;
        finished.lock().unwrap_or_else(PoisonError::into_inner).push((place, row));
        Ok(())
    };
    let end = match &requests {
        Requests::Columns(_) => in_memory(py, &requests, &plans, &common, &watch, progress.as_ref(), &keep)?,
        Requests::File(_) => from_file(py, &requests, &plans, &common, &watch, progress.as_ref(), &keep)?,
    };
    let mut finished = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    finished.sort_unstable_by_key(|(place, _)| *place);
    Ok((finished.into_iter().map(|(_, row)| row).collect(), end == End::Whole))
}

/// Checks that sizes with a unit of bytes have a meaning for the trace.
fn check_units(py: Python<'_>, source: &Source, requests: &Requests<'_>, sizes: &[Size]) -> PyResult<()> {
    let in_bytes = sizes.iter().find(|size| matches!(size, Size::Bytes(_)));
    match in_bytes {
        Some(size) if !py.detach(|| requests.has_sizes())? => Err(wrong(format!(
            "{}: its objects have no sizes, so a cache of {size} has no meaning; give a number of objects (1000) or a share (0.1)",
            source.trace_name()
        ))),
        _ => Ok(()),
    }
}

/// Reads the trace for the bytes of all objects, if a size is a share of them, and for its future,
/// if a policy needs it. `None`: interrupted.
fn measure(
    py: Python<'_>,
    source: &Source,
    requests: &Requests<'_>,
    watch: &Watch,
    needs_totals: bool,
    needs_future: bool,
) -> PyResult<Option<(u64, Option<Arc<Future>>)>> {
    let measured = Mutex::new(None);
    let read = |_| {
        let unique_bytes = match needs_totals {
            true => source.unique_bytes(requests, watch)?,
            false => 0,
        };
        let mut future = needs_future.then(FutureBuilder::default);
        if let Some(future) = &mut future {
            requests.chunks(|chunk| {
                chunk.iter().try_for_each(|access| future.push(access.id, access.size)).map_err(wrong)?;
                Ok(!watch.stops())
            })?;
        }
        let found = (unique_bytes, future.map(|future| Arc::new(future.build())));
        *measured.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Ok(())
    };
    let end = watch.run(py, 1, None, read, || ())?;
    let measured = measured.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(measured.filter(|_| end == End::Whole))
}

/// Replays one cache after another on each core.
fn in_memory(
    py: Python<'_>,
    requests: &Requests<'_>,
    plans: &[Plan<'_>],
    common: &Common,
    watch: &Watch,
    progress: Option<&Py<PyAny>>,
    keep: &(impl Fn(usize, Cell) -> PyResult<()> + Sync),
) -> PyResult<End> {
    let Requests::Columns(columns) = requests else { unreachable!("the caller has looked") };
    let next = AtomicUsize::new(0);
    let work = |_| {
        let mut chunk = Vec::new();
        loop {
            let place = next.fetch_add(1, Relaxed);
            let Some(plan) = plans.get(place).filter(|_| !watch.stops()) else { return Ok(()) };
            let mut cell = plan.cell(common)?;
            for start in (0..columns.len()).step_by(CHUNK_REQUESTS) {
                columns.read(start, CHUNK_REQUESTS, &mut chunk);
                cell.take(&chunk, watch)?;
                if watch.stops() {
                    return Ok(());
                }
            }
            keep(place, cell)?;
        }
    };
    watch.run(py, cores().min(plans.len()), progress, work, || ())
}

/// Replays all caches over one reading of a file.
fn from_file(
    py: Python<'_>,
    requests: &Requests<'_>,
    plans: &[Plan<'_>],
    common: &Common,
    watch: &Watch,
    progress: Option<&Py<PyAny>>,
    keep: &(impl Fn(usize, Cell) -> PyResult<()> + Sync),
) -> PyResult<End> {
    let cells: Vec<Cell> = plans.iter().map(|plan| plan.cell(common)).collect::<PyResult<_>>()?;
    let sweep = Sweep::new(cells);
    let work = |nth| {
        if nth == 0 {
            let read = requests.chunks(|chunk| Ok(sweep.push(chunk) && !watch.stops()));
            sweep.end(read.is_err() || watch.stops());
            return read;
        }
        let take = |cell: &mut Cell, chunk: &[Access]| cell.take(chunk, watch);
        sweep.work(take, keep)
    };
    watch.run(py, 1 + cores().min(plans.len()), progress, work, || sweep.end(true))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Chosen {
    fn of(argument: PolicyArgument) -> PyResult<Chosen> {
        Ok(match argument {
            PolicyArgument::Spec(text) => Chosen::Spec(text.parse().map_err(wrong)?),
            PolicyArgument::Python(name, make) => Chosen::Python(name, make),
        })
    }
}

impl Plan<'_> {
    /// Returns an empty cache.
    fn cell(&self, common: &Common) -> PyResult<Cell> {
        let (replay, python) = match self.policy {
            Chosen::Spec(spec) => {
                let replay = match &common.future {
                    Some(future) => Replay::foreseeing(spec, self.capacity, self.seed, future),
                    None => Replay::new(spec, self.capacity, self.seed),
                };
                (replay.map_err(wrong)?, None)
            }
            Chosen::Python(name, make) => {
                let failure = Arc::new(Failure::default());
                let policy = Python::attach(|py| {
                    let policy = make.bind(py).call1((self.capacity.bytes(), self.seed))?;
                    PythonPolicy::new(&policy, failure.clone())
                })?;
                let engine = Engine::with(self.capacity, Vec::new(), Box::new(policy));
                (Replay::over(engine, self.seed), Some((name.clone(), failure)))
            }
        };
        Ok(Cell::new(if common.fill { replay.filling() } else { replay }, common.warm_up, python))
    }
}
