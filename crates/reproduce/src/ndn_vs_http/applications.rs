//! Applications of other NDN implementations: each producer serves a file, and each consumer
//! fetches it, through Larder's nodes.

use super::cell::{Cell, LARDER, System};
use super::cells::{MOST_AT_ONCE, MachineLock, Measured};
use super::tree::{Network, Shape};
use super::{shown, state_forwarder};
use crate::statistics::{greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_units::BitRate;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

pub(super) const FILE: (&str, &str) = experiment_file!("ndn-vs-http/applications.toml");

/// The name of the experiment.
pub(super) const NAME: &str = "applications";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) runs: u64,
    file_bytes: usize,
    /// The rate of every link.
    rate: String,
    /// The delays between the top and the edges, each way, ms.
    delays: Vec<u64>,
}

/// The role of an application.
#[derive(Clone, Copy)]
enum Role {
    Producer,
    Consumer,
}

/// Checks that there is a directory of applications, and that the experiment runs.
pub(super) fn check(request: &Request<'_>, runs: bool) -> Result<(), Error> {
    names(request)?;
    if runs {
        Ok(())
    } else {
        Err(Error(format!(
            "--applications: the experiment `{NAME}` does not run"
        )))
    }
}

/// Returns the names of the producers and of the consumers, Larder's first, then by name.
fn names(request: &Request<'_>) -> Result<[Vec<&'static str>; 2], Error> {
    let Some(directory) = request.applications else {
        return Err(Error(format!(
            "`{NAME}` needs programs of other NDN implementations: --applications DIR (interop/applications)"
        )));
    };
    let found = found(directory)?;
    if let Some(own) = found
        .iter()
        .find(|name| [format!("{LARDER}-producer"), format!("{LARDER}-consumer")].contains(name))
    {
        return Err(Error(format!(
            "{}: `{LARDER}` is this program; choose another name",
            directory.join(own).display()
        )));
    }
    let of = |role: &str| -> Vec<&'static str> {
        // The names are part of cells, which are copied. There are few, and the process ends soon.
        let others = found
            .iter()
            .filter_map(|name| name.strip_suffix(role))
            .map(|name| &*name.to_owned().leak());
        std::iter::once(LARDER).chain(others).collect()
    };
    let names = [of("-producer"), of("-consumer")];
    if names.iter().all(|names| names.len() > 1) {
        Ok(names)
    } else {
        Err(Error(format!(
            "{}: no program NAME-producer, or none NAME-consumer",
            directory.display()
        )))
    }
}

/// Returns the names of the files of a directory, sorted.
fn found(directory: &Path) -> Result<Vec<String>, Error> {
    let failed = |error: std::io::Error| Error(format!("{}: {error}", directory.display()));
    let entries = std::fs::read_dir(directory).map_err(failed)?;
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry.map_err(failed)?.file_name().into_string());
    }
    found.sort();
    Ok(found)
}

/// Goodputs by delay, producer and consumer, Mb/s.
struct Goodputs(BTreeMap<(u64, &'static str, &'static str), f64>);

impl Goodputs {
    /// Returns the least ratio of Larder's goodput to that of the fastest other application in this
    /// role. The others' consumers are compared at each producer, and their producers at Larder's
    /// consumer.
    fn least_lead(&self, role: Role) -> f64 {
        let mut leads = Vec::new();
        for (&(delay, producer, consumer), own) in &self.0 {
            let is_rival = |&(of, from, to): &(u64, &str, &str)| match role {
                Role::Consumer => (of, from) == (delay, producer) && to != LARDER,
                Role::Producer => (of, to) == (delay, LARDER) && from != LARDER,
            };
            let is_own = match role {
                Role::Consumer => consumer == LARDER,
                Role::Producer => (producer, consumer) == (LARDER, LARDER),
            };
            if is_own {
                let rivals = self
                    .0
                    .iter()
                    .filter(|(key, _)| is_rival(key))
                    .map(|(_, goodput)| *goodput);
                leads.push(own / greatest(rivals));
            }
        }
        least(leads)
    }
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let _lock = MachineLock::acquire_bare()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let rate: BitRate = sweep
        .rate
        .parse()
        .map_err(|error| Error(format!("experiments/{}: rate: {error}", FILE.0)))?;
    let [producers, consumers] = names(request)?;
    let mut cells = Vec::new();
    for run in 0..sweep.runs {
        for &delay in &sweep.delays {
            let network = Network {
                shape: Shape::Links,
                rate: Some(rate),
                delay,
                loss: 0.0,
            };
            for &producer in &producers {
                cells.extend(consumers.iter().map(|&consumer| Cell {
                    system: System::Applications { producer, consumer },
                    network,
                    clients: 1,
                    bytes: sweep.file_bytes,
                    congestion: "cubic",
                    seed: request.seed + run,
                }));
            }
        }
    }
    watch.begin("other applications", cells.len() as u64);
    let mut measured = Measured::default();
    // Alone: a consumer in Python takes a core.
    measured.add(cells, |_| MOST_AT_ONCE, request, watch)?;

