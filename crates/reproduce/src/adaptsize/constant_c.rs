//! AdaptSize, LookAhead and HillClimb beside every constant c, on the same requests. What a tuner
//! has beyond the best constant c, it gains by moving c.
//!
//! The experiments explain failing claims: shares of LookAhead and the variation over time on
//! independent requests, the interval of AdaptSize as published in a large cache, and the lead of
//! HillClimb in flash crowds.

use super::replays::{Catalogue, PARTS, ReplayResult, Run, Traffic, variation};
use crate::cell::{measure, measure_all, units};
use crate::grid::Grid;
use crate::statistics::median;
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
    hillclimb: String,
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
                    section.measured(
                        format!("constant-{id}-adaptsize-over-hillclimb"),
                        found.hit_ratio / compared.hillclimb.hit_ratio,
                    );
                    section.measured(format!("constant-{id}-variation"), variation(found) / drawn(found, &traffic));
                    variations.extend([found, &compared.lru].map(|found| {
                        let figures = [variation(found), drawn(found, &traffic)].map(|value| format!("{value:.4}"));
                        [id.clone(), found.spec.clone()].into_iter().chain(figures).collect()
                    }));
                }
                shares.extend(compared.rows(&id, shape));
                lines.push(Series::line(format!("{id}, {shape}"), compared.curve));
            }
            if id == "hk" {
                large(&mut section, sweep, &traffic, request, watch)?;
            }
        }
    }
    section.figure("constant-c", lines);
    section.table("Object hit ratio", ["traffic", "policy", "object hit ratio", "of the best constant c"], shares);
    let columns = ["traffic", "policy", "coefficient of variation over time", "of independent hits"];
    section.table("Variation over the parts of the traffic", columns, variations);
    section.judged()
}

/// One shape of admission on one traffic.
struct Compared {
    /// The hit ratio over the constant c.
    curve: Vec<(f64, f64)>,
    /// The best constant c as a policy, and its hit ratio.
    best_spec: String,
    best: f64,
    adaptsize: ReplayResult,
    lookahead: ReplayResult,
    hillclimb: ReplayResult,
    lru: ReplayResult,
    published: ReplayResult,
}

impl Compared {
    /// Returns rows with the hit ratios on this traffic. Those of Chance have the tuners that do
    /// not depend on the shape.
    fn rows(&self, traffic: &str, shape: &str) -> Vec<Vec<String>> {
        let Compared { best_spec, best, adaptsize, lookahead, hillclimb, lru, published, .. } = self;
        let others = [published, hillclimb, lru];
        let others = others.iter().take(if shape == "chance" { others.len() } else { 0 });
        let tuners =
            [lookahead, adaptsize].iter().chain(others).map(|found| (&found.spec, found.hit_ratio)).collect::<Vec<_>>();
        let rows = [(best_spec, *best)].into_iter().chain(tuners);
        let row = |(spec, ratio): (&String, f64)| {
            vec![traffic.to_owned(), spec.clone(), format!("{ratio:.4}"), format!("{:.3}", ratio / best)]
        };
        rows.map(row).collect()
    }
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
        sweep.hillclimb.clone(),
        "lru".to_owned(),
        published(sweep.intervals.first().copied().unwrap_or_default()),
    ];
    let specs = tuners.into_iter().chain(sweep.constants.specs(stage));
    let found = replayed(specs.collect(), traffic, sweep.capacity, &format!("{id}, {shape}"), request, watch)?;
    let [lookahead, adaptsize, hillclimb, lru, published, constants @ ..] = found.as_slice() else {
        return Err(Error(format!("experiments/{}: a tuner was not measured", CALM.0)));
    };
    let ratios: Vec<f64> = constants.iter().map(|found| found.hit_ratio).collect();
    let (at, best) = sweep.constants.best(&format!("{shape}, {id}"), &ratios)?;
    Ok(Compared {
        curve: sweep.constants.grid().into_iter().map(|c| c as f64).zip(ratios).collect(),
        best_spec: constants[at].spec.clone(),
        best,
        adaptsize: adaptsize.clone(),
        lookahead: lookahead.clone(),
        hillclimb: hillclimb.clone(),
        lru: lru.clone(),
        published: published.clone(),
    })
}

