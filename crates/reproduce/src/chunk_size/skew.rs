//! Whether RANDOM has the lowest hit ratio under any popularity: the paper names the distribution,
//! but not its parameters.

use super::dumbbell::{BACKBONES, Cell, Outcome, RATES, READING, Reading, run_all};
use crate::statistics::least;
use crate::{Error, Experiment, Request, Section, Watch};
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("chunk-size/skew.toml");

/// The paper's policies, and both meanings of RANDOM.
const POLICIES: [&str; 5] = ["fifo", "lfu", "lru", "random", "random-priority"];

/// The places in [`POLICIES`] of the two meanings of RANDOM.
const RANDOMS: std::ops::Range<usize> = 3..5;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    seeds: u64,
    /// The simulated time, s.
    seconds: u64,
    /// Indices into Table I.
    sizes: Vec<usize>,
    /// The parameters q of the Zipf–Mandelbrot distribution.
    shifts: Vec<f64>,
    /// Its exponents s.
    exponents: Vec<f64>,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep { seeds, seconds, ref sizes, ref shifts, ref exponents } = *experiment.sweep(request.scale);
    let skews: Vec<(f64, f64)> = shifts.iter().flat_map(|q| exponents.iter().map(move |s| (*q, *s))).collect();
    let backbone_mbps = BACKBONES[0].1;
    let mut cells = Vec::new();
    for skew in &skews {
        let reading = Reading { skew: *skew, ..READING };
        for size in sizes.iter().filter_map(|size| RATES.get(*size)) {
            let cell = |policy| Cell { size: *size, policy, backbone_mbps, reading, seconds, seed: request.seed };
            cells.extend(POLICIES.map(cell));
        }
    }
    let runs = run_all(&cells, seeds, "skews", request, watch)?;
    let hits: Vec<f64> = runs.iter().map(|runs| Outcome::mean(runs).hit_ratio).collect();

    let mut section = Section::new(&experiment, request.scale);
    section.condition("runs", format!("{seeds} seeds of {seconds} s, congestion-free"));
    let mut rows = Vec::new();
    let mut worst_everywhere = 0;
    for ((q, s), of_skew) in skews.iter().zip(hits.chunks(sizes.len() * POLICIES.len())) {
        let mut is_worst = true;
        for (size, hits) in sizes.iter().zip(of_skew.chunks(POLICIES.len())) {
            let random = least(RANDOMS.map(|at| hits[at]));
            let others = least(hits[..RANDOMS.start].iter().copied());
            is_worst &= random < others;
            let kilobytes = RATES.get(*size).map_or(0, |(kilobytes, _)| *kilobytes);
            let mut row = vec![q.to_string(), s.to_string(), kilobytes.to_string()];
            row.extend(hits.iter().map(|hits| format!("{hits:.4}")));
            row.push(format!("{:+.4}", random - others));
            rows.push(row);
        }
        worst_everywhere += u32::from(is_worst);
    }
    let header = ["q", "s", "packet, KB"].into_iter().chain(POLICIES).chain(["RANDOM less the worst other"]);
    section.table("Hit ratio at the consumers", header, rows);
    section.measured("random-worst", f64::from(worst_everywhere));
    section.judged()
}
