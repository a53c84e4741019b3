//! Sections III and IV: one pair over 10 Mb/s. Tables I and II, figures 3 to 6.

use super::network::{
    INTEREST, OTHER_INTERESTS, Outcome, Run, SECONDS, clock, congestion, strategy, tick_label,
};
use crate::cell::{measure_all, units};
use crate::statistics::{greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;
use std::time::Duration;

pub(super) const FILE: (&str, &str) = experiment_file!("clock/linear.toml");

/// The published rows of Tables I and II: tick in milliseconds (0 is the fine clock), smoothing,
/// Mb/s, Nacks.
const PUBLISHED: [(u64, bool, f64, u64); 7] = [
    (0, false, 8.75, 0),
    (50, false, 7.72, 7),
    (100, false, 3.12, 20),
    (200, false, 1.50, 27),
    (50, true, 8.73, 0),
    (100, true, 8.70, 0),
    (200, true, 8.69, 0),
];

/// The ticks, ms, at which the rate exceeds the bucket's depth per tick.
const BURSTING: [u64; 2] = [100, 200];

/// The greatest and the least rate that the text states for these ticks, and Table I's Nacks.
const BURSTING_PUBLISHED: [[&str; 3]; 2] = [["600", "1", "20"], ["300", "–", "27"]];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// The number of start times of the leak. They affect the row of 50 ms; the other rows use the
    /// first one only.
    phases: u64,
    /// The number of moments between two ticks at which the consumer starts, with each size of an
    /// Interest. They affect the rows of 100 and 200 ms.
    starts: u32,
    line_rate: u64,
    strategy: String,
    congestion: String,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let base = Run {
        pairs: 1,
        line_rate: sweep.line_rate,
        interest: INTEREST,
        strategy: strategy(&sweep.strategy)?,
        marks: false,
        congestion: congestion(&sweep.congestion)?,
        clock: clock(0, false),
        start: Duration::ZERO,
        seconds: SECONDS,
        is_drawn: true,
        seed: request.seed,
    };
    let row = |(tick, smoothing, ..): &(u64, bool, f64, u64)| Run {
        clock: clock(*tick, *smoothing),
        ..base.clone()
    };
    let mut runs: Vec<Run> = PUBLISHED.iter().map(row).collect();
    let phases = (1..sweep.phases).map(|phase| Run {
        seed: request.seed + phase,
        is_drawn: false,
        ..row(&PUBLISHED[1])
    });
    runs.extend(phases);
    let of_size = |interest| {
        PUBLISHED
            .iter()
            .map(row)
            .map(move |run| Run { interest, ..run })
    };
    let others: Vec<Run> = OTHER_INTERESTS.into_iter().flat_map(of_size).collect();
    let starting = starting(&base, sweep.starts);
    watch.begin("one pair", units(&runs) + units(&others) + units(&starting));
    let outcomes = measure_all(runs, request, watch)?;
    let others = measure_all(others, request, watch)?;
    let starting = measure_all(starting, request, watch)?;
    let (rows, further) = outcomes.split_at(PUBLISHED.len());
    let phases: Vec<&Outcome> = std::iter::once(&rows[1]).chain(further).collect();
    let mean = |figure: fn(&Outcome) -> f64| {
        phases.iter().map(|o| figure(o)).sum::<f64>() / phases.len() as f64
    };
    let (phase_mbps, phase_nacks) = (
        mean(Outcome::total_asked),
        mean(|outcome| outcome.nacks as f64),
    );

    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "network",
        format!(
            "C – R1 – R2 – P, {} Interests a second, 50 ms a link",
            sweep.line_rate
        ),
    );
    section.condition("nodes", &sweep.strategy);
    section.condition("consumer", &sweep.congestion);
    section.condition("moments of the first leak at 50 ms", sweep.phases);
    section.condition("starts between two ticks, at 100 and 200 ms", sweep.starts);
    tables(&mut section, rows, phase_mbps, phase_nacks);
    section.measured("received-behind", rows[0].total_asked() - rows[0].total());
    let falls = rows[1]
        .timeline
        .rate
        .windows(2)
        .find(|pair| pair[1].1 < pair[0].1);
    section.measured(
        "tick-50-first-fall",
        falls.map_or(f64::INFINITY, |pair| pair[1].0),
    );
    let rates = |row: usize| rows[row].courses[0].rates.unwrap_or((f64::NAN, f64::NAN));
    section.measured("tick-100-peak", rates(2).1);
    section.measured("tick-200-peak", rates(3).1);
    section.measured("tick-100-least", rates(2).0);
    bursts(&mut section, &starting, sweep.starts);
    depths(&mut section, rows);
    sensitivity(&mut section, rows, &others);
    draw(&mut section, rows);
    section.judged()
}

