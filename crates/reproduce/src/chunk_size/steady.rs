//! FIFO and RANDOM in runs that are longer than the paper's: in the steady state, theory has their
//! hit ratios equal.

use super::dumbbell::{BACKBONES, Cell, Outcome, RATES, READING, run_all};
use crate::{Error, Request, Section, Watch};
use serde::Deserialize;

const FIFO: usize = 0;
const UNIFORM: usize = 1;

/// The policies, by their places in a row.
const POLICIES: [&str; 3] = ["fifo", "random", "random-priority"];

/// Hits over all requests, and over look-ups: a request for a name that is pending is none.
const METRICS: [fn(&Outcome) -> f64; 2] = [|run| run.hit_ratio, |run| run.hit_ratio_of_lookups];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Steady {
    pub(super) seeds: u64,
    /// Indices into Table I.
    sizes: Vec<usize>,
    /// The ends of the parts of a run, s. The first part begins with empty stores.
    pub(super) ends: Vec<u64>,
}

/// Measures the hit ratios of each part of a long run.
///
/// Two runs with one seed have the same course, as far as the shorter one goes. So the hits of a
/// part are those of the run to its end, less those of the run to its beginning.
pub(super) fn run(
    steady: &Steady,
    request: &Request<'_>,
    section: &mut Section,
    watch: &dyn Watch,
) -> Result<(), Error> {
    section.condition(
        "long runs",
        format!("{} seeds, congestion-free", steady.seeds),
    );
    let sizes: Vec<(u64, f64)> = steady
        .sizes
        .iter()
        .filter_map(|size| RATES.get(*size).copied())
        .collect();
    let (backbone_mbps, seed) = (BACKBONES[0].1, request.seed);
    let mut cells = Vec::new();
    for size in &sizes {
        for seconds in &steady.ends {
            let cell = |policy| Cell {
                size: *size,
                policy,
                backbone_mbps,
                reading: READING,
                seconds: *seconds,
                seed,
            };
            cells.extend(POLICIES.map(cell));
        }
    }
    let runs = run_all(&cells, steady.seeds, "long runs", request, watch)?;
    let outcomes: Vec<Outcome> = runs.iter().map(|runs| Outcome::mean(runs)).collect();
    let mut rows = Vec::new();
    for ((kilobytes, _), of_size) in sizes
        .iter()
        .zip(outcomes.chunks(steady.ends.len() * POLICIES.len()))
    {
        let mut over_random = [f64::NAN; 2];
        let begins = std::iter::once(0).chain(steady.ends.iter().copied());
        for (at, (begin, end)) in begins.zip(&steady.ends).enumerate() {
            let runs = &of_size[..(at + 1) * POLICIES.len()];
            let [of_all, of_lookups] =
                METRICS.map(|metric| hits_of_part(begin, *end, runs, metric));
            over_random = [&of_all, &of_lookups].map(|hits| hits[FIFO] / hits[UNIFORM]);
            let mut row = vec![kilobytes.to_string(), format!("{begin} to {end}")];
            row.extend(
                of_all
                    .iter()
                    .chain(&over_random)
                    .map(|value| format!("{value:.4}")),
            );
            rows.push(row);
        }
        section.measured_if_claimed(format!("steady-fifo-{kilobytes}"), over_random[0]);
        section.measured_if_claimed(format!("steady-lookups-{kilobytes}"), over_random[1]);
    }
    let last = ["FIFO over uniform RANDOM", "the same of look-ups"];
    let header = ["packet, KB", "seconds"]
        .into_iter()
        .chain(POLICIES)
        .chain(last);
    section.table(
        "Hit ratio at the consumers by part of a long run, q = s = 0.7",
        header,
        rows,
    );
    Ok(())
}

/// Returns each policy's hits between two times, over all requests or over look-ups. `runs` ends
/// with the runs to `end`, by policy, after those to `begin`, if that is not 0. Consumers ask at a
/// constant rate.
fn hits_of_part(begin: u64, end: u64, runs: &[Outcome], metric: fn(&Outcome) -> f64) -> Vec<f64> {
    let (before, all) = runs.split_at(runs.len() - POLICIES.len());
    let before = before
        .iter()
        .rev()
        .take(POLICIES.len())
        .rev()
        .map(Some)
        .chain([None; POLICIES.len()]);
    // Hits, and what they are a share of, in seconds of requests.
    let counts = |run: &Outcome, seconds: u64| {
        let hits = run.hit_ratio * seconds as f64;
        [
            hits,
            if hits > 0.0 {
                hits / metric(run)
            } else {
                seconds as f64
            },
        ]
    };
    let of_part = |(run, before): (&Outcome, Option<&Outcome>)| {
        let [hits, of] = counts(run, end);
        let [hits_before, of_before] = before.map_or([0.0; 2], |run| counts(run, begin));
        (hits - hits_before) / (of - of_before)
    };
    all.iter().zip(before).map(of_part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_hits_of_another() {
        let run = |hit_ratio| Outcome {
            hit_ratio,
            ..Outcome::default()
        };
        let runs = [0.9, 0.9, 0.9, 0.5, 0.6, 0.0, 0.7, 0.6, 0.2].map(run);
        let part = hits_of_part(30, 90, &runs, |run| run.hit_ratio);
        for (found, expected) in part.iter().zip([0.8, 0.6, 0.3]) {
            assert!((found - expected).abs() < 1e-12, "{part:?}");
        }
        // 27 hits of 30 requests and 27 look-ups, then 45 of 90 and 72.
        let with = |hit_ratio, hit_ratio_of_lookups| Outcome {
            hit_ratio,
            hit_ratio_of_lookups,
            ..Outcome::default()
        };
        let runs = [
            with(0.9, 1.0),
            with(0.9, 1.0),
            with(0.9, 1.0),
            with(0.5, 0.625),
            with(0.5, 0.625),
            with(0.5, 0.625),
        ];
        let part = hits_of_part(30, 90, &runs, |run| run.hit_ratio_of_lookups);
        assert!(
            part.iter().all(|found| (found - 18.0 / 45.0).abs() < 1e-12),
            "{part:?}"
        );
        let first = hits_of_part(0, 30, &runs[..POLICIES.len()], |run| run.hit_ratio);
        assert!(
            first.len() == POLICIES.len() && first.iter().all(|hits| (hits - 0.9).abs() < 1e-12),
            "{first:?}"
        );
    }
}
