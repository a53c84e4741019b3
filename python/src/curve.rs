//! `larder_cache.curve` and `predict`: hit ratios over the size, from a sample or from models.

use crate::replay::{check_units, measure};
use crate::sweep::{Cache, sweep};
use crate::trace::{Source, survey, wrong};
use crate::watch::{Watch, whole};
use larder_policy::Spec;
use larder_replay::model::{HistoryLength, ModelParameters, Modelled, Popularity, Prediction};
use larder_replay::{
    Access, Curve, LruCurve, Miniature, Point, Sample, Sampled, Size, Unit, spaced_sizes,
};
use larder_units::ByteSize;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde::Serialize;

/// The requests between two looks whether the work stops: some milliseconds of the slowest policy.
const STEP_REQUESTS: usize = 1 << 13;

/// The largest size of a curve: beyond it, a float holds no whole numbers.
const LARGEST: u64 = 1 << 53;

/// LRU's whole curve, or one point of another policy.
enum Line {
    Lru(Curve<LruCurve>),
    Cache(Curve<Miniature>),
}

/// A line with its sample.
struct Sampler {
    trace: String,
    policy: String,
    sample: Sample,
    line: Line,
    sampled: Vec<Sampled>,
}

/// A row of the table, by the names that `larder curve` prints.
#[derive(Serialize)]
struct CurveRow<'a> {
    trace: &'a str,
    policy: &'a str,
    sample: f64,
    requests: u64,
    unit: Unit,
    #[serde(flatten)]
    point: Point,
}

impl Cache for Sampler {
    fn take(&mut self, chunk: &[Access], watch: &Watch) -> PyResult<()> {
        for step in chunk.chunks(STEP_REQUESTS) {
            if watch.stops() {
                break;
            }
            self.sampled.clear();
            self.sampled
                .extend(step.iter().filter_map(|access| self.sample.take(access)));
            match &mut self.line {
                Line::Lru(curve) => curve.requests(&self.sampled),
                Line::Cache(curve) => curve.requests(&self.sampled),
            }
            watch.advance(step.len() as u64);
        }
        Ok(())
    }

    fn rows(self) -> PyResult<Vec<String>> {
        let (rate, points) = match &self.line {
            Line::Lru(curve) => (curve.rate(), curve.points(&self.sample)),
            Line::Cache(curve) => (curve.rate(), curve.points(&self.sample)),
        };
        let row = |point| CurveRow {
            trace: &self.trace,
            policy: &self.policy,
            sample: rate,
            requests: self.sample.requests(),
            unit: self.sample.unit(),
            point,
        };
        points
            .into_iter()
            .map(|point| serde_json::to_string(&row(point)).map_err(wrong))
            .collect()
    }
}

/// Returns the finished points as JSON, and whether all are finished. Without `sizes`, there are
/// `points` of them.
#[pyfunction]
#[pyo3(signature = (source, policies, sizes, *, points, sample, seed, fill, progress))]
#[allow(
    clippy::too_many_arguments,
    reason = "the keyword arguments of a function in Python"
)]
pub fn curve(
    py: Python<'_>,
    source: &Source,
    policies: Vec<String>,
    sizes: Vec<String>,
    points: usize,
    sample: f64,
    seed: u64,
    fill: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<String>, bool)> {
    let specs: Vec<Spec> = policies
        .iter()
        .map(|policy| policy.parse().map_err(wrong))
        .collect::<PyResult<_>>()?;
    if let Some(spec) = specs.iter().find(|spec| spec.is_offline()) {
        return Err(wrong(format!(
            "{spec} knows the trace in advance, which a sample does not show; replay() runs it"
        )));
    }
    let sampled = Sample::of(sample, seed);
    let sampled = sampled.ok_or_else(|| {
        wrong(format!(
            "sample {sample}: a share above 0, up to 1, such as 0.01"
        ))
    })?;
    let Some(capacities) = capacities(py, source, &sizes, points)? else {
        return Ok((Vec::new(), false));
    };
    let sampled = sampled.for_caches(&specs, &capacities);
    let borrowed = source.borrow(py)?;
    let lines: Vec<(&Spec, Option<u64>)> = specs
        .iter()
        .flat_map(|spec| lines(spec, &capacities))
        .collect();
    let make = |place: usize| {
        let (spec, capacity) = lines[place];
        let line = match capacity {
            None => Line::Lru(Curve::lru(&capacities, &sampled)),
            Some(capacity) => {
                let cache = Curve::miniature(spec, ByteSize::from_bytes(capacity), &sampled, seed)
                    .map_err(wrong)?;
                Line::Cache(if fill { cache.filling() } else { cache })
            }
        };
        let (trace, policy) = (source.trace_name().to_owned(), spec.to_string());
        Ok(Sampler {
            trace,
            policy,
            sample: sampled.clone(),
            line,
            sampled: Vec::new(),
        })
    };
    // A fault in a spec is reported before the work.
    (0..lines.len()).try_for_each(|place| make(place).map(drop))?;
    sweep(
        py,
        &borrowed.requests()?,
        lines.len(),
        make,
        progress.as_ref(),
        None,
    )
}

