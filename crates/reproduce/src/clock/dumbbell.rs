//! Section V: one to ten pairs over one backbone of 100 Mb/s. Figures 8 to 11.

use super::cells::{Cell, Cells, DEPTHS, Sweep, grid, of_bursts};
use super::network::{INTEREST, OTHER_INTERESTS, Outcome, Run, tick_label};
use super::several::{bursts, deepest, smoothing, statements};
use crate::cell::{measure_all, units};
use crate::statistics::{count, greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;

pub(super) const FILE: (&str, &str) = experiment_file!("clock/dumbbell.toml");

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let grid = grid(sweep);
    let several: Vec<Cell> = grid.iter().copied().filter(|cell| cell.pairs > 1).collect();
    let by_burst = of_bursts(sweep);
    let others = of_other_sizes(sweep, request.seed)?;
    let further = request.seed + 1..request.seed + sweep.seeds;
    let all = grid.len() + by_burst.len() + several.len() * further.clone().count();
    watch.begin("pairs over one backbone", all as u64 + units(&others));
    let measured = |cells: &[Cell], seed| Cells::measured(cells, sweep, seed, request, watch);
    let mut seeds = vec![measured(&grid, request.seed)?];
    for seed in further {
        seeds.push(measured(&several, seed)?);
    }
    let by_burst = measured(&by_burst, request.seed)?;
    let others = measure_all(others, request, watch)?;
    let cells = &seeds[0];

    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "network",
        format!(
            "dumbbell, {} Interests a second, 50 ms a link",
            sweep.line_rate
        ),
    );
    section.condition(
        "nodes",
        "a bucket a FIB entry and a link, both of the line rate, leaking in quanta",
    );
    section.condition(
        "consumers",
        "start together at the line rate over their number",
    );
    section.condition("seeds of several pairs", sweep.seeds);
    one_pair(&mut section, cells);
    over_one_pair(&mut section, sweep, cells);
    several_pairs(&mut section, cells);
    draw(&mut section, sweep, cells);
    tables(&mut section, sweep, cells);
    statements(&mut section, sweep, &seeds);
    bursts(&mut section, sweep, &by_burst);
    smoothing(&mut section, sweep, &seeds);
    deepest(&mut section, sweep, &seeds);
    sensitivity(&mut section, cells, &others);
    section.judged()
}

/// The cells that show how much the size of an Interest matters: those of the text, and the one of
/// several pairs that depends on it most.
const SENSITIVE: [(usize, u64, u64, bool); 7] = [
    (1, 50, 5, false),
    (1, 50, 5, true),
    (1, 50, 10, false),
    (1, 50, 10, true),
    (1, 100, 10, false),
    (1, 100, 10, true),
    (2, 50, 10, false),
];

/// Returns the runs of [`SENSITIVE`], with each size in turn.
fn of_other_sizes(sweep: &Sweep, seed: u64) -> Result<Vec<Run>, Error> {
    let sizes = SENSITIVE
        .iter()
        .flat_map(|cell| OTHER_INTERESTS.map(|interest| (*cell, interest)));
    let run = |((pairs, depth, tick, smoothing), interest)| {
        let cell = Cell {
            pairs,
            depth,
            tick,
            smoothing,
        };
        Ok(Run {
            interest,
            ..cell.run(sweep.line_rate, seed)?
        })
    };
    sizes.map(run).collect()
}

/// Adds the table of the other readings: sizes of an Interest, and segments asked for.
fn sensitivity(section: &mut Section, cells: &Cells, others: &[Outcome]) {
    let mut rows = Vec::new();
    for ((pairs, depth, tick, smoothing), others) in SENSITIVE
        .into_iter()
        .zip(others.chunks(OTHER_INTERESTS.len()))
    {
        let Some(taken) = cells.of(pairs, depth, tick, smoothing) else {
            continue;
        };
        let smoothing = if smoothing { "yes" } else { "no" }.to_owned();
        let mut row = vec![
            pairs.to_string(),
            depth.to_string(),
            tick_label(tick),
            smoothing,
        ];
        let shown = |outcome: &Outcome| {
            format!(
                "{:.1} / {:.1} / {}",
                outcome.total(),
                outcome.total_asked(),
                outcome.nacks
            )
        };
        row.extend(std::iter::once(taken).chain(others).map(shown));
        rows.push(row);
    }
    let mut header: Vec<String> = ["pairs", "depth", "tick", "smoothing"]
        .map(str::to_owned)
        .into();
    header.extend(
        [INTEREST]
            .iter()
            .chain(&OTHER_INTERESTS)
            .map(|bytes| format!("Interests of {bytes} bytes")),
    );
    section.table(
        "Other readings: Mb/s received / Mb/s asked / Nacks",
        header,
        rows,
    );
}

