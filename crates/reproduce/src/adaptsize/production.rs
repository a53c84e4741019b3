//! Figures 1, 10, 11 and 12: comparison with the production caches and LookAhead, c over time, and
//! the cache's size. Two experiments run the same comparison: on traffic with the temporal locality
//! of recorded traces, and on independent requests.

use super::nginx::{Occupied, Uses};
use super::replays::{Catalogue, ReplayResult, Run, Traffic, lookahead, settled, variation};
use crate::cell::{measure_all, units};
use crate::section::numbered;
use crate::statistics::{greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_units::ByteSize;
use serde::Deserialize;

const INDEPENDENT: (&str, &str) = experiment_file!("adaptsize/production.toml");
const LOCAL: (&str, &str) = experiment_file!("adaptsize/production-local.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    hk: Catalogue,
    us: Catalogue,
    /// The small, the typical and the large capacity, bytes.
    capacities: [u64; 3],
    /// The request numbers at which nginx may admit an object. The best one counts.
    nginx: Uses,
    /// AdaptSize(Chance) as it was published and deployed by its authors.
    published: String,
    lookahead_interval: u64,
    lookahead_window: u64,
}

/// The systems compared at the typical size.
const SYSTEMS: [&str; 7] = [
    "Varnish",
    "Nginx",
    "AdaptSize(Threshold)",
    "AdaptSize(Chance)",
    "AdaptSize(published)",
    "LookAhead(Threshold)",
    "LookAhead(Chance)",
];

/// The requests of the published US trace, millions.
const US_REQUESTS: f64 = 440.0;
/// The days of the published US trace.
pub(super) const DAYS: usize = 5;
/// The parts of a timeline that are a day of it.
const DAY: usize = super::replays::PARTS / DAYS;

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    compare(INDEPENDENT, "", request, watch)
}

pub(super) fn run_local(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    compare(LOCAL, "local-", request, watch)
}

/// `prefix` begins the ids of the claims and figures.
fn compare(
    (file, text): (&str, &str),
    prefix: &str,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(file, text)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
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
        let run = |capacity: u64, spec: String| Run {
            traffic: &traffic,
            spec,
            capacity,
            warm_up,
        };
        let ahead = [sweep.lookahead_interval, sweep.lookahead_window];
        let specs = ["threshold", "chance"].map(|shape| lookahead(shape, ahead));
        let specs = specs
            .into_iter()
            .chain(["adaptsize(threshold)+lru", "adaptsize(chance)+lru", "lru"].map(str::to_owned));
        let specs: Vec<String> = specs.chain([sweep.published.clone()]).collect();
        let runs: Vec<Run<'_>> = sweep
            .capacities
            .iter()
            .flat_map(|capacity| specs.iter().map(|spec| run(*capacity, spec.clone())))
            .collect();
        watch.begin(&format!("{prefix}production caches, {name}"), units(&runs));
        let found = measure_all(runs, request, watch)?;
        let id = format!("{prefix}{name}");
        let mut sizes = Vec::new();
        for (capacity, found) in sweep.capacities.into_iter().zip(found.chunks(specs.len())) {
            let nginx = nginx(&traffic, sweep, [capacity, warm_up as u64], request, watch)?;
            sizes.push(Systems::new(capacity, found, nginx)?);
        }
        typical(&mut section, &id, &sizes[1]);
        over_size(&mut section, &id, &sizes);
        if name == "us" {
            c_over_time(&mut section, &id, &sizes[1], catalogue.requests);
        }
    }
    section.judged()
}

