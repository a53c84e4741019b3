//! How much the tuners' intervals matter on traffic that does not change: AdaptSize's Δ (section
//! 3.2.1), and the steps of HillClimb, whose interval and length the paper optimised on its
//! production traces (section 5.3).

use super::replays::{Catalogue, ReplayResult, Run};
use crate::cell::{measure_all, units};
use crate::grid::Grid;
use crate::statistics::{greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;

const FILE: (&str, &str) = experiment_file!("adaptsize/intervals.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    hk: Catalogue,
    us: Catalogue,
    /// The capacity, bytes.
    capacity: u64,
    /// The intervals of AdaptSize, requests.
    adaptsize: Vec<u64>,
    /// The step intervals of HillClimb, requests.
    hillclimb: Vec<u64>,
    /// The lengths of its steps, bytes, besides the one that doubles or halves c.
    steps: Vec<u64>,
}

/// The forms of AdaptSize. `{}` stands for the interval.
const FORMS: [(&str, &str); 3] = [
    ("chance", "adaptsize(chance,interval={})+lru"),
    ("threshold", "adaptsize(threshold,interval={})+lru"),
    (
        "published",
        "adaptsize(prototype,model=paper,interval={})+lru",
    ),
];

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let climbs = sweep.climbs();
    // The sum over the traces of the hit ratios of each climb.
    let mut sums = vec![0.0; climbs.len()];
    let (mut lines, mut rows, mut climbed) = (Vec::new(), Vec::new(), Vec::new());
    for (name, catalogue, seed) in [
        ("hk", sweep.hk, request.seed),
        ("us", sweep.us, request.seed + 1),
    ] {
        section.condition(
            name,
            format!("{}; a quarter to warm up", catalogue.conditions()),
        );
        let traffic = catalogue.traffic(name, seed)?;
        let warm_up = catalogue.requests / 4;
        let mut replayed = |what: &str, specs: Vec<String>| -> Result<Vec<f64>, Error> {
            let run = |spec| Run {
                traffic: &traffic,
                spec,
                capacity: sweep.capacity,
                warm_up,
            };
            let runs: Vec<Run<'_>> = specs.into_iter().map(run).collect();
            watch.begin(&format!("intervals of {what}, {name}"), units(&runs));
            let found = measure_all(runs, request, watch)?;
            let shown = |found: &ReplayResult| {
                vec![
                    name.to_owned(),
                    found.spec.clone(),
                    format!("{:.4}", found.hit_ratio),
                ]
            };
            rows.extend(found.iter().map(shown));
            Ok(found.iter().map(|found| found.hit_ratio).collect())
        };
        for (form, spec) in FORMS {
            let specs = sweep
                .adaptsize
                .iter()
                .map(|interval| spec.replace("{}", &interval.to_string()));
            let ratios = replayed(form, specs.collect())?;
            section.measured(
                format!("{name}-interval-{form}"),
                least(ratios.iter().copied()) / greatest(ratios.iter().copied()),
            );
            lines.push(line(name, form, &sweep.adaptsize, &ratios));
        }
        let ratios = replayed("hillclimb", climbs.clone())?;
        for (sum, ratio) in sums.iter_mut().zip(&ratios) {
            *sum += ratio;
        }
        climbed.push((name, ratios));
    }
    let (doubling, in_bytes) = sums.split_at(sweep.hillclimb.len());
    let interval = Grid::new(
        "the step interval of hillclimb",
        sweep.hillclimb.iter().copied(),
    );
    section.condition(
        "hillclimb that doubles or halves c, best after",
        format!("{} requests", interval.best(doubling)?.1),
    );
    let of_length = in_bytes
        .chunks(sweep.hillclimb.len())
        .map(|sums| greatest(sums.iter().copied()));
    let length = Grid::new("the step of hillclimb, bytes", sweep.steps.iter().copied());
    let (at, length) = length.best(&of_length.collect::<Vec<f64>>())?;
    let (_, interval) =
        interval.best(&in_bytes[at * sweep.hillclimb.len()..][..sweep.hillclimb.len()])?;
    section.condition(
        "hillclimb with steps in bytes, best",
        format!("{length} bytes after {interval} requests"),
    );
    // Of the steps in bytes, the figure has the best one; the table has all.
    for (name, ratios) in &climbed {
        let of_each: Vec<&[f64]> = ratios.chunks(sweep.hillclimb.len()).collect();
        lines.push(line(name, "hillclimb", &sweep.hillclimb, of_each[0]));
        lines.push(line(
            name,
            &format!("hillclimb, step {length}"),
            &sweep.hillclimb,
            of_each[at + 1],
        ));
    }
    section.figure("intervals", lines);
    section.table(
        "Object hit ratio",
        ["traffic", "policy", "object hit ratio"],
        rows,
    );
    section.judged()
}

fn line(traffic: &str, form: &str, intervals: &[u64], ratios: &[f64]) -> Series {
    let points = intervals
        .iter()
        .map(|interval| *interval as f64)
        .zip(ratios.iter().copied());
    Series::line(format!("{traffic}, {form}"), points.collect())
}

impl Sweep {
    /// Returns the lengths of HillClimb's steps; `None` doubles or halves c.
    fn lengths(&self) -> impl Iterator<Item = Option<u64>> {
        [None]
            .into_iter()
            .chain(self.steps.iter().copied().map(Some))
    }

    /// Returns HillClimb with each length of the steps, and for each with each interval. c starts
    /// near the best one of the traffic, because a warm-up of small steps from elsewhere is long.
    fn climbs(&self) -> Vec<String> {
        let of = |length: Option<u64>| {
            let length = length.map_or_else(String::new, |bytes| format!(",step={bytes}"));
            self.hillclimb.iter().map(move |interval| {
                format!("hillclimb(interval={interval}{length},start=64KiB)+lru")
            })
        };
        self.lengths().flat_map(of).collect()
    }
}
