//! The tuners beside every constant c in flash crowds: how far the best constant c moves when the
//! crowd comes, and what the tuners have beyond it. The experiment explains the lead of HillClimb
//! in `flash-crowd`, `flash-local` and `flash-chunks`.

use super::constant_c::{Constants, SHAPES};
use super::replays::{Catalogue, ReplayResult, Run, Traffic, lookahead, weight};
use crate::cell::measure;
use crate::statistics::{greatest, least, median, percentile};
use crate::{Error, Experiment, Request, Section, Watch, on_all_cores};
use larder_replay::CrowdShape;
use serde::Deserialize;

const FILE: (&str, &str) = experiment_file!("adaptsize/constant-c-crowds.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
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
    /// The tuners' hits in the last half of the requests after the crowd came, over those of the
    /// constant c of Chance that is the best one there.
    late_shares: [f64; TUNERS.len()],
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    let Sweep {
        crowd: [fewest, most],
        chunk_bytes,
        windows,
        seeds,
        calm,
        ..
    } = sweep;
    section.condition(
        "traffic",
        format!(
            "{}, a crowd after {calm}, {seeds} times",
            sweep.catalogue.conditions()
        ),
    );
    section.condition(
        "crowds",
        format!("{fewest} to {most} objects, as chunks with {chunk_bytes} bytes each"),
    );
    section.condition(
        "local",
        format!("the catalogue's requests in windows of {windows} of the trace or more"),
    );
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let local = Catalogue {
        windows: Some(sweep.windows),
        ..sweep.catalogue
    };
    let (mut kept_rows, mut share_rows, mut late_rows) = (Vec::new(), Vec::new(), Vec::new());
    for (id, catalogue, chunk_bytes) in [
        ("catalogue", sweep.catalogue, None),
        ("local", local, None),
        ("chunks", sweep.catalogue, Some(sweep.chunk_bytes)),
    ] {
        let shape = CrowdShape {
            objects: sweep.crowd,
            chunk_bytes,
        };
        let seeds = request.seed..request.seed + sweep.seeds;
        let weights =
            2 * sweep.constants.grid().len() as u64 + TUNERS.len() as u64 - 1 + weight("lookahead");
        watch.begin(
            &format!("constant c: crowd, {id}"),
            sweep.seeds * catalogue.requests as u64 * weights,
        );
        let found = on_all_cores(seeds.collect(), |seed| {
            let accesses = catalogue.flash_crowd(shape, sweep.calm, seed)?;
            let traffic = Traffic::new("changing", accesses).in_parts(CROWD_PARTS);
            crowd(
                sweep,
                &format!("{id}, seed {seed}"),
                &traffic,
                request,
                watch,
            )
        });
        let found = found
            .into_iter()
            .collect::<Result<Vec<Repetition>, Error>>()?;
        keep(&mut section, id, &found, &mut kept_rows);
        let of_all: fn(&Repetition) -> &[f64] = |found| &found.shares;
        let of_late: fn(&Repetition) -> &[f64] = |found| &found.late_shares;
        for (rows, infix, of) in [
            (&mut share_rows, "", of_all),
            (&mut late_rows, "late-", of_late),
        ] {
            let shares = TUNERS.iter().enumerate().map(|(at, (tuner, _))| {
                let shares: Vec<f64> = found.iter().map(|found| of(found)[at]).collect();
                section.measured_if_claimed(
                    format!("crowd-{id}-{infix}{tuner}"),
                    median(shares.clone()),
                );
                between(&shares, 3)
            });
            rows.push([id.to_owned()].into_iter().chain(shares).collect());
        }
    }
    tables(&mut section, kept_rows, share_rows, late_rows);
    section.judged()
}

/// Records what the best constant c of a reading keeps when the crowd comes, a row for each shape.
fn keep(section: &mut Section, id: &str, found: &[Repetition], kept_rows: &mut Vec<Vec<String>>) {
    for (at, (shape, _)) in SHAPES.into_iter().enumerate() {
        let of = |value: fn(&Move) -> f64| {
            found
                .iter()
                .map(|found| value(&found.moves[at]))
                .collect::<Vec<f64>>()
        };
        let kept = of(|moved| moved.kept);
        section.measured_if_claimed(format!("crowd-{id}-{shape}-kept"), median(kept.clone()));
        let cs = [of(|moved| moved.from), of(|moved| moved.to)];
        let cs = cs.map(|cs| between(&cs.into_iter().map(|c| c / 1024.0).collect::<Vec<f64>>(), 0));
        let shares = [kept, of(|moved| moved.of_lookahead)].map(|shares| between(&shares, 3));
        kept_rows.push(
            [id, shape]
                .map(str::to_owned)
                .into_iter()
                .chain(cs)
                .chain(shares)
                .collect(),
        );
    }
}