fn nginx(
    traffic: &Traffic,
    sweep: &Sweep,
    limits: [u64; 2],
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<ReplayResult, Error> {
    sweep
        .nginx
        .tuned(traffic, limits, Occupied::Body, request, watch)
        .map(|(_, found)| found)
}

/// The results at one capacity.
struct Systems {
    /// Bytes.
    capacity: u64,
    varnish: ReplayResult,
    nginx: ReplayResult,
    threshold: ReplayResult,
    chance: ReplayResult,
    published: ReplayResult,
    ahead_threshold: ReplayResult,
    ahead_chance: ReplayResult,
}

impl Systems {
    fn new(capacity: u64, found: &[ReplayResult], nginx: ReplayResult) -> Result<Systems, Error> {
        let [
            ahead_threshold,
            ahead_chance,
            threshold,
            chance,
            varnish,
            published,
        ] = found
        else {
            return Err(Error(
                "the systems at one capacity are not the expected ones".to_owned(),
            ));
        };
        let [
            ahead_threshold,
            ahead_chance,
            threshold,
            chance,
            varnish,
            published,
        ] = [
            ahead_threshold,
            ahead_chance,
            threshold,
            chance,
            varnish,
            published,
        ]
        .map(Clone::clone);
        Ok(Systems {
            capacity,
            varnish,
            nginx,
            threshold,
            chance,
            published,
            ahead_threshold,
            ahead_chance,
        })
    }

    /// Returns the results in the order of [`SYSTEMS`].
    fn each(&self) -> [&ReplayResult; SYSTEMS.len()] {
        let Systems {
            varnish,
            nginx,
            threshold,
            chance,
            published,
            ..
        } = self;
        [
            varnish,
            nginx,
            threshold,
            chance,
            published,
            &self.ahead_threshold,
            &self.ahead_chance,
        ]
    }
}

/// Adds figures 1 and 10.
fn typical(section: &mut Section, id: &str, systems: &Systems) {
    let Systems {
        varnish,
        nginx,
        threshold,
        chance,
        published,
        ahead_threshold,
        ahead_chance,
        ..
    } = systems;
    let ratio = |a: &ReplayResult, b: &ReplayResult| a.hit_ratio / b.hit_ratio;
    for (form, found, ahead) in [
        ("", chance, ahead_chance),
        ("-threshold", threshold, ahead_threshold),
        ("-published", published, ahead_chance),
    ] {
        section.measured(format!("{id}{form}-nginx"), ratio(found, nginx));
        section.measured(format!("{id}{form}-varnish"), ratio(found, varnish));
        let shape = if form.is_empty() { "-chance" } else { form };
        section.measured(format!("{id}-lookahead{shape}"), ratio(found, ahead));
    }
    section.measured(
        format!("{id}-variation"),
        steadier(chance, [nginx, varnish]),
    );
    let ratios = systems.each().map(|found| found.hit_ratio);
    let bars = vec![Series::bars("object hit ratio", numbered(ratios))];
    section.named_figure(&format!("{id}-typical"), SYSTEMS, bars);
    let rows = SYSTEMS.iter().zip(systems.each()).map(|(system, found)| {
        let variation = format!("{:.4}", variation(found));
        vec![
            (*system).to_owned(),
            found.spec.clone(),
            format!("{:.4}", found.hit_ratio),
            variation,
        ]
    });
    section.table(
        &format!("{id}: object hit ratio at the typical size"),
        [
            "system",
            "policy",
            "object hit ratio",
            "its coefficient of variation over time",
        ],
        rows.collect(),
    );
}

/// Adds figure 12.
fn over_size(section: &mut Section, id: &str, sizes: &[Systems]) {
    let mut series: Vec<Series> = SYSTEMS.map(|name| Series::line(name, Vec::new())).into();
    let mut rows = Vec::new();
    for (systems, size) in sizes.iter().zip([Some("small"), None, Some("large")]) {
        let ratios = systems.each().map(|found| found.hit_ratio);
        for (series, ratio) in series.iter_mut().zip(ratios) {
            series.points.push((systems.capacity as f64, ratio));
        }
        let shown = [
            ByteSize::from_bytes(systems.capacity).to_string(),
            systems.nginx.spec.clone(),
        ];
        rows.push(
            shown
                .into_iter()
                .chain(ratios.map(|r| format!("{r:.4}")))
                .collect(),
        );
        if let Some(size) = size {
            let [varnish, nginx, _, chance, published, ..] = ratios;
            section.measured(format!("{id}-{size}-nginx"), chance / nginx);
            section.measured(format!("{id}-{size}-varnish"), chance / varnish);
            section.measured(format!("{id}-{size}-published-nginx"), published / nginx);
            section.measured(
                format!("{id}-{size}-published-varnish"),
                published / varnish,
            );
        }
    }
    let shares = sizes
        .iter()
        .map(|systems| systems.threshold.hit_ratio / systems.chance.hit_ratio);
    section.measured(format!("{id}-threshold-to-chance"), least(shares));
    section.figure(&format!("{id}-sizes"), series);
    let header = ["cache", "nginx'"].into_iter().chain(SYSTEMS);
    section.table(
        &format!("{id}: object hit ratio over the cache's size"),
        header,
        rows,
    );
}

/// Adds figure 11.
fn c_over_time(section: &mut Section, id: &str, systems: &Systems, requests: usize) {
    let course = |found: &ReplayResult| {
        found
            .timeline
            .iter()
            .filter_map(|(at, _, c)| Some((*at, (*c)?)))
            .collect::<Vec<(f64, f64)>>()
    };
    let [threshold, chance] = [&systems.threshold, &systems.chance].map(inner_c);
    section.measured(format!("{id}-c-chance"), mean(&chance) / 1e3);
    section.measured(
        format!("{id}-c-threshold-to-chance"),
        mean(&threshold) / mean(&chance),
    );
    section.measured(format!("{id}-c-day"), of_day(&systems.chance));
    section.measured(
        format!("{id}-c-mirrored"),
        mirrored(&systems.threshold, &systems.chance),
    );
    let tunings = systems.published.gauge("adaptsize.tunings");
    section.measured(
        format!("{id}-adaptations"),
        tunings * US_REQUESTS / (requests as f64 / 1e6),
    );
    let lines = [
        ("Threshold", &systems.threshold),
        ("Chance", &systems.chance),
        ("published", &systems.published),
    ];
    section.figure(
        &format!("{id}-c"),
        lines
            .map(|(name, found)| Series::line(name, course(found)))
            .into(),
    );
}

/// Returns the values of c over time, after the warm-up.
pub(super) fn settled_c(found: &ReplayResult) -> Vec<f64> {
    settled(found).iter().filter_map(|(.., c)| *c).collect()
}

/// Returns the values of c over time after the warm-up, without the last part of the trace. The
/// windows of requests with locality end there.
fn inner_c(found: &ReplayResult) -> Vec<f64> {
    let mut c = settled_c(found);
    c.pop();
    c
}

/// Returns the greatest c as a multiple of the least, within the day in which this is the most,
/// without the last part of the trace.
pub(super) fn of_day(found: &ReplayResult) -> f64 {
    most_of_day(&inner_c(found))
}

/// Returns the correlation of the logarithms of c over time, without the last part of the trace.
pub(super) fn mirrored(a: &ReplayResult, b: &ReplayResult) -> f64 {
    correlation(&inner_c(a), &inner_c(b))
}

/// Returns the greatest of these values of c as a multiple of the least, within the day in which
/// this is the most.
pub(super) fn most_of_day(c: &[f64]) -> f64 {
    greatest(c.windows(DAY).map(spread))
}

/// Returns the coefficient of variation of the hit ratio over time: the lesser of the rivals', as a
/// multiple of that of `found`.
pub(super) fn steadier(found: &ReplayResult, rivals: [&ReplayResult; 2]) -> f64 {
    least(rivals.map(variation)) / variation(found)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the greatest value as a multiple of the least.
fn spread(values: &[f64]) -> f64 {
    greatest(values.iter().copied()) / least(values.iter().copied())
}

/// Returns Pearson's correlation of the logarithms.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let centred = |values: &[f64]| {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let mean = mean(&logs);
        logs.into_iter().map(|log| log - mean).collect::<Vec<f64>>()
    };
    let (a, b) = (centred(a), centred(b));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn courses_that_mirror_each_other_do_not() {
        assert!((correlation(&[1.0, 2.0, 8.0], &[10.0, 20.0, 80.0]) - 1.0).abs() < 1e-12);
        assert!((correlation(&[1.0, 2.0, 4.0], &[4.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert!(
            correlation(&[1.0, 1.0], &[1.0, 2.0]).is_nan(),
            "a constant has no correlation"
        );
        assert_eq!(spread(&[3.0, 2.0, 8.0]), 4.0);
        assert!(spread(&[]).is_nan());
    }
}
