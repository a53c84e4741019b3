//! `larder_cache.advise`: which cache to run, by the crate that `larder advise` asks.

use crate::merged::Merged;
use crate::trace::{Requests, Source, wrong};
use crate::watch::{Watch, unless_stopped, whole};
use larder_advise::{Advice, AdviseError, Comparison, Gathering, Goal, POLICIES, Prices, Question};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// The advice as JSON, and as it is shown.
#[derive(IntoPyObject)]
pub struct Shown {
    json: String,
    sentences: Vec<String>,
    text: String,
    page: String,
    /// Of caches in bytes.
    config: Option<String>,
}

/// Returns the advice. The traces are merged by time. Without policies and sizes, there are
/// those of `larder advise`.
#[pyfunction]
#[pyo3(signature = (sources, policies, sizes, *, goal, egress, memory, overhead, keep, seed, progress))]
#[allow(
    clippy::too_many_arguments,
    reason = "the keyword arguments of a function in Python"
)]
pub fn advise(
    py: Python<'_>,
    sources: Vec<Py<Source>>,
    policies: Vec<String>,
    sizes: Vec<String>,
    goal: &str,
    egress: Option<&str>,
    memory: Option<&str>,
    overhead: Option<u64>,
    keep: u64,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Shown> {
    let policies = if policies.is_empty() {
        POLICIES.split(',').map(str::to_owned).collect()
    } else {
        policies
    };
    let question = Question {
        policies: policies
            .iter()
            .map(|policy| policy.parse().map_err(wrong))
            .collect::<PyResult<_>>()?,
        sizes: sizes
            .iter()
            .map(|size| size.parse().map_err(wrong))
            .collect::<PyResult<_>>()?,
        goal: match goal {
            "requests" => Goal::Requests,
            "bytes" => Goal::Bytes,
            _ => {
                return Err(wrong(format!(
                    "goal {goal:?}: give \"requests\" or \"bytes\""
                )));
            }
        },
        prices: prices(egress, memory)?,
        seed,
    };
    question.check().map_err(wrong)?;
    let borrowed = sources
        .iter()
        .map(|source| source.get().borrow(py))
        .collect::<PyResult<Vec<_>>>()?;
    let requests = borrowed
        .iter()
        .map(|borrowed| borrowed.requests())
        .collect::<PyResult<Vec<_>>>()?;
    let names = sources.iter().map(|source| source.get().trace_name());
    let traces: Vec<(&str, Requests<'_>)> = names.zip(requests).collect();
    let advice = whole(py, progress.as_ref(), |watch| {
        let gathering = read(&traces, Gathering::new(keep, seed), watch)?;
        // It sorts millions of objects.
        let gathered = unless_stopped(watch, move || gathering.finish(overhead));
        let advice = gathered
            .unwrap_or(Err(AdviseError::Stopped))
            .and_then(|gathered| Comparison::new(&question, gathered))
            .and_then(|comparison| {
                comparison.advice(|requests| {
                    watch.advance(requests);
                    !watch.stops()
                })
            });
        match advice {
            Ok(advice) => shown(&advice).map(Some),
            Err(AdviseError::Stopped) => Ok(None),
            Err(error @ AdviseError::TooFewObjects(_)) => {
                Err(wrong(format!("keep {keep}: {error}")))
            }
            Err(error) => Err(wrong(error)),
        }
    })?;
    // `whole` has an advice unless it was interrupted, which is its error.
    advice.ok_or_else(|| PyKeyboardInterrupt::new_err(()))
}

fn prices(egress: Option<&str>, memory: Option<&str>) -> PyResult<Option<Prices>> {
    match (egress, memory) {
        (None, None) => Ok(None),
        (Some(egress), Some(memory)) => Ok(Some(Prices {
            egress: egress
                .parse()
                .map_err(|error| wrong(format!("egress: {error}")))?,
            memory: memory
                .parse()
                .map_err(|error| wrong(format!("memory: {error}")))?,
        })),
        _ => Err(wrong("egress and memory: give both prices, or none")),
    }
}

/// Reads all traces in the order of time, unless the work stops meanwhile.
fn read(
    traces: &[(&str, Requests<'_>)],
    mut gathering: Gathering,
    watch: &Watch,
) -> PyResult<Gathering> {
    let mut merged = Merged::new(traces)?;
    for input in &merged.inputs {
        gathering.begin(input.name, input.format);
    }
    while !watch.stops()
        && let Some(requests) = merged.next()?
    {
        gathering.requests(requests);
        watch.advance(requests.len() as u64);
    }
    for input in &merged.inputs {
        if let Some(report) = &input.report {
            gathering.end(input.name, report);
        }
    }
    Ok(gathering)
}

fn shown(advice: &Advice) -> PyResult<Shown> {
    Ok(Shown {
        json: serde_json::to_string(advice).map_err(wrong)?,
        sentences: advice.sentences(),
        text: advice.text(),
        page: advice.page(),
        config: advice
            .traffic
            .check_sizes("configuration")
            .is_ok()
            .then(|| advice.configuration()),
    })
}
