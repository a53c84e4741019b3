//! Experiments beyond the paper: every congestion control with every clock, and the methods that
//! prevent the collapse with several flows.

use super::network::{INTEREST, Outcome, Run, SECONDS, clock, congestion, strategy, tick_label};
use crate::cell::{measure_all, units};
use crate::statistics::least;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;
use std::time::Duration;

pub(super) const FILE: (&str, &str) = experiment_file!("clock/methods.toml");

/// The methods that sections I, II and VI name, with the paper's numbers of their references.
const NAMED: [[&str; 3]; 8] = [
    [
        "Stateful Forwarding",
        "[11]",
        "run: `rate, halve` between token buckets that refuse",
    ],
    [
        "Stateful Forwarding with NACK suppressing",
        "[12]",
        "run: `rate, once`, one reaction a congestion event",
    ],
    ["PCON", "[13]", "run: `pcon` over queues that mark by CoDel"],
    [
        "ECN-based Interest sending rate control",
        "[14]",
        "run as `explicit`: routers report a fair rate and the consumer takes the least; its equations are RCP's here, because its text was not at hand",
    ],
    [
        "HoBHIS",
        "[15]",
        "run: `shaped, ...`, each router holds Interests back by conversation",
    ],
    [
        "MIRCC",
        "[16]",
        "its single path is `shaped, explicit`: a shaper a link, and rates like RCP's in Data; its second class of traffic for further paths is not implemented, and the dumbbell has one path",
    ],
    [
        "CHoPCoP",
        "[10]",
        "not implemented: marks by RED and fair shaping with a window by AIMD, which are near `pcon` (marks by CoDel, BIC) and `shaped, cubic`",
    ],
    [
        "Hop-by-hop window control",
        "[23]",
        "not implemented: a window for each hop in place of a rate; `shaped, cubic` has hop-by-hop backpressure with a window end to end",
    ],
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    line_rate: u64,
    pairs: Vec<usize>,
    /// The clock's ticks, ms; 0 is the fine clock.
    ticks: Vec<u64>,
    methods: Vec<Method>,
}

/// A congestion control, and the network for which it is made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Method {
    name: String,
    /// The consumer's congestion control. `SHARE` stands for the line rate over the number of
    /// pairs, `WINDOW` for the number of Interests that fill this share.
    congestion: String,
    strategy: String,
    /// Whether links mark Data with CoDel.
    #[serde(default)]
    marks: bool,
}

/// The position of a run's outcome.
#[derive(Clone, Copy, PartialEq)]
struct Cell {
    method: usize,
    pairs: usize,
    tick: u64,
    smoothing: bool,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut cells = Vec::new();
    for &pairs in &sweep.pairs {
        for method in 0..sweep.methods.len() {
            for &tick in &sweep.ticks {
                let smoothings = if tick == 0 {
                    &[true][..]
                } else {
                    &[false, true]
                };
                cells.extend(smoothings.iter().map(|&smoothing| Cell {
                    method,
                    pairs,
                    tick,
                    smoothing,
                }));
            }
        }
    }
    let runs = cells
        .iter()
        .map(|cell| sweep.run(cell, request.seed))
        .collect::<Result<Vec<_>, Error>>()?;
    watch.begin("methods", units(&runs));
    let found: Vec<(Cell, Outcome)> = cells
        .iter()
        .copied()
        .zip(measure_all(runs, request, watch)?)
        .collect();

    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "network",
        format!(
            "dumbbell, {} Interests a second, 50 ms a link",
            sweep.line_rate
        ),
    );
    let pairs = sweep
        .pairs
        .iter()
        .map(usize::to_string)
        .collect::<Vec<_>>()
        .join(" and ");
    section.condition("pairs", pairs);
    let rows = sweep.methods.iter().map(|method| {
        let marks = if method.marks {
            "CoDel marks"
        } else {
            "drop-tail"
        };
        vec![
            method.name.clone(),
            method.congestion.clone(),
            method.strategy.clone(),
            marks.to_owned(),
        ]
    });
    section.table(
        "Methods",
        ["method", "consumer", "nodes", "links"],
        rows.collect(),
    );
    for &pairs in &sweep.pairs {
        sweep.tabulate(&mut section, pairs, &found);
    }
    let rows = NAMED.iter().map(|row| row.map(str::to_owned).to_vec());
    section.table(
        "The methods that the paper names",
        ["method", "reference", "state"],
        rows.collect(),
    );
    let most = sweep.pairs.iter().copied().max().unwrap_or(1);
    sweep.claim(&mut section, most, &found);
    sweep.draw(&mut section, most, &found);
    section.judged()
}

