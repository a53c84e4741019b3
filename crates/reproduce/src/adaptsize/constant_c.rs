//! AdaptSize, LookAhead and HillClimb beside every constant c, on the same requests. What a tuner
//! has beyond the best constant c, it gains because its c changes, or has changed: objects that a
//! larger c let in stay.
//!
//! The experiments explain failing claims: shares of LookAhead and the variation over time on
//! independent requests, the interval of AdaptSize as published in a large cache, and the lead of
//! HillClimb in flash crowds.

use super::production::settled_c;
use super::replays::{Catalogue, PARTS, ReplayResult, Run, Traffic, variation, weight};
use crate::cell::{measure, measure_all, units};
use crate::grid::Grid;
use crate::statistics::{greatest, least, median, percentile};
use crate::{Error, Experiment, Request, Section, Watch, on_all_cores};
use larder_figure::Series;
use larder_replay::CrowdShape;
use serde::Deserialize;

const CALM: (&str, &str) = experiment_file!("adaptsize/constant-c.toml");
const CROWDS: (&str, &str) = experiment_file!("adaptsize/constant-c-crowds.toml");

/// A grid of constant c.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Constants {
    /// The binary logarithms of the first and the last c in bytes.
    log_c: [u32; 2],
    /// The number of steps in an octave.
    in_octave: u32,
}

impl Constants {
    fn grid(self) -> Vec<u64> {
        let Constants { log_c: [first, last], in_octave } = self;
        let steps = first * in_octave..=last * in_octave;
        steps.map(|step| (f64::from(step) / f64::from(in_octave)).exp2().round() as u64).collect()
    }

    /// Returns the place of the best c in the grid, and its hit ratio.
    fn best(self, what: &str, ratios: &[f64]) -> Result<(usize, f64), Error> {
        let (at, _) = Grid::new(format!("c of {what}"), self.grid()).best(ratios)?;
        Ok((at, ratios[at]))
    }

