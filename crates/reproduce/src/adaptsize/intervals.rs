//! How much the tuners' intervals matter on traffic that does not change: AdaptSize's Δ (section
//! 3.2.1), and the step interval of HillClimb, which the paper optimised on its production traces
//! (section 5.3). The experiments with changing traffic take HillClimb's interval from here.

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
}

/// The forms of AdaptSize. `{}` stands for the interval.
const FORMS: [(&str, &str); 3] = [
    ("chance", "adaptsize(chance,interval={})+lru"),
    ("threshold", "adaptsize(threshold,interval={})+lru"),
    ("published", "adaptsize(prototype,model=paper,interval={})+lru"),
];

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let mut climbs = vec![0.0; sweep.hillclimb.len()];
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for (name, catalogue, seed) in [("hk", sweep.hk, request.seed), ("us", sweep.us, request.seed + 1)] {
        section.condition(name, format!("{}; a quarter to warm up", catalogue.conditions()));
        let traffic = catalogue.traffic(name, seed)?;
        let forms = FORMS.iter().map(|(form, spec)| (*form, *spec, &sweep.adaptsize));
        for (form, spec, intervals) in forms.chain([("hillclimb", "hillclimb(interval={})+lru", &sweep.hillclimb)]) {
            let run = |interval: &u64| {
                let (capacity, warm_up) = (sweep.capacity, catalogue.requests / 4);
                Run { traffic: &traffic, spec: spec.replace("{}", &interval.to_string()), capacity, warm_up }
            };
            let runs: Vec<Run<'_>> = intervals.iter().map(run).collect();
            watch.begin(&format!("intervals of {form}, {name}"), units(&runs));
            let found = measure_all(runs, request, watch)?;
            let ratios = || found.iter().map(|found| found.hit_ratio);
            if form == "hillclimb" {
                climbs.iter_mut().zip(ratios()).for_each(|(sum, ratio)| *sum += ratio);
            } else {
                section.measured(format!("{name}-interval-{form}"), least(ratios()) / greatest(ratios()));
            }
            let points = intervals.iter().map(|interval| *interval as f64).zip(ratios()).collect();
            lines.push(Series::line(format!("{name}, {form}"), points));
            let shown =
                |found: &ReplayResult| vec![name.to_owned(), found.spec.clone(), format!("{:.4}", found.hit_ratio)];
            rows.extend(found.iter().map(shown));
        }
    }
    let grid = Grid::new("the step interval of hillclimb", sweep.hillclimb.iter().copied());
    let (_, best) = grid.best(&climbs)?;
    section.condition("hillclimb steps best after", format!("{best} requests"));
    section.figure("intervals", lines);
    section.table("Object hit ratio", ["traffic", "policy", "object hit ratio"], rows);
    section.judged()
}