/// Adds Tables I and II, with the mean over moments of the first leak in the row of 50 ms.
fn tables(section: &mut Section, rows: &[Outcome], phase_mbps: f64, phase_nacks: f64) {
    let mut table = Vec::new();
    for ((tick, smoothing, published, nacks), outcome) in PUBLISHED.iter().zip(rows) {
        let id = row_id(*tick, *smoothing);
        let is_50 = (*tick, *smoothing) == (50, false);
        let (asked, refused) = if is_50 {
            (phase_mbps, phase_nacks)
        } else {
            (outcome.total_asked(), outcome.nacks as f64)
        };
        section.measured(format!("{id}-throughput"), asked);
        section.measured(format!("{id}-nacks"), refused);
        let figures = [
            format!("{published:.2}"),
            format!("{asked:.3}"),
            format!("{:.3}", outcome.total()),
        ];
        let label = [tick_label(*tick), yes(*smoothing)];
        table.push(
            [
                &label[..],
                &figures,
                &[nacks.to_string(), format!("{refused:.1}")],
            ]
            .concat(),
        );
    }
    section.table(
        "Tables I and II",
        [
            "tick",
            "smoothing",
            "Mb/s published",
            "Mb/s asked",
            "Mb/s received",
            "Nacks published",
            "Nacks",
        ],
        table,
    );
}

/// Returns the runs with each of [`BURSTING`], each size of an Interest and each start, in this
/// order.
fn starting(base: &Run, starts: u32) -> Vec<Run> {
    let sizes = || [INTEREST].into_iter().chain(OTHER_INTERESTS);
    let cells = BURSTING
        .into_iter()
        .flat_map(|tick| sizes().map(move |interest| (tick, interest)));
    let with_starts = cells.flat_map(|cell| (0..starts).map(move |start| (cell, start)));
    let run = |((tick, interest), start)| Run {
        interest,
        clock: clock(tick, false),
        start: Duration::from_millis(tick) * start / starts,
        is_drawn: false,
        ..base.clone()
    };
    with_starts.map(run).collect()
}

/// Measures what one burst does to the rate, over all starts and sizes of an Interest.
fn bursts(section: &mut Section, outcomes: &[Outcome], starts: u32) {
    let sizes = 1 + OTHER_INTERESTS.len();
    let of_tick = |tick: usize| {
        outcomes
            .iter()
            .skip(tick * sizes * starts as usize)
            .take(sizes * starts as usize)
    };
    let least_rate = |outcome: &Outcome| {
        outcome.courses[0]
            .rates
            .map_or(f64::NAN, |(least, _)| least)
    };
    section.measured(
        "tick-100-burst",
        greatest(of_tick(0).map(|outcome| outcome.courses[0].most_at_once as f64)),
    );
    section.measured("tick-200-least", least(of_tick(1).map(least_rate)));
    let mut rows = Vec::new();
    for (at, runs) in outcomes.chunks(starts as usize).enumerate() {
        let (tick, size) = (at / sizes, at % sizes);
        let range = |decimals: usize, figure: &dyn Fn(&Outcome) -> f64| {
            let (low, high) = (
                least(runs.iter().map(figure)),
                greatest(runs.iter().map(figure)),
            );
            format!("{low:.decimals$} to {high:.decimals$}")
        };
        let [peak, floor, nacks] = BURSTING_PUBLISHED[tick].map(str::to_owned);
        let low = runs
            .iter()
            .filter(|outcome| least_rate(outcome) <= 2.0)
            .count();
        let bytes = if size == 0 {
            INTEREST
        } else {
            OTHER_INTERESTS[size - 1]
        };
        rows.push(vec![
            tick_label(BURSTING[tick]),
            bytes.to_string(),
            peak,
            range(0, &|outcome| {
                outcome.courses[0].rates.map_or(f64::NAN, |(_, most)| most)
            }),
            floor,
            range(1, &least_rate),
            range(0, &|outcome| outcome.courses[0].most_at_once as f64),
            nacks,
            range(0, &|outcome| outcome.nacks as f64),
            low.to_string(),
        ]);
    }
    let header = [
        "tick",
        "bytes of an Interest",
        "greatest rate published",
        "greatest rate",
        "least rate published",
        "least rate",
        "most Nacks of one moment",
        "Nacks published",
        "Nacks",
        "runs that fall to 2 a second or less",
    ];
    section.table(
        "Coarse ticks, with starts between two ticks: least and greatest of the runs",
        header,
        rows,
    );
}

