//! What the paper's text says of several pairs (section V.B and V.C), with several seeds, and what
//! decides it: the Interests of a tick over the bucket's depth.

use super::cells::{Cell, Cells, DEPTHS, Sweep};
use super::network::{Outcome, tick_label};
use crate::Section;
use crate::statistics::{count, greatest, least};
use larder_figure::Series;

/// The deepest bucket, at which the seed matters most.
const DEEPEST: u64 = 500;

/// Measures what the text states about several pairs, of the first seed if nothing else is said,
/// and adds a table with all seeds.
pub(super) fn statements(section: &mut Section, sweep: &Sweep, seeds: &[Cells]) {
    let of_seeds: Vec<_> = seeds.iter().map(|cells| stated(sweep, cells)).collect();
    let mut rows = Vec::new();
    for (at, (id, value)) in of_seeds[0].iter().enumerate() {
        // Its first seed is a lucky one.
        let is_of_all = id == "exception-100-10";
        let value = if is_of_all {
            greatest(of_seeds.iter().map(|stated| stated[at].1))
        } else {
            *value
        };
        section.measured(id.clone(), value);
        let shown = of_seeds.iter().map(|stated| match stated[at].1 {
            value if value.is_nan() => "–".to_owned(),
            value if value.fract() == 0.0 => format!("{value}"),
            value => format!("{value:.2}"),
        });
        rows.push(std::iter::once(id.clone()).chain(shown).collect());
    }
    section.table(
        "Claims about several pairs, with each seed",
        std::iter::once("claim".to_owned()).chain(seed_names(seeds.len())),
        rows,
    );
}

/// Returns the names of the seeds. Claims are judged with the first.
fn seed_names(seeds: usize) -> impl Iterator<Item = String> {
    (0..seeds).map(|seed| {
        if seed == 0 {
            "claimed seed".to_owned()
        } else {
            format!("seed + {seed}")
        }
    })
}

/// Returns the claims that need several pairs only, by their ids.
fn stated(sweep: &Sweep, cells: &Cells) -> Vec<(String, f64)> {
    let several = || sweep.pairs.iter().copied().filter(|pairs| *pairs > 1);
    let total = |pairs, tick| cells.of(pairs, 50, tick, false).map(Outcome::total);
    let rising = several().flat_map(|pairs| {
        let timeline: Vec<f64> = sweep
            .ticks
            .iter()
            .filter_map(|tick| total(pairs, *tick))
            .collect();
        timeline
            .windows(2)
            .map(|pair| pair[1] > pair[0])
            .collect::<Vec<_>>()
    });
    let unfair = several()
        .filter_map(|pairs| cells.of(pairs, 50, 1, false))
        .map(Outcome::fairness);
    let (excepted, coarse): (Vec<_>, Vec<_>) = over_fine(cells)
        .into_iter()
        .partition(|(cell, _)| (cell.depth, cell.tick) == (100, 10));
    let coarse = coarse.iter().filter(|(cell, _)| cell.depth > 50);
    let gains: Vec<f64> = gains(cells).into_iter().map(|(_, gain)| gain).collect();
    let mut stated = vec![
        ("falls-with-tick".to_owned(), count(rising)),
        (
            "coarse-beats-fine".to_owned(),
            count(coarse.map(|(_, ratio)| *ratio > 1.0)),
        ),
        (
            "exception-100-10".to_owned(),
            count(excepted.iter().map(|(_, ratio)| *ratio < 1.0)),
        ),
        ("fairness-1ms".to_owned(), least(unfair)),
        (
            "smoothing-of-several".to_owned(),
            gains.iter().sum::<f64>() / gains.len() as f64,
        ),
        (
            "smoothing-least-cell".to_owned(),
            least(gains.iter().copied()),
        ),
        (
            "smoothing-greatest-cell".to_owned(),
            greatest(gains.iter().copied()),
        ),
    ];
    for depth in DEPTHS {
        let all = cells
            .0
            .iter()
            .filter(|(cell, _)| cell.depth == depth && !cell.smoothing);
        stated.push((
            format!("nacks-{depth}-most"),
            greatest(all.map(|(_, outcome)| outcome.nacks as f64)),
        ));
    }
    stated
}

/// Returns the cells of several pairs with a coarse clock, and their throughput over the fine
/// clock's.
fn over_fine(cells: &Cells) -> Vec<(Cell, f64)> {
    let coarse = cells
        .0
        .iter()
        .filter(|(cell, _)| cell.pairs > 1 && cell.tick > 0 && !cell.smoothing);
    let ratio = |(cell, outcome): &(Cell, Outcome)| {
        Some((
            *cell,
            outcome.total() / cells.of(cell.pairs, cell.depth, 0, false)?.total(),
        ))
    };
    coarse.filter_map(ratio).collect()
}

/// Returns the cells of several pairs with smoothing, and their throughput over that without.
fn gains(cells: &Cells) -> Vec<(Cell, f64)> {
    let smoothed = cells
        .0
        .iter()
        .filter(|(cell, _)| cell.pairs > 1 && cell.smoothing);
    let gain = |(cell, outcome): &(Cell, Outcome)| {
        let without = cells.of(cell.pairs, cell.depth, cell.tick, false)?;
        Some((*cell, outcome.total() / without.total()))
    };
    smoothed.filter_map(gain).collect()
}

