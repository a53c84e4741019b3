//! The temporal locality of recorded traces, and the generated traffic that has as much.
//!
//! The statistic compares a trace with the same requests in a random order: the geometric mean of
//! the re-reference intervals (requests from one request for an object to the next) of the one, as
//! a multiple of that of the other. Each interval counts once, because a cache serves requests. The
//! random order has the same popularity, so the multiple is 1 without locality.
//!
//! `larder_replay::gather` gives each object a window, log-uniform from W to 1 of the trace, which
//! multiplies the intervals by the window. The mean logarithm of a window is ln(W) / 2, so a trace
//! with the multiple L has the locality of windows from W = L² on.

use super::public;
use super::replays::{Catalogue, Traffic};
use crate::statistics::median;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_replay::Access;
use larder_units::{Stream, Streams};
use serde::Deserialize;
use std::collections::HashMap;

const FILE: (&str, &str) = experiment_file!("adaptsize/locality.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    /// Generated traffic with the chosen windows.
    hk: Catalogue,
    us: Catalogue,
    /// The multiples of traces that are not part of this crate.
    recorded: Vec<Recorded>,
}

/// A trace that was measured elsewhere.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    name: String,
    multiple: f64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    let chosen = sweep
        .hk
        .windows
        .ok_or_else(|| Error(format!("experiments/{}: hk has no `windows`", FILE.0)))?;
    section.condition("windows", format!("from {chosen} of the trace on"));
    let mut measured: Vec<(String, f64)> = Vec::new();
    watch.begin("locality", (sweep.hk.requests + sweep.us.requests) as u64);
    for traffic in public::embedded()? {
        measured.push((
            traffic.name.clone(),
            multiple(&traffic.accesses, request.seed),
        ));
    }
    measured.extend(
        sweep
            .recorded
            .iter()
            .map(|trace| (trace.name.clone(), trace.multiple)),
    );
    let of_traces = measured
        .iter()
        .map(|(_, multiple)| multiple * multiple)
        .collect();
    section.measured("locality-chosen", chosen / median(of_traces));
    let traces = measured.len();
    for (name, catalogue, seed) in [
        ("hk", sweep.hk, request.seed),
        ("us", sweep.us, request.seed + 1),
    ] {
        let Traffic { accesses, .. } = catalogue.traffic(name, seed)?;
        let found = multiple(&accesses, request.seed);
        watch.advance(catalogue.requests as u64);
        section.measured(format!("locality-{name}"), found / chosen.sqrt());
        measured.push((format!("{name}, generated"), found));
    }
    let points = |range: &[(String, f64)], from: usize| {
        range
            .iter()
            .enumerate()
            .map(|(at, (_, multiple))| ((from + at) as f64, *multiple))
            .collect::<Vec<_>>()
    };
    section.named_figure(
        "locality",
        measured.iter().map(|(name, _)| name.as_str()),
        vec![
            Series::bars("recorded", points(&measured[..traces], 0)),
            Series::bars("generated", points(&measured[traces..], traces)),
        ],
    );
    let rows = measured.iter().map(|(name, multiple)| {
        vec![
            name.clone(),
            format!("{multiple:.4}"),
            format!("{:.4}", multiple * multiple),
        ]
    });
    let header = [
        "trace",
        "mean interval, of that in a random order",
        "the same locality: windows from",
    ];
    section.table(
        "Re-reference intervals, geometric means",
        header,
        rows.collect(),
    );
    section.judged()
}

/// Returns the geometric mean of the re-reference intervals, as a multiple of that of the same
/// requests in a random order. NaN without a second request for an object.
fn multiple(accesses: &[Access], seed: u64) -> f64 {
    let mut ids: Vec<u64> = accesses.iter().map(|access| access.id).collect();
    let recorded = mean_log_interval(&ids);
    shuffle(&mut ids, &mut Streams::new(seed).stream("locality"));
    (recorded - mean_log_interval(&ids)).exp()
}

fn mean_log_interval(ids: &[u64]) -> f64 {
    let mut last: HashMap<u64, usize> = HashMap::new();
    let (mut sum, mut intervals) = (0.0, 0.0);
    for (at, id) in ids.iter().enumerate() {
        if let Some(before) = last.insert(*id, at) {
            sum += ((at - before) as f64).ln();
            intervals += 1.0;
        }
    }
    sum / intervals
}

/// Puts the ids into a random order (Fisher and Yates).
fn shuffle(ids: &mut [u64], stream: &mut Stream) {
    for last in (1..ids.len()).rev() {
        ids.swap(last, stream.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Time;

    fn accesses(ids: impl Iterator<Item = u64>) -> Vec<Access> {
        ids.map(|id| Access {
            id,
            size: 1,
            now: Time::ZERO,
        })
        .collect()
    }

    #[test]
    fn independent_requests_have_locality_or_repeated_ones_have_none() {
        // The intervals 1 and 4: their geometric mean is 2.
        assert!((mean_log_interval(&[7, 7, 8, 9, 5, 7]) - 2.0_f64.ln()).abs() < 1e-12);
        let mut stream = Streams::new(3).stream("test");
        let independent = accesses((0..20_000).map(|_| stream.below(500)));
        let found = multiple(&independent, 1);
        assert!((found - 1.0).abs() < 0.03, "{found}");
        // Each object's 40 requests in a row.
        let runs = accesses((0..20_000).map(|at| at / 40));
        assert!(multiple(&runs, 1) < 0.01);
        assert!(
            multiple(&accesses(0..100), 1).is_nan(),
            "no object was requested twice"
        );
    }

    #[test]
    fn windows_have_another_locality_than_their_formula() {
        let catalogue = Catalogue {
            objects: 5_000,
            requests: 90_000,
            exponent: 0.9,
            windows: Some(0.05),
            popular: None,
        };
        let found = multiple(&catalogue.traffic("test", 1).unwrap().accesses, 1);
        assert!((found / 0.05_f64.sqrt() - 1.0).abs() < 0.3, "{found}");
    }
}
