//! AdaptSize, LookAhead and HillClimb beside every constant c, on the same requests. What a tuner
//! has beyond the best constant c, it gains because its c changes, or has changed: objects that a
//! larger c let in stay.
//!
//! The experiment explains failing claims: shares of LookAhead and the variation over time on
//! independent requests, and the interval of AdaptSize as published in a large cache.
//! [`super::constant_c_crowds`] does the same in flash crowds.

use super::production::settled_c;
use super::replays::{Catalogue, PARTS, ReplayResult, Run, Traffic, lookahead, variation};
use crate::cell::{measure_all, units};
use crate::grid::Grid;
use crate::statistics::{greatest, least, median};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;

const FILE: (&str, &str) = experiment_file!("adaptsize/constant-c.toml");

/// A grid of constant c.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Constants {
    /// The binary logarithms of the first and the last c in bytes.
    log_c: [u32; 2],
    /// The number of steps in an octave.
    in_octave: u32,
}

impl Constants {
    pub(super) fn grid(self) -> Vec<u64> {
        let Constants {
            log_c: [first, last],
            in_octave,
        } = self;
        let steps = first * in_octave..=last * in_octave;
        steps
            .map(|step| (f64::from(step) / f64::from(in_octave)).exp2().round() as u64)
            .collect()
    }

    /// Returns the place of the best c in the grid, and its hit ratio.
    pub(super) fn best(self, what: &str, ratios: &[f64]) -> Result<(usize, f64), Error> {
        let (at, _) = Grid::new(format!("c of {what}"), self.grid()).best(ratios)?;
        Ok((at, ratios[at]))
    }

    /// Returns the policies with a constant c.
    pub(super) fn specs(self, stage: &str) -> Vec<String> {
        self.grid()
            .into_iter()
            .map(|c| format!("{stage}(c={c})+lru"))
            .collect()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    /// Independent requests. The traffic with locality differs by `windows` only.
    hk: Catalogue,
    us: Catalogue,
    windows: f64,
    /// The capacity, bytes.
    capacity: u64,
    constants: Constants,
    /// HillClimb from the start of the authors' simulator, and from near the best c.
    hillclimbs: [String; 2],
    lookahead_interval: u64,
    lookahead_window: u64,
    /// A large capacity, bytes, and its constant c.
    large_capacity: u64,
    large_constants: Constants,
    /// The intervals of AdaptSize as published, at both capacities, requests: the declared one,
    /// and longer ones.
    intervals: Vec<u64>,
}

/// The shapes of admission: AdaptSize's name, and the policy with a constant c.
pub(super) const SHAPES: [(&str, &str); 2] = [("threshold", "threshold"), ("chance", "expsize")];

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "cache",
        format!(
            "{} bytes, a large one {} bytes",
            sweep.capacity, sweep.large_capacity
        ),
    );
    let (mut lines, mut shares, mut variations) = (Vec::new(), Vec::new(), Vec::new());
    for (name, catalogue, seed) in [
        ("hk", sweep.hk, request.seed),
        ("us", sweep.us, request.seed + 1),
    ] {
        for (prefix, windows) in [("", None), ("local-", Some(sweep.windows))] {
            let catalogue = Catalogue {
                windows,
                ..catalogue
            };
            let id = format!("{prefix}{name}");
            section.condition(
                &id,
                format!("{}; a quarter to warm up", catalogue.conditions()),
            );
            let traffic = catalogue.traffic(name, seed)?;
            for (shape, stage) in SHAPES {
                let compared = compare(sweep, &id, &traffic, [shape, stage], request, watch)?;
                for (id_of, value) in [
                    ("adaptsize", compared.adaptsize.hit_ratio / compared.best),
                    ("lookahead", compared.lookahead.hit_ratio / compared.best),
                ] {
                    section.measured_if_claimed(format!("constant-{id}-{shape}-{id_of}"), value);
                }
                if shape == "chance" {
                    let found = &compared.adaptsize;
                    for (infix, hillclimb) in ["", "-settled"].into_iter().zip(&compared.hillclimbs)
                    {
                        section.measured_if_claimed(
                            format!("constant-{id}-adaptsize-over{infix}-hillclimb"),
                            found.hit_ratio / hillclimb.hit_ratio,
                        );
                    }
                    section.measured(
                        format!("constant-{id}-variation"),
                        variation(found) / drawn(found, &traffic),
                    );
                    variations.extend([found, &compared.lru].map(|found| {
                        let figures = [variation(found), drawn(found, &traffic)]
                            .map(|value| format!("{value:.4}"));
                        [id.clone(), found.spec.clone()]
                            .into_iter()
                            .chain(figures)
                            .collect()
                    }));
                }
                shares.extend(compared.rows(&id, shape));
                lines.push(Series::line(format!("{id}, {shape}"), compared.curve));
            }
            if windows.is_none() {
                longer_intervals(&mut section, sweep, &traffic, request, watch)?;
            }
        }
    }
    section.figure("constant-c", lines);
    section.table(
        "Object hit ratio",
        [
            "traffic",
            "policy",
            "c, KiB",
            "object hit ratio",
            "of the best constant c",
            "the same, last quarter",
        ],
        shares,
    );
    let columns = [
        "traffic",
        "policy",
        "coefficient of variation over time",
        "of independent hits",
    ];
    section.table(
        "Variation over the parts of the traffic",
        columns,
        variations,
    );
    section.judged()
}