/// Measures the values that the paper's text states for one pair.
fn one_pair(section: &mut Section, cells: &Cells) {
    let printed = [(50, 5), (50, 10), (100, 10)];
    for (depth, tick) in printed {
        for smoothing in [false, true] {
            let Some(outcome) = cells.of(1, depth, tick, smoothing) else {
                continue;
            };
            let kind = if smoothing { "smooth" } else { "tick" };
            section.measured(format!("one-{depth}-{kind}-{tick}"), outcome.total());
        }
    }
    let refused = cells
        .0
        .iter()
        .filter(|(cell, _)| cell.pairs == 1 && cell.depth == 500);
    let refused: Vec<f64> = refused.map(|(_, outcome)| outcome.nacks as f64).collect();
    if !refused.is_empty() {
        section.measured("one-500-nacks", refused.iter().sum());
    }
    let fine = |depth| {
        cells
            .of(1, depth, 0, false)
            .map_or(f64::NAN, Outcome::total)
    };
    let deep = cells
        .0
        .iter()
        .filter(|(cell, _)| (cell.pairs, cell.depth) == (1, 500));
    section.measured(
        "one-500-least",
        least(deep.map(|(_, outcome)| outcome.total())) / fine(500),
    );
    let at_1_ms = cells.of(1, 50, 1, false).map_or(f64::NAN, Outcome::total);
    section.measured("one-50-tick-1", at_1_ms / fine(50));
}

/// Measures what the text says of several pairs beside one, with the fine clock.
fn over_one_pair(section: &mut Section, sweep: &Sweep, cells: &Cells) {
    let several = cells
        .0
        .iter()
        .filter(|(cell, _)| cell.pairs > 1 && cell.tick == 0);
    let is_less = |cell: &Cell, outcome: &Outcome| {
        cells
            .of(1, cell.depth, 0, false)
            .is_some_and(|one| outcome.nacks < one.nacks + 100)
    };
    section.measured(
        "nacks-of-several",
        count(several.map(|(cell, outcome)| is_less(cell, outcome))),
    );
    let total = |pairs| cells.of(pairs, 50, 0, false).map(Outcome::total);
    let most = greatest(
        sweep
            .pairs
            .iter()
            .filter(|pairs| **pairs > 1)
            .filter_map(|pairs| total(*pairs)),
    );
    section.measured("several-over-one", most / total(1).unwrap_or(f64::NAN));
}

/// Measures the values for which there are results of an independent simulation with the same
/// semantics.
fn several_pairs(section: &mut Section, cells: &Cells) {
    for pairs in [2, 10] {
        for depth in [50, 500] {
            for (tick, name) in [(0, "fine"), (1, "1"), (10, "10")] {
                if let Some(outcome) = cells.of(pairs, depth, tick, false) {
                    section.measured(format!("many-{pairs}-{depth}-{name}"), outcome.total());
                }
            }
        }
    }
}

/// Adds figures 8 to 11.
fn draw(section: &mut Section, sweep: &Sweep, cells: &Cells) {
    let line = |name: &str, depth, tick, smoothing, figure: fn(&Outcome) -> f64| {
        let point = |pairs: &usize| {
            Some((
                *pairs as f64,
                figure(cells.of(*pairs, depth, tick, smoothing)?),
            ))
        };
        Series::line(name, sweep.pairs.iter().filter_map(point).collect())
    };
    // A figure for a depth that the scale leaves out is empty.
    for depth in DEPTHS {
        let all = |smoothing: bool, figure: fn(&Outcome) -> f64| {
            let ticks = sweep.ticks.iter().filter(|tick| !smoothing || **tick > 0);
            ticks
                .map(|tick| line(&tick_label(*tick), depth, *tick, smoothing, figure))
                .collect::<Vec<_>>()
        };
        section.figure(&format!("throughput-{depth}"), all(false, Outcome::total));
        section.figure(
            &format!("nacks-{depth}"),
            all(false, |outcome| outcome.nacks as f64),
        );
        section.figure(&format!("smooth-{depth}"), all(true, Outcome::total));
    }
    let each = sweep.pairs.iter().filter_map(|pairs| {
        let outcome = cells.of(*pairs, 50, 1, false)?;
        Some(
            outcome
                .received
                .iter()
                .map(|rate| (*pairs as f64, *rate))
                .collect::<Vec<_>>(),
        )
    });
    section.figure(
        "each",
        vec![Series::points("a pair", each.flatten().collect())],
    );
}

fn tables(section: &mut Section, sweep: &Sweep, cells: &Cells) {
    let header = [
        "pairs",
        "depth",
        "tick",
        "smoothing",
        "Mb/s received",
        "Mb/s asked",
        "Nacks",
        "packets dropped",
        "Jain's index",
    ];
    let mut rows = Vec::new();
    for &pairs in &sweep.pairs {
        for (cell, outcome) in cells.0.iter().filter(|(cell, _)| cell.pairs == pairs) {
            rows.push(vec![
                pairs.to_string(),
                cell.depth.to_string(),
                tick_label(cell.tick),
                if cell.smoothing { "yes" } else { "no" }.to_owned(),
                format!("{:.1}", outcome.total()),
                format!("{:.1}", outcome.total_asked()),
                outcome.nacks.to_string(),
                outcome.drops.to_string(),
                format!("{:.2}", outcome.fairness()),
            ]);
        }
    }
    section.table("All pairs together", header, rows);
}
