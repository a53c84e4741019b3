//! Figure 5's order under every reading of the text: how TinyLFU counts, who wins a tie, and which
//! requests count.

use super::policies::POLICIES;
use super::replays::{Cell, Rates, Workload, filter, replay_all, work};
use crate::statistics::count;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_policy::Spec;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("filter/readings.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// The capacities as shares of the catalogue.
    shares: Vec<f64>,
    web: Workload,
    video: Workload,
    mix: Workload,
    /// The requests per packet of the capacity before a settled cache is counted.
    warm_up: u64,
    /// The counted requests per packet of the capacity.
    requests: u64,
}

/// Which requests are counted.
#[derive(Clone, Copy)]
enum Counted {
    /// Those after the cache has settled.
    Settled,
    /// So many requests for each packet of the capacity, from an empty cache.
    FromEmpty(u64),
    /// As many requests as there are packets in the catalogue, from an empty cache.
    Catalogue,
}

/// A reading: its short name, what it says, TinyLFU under it, and which requests are counted.
type Reading = (&'static str, &'static str, fn(u64) -> String, Counted);

const READINGS: [Reading; 9] = [
    (
        "sketch",
        "as in `sizes`: a sketch up to 15, halved after 50 C, a tie stays out; settled",
        sketch,
        Counted::Settled,
    ),
    (
        "halved",
        "exact counts, halved after 50 C; settled",
        |c| exact(c, ""),
        Counted::Settled,
    ),
    (
        "capped",
        "exact counts up to 50, halved after 50 C; settled",
        |c| exact(c, ",most=50"),
        Counted::Settled,
    ),
    (
        "sliding",
        "exact counts of the last 50 C; settled",
        |c| exact(c, ",forgets=slides"),
        Counted::Settled,
    ),
    (
        "tie",
        "exact counts, halved after 50 C, a tie enters; settled",
        |c| exact(c, ",tie=enters"),
        Counted::Settled,
    ),
    (
        "sliding-tie",
        "exact counts of the last 50 C, a tie enters; settled",
        sliding_tie,
        Counted::Settled,
    ),
    (
        "empty-10",
        "a sketch, from an empty cache over 10 C requests",
        sketch,
        Counted::FromEmpty(10),
    ),
    (
        "empty-50",
        "a sketch, from an empty cache over 50 C requests",
        sketch,
        Counted::FromEmpty(50),
    ),
    (
        "empty",
        "a sketch, from an empty cache over a request for each packet of the catalogue",
        sketch,
        Counted::Catalogue,
    ),
];

fn sketch(capacity: u64) -> String {
    format!("tinylfu(window={})+random", 50 * capacity)
}

fn exact(capacity: u64, further: &str) -> String {
    format!("duel(window={}{further})+random", 50 * capacity)
}

fn sliding_tie(capacity: u64) -> String {
    exact(capacity, ",forgets=slides,tie=enters")
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let cells = sweep.cells()?;
    watch.begin("readings of figure 5", work(&cells));
    let rates = replay_all(&cells, request, watch)?;

    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "a settled cache",
        format!(
            "{} + {} requests a cached packet",
            sweep.warm_up, sweep.requests
        ),
    );
    let sizes = sweep.shares.len();
    let mut of_readings = rates.chunks(2 * sizes);
    let mut rows: Vec<Vec<String>> = READINGS
        .iter()
        .map(|(_, what, ..)| vec![(*what).to_owned()])
        .collect();
    let mut header = vec!["reading".to_owned()];
    for (traffic, workload) in sweep.traffics() {
        section.condition(traffic, workload.to_string());
        header.extend(
            sweep
                .shares
                .iter()
                .map(|share| format!("{traffic}, {} %", 100.0 * share)),
        );
        for ((reading, ..), row) in READINGS.iter().zip(&mut rows) {
            let (tinylfu, filter) = of_readings.next().unwrap_or_default().split_at(sizes);
            let pairs = || filter.iter().zip(tinylfu);
            let is_out =
                |(filter, tinylfu): (&Rates, &Rates)| filter.insertion >= tinylfu.insertion;
            section.measured_if_claimed(format!("{reading}-{traffic}"), count(pairs().map(is_out)));
            row.extend(pairs().map(|(filter, tinylfu)| {
                format!("{:.4} / {:.4}", filter.insertion, tinylfu.insertion)
            }));
        }
    }
    section.table("Insertion rates: Filter / TinyLFU", header, rows);
    section.judged()
}

impl Sweep {
    fn traffics(&self) -> [(&str, Workload); 3] {
        [("web", self.web), ("video", self.video), ("mix", self.mix)]
    }

    /// Returns the cells of each traffic and reading: TinyLFU's at all sizes, then Filter's.
    pub(super) fn cells(&self) -> Result<Vec<Cell>, Error> {
        let mut cells = Vec::new();
        for (_, workload) in self.traffics() {
            for (_, _, tinylfu, counted) in READINGS {
                let policies: [fn(u64) -> String; 2] = [tinylfu, |capacity| filter(2, capacity)];
                for policy in policies {
                    for share in &self.shares {
                        let capacity = (workload.objects() as f64 * share) as u64;
                        let spec =
                            Spec::parse(&policy(capacity), &POLICIES).map_err(Error::from_cause)?;
                        let (warm_up, requests) = match counted {
                            Counted::Settled => (self.warm_up * capacity, self.requests * capacity),
                            Counted::FromEmpty(each) => (0, each * capacity),
                            Counted::Catalogue => (0, workload.objects()),
                        };
                        cells.push(Cell {
                            workload,
                            spec,
                            capacity,
                            warm_up,
                            requests,
                        });
                    }
                }
            }
        }
        Ok(cells)
    }
}