/// Adds the table and the figure of what smoothing does in each cell.
pub(super) fn smoothing(section: &mut Section, sweep: &Sweep, seeds: &[Cells]) {
    let gains: Vec<Vec<(Cell, f64)>> = seeds.iter().map(gains).collect();
    let several: Vec<usize> = sweep
        .pairs
        .iter()
        .copied()
        .filter(|pairs| *pairs > 1)
        .collect();
    let mut rows = Vec::new();
    for &depth in &sweep.depths {
        for &tick in sweep.ticks.iter().filter(|tick| **tick > 0) {
            let mut row = vec![
                depth.to_string(),
                tick_label(tick),
                format!("{:.2}", sweep.burst(depth, tick)),
            ];
            row.extend(several.iter().map(|&pairs| {
                let of_cell =
                    |cell: &Cell| (cell.pairs, cell.depth, cell.tick) == (pairs, depth, tick);
                let all: Vec<f64> = gains
                    .iter()
                    .flatten()
                    .filter(|(cell, _)| of_cell(cell))
                    .map(|(_, gain)| *gain)
                    .collect();
                format!(
                    "{:.2} ({:.2} to {:.2})",
                    all[0],
                    least(all.iter().copied()),
                    greatest(all.iter().copied())
                )
            }));
            rows.push(row);
        }
    }
    let header = ["depth", "tick", "Interests of a tick over the depth"].map(str::to_owned);
    let pairs = several.iter().map(|pairs| format!("{pairs} pairs"));
    section.table(
        "Throughput with smoothing over without: the claimed seed, and the range of all seeds",
        header.into_iter().chain(pairs),
        rows,
    );
    let line = |pairs: &usize| {
        let of_pairs = gains[0].iter().filter(|(cell, _)| cell.pairs == *pairs);
        Series::points(
            format!("{pairs} pairs"),
            of_pairs
                .map(|(cell, gain)| (sweep.burst(cell.depth, cell.tick), *gain))
                .collect(),
        )
    };
    section.figure("smoothing-gain", several.iter().map(line).collect());
}

/// Adds the figures and the table of throughput by the Interests of a tick over the depth.
pub(super) fn bursts(section: &mut Section, sweep: &Sweep, cells: &Cells) {
    let mut figures = (Vec::new(), Vec::new());
    let several: Vec<usize> = sweep
        .pairs
        .iter()
        .copied()
        .filter(|pairs| *pairs > 1)
        .collect();
    let lines: Vec<(usize, u64)> = several
        .iter()
        .flat_map(|&pairs| sweep.burst_depths().map(move |depth| (pairs, depth)))
        .collect();
    for &(pairs, depth) in &lines {
        let of_line: Vec<_> = cells
            .0
            .iter()
            .filter(|(cell, _)| (cell.pairs, cell.depth) == (pairs, depth))
            .collect();
        let line = |figure: fn(&Outcome) -> f64| {
            let points = of_line
                .iter()
                .map(|(cell, outcome)| (sweep.burst(depth, cell.tick), figure(outcome)));
            Series::line(
                format!("{pairs} pairs, depth {depth}"),
                points.filter(|(_, y)| y.is_finite()).collect(),
            )
        };
        figures.0.push(line(Outcome::total));
        figures.1.push(line(Outcome::share_that_falls_together));
    }
    section.figure("burst", figures.0);
    section.figure("together", figures.1);
    let rows = sweep.bursts.iter().map(|percent| {
        let cells = lines.iter().map(|&(pairs, depth)| {
            let tick = depth * percent * 10 / sweep.line_rate;
            let outcome = cells.of(pairs, depth, tick, false);
            outcome.map_or_else(String::new, shown)
        });
        std::iter::once(format!("{:.2}", *percent as f64 / 100.0))
            .chain(cells)
            .collect()
    });
    let header = lines
        .iter()
        .map(|(pairs, depth)| format!("{pairs} pairs, depth {depth}"));
    section.table(
        "Interests of a tick at the line rate over the depth: Mb/s received / Nacks / share of the pairs that fall together",
        std::iter::once("over the depth".to_owned()).chain(header),
        rows.collect(),
    );
}

fn shown(outcome: &Outcome) -> String {
    format!(
        "{:.1} / {} / {:.2}",
        outcome.total(),
        outcome.nacks,
        outcome.share_that_falls_together()
    )
}

/// Adds the table of the deepest buckets with each seed, if the scale has them.
pub(super) fn deepest(section: &mut Section, sweep: &Sweep, seeds: &[Cells]) {
    let mut rows = Vec::new();
    for &pairs in sweep.pairs.iter().filter(|pairs| **pairs > 1) {
        for &tick in &sweep.ticks {
            let outcomes: Vec<&Outcome> = seeds
                .iter()
                .filter_map(|cells| cells.of(pairs, DEEPEST, tick, false))
                .collect();
            if outcomes.is_empty() {
                continue;
            }
            let label = [pairs.to_string(), tick_label(tick)];
            rows.push(
                label
                    .into_iter()
                    .chain(outcomes.into_iter().map(shown))
                    .collect(),
            );
        }
    }
    section.table(
        "Buckets of 500, with each seed: Mb/s received / Nacks / share of the pairs that fall together",
        ["pairs".to_owned(), "tick".to_owned()].into_iter().chain(seed_names(seeds.len())),
        rows,
    );
}