    /// Returns the policies with a constant c.
    fn specs(self, stage: &str) -> Vec<String> {
        self.grid().into_iter().map(|c| format!("{stage}(c={c})+lru")).collect()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Calm {
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
const SHAPES: [(&str, &str); 2] = [("threshold", "threshold"), ("chance", "expsize")];

pub(super) fn calm(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Calm>::parse(CALM.0, CALM.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cache", format!("{} bytes, a large one {} bytes", sweep.capacity, sweep.large_capacity));
    let (mut lines, mut shares, mut variations) = (Vec::new(), Vec::new(), Vec::new());
    for (name, catalogue, seed) in [("hk", sweep.hk, request.seed), ("us", sweep.us, request.seed + 1)] {
        for (prefix, windows) in [("", None), ("local-", Some(sweep.windows))] {
            let catalogue = Catalogue { windows, ..catalogue };
            let id = format!("{prefix}{name}");
            section.condition(&id, format!("{}; a quarter to warm up", catalogue.conditions()));
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
                    for (infix, hillclimb) in ["", "-settled"].into_iter().zip(&compared.hillclimbs) {
                        section.measured_if_claimed(
                            format!("constant-{id}-adaptsize-over{infix}-hillclimb"),
                            found.hit_ratio / hillclimb.hit_ratio,
                        );
                    }
                    section.measured(format!("constant-{id}-variation"), variation(found) / drawn(found, &traffic));
                    variations.extend([found, &compared.lru].map(|found| {
                        let figures = [variation(found), drawn(found, &traffic)].map(|value| format!("{value:.4}"));
                        [id.clone(), found.spec.clone()].into_iter().chain(figures).collect()
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
        ["traffic", "policy", "c, KiB", "object hit ratio", "of the best constant c", "the same, last quarter"],
        shares,
    );
    let columns = ["traffic", "policy", "coefficient of variation over time", "of independent hits"];
    section.table("Variation over the parts of the traffic", columns, variations);
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
        let Compared { best, late_best, adaptsize, lookahead, hillclimbs, lru, published, .. } = self;
        let others = [published, &hillclimbs[0], &hillclimbs[1], lru];
        let tuners = [lookahead, adaptsize].into_iter().chain(others.into_iter().filter(|_| shape == "chance"));
        let row = |spec: &str, c: String, [ratio, late]: [f64; 2]| {
            let shares = [ratio / best, late / late_best].map(|share| format!("{share:.3}"));
            [traffic.to_owned(), spec.to_owned(), c, format!("{ratio:.4}")].into_iter().chain(shares).collect()
        };
        let constant = row(&self.best_spec, String::new(), [*best, *late_best]);
        let tuner = |found: &ReplayResult| row(&found.spec, course(found), [found.hit_ratio, late(found)]);
        [constant].into_iter().chain(tuners.map(tuner)).collect()
    }
}

/// Returns the median c after the warm-up and the last one, KiB; nothing without a c.
fn course(found: &ReplayResult) -> String {
    let settled = settled_c(found);
    let Some(last) = settled.last().copied() else { return String::new() };
    format!("{:.1}, last {:.1}", median(settled) / 1024.0, last / 1024.0)
}

/// Returns the hit ratio in the last quarter of the traffic.
fn late(found: &ReplayResult) -> f64 {
    let parts = &found.timeline[found.timeline.len() * 3 / 4..];
    parts.iter().map(|(_, ratio, _)| ratio).sum::<f64>() / parts.len() as f64
}

fn compare(
    sweep: &Calm,
    id: &str,
    traffic: &Traffic,
    [shape, stage]: [&str; 2],
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Compared, Error> {
    let (interval, window) = (sweep.lookahead_interval, sweep.lookahead_window);
    let tuners = [
        format!("lookahead({shape},interval={interval},window={window})+lru"),
        format!("adaptsize({shape})+lru"),
        sweep.hillclimbs[0].clone(),
        sweep.hillclimbs[1].clone(),
        "lru".to_owned(),
        published(sweep.intervals.first().copied().unwrap_or_default()),
    ];
    let specs = tuners.into_iter().chain(sweep.constants.specs(stage));
    let found = replayed(specs.collect(), traffic, sweep.capacity, &format!("{id}, {shape}"), request, watch)?;
    let [lookahead, adaptsize, from_above, settled, lru, published, constants @ ..] = found.as_slice() else {
        return Err(Error(format!("experiments/{}: a tuner was not measured", CALM.0)));
    };
    let ratios: Vec<f64> = constants.iter().map(|found| found.hit_ratio).collect();
    let (at, best) = sweep.constants.best(&format!("{shape}, {id}"), &ratios)?;
    Ok(Compared {
        curve: sweep.constants.grid().into_iter().map(|c| c as f64).zip(ratios).collect(),
        best,
        best_spec: constants[at].spec.clone(),
        late_best: greatest(constants.iter().map(late)),
        adaptsize: adaptsize.clone(),
        lookahead: lookahead.clone(),
        hillclimbs: [from_above.clone(), settled.clone()],
        lru: lru.clone(),
        published: published.clone(),
    })
}

/// Measures what a longer interval gives AdaptSize as published, and what its model takes from it,
/// at the typical and at the large capacity.
fn longer_intervals(
    section: &mut Section,
    sweep: &Calm,
    traffic: &Traffic,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let published: Vec<String> = sweep.intervals.iter().map(|interval| published(*interval)).collect();
    let exact = published.iter().map(|spec| spec.replace("model=paper", "model=exact"));
    let deployed = ["adaptsize(chance)+lru".to_owned()];
    let specs: Vec<String> = published.iter().cloned().chain(exact).chain(deployed).collect();
    let name = &traffic.name;
    let mut rows = Vec::new();
    for (id, capacity, constants) in
        [("typical", sweep.capacity, sweep.constants), ("large", sweep.large_capacity, sweep.large_constants)]
    {
        let what = format!("intervals, {name}, {capacity} bytes");
        let found = replayed(specs.clone(), traffic, capacity, &what, request, watch)?;
        let of_constants = replayed(constants.specs("expsize"), traffic, capacity, &what, request, watch)?;
        let ratios: Vec<f64> = of_constants.iter().map(|found| found.hit_ratio).collect();
        let (at, best) = constants.best(&what, &ratios)?;
        let intervals = || found.iter().take(sweep.intervals.len()).map(|found| found.hit_ratio);
        section.measured_if_claimed(
            format!("constant-{name}-{id}-interval-gain"),
            greatest(intervals()) / found[0].hit_ratio,
        );
        section
            .measured_if_claimed(format!("constant-{name}-{id}-intervals"), least(intervals()) / greatest(intervals()));
        rows.extend([&of_constants[at]].into_iter().chain(&found).map(|found| {
            let ratios = [format!("{:.4}", found.hit_ratio), format!("{:.3}", found.hit_ratio / best)];
            [capacity.to_string(), found.spec.clone(), course(found)].into_iter().chain(ratios).collect()
        }));
    }
    let columns = ["cache, bytes", "policy", "c, KiB", "object hit ratio", "of the best constant c"];
    section.table(&format!("{name}: longer intervals of AdaptSize as published, and its model"), columns, rows);
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
    let run = |spec| Run { traffic, spec, capacity, warm_up: traffic.accesses.len() / 4 };
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Crowds {
    /// The catalogue. Its `requests` are those of all the traffic.
    catalogue: Catalogue,
    /// The capacity, bytes.
    capacity: u64,
    /// The number of requests until the crowd comes.
    calm: u64,
    /// The least and the greatest number of objects of a crowd.
    crowd: [u64; 2],
    /// The bytes of each object, where the objects are chunks of a new video.
    chunk_bytes: u64,
    /// The windows of the traffic with locality.
    windows: f64,
    /// The number of randomised repetitions.
    seeds: u64,
    constants: Constants,
    lookahead_interval: u64,
    lookahead_window: u64,
    /// AdaptSize as published.
    published: String,
    hillclimb: String,
    tuned_hillclimb: String,
    /// The same with a start near the best c of the calm traffic, from which it has settled when
    /// the crowd comes.
    settled_hillclimb: String,
}

/// The tuners beside a constant c of Chance, in the order of their runs: the infixes of the claims
/// and the names.
const TUNERS: [(&str, &str); 6] = [
    ("lookahead", "LookAhead"),
    ("adaptsize", "AdaptSize"),
    ("published", "AS(published)"),
    ("hillclimb", "HillClimb"),
    ("tuned-hillclimb", "HillClimb(tuned)"),
    ("settled-hillclimb", "HillClimb(tuned, settled)"),
];

/// The number of parts of the timelines, so that the crowd comes with the 21st.
const CROWD_PARTS: usize = 60;

/// How far the best constant c moves when a crowd comes.
struct Move {
    /// The best c of the calm traffic, and of that after the crowd came, bytes.
    from: f64,
    to: f64,
    /// What the former keeps of the hits of the latter, after the crowd came.
    kept: f64,
    /// The hits of the latter over LookAhead's.
    of_lookahead: f64,
}

/// One repetition of one reading of a flash crowd.
struct Repetition {
    /// In the order of [`SHAPES`].
    moves: [Move; SHAPES.len()],
    /// The tuners' hits after the crowd came, over those of the best constant c of Chance.
    shares: [f64; TUNERS.len()],
}

pub(super) fn crowds(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Crowds>::parse(CROWDS.0, CROWDS.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    let Crowds { crowd: [fewest, most], chunk_bytes, windows, seeds, calm, .. } = sweep;
    section.condition("traffic", format!("{}, a crowd after {calm}, {seeds} times", sweep.catalogue.conditions()));
    section.condition("crowds", format!("{fewest} to {most} objects, as chunks with {chunk_bytes} bytes each"));
    section.condition("local", format!("the catalogue's requests in windows of {windows} of the trace or more"));
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let local = Catalogue { windows: Some(sweep.windows), ..sweep.catalogue };
    let (mut kept_rows, mut share_rows) = (Vec::new(), Vec::new());
    for (id, catalogue, chunk_bytes) in [
        ("catalogue", sweep.catalogue, None),
        ("local", local, None),
        ("chunks", sweep.catalogue, Some(sweep.chunk_bytes)),
    ] {
        let shape = CrowdShape { objects: sweep.crowd, chunk_bytes };
        let seeds = request.seed..request.seed + sweep.seeds;
        let weights = 2 * sweep.constants.grid().len() as u64 + TUNERS.len() as u64 - 1 + weight("lookahead");
        watch.begin(&format!("constant c: crowd, {id}"), sweep.seeds * catalogue.requests as u64 * weights);
        let found = on_all_cores(seeds.collect(), |seed| {
            let accesses = catalogue.flash_crowd(shape, sweep.calm, seed)?;
            let traffic = Traffic::new("changing", accesses).in_parts(CROWD_PARTS);
            crowd(sweep, &format!("{id}, seed {seed}"), &traffic, request, watch)
        });
        let found = found.into_iter().collect::<Result<Vec<Repetition>, Error>>()?;
        for (at, (shape, _)) in SHAPES.into_iter().enumerate() {
            let of = |value: fn(&Move) -> f64| found.iter().map(|found| value(&found.moves[at])).collect::<Vec<f64>>();
            let kept = of(|moved| moved.kept);
            section.measured_if_claimed(format!("crowd-{id}-{shape}-kept"), median(kept.clone()));
            let cs = [of(|moved| moved.from), of(|moved| moved.to)];
            let cs = cs.map(|cs| between(&cs.into_iter().map(|c| c / 1024.0).collect::<Vec<f64>>(), 0));
            let shares = [kept, of(|moved| moved.of_lookahead)].map(|shares| between(&shares, 3));
            kept_rows.push([id, shape].map(str::to_owned).into_iter().chain(cs).chain(shares).collect());
        }
        let shares = TUNERS.iter().enumerate().map(|(at, (tuner, _))| {
            let shares: Vec<f64> = found.iter().map(|found| found.shares[at]).collect();
            section.measured_if_claimed(format!("crowd-{id}-{tuner}"), median(shares.clone()));
            between(&shares, 3)
        });
        share_rows.push([id.to_owned()].into_iter().chain(shares).collect());
    }
    section.table(
        "The best constant c before and after the crowd came: a repetition in the middle, least and most",
        ["reading", "shape", "c before, KiB", "and after", "hits that the former keeps", "of LookAhead, the latter"],
        kept_rows,
    );
    section.table(
        "Hits after the crowd came, over those of the best constant c: a repetition in the middle, least and most",
        ["reading"].into_iter().chain(TUNERS.iter().map(|(_, name)| *name)),
        share_rows,
    );
    section.judged()
}

/// Returns the value of a repetition in the middle, and of those with the least and the most.
fn between(values: &[f64], digits: usize) -> String {
    let [middle, least, most] =
        [percentile(values, 50), least(values.iter().copied()), greatest(values.iter().copied())];
    format!("{middle:.digits$} ({least:.digits$} to {most:.digits$})")
}

fn crowd(
    sweep: &Crowds,
    what: &str,
    traffic: &Traffic,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Repetition, Error> {
    let (interval, window) = (sweep.lookahead_interval, sweep.lookahead_window);
    let tuners = [
        format!("lookahead(chance,interval={interval},window={window})+lru"),
        "adaptsize(chance)+lru".to_owned(),
        sweep.published.clone(),
        sweep.hillclimb.clone(),
        sweep.tuned_hillclimb.clone(),
        sweep.settled_hillclimb.clone(),
    ];
    let replay = |spec: String| {
        let run = Run { traffic, spec, capacity: sweep.capacity, warm_up: sweep.calm as usize };
        measure(&run, request, watch)
    };
    let replay_all = |specs: Vec<String>| specs.into_iter().map(replay).collect::<Result<Vec<ReplayResult>, Error>>();
    let tuners = replay_all(tuners.into())?;
    let ahead = tuners.first().map_or(f64::NAN, |found| found.hit_ratio);
    let (mut moves, mut best_chance) = (Vec::new(), f64::NAN);
    for (shape, stage) in SHAPES {
        let found = replay_all(sweep.constants.specs(stage))?;
        let ratios: Vec<f64> = found.iter().map(|found| found.hit_ratio).collect();
        let before: Vec<f64> = found.iter().map(|found| settled_calm(found, sweep.calm)).collect();
        let (old, _) = sweep.constants.best(&format!("{what}, {shape}, before the crowd"), &before)?;
        let (new, best) = sweep.constants.best(&format!("{what}, {shape}, after the crowd"), &ratios)?;
        let grid = sweep.constants.grid();
        moves.push(Move {
            from: grid[old] as f64,
            to: grid[new] as f64,
            kept: ratios[old] / best,
            of_lookahead: best / ahead,
        });
        best_chance = best;
    }
    let missing = |_| Error(format!("experiments/{}: {what}: a replay is missing", CROWDS.0));
    Ok(Repetition {
        moves: moves.try_into().map_err(missing)?,
        shares: std::array::from_fn(|at| tuners.get(at).map_or(f64::NAN, |found| found.hit_ratio / best_chance)),
    })
}

/// Returns the hit ratio of the second half of the calm traffic.
fn settled_calm(found: &ReplayResult, calm: u64) -> f64 {
    let end = |at: f64| (at * 1e6).round() as u64;
    let parts = found.timeline.iter().filter(|(at, ..)| (calm / 2 + 1..=calm).contains(&end(*at)));
    let ratios: Vec<f64> = parts.map(|(_, ratio, _)| *ratio).collect();
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_other_steps() {
        let grid = |in_octave| Constants { log_c: [4, 6], in_octave };
        assert_eq!(grid(1).grid(), [16, 32, 64]);
        assert_eq!(grid(2).grid(), [16, 23, 32, 45, 64]);
        assert_eq!(grid(1).specs("expsize"), ["expsize(c=16)+lru", "expsize(c=32)+lru", "expsize(c=64)+lru"]);
    }

    #[test]
    fn the_calm_ratio_counts_the_warm_up_or_the_crowd() {
        let ratios = [0.1, 0.2, 0.5, 0.7, 0.9];
        let timeline = (1..).zip(ratios).map(|(part, ratio)| (f64::from(part) * 10e-6, ratio, None)).collect();
        let found = ReplayResult { timeline, ..ReplayResult::default() };
        assert!((settled_calm(&found, 40) - 0.6).abs() < 1e-12);
        assert!(settled_calm(&ReplayResult::default(), 40).is_nan());
    }

    #[test]
    fn independent_draws_vary_otherwise() {
        let access = |id| larder_replay::Access { id, size: 1, now: larder_units::Time::ZERO };
        let traffic = Traffic::new("t", (0..40_000).map(access).collect());
        let found = ReplayResult { hit_ratio: 0.5, ..ReplayResult::default() };
        // 1000 requests in each of 40 parts: a deviation of 15.8 of 500 hits.
        assert!((drawn(&found, &traffic) - 0.0316).abs() < 1e-4);
    }
}
