//! Section V: one to ten pairs over one backbone of 100 Mb/s. Figures 8 to 11.

use super::network::{INTEREST, OTHER_INTERESTS, Outcome, Run, clock, congestion, strategy, tick_label};
use crate::cell::{measure_all, units};
use crate::statistics::{count, greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("clock/dumbbell.toml");

/// The bucket depths of the figures' parts (a), (b) and (c).
const DEPTHS: [u64; 3] = [50, 100, 500];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pairs: Vec<usize>,
    /// The depths of the token buckets, Interests.
    depths: Vec<u64>,
    /// The clock's ticks, ms; 0 is the fine clock.
    ticks: Vec<u64>,
    line_rate: u64,
}

/// One cell of the figures.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    pairs: usize,
    depth: u64,
    tick: u64,
    smoothing: bool,
}

struct Cells(Vec<(Cell, Outcome)>);

impl Cells {
    /// Returns the outcome of a cell, if the scale has the cell.
    fn of(&self, pairs: usize, depth: u64, tick: u64, smoothing: bool) -> Option<&Outcome> {
        let cell = Cell { pairs, depth, tick, smoothing };
        self.0.iter().find(|(other, _)| *other == cell).map(|(_, outcome)| outcome)
    }
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut cells = Vec::new();
    // Long runs start first.
    for &pairs in sweep.pairs.iter().rev() {
        for &depth in sweep.depths.iter().rev() {
            for &tick in &sweep.ticks {
                let smoothings = if tick == 0 { &[false][..] } else { &[false, true] };
                cells.extend(smoothings.iter().map(|&smoothing| Cell { pairs, depth, tick, smoothing }));
            }
        }
    }
    let runs = cells.iter().map(|cell| cell.run(sweep.line_rate, request.seed)).collect::<Result<Vec<_>, Error>>()?;
    watch.begin("pairs over one backbone", units(&runs) + units(&of_other_sizes(sweep, request.seed)?));
    let outcomes = measure_all(runs, request, watch)?;
    let cells = Cells(cells.into_iter().zip(outcomes).collect());
    let others = measure_all(of_other_sizes(sweep, request.seed)?, request, watch)?;

    let mut section = Section::new(&experiment, request.scale);
    section.condition("network", format!("dumbbell, {} Interests a second, 50 ms a link", sweep.line_rate));
    section.condition("nodes", "a bucket a FIB entry and a link, both of the line rate, leaking in quanta");
    section.condition("consumers", "start together at the line rate over their number");
    one_pair(&mut section, &cells);
    nacks(&mut section, &cells);
    several_pairs(&mut section, &cells);
    trends(&mut section, sweep, &cells);
    draw(&mut section, sweep, &cells);
    tables(&mut section, sweep, &cells);
    sensitivity(&mut section, &cells, &others);
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
    let sizes = SENSITIVE.iter().flat_map(|cell| OTHER_INTERESTS.map(|interest| (*cell, interest)));
    let run = |((pairs, depth, tick, smoothing), interest)| {
        let cell = Cell { pairs, depth, tick, smoothing };
        Ok(Run { interest, ..cell.run(sweep.line_rate, seed)? })
    };
    sizes.map(run).collect()
}

/// Adds the table of the other readings: sizes of an Interest, and segments asked for.
fn sensitivity(section: &mut Section, cells: &Cells, others: &[Outcome]) {
    let mut rows = Vec::new();
    for ((pairs, depth, tick, smoothing), others) in SENSITIVE.into_iter().zip(others.chunks(OTHER_INTERESTS.len())) {
        let Some(taken) = cells.of(pairs, depth, tick, smoothing) else { continue };
        let smoothing = if smoothing { "yes" } else { "no" }.to_owned();
        let mut row = vec![pairs.to_string(), depth.to_string(), tick_label(tick), smoothing];
        let shown =
            |outcome: &Outcome| format!("{:.1} / {:.1} / {}", outcome.total(), outcome.total_asked(), outcome.nacks);
        row.extend(std::iter::once(taken).chain(others).map(shown));
        rows.push(row);
    }
    let mut header: Vec<String> = ["pairs", "depth", "tick", "smoothing"].map(str::to_owned).into();
    header.extend([INTEREST].iter().chain(&OTHER_INTERESTS).map(|bytes| format!("Interests of {bytes} bytes")));
    section.table("Other readings: Mb/s received / Mb/s asked / Nacks", header, rows);
}

impl Cell {
    fn run(&self, line_rate: u64, seed: u64) -> Result<Run, Error> {
        let Cell { pairs, depth, tick, smoothing } = *self;
        let start = line_rate / pairs as u64;
        Ok(Run {
            pairs,
            line_rate,
            interest: INTEREST,
            strategy: strategy(&format!("stateful/v=1/rate~{line_rate}/depth~{depth}/leak~quanta/fib~each"))?,
            marks: false,
            congestion: congestion(&format!("rate(start={start},most={line_rate},nack=halve)"))?,
            clock: clock(tick, smoothing),
            is_drawn: false,
            seed,
        })
    }
}

