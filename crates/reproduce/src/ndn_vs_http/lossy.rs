//! Losses on the clients' links, a delay behind them (fig. 5, 6 and 7): NDN caches at the edge, HTTP does not.

use super::programs::{System, download};
use super::series;
use super::tree::{Links, tree};
use crate::interval::{Confidence, mean_and_interval};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_netsim::Loss;
use larder_testbed::link;
use serde::Deserialize;
use std::time::Duration;

pub(super) const FILE: (&str, &str) =
    ("ndn-vs-http/lossy.toml", include_str!("../../../../experiments/ndn-vs-http/lossy.toml"));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) runs: usize,
    file_bytes: usize,
    rate: String,
    /// Fig. 5: clients, at the greatest loss and delay.
    clients: Vec<usize>,
    /// Fig. 6: delays, ms each way, at the greatest loss.
    delays: Vec<u64>,
    /// Fig. 7: losses, %, at the greatest delay.
    losses: Vec<f64>,
    /// Of fig. 6 and 7.
    clients_there: usize,
}

/// Name, program, congestion control of TCP on every host.
const SYSTEMS: [(&str, System, &str); 4] = [
    ("Squid, CUBIC", System::Squid { levels: 1 }, "cubic"),
    ("Squid, BBR", System::Squid { levels: 1 }, "bbr"),
    ("Larder, CUBIC", System::Larder { levels: 2 }, "cubic"),
    ("wget, Larder's pair, CUBIC", System::Pair, "cubic"),
];

#[derive(Clone, Copy, PartialEq)]
struct Point {
    clients: usize,
    delay: u64,
    loss: f64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    super::programs::check_installed()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let bits = sweep.rate.parse().map_err(|error| Error(format!("experiments/{}: rate: {error}", FILE.0)))?;
    let greatest = Point {
        clients: sweep.clients_there,
        delay: sweep.delays.iter().copied().max().unwrap_or(0),
        loss: sweep.losses.iter().copied().fold(0.0, f64::max),
    };
    let mut points: Vec<Point> = sweep.clients.iter().map(|&clients| Point { clients, ..greatest }).collect();
    points.extend(sweep.delays.iter().map(|&delay| Point { delay, ..greatest }));
    points.extend(sweep.losses.iter().map(|&loss| Point { loss, ..greatest }));
    let mut different: Vec<Point> = Vec::new();
    points.into_iter().for_each(|point| {
        if !different.contains(&point) {
            different.push(point)
        }
    });

    watch.begin("lossy links", (sweep.runs * different.len() * SYSTEMS.len()) as u64);
    let mut section = Section::new(&experiment, request.scale);
    let (mut rows, mut means, mut latest) = (Vec::new(), Vec::new(), 0);
    for point in &different {
        let mut runs = vec![Vec::new(); SYSTEMS.len()];
        for run in 0..sweep.runs {
            for (at, (_, system, congestion)) in SYSTEMS.into_iter().enumerate() {
                let loss = if point.loss > 0.0 { Loss::Uniform(point.loss / 100.0) } else { Loss::None };
                let links = Links {
                    clean: link(Some(bits), Duration::ZERO, Loss::None, None),
                    core: link(Some(bits), Duration::from_millis(point.delay), Loss::None, None),
                    access: link(Some(bits), Duration::ZERO, loss, None),
                };
                let spec = tree(point.clients, &links, congestion, request.seed + run as u64);
                let done = download(&spec, system, point.clients, sweep.file_bytes, watch)?;
                runs[at].push(done.mean());
                latest = latest.max(done.lateness.p99_ns);
            }
        }
        for (at, (name, ..)) in SYSTEMS.into_iter().enumerate() {
            let (mean, half) = mean_and_interval(&runs[at], Confidence::Ninety);
            let [clients, delay, loss] = [point.clients.to_string(), point.delay.to_string(), point.loss.to_string()];
            rows.push(vec![clients, delay, loss, name.into(), format!("{mean:.2}"), format!("{half:.2}")]);
        }
        means.push((*point, runs.iter().map(|runs| mean_and_interval(runs, Confidence::Ninety)).collect::<Vec<_>>()));
    }
    section.condition(
        "links",
        format!("{}, queues of 1000 packets; the delay each way, between the edges and the top", sweep.rate),
    );
    section.condition(
        "file",
        format!(
            "{} bytes; {} runs; fresh programs (the pair's have fetched a small one), empty caches",
            sweep.file_bytes, sweep.runs
        ),
    );
    section.condition("latest link", format!("{:.0} µs late at the 99th percentile of a run", latest as f64 / 1e3));
    section.table("Download times", ["clients", "delay, ms", "loss, %", "system", "mean, s", "± s (90 %)"], rows);
    let drawn = |keep: &dyn Fn(&Point) -> bool, x: &dyn Fn(&Point) -> f64| -> Vec<Series> {
        let mut kept: Vec<_> = means.iter().filter(|(point, _)| keep(point)).collect();
        kept.sort_by(|(a, _), (b, _)| x(a).total_cmp(&x(b)));
        let line =
            |at: usize| -> Vec<_> { kept.iter().map(|(point, means)| (x(point), means[at].0, means[at].1)).collect() };
        SYSTEMS.iter().enumerate().map(|(at, (name, ..))| series(*name, &line(at))).collect()
    };
    section.figure("clients", drawn(&|p| (p.delay, p.loss) == (greatest.delay, greatest.loss), &|p| p.clients as f64));
    section.figure("delay", drawn(&|p| (p.clients, p.loss) == (greatest.clients, greatest.loss), &|p| p.delay as f64));
    section.figure("loss", drawn(&|p| (p.clients, p.delay) == (greatest.clients, greatest.delay), &|p| p.loss));
    let ratio = |point: Point, [one, other]: [usize; 2]| {
        let means = means.iter().find(|(measured, _)| *measured == point).map(|(_, means)| means);
        means.map_or(f64::NAN, |means| means[one].0 / means[other].0)
    };
    let no_delay = Point { delay: 0, ..greatest };
    section.measured("lossy-cubic", ratio(greatest, [0, 2]));
    section.measured("lossy-bbr", ratio(greatest, [1, 2]));
    section.measured("no-delay", ratio(no_delay, [0, 2]));
    section.measured("pair-cubic", ratio(greatest, [0, 3]));
    section.measured("pair-no-delay", ratio(no_delay, [0, 3]));
    section.judged()
}