/// Measures what the text says of the consumer's bucket (fig. 5).
fn depths(section: &mut Section, rows: &[Outcome]) {
    for (tick, row) in [50, 100, 200].into_iter().zip(&rows[1..]) {
        section.measured(
            format!("tick-{tick}-depth"),
            greatest(row.depth.iter().map(|(_, depth)| *depth)),
        );
    }
    let coarse = &rows[1];
    let full = coarse
        .depth
        .iter()
        .find(|(_, depth)| *depth >= 49.0)
        .map_or(f64::NAN, |(at, _)| *at);
    let falls = coarse
        .timeline
        .rate
        .windows(2)
        .find(|pair| pair[1].1 < pair[0].1);
    section.measured(
        "tick-50-full",
        falls.map_or(f64::NAN, |pair| pair[1].0) - full,
    );
}

/// Adds the table of the other sizes of an Interest.
fn sensitivity(section: &mut Section, rows: &[Outcome], others: &[Outcome]) {
    let mut header = vec!["tick".to_owned(), "smoothing".to_owned()];
    header.extend(
        [INTEREST]
            .iter()
            .chain(&OTHER_INTERESTS)
            .map(|bytes| format!("Interests of {bytes} bytes")),
    );
    let table = PUBLISHED
        .iter()
        .enumerate()
        .map(|(at, (tick, smoothing, ..))| {
            let sizes =
                std::iter::once(&rows[at]).chain(others.iter().skip(at).step_by(PUBLISHED.len()));
            let shown =
                sizes.map(|o| format!("{:.3} / {:.3} / {}", o.total_asked(), o.total(), o.nacks));
            [tick_label(*tick), yes(*smoothing)]
                .into_iter()
                .chain(shown)
                .collect()
        });
    section.table(
        "Other readings: Mb/s asked / Mb/s received / Nacks",
        header,
        table.collect(),
    );
}

fn row_id(tick: u64, smoothing: bool) -> String {
    match (tick, smoothing) {
        (0, _) => "fine".to_owned(),
        (tick, false) => format!("tick-{tick}"),
        (tick, true) => format!("smooth-{tick}"),
    }
}

fn yes(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}

/// Adds figures 3 to 6.
fn draw(section: &mut Section, rows: &[Outcome]) {
    let names = ["fine clock", "50 ms", "100 ms", "200 ms"];
    let lines = |rows: &[Outcome], names: &[&str], points: fn(&Outcome) -> Vec<(f64, f64)>| {
        names
            .iter()
            .zip(rows)
            .map(|(name, row)| Series::line(*name, points(row)))
            .collect::<Vec<_>>()
    };
    section.figure(
        "sequence",
        lines(rows, &names, |row| row.timeline.sequence.clone()),
    );
    section.figure("rate", lines(rows, &names, |row| row.timeline.rate.clone()));
    for (row, name) in rows[1..4].iter().zip(["50", "100", "200"]) {
        section.figure(
            &format!("depth-{name}"),
            vec![Series::line(format!("{name} ms"), row.depth.clone())],
        );
    }
    section.figure(
        "smooth-rate",
        lines(&rows[4..], &names[1..], |row| row.timeline.rate.clone()),
    );
}