/// Measures the values that the paper's text states for one pair.
fn one_pair(section: &mut Section, cells: &Cells) {
    let printed = [(50, 5), (50, 10), (100, 10)];
    for (depth, tick) in printed {
        for smoothing in [false, true] {
            let Some(outcome) = cells.of(1, depth, tick, smoothing) else { continue };
            let kind = if smoothing { "smooth" } else { "tick" };
            section.measured(format!("one-{depth}-{kind}-{tick}"), outcome.total());
        }
    }
    let refused = cells.0.iter().filter(|(cell, _)| cell.pairs == 1 && cell.depth == 500);
    let refused: Vec<f64> = refused.map(|(_, outcome)| outcome.nacks as f64).collect();
    if !refused.is_empty() {
        section.measured("one-500-nacks", refused.iter().sum());
    }
    let fine = |depth| cells.of(1, depth, 0, false).map_or(f64::NAN, Outcome::total);
    let deep = cells.0.iter().filter(|(cell, _)| (cell.pairs, cell.depth) == (1, 500));
    section.measured("one-500-least", least(deep.map(|(_, outcome)| outcome.total())) / fine(500));
    let at_1_ms = cells.of(1, 50, 1, false).map_or(f64::NAN, Outcome::total);
    section.measured("one-50-tick-1", at_1_ms / fine(50));
}

/// Measures what figure 9 shows: its axes, and that several pairs have more Nacks than one.
fn nacks(section: &mut Section, cells: &Cells) {
    for depth in DEPTHS {
        let all = cells.0.iter().filter(|(cell, _)| cell.depth == depth && !cell.smoothing);
        section.measured(format!("nacks-{depth}-most"), greatest(all.map(|(_, outcome)| outcome.nacks as f64)));
    }
    let several = cells.0.iter().filter(|(cell, _)| cell.pairs > 1 && cell.tick == 0);
    let is_less = |cell: &Cell, outcome: &Outcome| {
        cells.of(1, cell.depth, 0, false).is_some_and(|one| outcome.nacks < one.nacks + 100)
    };
    section.measured("nacks-of-several", count(several.map(|(cell, outcome)| is_less(cell, outcome))));
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

/// Measures what the paper's text states about the shapes of the figures.
fn trends(section: &mut Section, sweep: &Sweep, cells: &Cells) {
    let several = || sweep.pairs.iter().copied().filter(|pairs| *pairs > 1);
    let total = |pairs, depth, tick, smoothing| cells.of(pairs, depth, tick, smoothing).map(Outcome::total);
    let rising = several().flat_map(|pairs| {
        let timeline: Vec<f64> = sweep.ticks.iter().filter_map(|tick| total(pairs, 50, *tick, false)).collect();
        timeline.windows(2).map(|pair| pair[1] > pair[0]).collect::<Vec<_>>()
    });
    section.measured("falls-with-tick", count(rising));
    let single = total(1, 50, 0, false).unwrap_or(f64::NAN);
    let most = greatest(several().filter_map(|pairs| total(pairs, 50, 0, false)));
    section.measured("several-over-one", most / single);
    let unfair = several().filter_map(|pairs| cells.of(pairs, 50, 1, false)).map(Outcome::fairness);
    section.measured("fairness-1ms", least(unfair));
    let gains = cells
        .0
        .iter()
        .filter(|(cell, _)| cell.pairs > 1 && cell.smoothing)
        .filter_map(|(cell, outcome)| Some(outcome.total() / total(cell.pairs, cell.depth, cell.tick, false)?));
    let gains: Vec<f64> = gains.collect();
    section.measured("smoothing-of-several", gains.iter().sum::<f64>() / gains.len() as f64);
    let slower = cells.0.iter().filter_map(|(cell, outcome)| {
        let excepted = (cell.depth, cell.tick) == (100, 10);
        let is_meant = cell.pairs > 1 && cell.depth > 50 && cell.tick > 0 && !cell.smoothing && !excepted;
        let fine = total(cell.pairs, cell.depth, 0, false).filter(|_| is_meant)?;
        Some(outcome.total() > fine)
    });
    section.measured("coarse-beats-fine", count(slower));
}

/// Adds figures 8 to 11.
fn draw(section: &mut Section, sweep: &Sweep, cells: &Cells) {
    let line = |name: &str, depth, tick, smoothing, figure: fn(&Outcome) -> f64| {
        let point = |pairs: &usize| Some((*pairs as f64, figure(cells.of(*pairs, depth, tick, smoothing)?)));
        Series::line(name, sweep.pairs.iter().filter_map(point).collect())
    };
    // A figure for a depth that the scale leaves out is empty.
    for depth in DEPTHS {
        let all = |smoothing: bool, figure: fn(&Outcome) -> f64| {
            let ticks = sweep.ticks.iter().filter(|tick| !smoothing || **tick > 0);
            ticks.map(|tick| line(&tick_label(*tick), depth, *tick, smoothing, figure)).collect::<Vec<_>>()
        };
        section.figure(&format!("throughput-{depth}"), all(false, Outcome::total));
        section.figure(&format!("nacks-{depth}"), all(false, |outcome| outcome.nacks as f64));
        section.figure(&format!("smooth-{depth}"), all(true, Outcome::total));
    }
    let each = sweep.pairs.iter().filter_map(|pairs| {
        let outcome = cells.of(*pairs, 50, 1, false)?;
        Some(outcome.received.iter().map(|rate| (*pairs as f64, *rate)).collect::<Vec<_>>())
    });
    section.figure("each", vec![Series::points("a pair", each.flatten().collect())]);
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
