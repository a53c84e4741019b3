//! Fig. 8: the peak throughput of the top node, and the gain from decoded names in the Content
//! Store.

use super::cell::Cell;
use super::cell::{Faces, SquidSetup, System};
use super::cells::{MOST_AT_ONCE, MachineLock, Measured};
use super::names::{self, Names};
use super::{shown, state_forwarder};

use super::tree::{Network, Shape};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_units::BitRate;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("ndn-vs-http/peak.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) runs: u64,
    clients: usize,
    file_bytes: usize,
    /// The rate of every link.
    rate: String,
    /// The number of Data in the Content Store.
    segments: u64,
    /// The number of rounds. Each round measures all look-up methods.
    rounds: usize,
}

const SYSTEMS: [System; 3] = [
    System::Larder {
        levels: 1,
        faces: Faces::Tcp,
    },
    System::LarderTuned { levels: 1 },
    System::Squid {
        levels: 1,
        setup: SquidSetup::Tuned,
    },
];

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
        delay: 0,
        loss: 0.0,
    };
    let (clients, bytes) = (sweep.clients, sweep.file_bytes);
    let cell = |system, run| Cell {
        system,
        network,
        clients,
        bytes,
        congestion: "cubic",
        seed: request.seed + run,
    };
    let cells = (0..sweep.runs)
        .flat_map(|run| SYSTEMS.map(|system| cell(system, run)))
        .collect();
    watch.begin("the top's peak", SYSTEMS.len() as u64 * sweep.runs);
    let mut measured = Measured::default();
    measured.add(cells, |_| MOST_AT_ONCE, request, watch)?;
    request.rows.measures_without_row();
    let names = names::measure(sweep.segments, sweep.rounds, request.seed, watch)?;

    let mut section = Section::new(&experiment, request.scale);
    state_forwarder(&mut section, request);
    section.condition(
        "links",
        format!("{rate}, no delay, no loss; TCP: cubic; {clients} clients under five edges, which only route"),
    );
    section.condition(
        "file",
        format!(
            "{bytes} bytes; {} runs; fresh programs, empty caches",
            sweep.runs
        ),
    );
    measured.state_lateness(&mut section);
    let Names {
        segments,
        bytes: packet,
        ..
    } = names;
    section.condition(
        "names",
        format!(
            "{segments} Data of {packet} bytes stored; {} rounds by turns, medians",
            sweep.rounds
        ),
    );

    let peaks = SYSTEMS.map(|system| {
        let runs = measured.runs(|cell| cell.system == system);
        let cpu = runs.median_of(|run| run.cpu_top);
        let outgoing = 8e-9 * (clients * bytes) as f64 / cpu;
        (outgoing, outgoing / clients as f64, cpu, runs.median())
    });
    let rows = SYSTEMS
        .iter()
        .zip(&peaks)
        .map(|(system, (outgoing, incoming, cpu, time))| {
            let figures = [*outgoing, *incoming, *cpu, *time].map(shown);
            std::iter::once(system.name()).chain(figures).collect()
        });
    let header = [
        "top",
        "outgoing, Gb for a CPU second",
        "incoming, Gb for a CPU second",
        "CPU of the top, s",
        "download, s",
    ];
    section.table(
        "Peak throughput of the top, one level of cache",
        header,
        rows.collect(),
    );
    hits_in_memory(&mut section, &names);
    let [larder, tuned, squid] = peaks.map(|(outgoing, ..)| outgoing);
    section.measured("top-to-squid", larder / squid);
    section.measured("top-to-squid-tuned", tuned / squid);
    section.measured("names-hashed", names.gain(names::HASHED));
    section.measured("names-ordered", names.gain(names::ORDERED));
    section.judged()
}

/// Adds the figure and the table of hits by the method that names are found with.
fn hits_in_memory(section: &mut Section, names: &Names) {
    let packet = names.bytes;
    let bars = names
        .methods
        .iter()
        .enumerate()
        .map(|(at, method)| (at as f64, method.gigabits(packet)));
    let labels = names.methods.iter().map(|method| method.name);
    section.named_figure(
        "names",
        labels,
        vec![Series::bars("outgoing", bars.collect())],
    );
    let rows = names.methods.iter().map(|method| {
        let figures = [method.nanoseconds, method.interval, method.gigabits(packet)]
            .map(|figure| format!("{figure:.1}"));
        std::iter::once(method.name.to_owned())
            .chain(figures)
            .collect()
    });
    let header = [
        "names of the Content Store",
        "ns a hit",
        "half of the quartiles' distance, ns",
        "Gb for a CPU second",
    ];
    section.table(
        "Hits in memory, from the Interest's bytes to the Data's",
        header,
        rows.collect(),
    );
}