/// Returns the lines of a policy: LRU has one for all capacities.
fn lines<'a>(spec: &'a Spec, capacities: &[u64]) -> Vec<(&'a Spec, Option<u64>)> {
    match spec.to_string().as_str() {
        "lru" => vec![(spec, None)],
        _ => capacities
            .iter()
            .map(|capacity| (spec, Some(*capacity)))
            .collect(),
    }
}

/// Returns the sizes in bytes, ascending and distinct; `None` if interrupted.
fn capacities(
    py: Python<'_>,
    source: &Source,
    sizes: &[String],
    points: usize,
) -> PyResult<Option<Vec<u64>>> {
    let sizes: Vec<Size> = sizes
        .iter()
        .map(|size| size.parse().map_err(wrong))
        .collect::<PyResult<_>>()?;
    let borrowed = source.borrow(py)?;
    let requests = borrowed.requests()?;
    check_units(py, source, &requests, &sizes)?;
    let needs_totals = sizes.is_empty() || sizes.iter().any(|size| size.bytes().is_none());
    let Some((unique_bytes, _)) = measure(py, source, &requests, needs_totals, false)? else {
        return Ok(None);
    };
    let mut capacities: Vec<u64> = if sizes.is_empty() {
        spaced_sizes(unique_bytes, points)
    } else {
        let bytes = sizes
            .iter()
            .map(|size| size.of(unique_bytes).map(ByteSize::bytes).map_err(wrong));
        bytes.collect::<PyResult<_>>()?
    };
    if let Some(large) = capacities.iter().find(|capacity| **capacity > LARGEST) {
        return Err(wrong(format!("size {large}: a curve ends at {LARGEST}")));
    }
    capacities.sort_unstable();
    capacities.dedup();
    Ok(Some(capacities))
}

/// A row of the table of predictions.
#[derive(Serialize)]
struct PredictionRow<'a> {
    trace: &'a str,
    policy: Option<String>,
    model: &'static str,
    capacity: u64,
    unit: Unit,
    #[serde(flatten)]
    predicted: Prediction,
}

/// Returns the predictions of the models of the literature as JSON, and notes on parameters that
/// were changed to what a policy accepts.
#[pyfunction]
#[pyo3(signature = (source, sizes, *, theta, window, table, admit))]
pub fn predict(
    py: Python<'_>,
    source: &Source,
    sizes: Vec<String>,
    theta: u16,
    window: Option<u64>,
    table: u64,
    admit: Option<String>,
) -> PyResult<(Vec<String>, Vec<String>)> {
    let size = |c: String| {
        c.parse::<ByteSize>()
            .map_err(|error| wrong(format!("admit={c}: {error}")))
    };
    let admit = admit.map(size).transpose()?;
    let parameters = ModelParameters {
        theta,
        window,
        table,
        admit,
    };
    parameters.check().map_err(wrong)?;
    let Some(capacities) = capacities(py, source, &sizes, 0)? else {
        return Err(PyKeyboardInterrupt::new_err(()));
    };
    let borrowed = source.borrow(py)?;
    let requests = borrowed.requests()?;
    let popularity = whole(py, None, |watch| {
        survey(&requests, || !watch.stops()).map(|survey| Popularity::of(&survey))
    })?;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for capacity in capacities {
        let size = ByteSize::from_bytes(capacity);
        let HistoryLength { used, derived } = parameters.history(&popularity, size);
        if used != derived {
            notes.push(format!(
                "size {capacity}: Filter's history has {used} requests, not one an object that fits ({derived})"
            ));
        }
        let (trace, unit) = (source.trace_name(), popularity.unit());
        for Modelled {
            model,
            policy,
            predicted,
        } in parameters.models(&popularity, size)
        {
            let row = PredictionRow {
                trace,
                policy,
                model,
                capacity,
                unit,
                predicted,
            };
            rows.push(serde_json::to_string(&row).map_err(wrong)?);
        }
    }
    Ok((rows, notes))
}
