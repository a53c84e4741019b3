//! Traffic of varied names, which the paper announces: each client fetches many objects, some of
//! which others fetch too.

use super::cell::{Cell, System, VariedNames};
use super::cells::{MOST_AT_ONCE, MachineLock, Measured, line};
use super::shown;
use super::tree::{Network, Shape};
use crate::statistics::greatest;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_units::BitRate;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("ndn-vs-http/varied.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) runs: u64,
    clients: usize,
    /// The largest object, bytes.
    largest: usize,
    /// The rate of every link.
    rate: String,
    /// The delay between the top and the edges, each way, ms.
    delay: u64,
    objects: u64,
    requests: u64,
    /// The exponents of Zipf's law.
    exponents: Vec<f64>,
}

/// Whether HTTP goes over NDN. The order is that of the report.
const OVER_NDN: [bool; 2] = [false, true];

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let _lock = MachineLock::acquire()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let rate: BitRate = sweep
        .rate
        .parse()
        .map_err(|error| Error(format!("experiments/{}: rate: {error}", FILE.0)))?;
    let network = Network {
        shape: Shape::Links,
        rate: Some(rate),
        delay: sweep.delay,
        loss: 0.0,
    };
    let (objects, requests) = (sweep.objects, sweep.requests);
    let system = |pair, exponent| System::Varied {
        pair,
        names: VariedNames {
            objects,
            requests,
            exponent,
        },
    };
    let (clients, bytes) = (sweep.clients, sweep.largest);
    let mut cells = Vec::new();
    for run in 0..sweep.runs {
        for &exponent in &sweep.exponents {
            let seed = request.seed + run;
            cells.extend(OVER_NDN.map(|pair| {
                let system = system(pair, exponent);
                Cell {
                    system,
                    network,
                    clients,
                    bytes,
                    congestion: "cubic",
                    seed,
                }
            }));
        }
    }
    watch.begin("varied names", cells.len() as u64);
    let mut measured = Measured::default();
    // Five edges send at once: a run needs the whole machine.
    measured.add(cells, |_| MOST_AT_ONCE, request, watch)?;

    let mut section = Section::new(&experiment, request.scale);
    state_conditions(&mut section, sweep, rate);
    measured.state_lateness(&mut section);
    let of = |pair, exponent| measured.runs(move |cell| cell.system == system(pair, exponent));
    let (mut times, mut sent, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for &exponent in &sweep.exponents {
        for pair in OVER_NDN {
            let runs = of(pair, exponent);
            let megabytes = runs.median_of(|run| run.sent as f64 / 1e6);
            let figures = [runs.median(), megabytes, runs.median_of(|run| run.cpu)].map(shown);
            rows.push(
                [format!("{exponent}"), system(pair, exponent).name()]
                    .into_iter()
                    .chain(figures)
                    .collect(),
            );
        }
        let [squid, ndn] = OVER_NDN.map(|pair| of(pair, exponent));
        times.push(ndn.median() / squid.median());
        let of_server = |run: &super::cell::Run| run.sent as f64;
        sent.push(ndn.median_of(of_server) / squid.median_of(of_server));
    }
    let header = [
        "exponent",
        "system",
        "time of a client, s",
        "MB that leave the server",
        "CPU of servers and caches, s",
    ];
    section.table("Traffic of varied names", header, rows);
    let lines = OVER_NDN.map(|pair| {
        line(
            system(pair, 0.0).name(),
            sweep
                .exponents
                .iter()
                .map(|&exponent| (exponent, of(pair, exponent))),
        )
    });
    section.figure("varied", lines.to_vec());
    section.measured("varied-time", greatest(times));
    section.measured("varied-origin", greatest(sent));
    section.judged()
}

fn state_conditions(section: &mut Section, sweep: &Sweep, rate: BitRate) {
    let Sweep {
        clients,
        requests,
        objects,
        largest: bytes,
        ..
    } = sweep;
    section.condition(
        "links",
        format!(
            "{rate}, {} ms between top and edges, no loss; TCP: cubic",
            sweep.delay
        ),
    );
    section.condition(
        "traffic",
        format!(
            "{clients} clients, {requests} requests for {objects} objects, 1 kB to {bytes} bytes"
        ),
    );
    section.condition("runs", sweep.runs);
}
