//! Figures 1, 10, 11 and 12: comparison with the production caches and LookAhead, c over time, and
//! the cache's size.

use super::replays::{Catalogue, ReplayResult, Run, best};
use crate::cell::{measure_all, units};
use crate::section::numbered;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_units::ByteSize;
use serde::Deserialize;

const FILE: (&str, &str) = experiment_file!("adaptsize/production.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    hk: Catalogue,
    us: Catalogue,
    /// The small, the typical and the large capacity, bytes.
    capacities: [u64; 3],
    /// The values of `n` that are tried: nginx admits an object at its `n`th request.
    nginx: Vec<u64>,
    lookahead_interval: u64,
    lookahead_window: u64,
}

/// The systems compared at the typical size.
const POLICIES: [&str; 6] =
    ["Varnish", "Nginx", "AdaptSize(Threshold)", "AdaptSize(Chance)", "LookAhead(Threshold)", "LookAhead(Chance)"];

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    for (name, catalogue, seed) in [("hk", sweep.hk, request.seed), ("us", sweep.us, request.seed + 1)] {
        let Catalogue { objects, requests, exponent, .. } = catalogue;
        section
            .condition(name, format!("{requests} requests, {objects} objects, Zipf {exponent}; a quarter to warm up"));
        let traffic = catalogue.traffic(name, seed)?;
        let run = |capacity: u64, spec: String| Run { traffic: &traffic, spec, capacity, warm_up: requests / 4 };
        let mut runs = Vec::new();
        for shape in ["threshold", "chance"] {
            let (interval, window) = (sweep.lookahead_interval, sweep.lookahead_window);
            let lookahead = format!("lookahead({shape},interval={interval},window={window})+lru");
            runs.push(run(sweep.capacities[1], lookahead));
        }
        for capacity in sweep.capacities {
            runs.extend(
                ["adaptsize(threshold)+lru", "adaptsize(chance)+lru", "lru"].map(|spec| run(capacity, spec.to_owned())),
            );
            runs.extend(sweep.nginx.iter().map(|n| run(capacity, format!("after(n={n})+lru"))));
        }
        watch.begin(&format!("production caches, {name}"), units(&runs));
        let found = measure_all(runs, request, watch)?;
        let (ahead, by_size) = found.split_at(2);
        let sizes: Vec<&[ReplayResult]> = by_size.chunks(3 + sweep.nginx.len()).collect();
        typical(&mut section, name, ahead, sizes[1])?;
        over_size(&mut section, name, sweep.capacities, &sizes)?;
        if name == "us" {
            c_over_time(&mut section, sizes[1]);
        }
    }
    section.judged()
}

/// Adds figures 1 and 10. `found` has the order that [`over_size`] expects.
fn typical(section: &mut Section, name: &str, ahead: &[ReplayResult], found: &[ReplayResult]) -> Result<(), Error> {
    let [threshold, chance, lru] = [&found[0], &found[1], &found[2]].map(|found| found.hit_ratio);
    let nginx = best(&found[3..])?;
    section.measured(format!("{name}-nginx"), chance / nginx.hit_ratio);
    section.measured(format!("{name}-varnish"), chance / lru);
    section.measured(format!("{name}-lookahead-threshold"), threshold / ahead[0].hit_ratio);
    section.measured(format!("{name}-lookahead-chance"), chance / ahead[1].hit_ratio);
    let ratios = [lru, nginx.hit_ratio, threshold, chance, ahead[0].hit_ratio, ahead[1].hit_ratio];
    section.named_figure(
        &format!("{name}-typical"),
        POLICIES,
        vec![Series::bars("object hit ratio", numbered(ratios))],
    );
    let specs = ["lru", &nginx.spec, &found[0].spec, &found[1].spec, &ahead[0].spec, &ahead[1].spec];
    let rows = POLICIES
        .iter()
        .zip(specs)
        .zip(ratios)
        .map(|((policy, spec), ratio)| vec![(*policy).to_owned(), spec.to_owned(), format!("{ratio:.4}")]);
    section.table(
        &format!("{name}: object hit ratio at the typical size"),
        ["system", "policy", "object hit ratio"],
        rows.collect(),
    );
    Ok(())
}

/// Adds figure 12. Each of `sizes` has AdaptSize(Threshold), AdaptSize(Chance), LRU, then each
/// setting of nginx.
fn over_size(section: &mut Section, name: &str, capacities: [u64; 3], sizes: &[&[ReplayResult]]) -> Result<(), Error> {
    let mut series: Vec<Series> = ["Varnish", "Nginx", "AdaptSize(Threshold)", "AdaptSize(Chance)"]
        .map(|name| Series::line(name, Vec::new()))
        .into();
    let mut rows = Vec::new();
    for (place, (capacity, found)) in capacities.iter().zip(sizes).enumerate() {
        let ratios = [found[2].hit_ratio, best(&found[3..])?.hit_ratio, found[0].hit_ratio, found[1].hit_ratio];
        for (series, ratio) in series.iter_mut().zip(ratios) {
            series.points.push((*capacity as f64, ratio));
        }
        rows.push(
            [ByteSize::from_bytes(*capacity).to_string()]
                .into_iter()
                .chain(ratios.map(|r| format!("{r:.4}")))
                .collect(),
        );
        if let Some(size) = [Some("small"), None, Some("large")][place] {
            section.measured(format!("{name}-{size}-nginx"), ratios[3] / ratios[1]);
            section.measured(format!("{name}-{size}-varnish"), ratios[3] / ratios[0]);
        }
    }
    section.figure(&format!("{name}-sizes"), series);
    let header = ["cache", "Varnish", "Nginx", "AdaptSize(Threshold)", "AdaptSize(Chance)"];
    section.table(&format!("{name}: object hit ratio over the cache's size"), header, rows);
    Ok(())
}

/// Adds figure 11.
fn c_over_time(section: &mut Section, found: &[ReplayResult]) {
    let c =
        |found: &ReplayResult| found.timeline.iter().filter_map(|(at, _, c)| Some((*at, (*c)?))).collect::<Vec<_>>();
    let mean = |found: &ReplayResult| {
        let settled: Vec<f64> = found.timeline.iter().skip(found.timeline.len() / 4).filter_map(|(.., c)| *c).collect();
        settled.iter().sum::<f64>() / settled.len() as f64
    };
    section.measured("us-c-chance", mean(&found[1]) / 1e3);
    section.measured("us-c-threshold-to-chance", mean(&found[0]) / mean(&found[1]));
    section.figure("us-c", vec![Series::line("Threshold", c(&found[0])), Series::line("Chance", c(&found[1]))]);
}