/// Measures what a longer interval gives AdaptSize as published, at the typical and at the large
/// capacity.
fn large(
    section: &mut Section,
    sweep: &Calm,
    traffic: &Traffic,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let specs: Vec<String> = sweep.intervals.iter().map(|interval| published(*interval)).collect();
    let mut rows = Vec::new();
    for (id, capacity) in [("typical", sweep.capacity), ("large", sweep.large_capacity)] {
        let what = format!("intervals, {capacity} bytes");
        let found = replayed(specs.clone(), traffic, capacity, &what, request, watch)?;
        let (first, last) = (found.first(), found.last());
        let gain = first.zip(last).map_or(f64::NAN, |(first, last)| last.hit_ratio / first.hit_ratio);
        section.measured(format!("constant-{id}-interval"), gain);
        rows.extend(found.into_iter().map(|found| (capacity, found.spec, found.hit_ratio)));
    }
    let specs = sweep.large_constants.specs("expsize");
    let specs = specs.into_iter().chain(["adaptsize(chance)+lru".to_owned()]).collect();
    let mut constants = replayed(specs, traffic, sweep.large_capacity, "a large cache", request, watch)?;
    let deployed = constants.pop();
    let ratios: Vec<f64> = constants.iter().map(|found| found.hit_ratio).collect();
    let (at, _) = sweep.large_constants.best("a large cache", &ratios)?;
    let others = deployed.into_iter().chain([constants.swap_remove(at)]);
    rows.extend(others.map(|found| (sweep.large_capacity, found.spec, found.hit_ratio)));
    let rows = rows.into_iter().map(|(capacity, spec, ratio)| vec![capacity.to_string(), spec, format!("{ratio:.4}")]);
    let columns = ["cache, bytes", "policy", "object hit ratio"];
    section.table("hk: longer intervals of AdaptSize as published, and the best constant c", columns, rows.collect());
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
}

/// The tuners beside a constant c of Chance, in the order of their runs: the infixes of the claims
/// and the names.
const TUNERS: [(&str, &str); 5] = [
    ("lookahead", "LookAhead"),
    ("adaptsize", "AdaptSize"),
    ("published", "AS(published)"),
    ("hillclimb", "HillClimb"),
    ("tuned-hillclimb", "HillClimb(tuned)"),
];

/// How far the best constant c moves when a crowd comes.
struct Move {
    /// The best c of the calm traffic, and of that after the crowd came, bytes.
    from: f64,
    to: f64,
    /// What the former keeps of the hits of the latter, after the crowd came.
    kept: f64,
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
    section.condition("traffic", format!("{}, a crowd after {}", sweep.catalogue.conditions(), sweep.calm));
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
        let weights = 2 * sweep.constants.grid().len() as u64 + 14;
        watch.begin(&format!("constant c: crowd, {id}"), sweep.seeds * catalogue.requests as u64 * weights);
        let found = on_all_cores(seeds.collect(), |seed| {
            let accesses = catalogue.flash_crowd(shape, sweep.calm, seed)?;
            crowd(sweep, &format!("{id}, seed {seed}"), &Traffic::new("changing", accesses), request, watch)
        });
        let found = found.into_iter().collect::<Result<Vec<Repetition>, Error>>()?;
        for (at, (shape, _)) in SHAPES.into_iter().enumerate() {
            let of = |value: fn(&Move) -> f64| median(found.iter().map(|found| value(&found.moves[at])).collect());
            let kept = of(|moved| moved.kept);
            section.measured_if_claimed(format!("crowd-{id}-{shape}-kept"), kept);
            let [from, to] = [of(|moved| moved.from), of(|moved| moved.to)].map(|c| format!("{:.0}", c / 1024.0));
            kept_rows.push(vec![id.to_owned(), shape.to_owned(), from, to, format!("{kept:.3}")]);
        }
        let shares = TUNERS.iter().enumerate().map(|(at, (tuner, _))| {
            let share = median(found.iter().map(|found| found.shares[at]).collect());
            section.measured_if_claimed(format!("crowd-{id}-{tuner}"), share);
            format!("{share:.3}")
        });
        share_rows.push([id.to_owned()].into_iter().chain(shares).collect());
    }
    section.table(
        "The best constant c before and after the crowd came, medians",
        ["reading", "shape", "c before, KiB", "and after", "hits that the former keeps"],
        kept_rows,
    );
    section.table(
        "Hits after the crowd came, over those of the best constant c, medians",
        ["reading"].into_iter().chain(TUNERS.iter().map(|(_, name)| *name)),
        share_rows,
    );
    section.judged()
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
    ];
    let replay = |spec: String| {
        let run = Run { traffic, spec, capacity: sweep.capacity, warm_up: sweep.calm as usize };
        measure(&run, request, watch)
    };
    let replay_all = |specs: Vec<String>| specs.into_iter().map(replay).collect::<Result<Vec<ReplayResult>, Error>>();
    let tuners = replay_all(tuners.into())?;
    let (mut moves, mut best_chance) = (Vec::new(), f64::NAN);
    for (shape, stage) in SHAPES {
        let found = replay_all(sweep.constants.specs(stage))?;
        let ratios: Vec<f64> = found.iter().map(|found| found.hit_ratio).collect();
        let before: Vec<f64> = found.iter().map(|found| settled_calm(found, sweep.calm)).collect();
        let (old, _) = sweep.constants.best(&format!("{what}, {shape}, before the crowd"), &before)?;
        let (new, best) = sweep.constants.best(&format!("{what}, {shape}, after the crowd"), &ratios)?;
        let grid = sweep.constants.grid();
        moves.push(Move { from: grid[old] as f64, to: grid[new] as f64, kept: ratios[old] / best });
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