/// One shape of admission on one traffic.
struct Compared {
    /// The hit ratio over the constant c.
    curve: Vec<(f64, f64)>,
    /// The best hit ratio of a constant c, and its c as a policy.
    best: f64,
    best_spec: String,
    /// The best hit ratio of a constant c in the last quarter of the traffic.
    late_best: f64,
    adaptsize: ReplayResult,
    lookahead: ReplayResult,
    hillclimbs: [ReplayResult; 2],
    lru: ReplayResult,
    published: ReplayResult,
}

impl Compared {
    /// Returns rows with the hit ratios on this traffic. Those of Chance have the tuners that do
    /// not depend on the shape.
    fn rows(&self, traffic: &str, shape: &str) -> Vec<Vec<String>> {
        let Compared {
            best,
            late_best,
            adaptsize,
            lookahead,
            hillclimbs,
            lru,
            published,
            ..
        } = self;
        let others = [published, &hillclimbs[0], &hillclimbs[1], lru];
        let tuners = [lookahead, adaptsize]
            .into_iter()
            .chain(others.into_iter().filter(|_| shape == "chance"));
        let row = |spec: &str, c: String, [ratio, late]: [f64; 2]| {
            let shares = [ratio / best, late / late_best].map(|share| format!("{share:.3}"));
            [
                traffic.to_owned(),
                spec.to_owned(),
                c,
                format!("{ratio:.4}"),
            ]
            .into_iter()
            .chain(shares)
            .collect()
        };
        let constant = row(&self.best_spec, String::new(), [*best, *late_best]);
        let tuner =
            |found: &ReplayResult| row(&found.spec, course(found), [found.hit_ratio, late(found)]);
        [constant].into_iter().chain(tuners.map(tuner)).collect()
    }
}

/// Returns the median c after the warm-up and the last one, KiB; nothing without a c.
fn course(found: &ReplayResult) -> String {
    let settled = settled_c(found);
    let Some(last) = settled.last().copied() else {
        return String::new();
    };
    format!("{:.1}, last {:.1}", median(settled) / 1024.0, last / 1024.0)
}

/// Returns the hit ratio in the last quarter of the traffic.
fn late(found: &ReplayResult) -> f64 {
    let parts = &found.timeline[found.timeline.len() * 3 / 4..];
    parts.iter().map(|(_, ratio, _)| ratio).sum::<f64>() / parts.len() as f64
}