impl Sweep {
    fn run(&self, cell: &Cell, seed: u64) -> Result<Run, Error> {
        let method = &self.methods[cell.method];
        let share = self.line_rate / cell.pairs as u64;
        // The window of 300 ms, which is the round-trip time.
        let spec = method.congestion.replace("SHARE", &share.to_string());
        let spec = spec.replace("WINDOW", &(share * 3 / 10).to_string());
        Ok(Run {
            pairs: cell.pairs,
            line_rate: self.line_rate,
            interest: INTEREST,
            strategy: strategy(&method.strategy)?,
            marks: method.marks,
            congestion: congestion(&spec)?,
            clock: clock(cell.tick, cell.smoothing),
            start: Duration::ZERO,
            seconds: SECONDS,
            is_drawn: false,
            seed,
        })
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.methods.iter().position(|method| method.name == name)
    }

    fn of<'a>(
        &self,
        name: &str,
        found: &'a [(Cell, Outcome)],
    ) -> impl Iterator<Item = &'a (Cell, Outcome)> + use<'a> {
        let method = self.place(name);
        found
            .iter()
            .filter(move |(cell, _)| Some(cell.method) == method)
    }

    /// Adds tables with a row per method and a column per clock: Mb/s, Nacks and Jain's index.
    fn tabulate(&self, section: &mut Section, pairs: usize, found: &[(Cell, Outcome)]) {
        for smoothing in [false, true] {
            let ticks: Vec<u64> = self
                .ticks
                .iter()
                .copied()
                .filter(|tick| smoothing || *tick > 0)
                .collect();
            let mut header = vec!["method".to_owned()];
            header.extend(ticks.iter().map(|tick| tick_label(*tick)));
            let row = |(method, Method { name, .. }): (usize, &Method)| {
                let cell = |tick: &u64| {
                    let cell = Cell {
                        method,
                        pairs,
                        tick: *tick,
                        smoothing,
                    };
                    let outcome = found
                        .iter()
                        .find(|(other, _)| *other == cell)
                        .map(|(_, outcome)| outcome);
                    let shown = |o: &Outcome| {
                        format!("{:.2} / {} / {:.2}", o.total(), o.nacks, o.fairness())
                    };
                    outcome.map_or_else(String::new, shown)
                };
                std::iter::once(name.clone())
                    .chain(ticks.iter().map(cell))
                    .collect()
            };
            let rows = self.methods.iter().enumerate().map(row).collect();
            let with = if smoothing {
                "with smoothing"
            } else {
                "leaving at ticks only"
            };
            section.table(
                &format!("{pairs} pairs, {with}: Mb/s received / Nacks / Jain's index"),
                header,
                rows,
            );
        }
    }

    fn claim(&self, section: &mut Section, pairs: usize, found: &[(Cell, Outcome)]) {
        let line = self.line_rate as f64 / 100.0;
        let of = |name: &str, tick: u64, smoothing: bool| {
            let is_it = move |cell: &Cell| {
                (cell.pairs, cell.tick, cell.smoothing) == (pairs, tick, smoothing)
            };
            self.of(name, found)
                .find(move |(cell, _)| is_it(cell))
                .map(|(_, outcome)| outcome)
        };
        let share =
            |name: &str| of(name, 0, true).map_or(f64::NAN, |outcome| outcome.total() / line);
        section.measured("collapse-halve", share("rate, halve"));
        section.measured("once-share", share("rate, once"));
        section.measured("explicit-share", share("explicit"));
        let smooth = |name: &str| {
            let all = self
                .of(name, found)
                .filter(|(cell, _)| cell.pairs == pairs && cell.smoothing);
            least(all.map(|(_, outcome)| outcome.total() / line))
        };
        section.measured("explicit-any-clock", smooth("explicit"));
        let fairness = |name: &str| {
            let all = self
                .of(name, found)
                .filter(|(cell, _)| cell.pairs == pairs && cell.smoothing);
            least(all.map(|(_, outcome)| outcome.fairness()))
        };
        section.measured("explicit-fair", fairness("explicit"));
        section.measured("shaped-explicit-share", share("shaped, explicit"));
        section.measured("shaped-halve-share", share("shaped, halve"));
        let coarse =
            of("shaped, explicit", 100, false).map_or(f64::NAN, |outcome| outcome.total() / line);
        section.measured("shaped-coarse-share", coarse);
        section.measured("shaped-explicit-fair", fairness("shaped, explicit"));
        section.measured("pcon-any-clock", smooth("pcon"));
        section.measured("cubic-any-clock", smooth("cubic"));
    }

    fn draw(&self, section: &mut Section, pairs: usize, found: &[(Cell, Outcome)]) {
        let lines = |smoothing: bool, figure: fn(&Outcome) -> f64| {
            let line = |method: &Method| {
                let all = self.of(&method.name, found);
                let kept = all.filter(|(cell, _)| {
                    cell.pairs == pairs && cell.tick > 0 && cell.smoothing == smoothing
                });
                Series::line(
                    &method.name,
                    kept.map(|(cell, outcome)| (cell.tick as f64, figure(outcome)))
                        .collect(),
                )
            };
            self.methods.iter().map(line).collect::<Vec<_>>()
        };
        section.figure("ticks-only", lines(false, Outcome::total));
        section.figure("smoothed", lines(true, Outcome::total));
        section.figure("fairness", lines(true, Outcome::fairness));
    }
}