/// Adds the tables, each with its rows.
fn tables(
    section: &mut Section,
    kept_rows: Vec<Vec<String>>,
    share_rows: Vec<Vec<String>>,
    late_rows: Vec<Vec<String>>,
) {
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
    section.table(
        "The same in the last half of the requests after the crowd came",
        ["reading"]
            .into_iter()
            .chain(TUNERS.iter().map(|(_, name)| *name)),
        late_rows,
    );
}

/// Returns the value of a repetition in the middle, and of those with the least and the most.
fn between(values: &[f64], digits: usize) -> String {
    let [middle, least, most] = [
        percentile(values, 50),
        least(values.iter().copied()),
        greatest(values.iter().copied()),
    ];
    format!("{middle:.digits$} ({least:.digits$} to {most:.digits$})")
}

fn crowd(
    sweep: &Sweep,
    what: &str,
    traffic: &Traffic,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Repetition, Error> {
    let tuners = [
        lookahead("chance", [sweep.lookahead_interval, sweep.lookahead_window]),
        "adaptsize(chance)+lru".to_owned(),
        sweep.published.clone(),
        sweep.hillclimb.clone(),
        sweep.tuned_hillclimb.clone(),
        sweep.settled_hillclimb.clone(),
    ];
    let replay = |spec: String| {
        let run = Run {
            traffic,
            spec,
            capacity: sweep.capacity,
            warm_up: sweep.calm as usize,
        };
        measure(&run, request, watch)
    };
    let replay_all = |specs: Vec<String>| {
        specs
            .into_iter()
            .map(replay)
            .collect::<Result<Vec<ReplayResult>, Error>>()
    };
    let tuners = replay_all(tuners.into())?;
    let ahead = tuners.first().map_or(f64::NAN, |found| found.hit_ratio);
    let Sweep {
        calm,
        catalogue: Catalogue { requests, .. },
        ..
    } = *sweep;
    let [requests, middle] = [requests as u64, calm.midpoint(requests as u64)];
    let late = |found: &ReplayResult| ratio_between(found, middle, requests);
    let (mut moves, mut best_chance, mut late_best) = (Vec::new(), f64::NAN, f64::NAN);
    for (shape, stage) in SHAPES {
        let found = replay_all(sweep.constants.specs(stage))?;
        let ratios: Vec<f64> = found.iter().map(|found| found.hit_ratio).collect();
        let before: Vec<f64> = found
            .iter()
            .map(|found| ratio_between(found, calm / 2, calm))
            .collect();
        let (old, _) = sweep
            .constants
            .best(&format!("{what}, {shape}, before the crowd"), &before)?;
        let (new, best) = sweep
            .constants
            .best(&format!("{what}, {shape}, after the crowd"), &ratios)?;
        let grid = sweep.constants.grid();
        moves.push(Move {
            from: grid[old] as f64,
            to: grid[new] as f64,
            kept: ratios[old] / best,
            of_lookahead: best / ahead,
        });
        if shape == "chance" {
            best_chance = best;
            let ratios: Vec<f64> = found.iter().map(late).collect();
            late_best = sweep
                .constants
                .best(&format!("{what}, {shape}, late"), &ratios)?
                .1;
        }
    }
    let missing = |_| {
        Error(format!(
            "experiments/{}: {what}: a replay is missing",
            FILE.0
        ))
    };
    let of = |value: &dyn Fn(&ReplayResult) -> f64| {
        std::array::from_fn(|at| tuners.get(at).map_or(f64::NAN, value))
    };
    Ok(Repetition {
        moves: moves.try_into().map_err(missing)?,
        shares: of(&|found| found.hit_ratio / best_chance),
        late_shares: of(&|found| late(found) / late_best),
    })
}

/// Returns the hit ratio of the parts of the timeline between the request `from` and the request
/// `to`.
fn ratio_between(found: &ReplayResult, from: u64, to: u64) -> f64 {
    let end = |at: f64| (at * 1e6).round() as u64;
    let parts = found
        .timeline
        .iter()
        .filter(|(at, ..)| (from + 1..=to).contains(&end(*at)));
    let ratios: Vec<f64> = parts.map(|(_, ratio, _)| *ratio).collect();
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_counts_parts_before_or_after_it() {
        let ratios = [0.1, 0.2, 0.5, 0.7, 0.9];
        let timeline = (1..)
            .zip(ratios)
            .map(|(part, ratio)| (f64::from(part) * 10e-6, ratio, None))
            .collect();
        let found = ReplayResult {
            timeline,
            ..ReplayResult::default()
        };
        assert!((ratio_between(&found, 20, 40) - 0.6).abs() < 1e-12);
        assert!(ratio_between(&ReplayResult::default(), 20, 40).is_nan());
    }
}
