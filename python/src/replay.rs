//! `larder_cache.replay`: every policy at every size with every seed, on all cores.

use crate::cell::Cell;
use crate::python_policy::{Failure, PythonPolicy};
use crate::sweep::sweep;
use crate::trace::{Requests, Source, wrong};
use crate::watch::{End, Watch};
use larder_policy::{Engine, Future, FutureBuilder, Spec};
use larder_replay::{Breakdown, Replay, Size, Window};
use larder_units::ByteSize;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

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
struct Common<'a> {
    trace: &'a str,
    fill: bool,
    warm_up: usize,
    breakdown: Breakdown,
    future: Option<Arc<Future>>,
}

/// Returns the finished rows as JSON, and whether all are finished. `windows` is a unit ("requests"
/// or "ns") and a length.
#[pyfunction]
#[pyo3(signature = (source, policies, sizes, *, seeds, warmup, fill, windows, size_classes, evictions, progress, threads))]
#[allow(
    clippy::too_many_arguments,
    reason = "the keyword arguments of a function in Python"
)]
pub fn replay(
    py: Python<'_>,
    source: &Source,
    policies: Vec<PolicyArgument>,
    sizes: Vec<String>,
    seeds: Vec<u64>,
    warmup: usize,
    fill: bool,
    windows: Option<(String, u64)>,
    size_classes: bool,
    evictions: bool,
    progress: Option<Py<PyAny>>,
    threads: Option<usize>,
) -> PyResult<(Vec<String>, bool)> {
    let policies: Vec<Chosen> = policies
        .into_iter()
        .map(Chosen::of)
        .collect::<PyResult<_>>()?;
    let sizes: Vec<Size> = sizes
        .iter()
        .map(|size| size.parse().map_err(wrong))
        .collect::<PyResult<_>>()?;
    let window = windows.map(|(unit, length)| match unit.as_str() {
        "requests" => Window::Requests(length),
        _ => Window::Nanos(length),
    });
    let breakdown = Breakdown {
        window,
        size_classes,
        evictions,
    };
    let borrowed = source.borrow(py)?;
    let requests = borrowed.requests()?;
    let is_offline = |policy: &Chosen| matches!(policy, Chosen::Spec(spec) if spec.is_offline());
    check_units(py, source, &requests, &sizes)?;
    let needs_totals = sizes.iter().any(|size| size.bytes().is_none());
    let measured = measure(
        py,
        source,
        &requests,
        needs_totals,
        policies.iter().any(is_offline),
    )?;
    let Some((unique_bytes, future)) = measured else {
        return Ok((Vec::new(), false));
    };
    let mut plans = Vec::new();
    for policy in &policies {
        for size in &sizes {
            let capacity = size.of(unique_bytes).map_err(wrong)?;
            plans.extend(seeds.iter().map(|seed| Plan {
                policy,
                capacity,
                seed: *seed,
            }));
        }
    }
    let common = Common {
        trace: source.trace_name(),
        fill,
        warm_up: warmup,
        breakdown,
        future,
    };
    // A fault in a spec is reported before the work.
    for plan in plans
        .iter()
        .filter(|plan| matches!(plan.policy, Chosen::Spec(_)))
    {
        plan.cell(&common)?;
    }
    sweep(
        py,
        &requests,
        plans.len(),
        |place| plans[place].cell(&common),
        progress.as_ref(),
        threads,
    )
}

/// Checks that sizes with a unit of bytes have a meaning for the trace.
///
/// # Errors
/// If they have none, or the trace cannot be read.
pub fn check_units(
    py: Python<'_>,
    source: &Source,
    requests: &Requests<'_>,
    sizes: &[Size],
) -> PyResult<()> {
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
///
/// # Errors
/// If the trace cannot be read, has no request, or is too long to be foreseen.
pub fn measure(
    py: Python<'_>,
    source: &Source,
    requests: &Requests<'_>,
    needs_totals: bool,
    needs_future: bool,
) -> PyResult<Option<(u64, Option<Arc<Future>>)>> {
    let (watch, measured) = (Watch::default(), Mutex::new(None));
    let read = |_| {
        let unique_bytes = if needs_totals {
            source.unique_bytes(requests, &watch)?
        } else {
            0
        };
        let mut future = needs_future.then(FutureBuilder::default);
        if let Some(future) = &mut future {
            requests.chunks(|chunk| {
                chunk
                    .iter()
                    .try_for_each(|access| future.push(access.id, access.size))
                    .map_err(wrong)?;
                Ok(!watch.stops())
            })?;
        }
        let found = (unique_bytes, future.map(|future| Arc::new(future.build())));
        *measured.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Ok(())
    };
    let end = watch.run(py, 1, None, read, || ())?;
    let measured = measured
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    Ok(measured.filter(|_| end == End::Whole))
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
    fn cell(&self, common: &Common<'_>) -> PyResult<Cell> {
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
                (
                    Replay::over(engine, self.seed),
                    Some((name.clone(), failure)),
                )
            }
        };
        let replay = if common.fill {
            replay.filling()
        } else {
            replay
        };
        Ok(Cell::new(
            common.trace,
            replay,
            common.warm_up,
            common.breakdown,
            python,
        ))
    }
}