    let mut section = Section::new(&experiment, request.scale);
    state_forwarder(&mut section, request);
    section.condition(
        "links",
        format!("{rate}, no loss; TCP: cubic; one client under one of five edges"),
    );
    section.condition(
        "file",
        format!(
            "{} bytes; {} runs; fresh programs, empty caches",
            sweep.file_bytes, sweep.runs
        ),
    );
    measured.state_lateness(&mut section);
    let (mut goodputs, mut rows) = (BTreeMap::new(), Vec::new());
    for &delay in &sweep.delays {
        for &producer in &producers {
            for &consumer in &consumers {
                let system = System::Applications { producer, consumer };
                let runs =
                    measured.runs(|cell| cell.system == system && cell.network.delay == delay);
                let goodput = 8e-6 * sweep.file_bytes as f64 / runs.median();
                goodputs.insert((delay, producer, consumer), goodput);
                let figures = [shown(runs.median()), runs.spread(), shown(goodput)];
                rows.push(
                    [delay.to_string(), producer.into(), consumer.into()]
                        .into_iter()
                        .chain(figures)
                        .collect(),
                );
            }
        }
    }
    let header = [
        "delay, ms",
        "producer",
        "consumer",
        "median, s",
        "fastest / median / slowest, s",
        "Mb/s",
    ];
    section.table("Transfers through Larder's nodes", header, rows);
    let goodputs = Goodputs(goodputs);
    let places: Vec<(u64, &str)> = sweep
        .delays
        .iter()
        .flat_map(|delay| producers.iter().map(|producer| (*delay, *producer)))
        .collect();
    let bars = consumers.iter().map(|&consumer| {
        let bar = |(at, (delay, producer)): (usize, &(u64, &'static str))| {
            (at as f64, goodputs.0[&(*delay, *producer, consumer)])
        };
        let bars = places.iter().enumerate().map(bar).collect();
        Series::bars(format!("consumer: {consumer}"), bars)
    });
    let labels = places
        .iter()
        .map(|(delay, producer)| format!("{producer}, {delay} ms"));
    section.named_figure("applications", labels, bars.collect());
    section.measured("application-consumers", goodputs.least_lead(Role::Consumer));
    section.measured("application-producers", goodputs.least_lead(Role::Producer));
    section.judged()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rows;

    #[test]
    fn a_faster_rival_counts_as_slower() {
        let of = |goodputs: &[(&'static str, &'static str, f64)]| {
            Goodputs(
                goodputs
                    .iter()
                    .map(|(from, to, goodput)| ((5, *from, *to), *goodput))
                    .collect(),
            )
        };
        let goodputs = of(&[
            (LARDER, LARDER, 80.0),
            (LARDER, "a", 20.0),
            (LARDER, "b", 40.0),
            ("a", LARDER, 60.0),
            ("a", "a", 30.0),
            ("a", "b", 90.0),
        ]);
        assert_eq!(goodputs.least_lead(Role::Consumer), 60.0 / 90.0);
        assert_eq!(goodputs.least_lead(Role::Producer), 80.0 / 60.0);
        // A rival that was not measured may be the fastest.
        let goodputs = of(&[
            (LARDER, LARDER, 80.0),
            (LARDER, "a", 20.0),
            (LARDER, "b", f64::NAN),
        ]);
        assert!(goodputs.least_lead(Role::Consumer).is_nan());
    }

    #[test]
    fn an_experiment_without_applications_is_run() {
        let rows = Rows::default();
        let request = Request::quick(&super::super::PAPER, &rows);
        assert!(!request.experiments().any(|name| name == NAME));
        let only = [NAME.to_owned()];
        let named = Request {
            only: &only,
            ..request
        };
        assert!(named.experiments().eq([NAME]));
        assert!(
            check(&named, true)
                .unwrap_err()
                .to_string()
                .contains("--applications")
        );
        let directory = tempfile::tempdir().unwrap();
        let with = Request {
            applications: Some(directory.path()),
            ..request
        };
        assert!(with.experiments().any(|name| name == NAME));
        assert!(
            check(&with, true)
                .unwrap_err()
                .to_string()
                .contains("NAME-producer")
        );
        for name in ["x-producer", "y-producer", "x-consumer", "README.md"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(
            names(&with).unwrap(),
            [vec![LARDER, "x", "y"], vec![LARDER, "x"]]
        );
        assert!(check(&with, true).is_ok() && check(&with, false).is_err());
        std::fs::write(directory.path().join("Larder-consumer"), "").unwrap();
        assert!(
            check(&with, true)
                .unwrap_err()
                .to_string()
                .contains("another name")
        );
    }
}