fn compare(
    sweep: &Sweep,
    id: &str,
    traffic: &Traffic,
    [shape, stage]: [&str; 2],
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Compared, Error> {
    let tuners = [
        lookahead(shape, [sweep.lookahead_interval, sweep.lookahead_window]),
        format!("adaptsize({shape})+lru"),
        sweep.hillclimbs[0].clone(),
        sweep.hillclimbs[1].clone(),
        "lru".to_owned(),
        published(sweep.intervals.first().copied().unwrap_or_default()),
    ];
    let specs = tuners.into_iter().chain(sweep.constants.specs(stage));
    let found = replayed(
        specs.collect(),
        traffic,
        sweep.capacity,
        &format!("{id}, {shape}"),
        request,
        watch,
    )?;
    let [
        ahead,
        adaptsize,
        from_above,
        settled,
        lru,
        published,
        constants @ ..,
    ] = found.as_slice()
    else {
        return Err(Error(format!(
            "experiments/{}: a tuner was not measured",
            FILE.0
        )));
    };
    let ratios: Vec<f64> = constants.iter().map(|found| found.hit_ratio).collect();
    let (at, best) = sweep.constants.best(&format!("{shape}, {id}"), &ratios)?;
    Ok(Compared {
        curve: sweep
            .constants
            .grid()
            .into_iter()
            .map(|c| c as f64)
            .zip(ratios)
            .collect(),
        best,
        best_spec: constants[at].spec.clone(),
        late_best: greatest(constants.iter().map(late)),
        adaptsize: adaptsize.clone(),
        lookahead: ahead.clone(),
        hillclimbs: [from_above.clone(), settled.clone()],
        lru: lru.clone(),
        published: published.clone(),
    })
}

/// Measures what a longer interval gives AdaptSize as published, and what its model takes from it,
/// at the typical and at the large capacity.
fn longer_intervals(
    section: &mut Section,
    sweep: &Sweep,
    traffic: &Traffic,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let published: Vec<String> = sweep
        .intervals
        .iter()
        .map(|interval| published(*interval))
        .collect();
    let exact = published
        .iter()
        .map(|spec| spec.replace("model=paper", "model=exact"));
    let deployed = ["adaptsize(chance)+lru".to_owned()];
    let specs: Vec<String> = published
        .iter()
        .cloned()
        .chain(exact)
        .chain(deployed)
        .collect();
    let name = &traffic.name;
    let mut rows = Vec::new();
    for (id, capacity, constants) in [
        ("typical", sweep.capacity, sweep.constants),
        ("large", sweep.large_capacity, sweep.large_constants),
    ] {
        let what = format!("intervals, {name}, {capacity} bytes");
        let found = replayed(specs.clone(), traffic, capacity, &what, request, watch)?;
        let of_constants = replayed(
            constants.specs("expsize"),
            traffic,
            capacity,
            &what,
            request,
            watch,
        )?;
        let ratios: Vec<f64> = of_constants.iter().map(|found| found.hit_ratio).collect();
        let (at, best) = constants.best(&what, &ratios)?;
        let intervals = || {
            found
                .iter()
                .take(sweep.intervals.len())
                .map(|found| found.hit_ratio)
        };
        section.measured_if_claimed(
            format!("constant-{name}-{id}-interval-gain"),
            greatest(intervals()) / found[0].hit_ratio,
        );
        section.measured_if_claimed(
            format!("constant-{name}-{id}-intervals"),
            least(intervals()) / greatest(intervals()),
        );
        rows.extend([&of_constants[at]].into_iter().chain(&found).map(|found| {
            let ratios = [
                format!("{:.4}", found.hit_ratio),
                format!("{:.3}", found.hit_ratio / best),
            ];
            [capacity.to_string(), found.spec.clone(), course(found)]
                .into_iter()
                .chain(ratios)
                .collect()
        }));
    }
    let columns = [
        "cache, bytes",
        "policy",
        "c, KiB",
        "object hit ratio",
        "of the best constant c",
    ];
    section.table(
        &format!("{name}: longer intervals of AdaptSize as published, and its model"),
        columns,
        rows,
    );
    Ok(())
}

fn published(interval: u64) -> String {
    format!("adaptsize(prototype,model=paper,interval={interval})+lru")
}

fn replayed(
    specs: Vec<String>,
    traffic: &Traffic,
    capacity: u64,
    what: &str,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Vec<ReplayResult>, Error> {
    let run = |spec| Run {
        traffic,
        spec,
        capacity,
        warm_up: traffic.accesses.len() / 4,
    };
    let runs: Vec<Run<'_>> = specs.into_iter().map(run).collect();
    watch.begin(&format!("constant c: {what}"), units(&runs));
    measure_all(runs, request, watch)
}

/// Returns the coefficient of variation over the parts of the traffic, if each request is a hit
/// with this hit ratio, independently: the square root of (1 - p) / (p n), n requests in a part.
fn drawn(found: &ReplayResult, traffic: &Traffic) -> f64 {
    let part = traffic.accesses.len() as f64 / PARTS as f64;
    ((1.0 - found.hit_ratio) / (found.hit_ratio * part)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_other_steps() {
        let grid = |in_octave| Constants {
            log_c: [4, 6],
            in_octave,
        };
        assert_eq!(grid(1).grid(), [16, 32, 64]);
        assert_eq!(grid(2).grid(), [16, 23, 32, 45, 64]);
        assert_eq!(
            grid(1).specs("expsize"),
            [
                "expsize(c=16)+lru",
                "expsize(c=32)+lru",
                "expsize(c=64)+lru"
            ]
        );
    }

    #[test]
    fn independent_draws_vary_otherwise() {
        let access = |id| larder_replay::Access {
            id,
            size: 1,
            now: larder_units::Time::ZERO,
        };
        let traffic = Traffic::new("t", (0..40_000).map(access).collect());
        let found = ReplayResult {
            hit_ratio: 0.5,
            ..ReplayResult::default()
        };
        // 1000 requests in each of 40 parts: a deviation of 15.8 of 500 hits.
        assert!((drawn(&found, &traffic) - 0.0316).abs() < 1e-4);
    }
}
