//! Clean links: directly, behind one level of cache, and behind two (fig. 2 and 3).

use super::programs::{System, download};
use super::series;
use super::tree::{Links, tree};
use crate::interval::{Confidence, mean_and_interval};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_netsim::Loss;
use larder_testbed::link;
use serde::Deserialize;
use std::time::Duration;

pub(super) const FILE: (&str, &str) =
    ("ndn-vs-http/clean.toml", include_str!("../../../../experiments/ndn-vs-http/clean.toml"));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) runs: usize,
    clients: Vec<usize>,
    file_bytes: usize,
    rate: String,
}

const SYSTEMS: [System; 7] = [
    System::Lighttpd,
    System::Squid { levels: 1 },
    System::Squid { levels: 2 },
    System::Larder { levels: 1 },
    System::Larder { levels: 2 },
    System::PlainSquid { levels: 2 },
    System::Pair,
];

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    super::programs::check_installed()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep { runs, clients, file_bytes, rate } = experiment.sweep(request.scale);
    let bits = rate.parse().map_err(|error| Error(format!("experiments/{}: rate: {error}", FILE.0)))?;
    let clean = link(Some(bits), Duration::ZERO, Loss::None, None);
    let links = Links { clean, core: clean, access: clean };
    watch.begin("clean links", (runs * clients.len() * SYSTEMS.len()) as u64);
    let mut section = Section::new(&experiment, request.scale);
    let (mut rows, mut points) = (Vec::new(), vec![Vec::new(); SYSTEMS.len()]);
    let (mut latest, mut last) = (0, Vec::new());
    for &count in clients {
        // Run by run, not system by system: what else the machine does meets all of them.
        let mut means = vec![Vec::new(); SYSTEMS.len()];
        let mut cpus = vec![0.0; SYSTEMS.len()];
        for run in 0..*runs {
            for (at, system) in SYSTEMS.into_iter().enumerate() {
                let spec = tree(count, &links, "cubic", request.seed + run as u64);
                let done = download(&spec, system, count, *file_bytes, watch)?;
                means[at].push(done.mean());
                cpus[at] += done.cpu;
                latest = latest.max(done.lateness.p99_ns);
            }
        }
        let delivered = (runs * count * file_bytes) as f64 / 1e9;
        last.clear();
        for (at, system) in SYSTEMS.into_iter().enumerate() {
            let (mean, half) = mean_and_interval(&means[at], Confidence::Ninety);
            let cpu = cpus[at] / delivered;
            points[at].push((count as f64, mean, half));
            rows.push(vec![
                count.to_string(),
                system.name(),
                format!("{mean:.2}"),
                format!("{half:.2}"),
                format!("{cpu:.2}"),
            ]);
            last.push((mean, cpu));
        }
    }
    section.condition("links", format!("{rate}, no delay, no loss, queues of 1000 packets; TCP: cubic"));
    section.condition("file", format!("{file_bytes} bytes; {runs} runs; fresh programs, empty caches"));
    section.condition("latest link", format!("{:.0} µs late at the 99th percentile of a run", latest as f64 / 1e3));
    section.table("Download times", ["clients", "system", "mean, s", "± s (90 %)", "CPU s a GB"], rows);
    let series = SYSTEMS.into_iter().zip(points).map(|(system, points)| series(system.name(), &points)).collect();
    section.figure("clean", series);
    section.measured("two-levels", last[4].0 / last[2].0);
    section.measured("two-levels-cpu", last[4].1 / last[2].1);
    section.judged()
}
