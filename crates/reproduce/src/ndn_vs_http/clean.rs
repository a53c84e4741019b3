//! Clean links: directly, behind one level of cache, and behind two (fig. 2 and 3); and the paper's
//! 100 MB behind two; and links of 1 Gb/s, which are the paper's.

use super::cell::Cell;
use super::cell::{Faces, SquidSetup, System};
use super::cells::{MOST_AT_ONCE, MachineLock, Measured, Runs, line};

use super::state_forwarder;
use super::tree::{Network, Shape};
use crate::statistics::least;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_units::BitRate;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("ndn-vs-http/clean.toml");
pub(super) const LARGE: (&str, &str) = experiment_file!("ndn-vs-http/large.toml");
pub(super) const GIGABIT: (&str, &str) = experiment_file!("ndn-vs-http/gigabit.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) runs: u64,
    clients: Vec<usize>,
    file_bytes: usize,
    /// The rate of every host's interface.
    rate: String,
}

const SQUID: System = System::Squid {
    levels: 2,
    setup: SquidSetup::Tuned,
};
const SQUID_AHEAD: System = System::Squid {
    levels: 2,
    setup: SquidSetup::ReadsAhead,
};
const LARDER: System = System::Larder {
    levels: 2,
    faces: Faces::Tcp,
};
const TUNED: System = System::LarderTuned { levels: 2 };
const SQUID_1: System = System::Squid {
    levels: 1,
    setup: SquidSetup::Tuned,
};
const SQUID_AHEAD_1: System = System::Squid {
    levels: 1,
    setup: SquidSetup::ReadsAhead,
};
const LARDER_1: System = System::Larder {
    levels: 1,
    faces: Faces::Tcp,
};

/// The systems. In the first six, all clients share the interface of one host, the server or the
/// top. In the others, five edges send at once.
const SYSTEMS: [System; 11] = [
    System::Lighttpd { tuned: false },
    System::Lighttpd { tuned: true },
    SQUID_1,
    SQUID_AHEAD_1,
    LARDER_1,
    System::Squid {
        levels: 2,
        setup: SquidSetup::Packaged,
    },
    SQUID,
    SQUID_AHEAD,
    LARDER,
    TUNED,
    System::Pair,
];

/// The systems that fetch a large file.
const LARGE_SYSTEMS: [System; 4] = [SQUID, SQUID_AHEAD, LARDER, TUNED];

/// The systems on links of 1 Gb/s.
const GIGABIT_SYSTEMS: [System; 7] = [
    System::Lighttpd { tuned: true },
    SQUID_1,
    SQUID_AHEAD_1,
    LARDER_1,
    SQUID,
    SQUID_AHEAD,
    LARDER,
];

/// Measures fig. 2 and 3.
pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let measured = measured(sweep, &SYSTEMS, "clean links", request, watch)?;
    let mut section = Section::new(&experiment, request.scale);
    state_forwarder(&mut section, request);
    report(&mut section, sweep, &SYSTEMS, &measured);

    let fewest = sweep.clients.iter().copied().min().unwrap_or_default();
    let most = sweep.clients.iter().copied().max().unwrap_or_default();
    let runs = |system, clients| of(&measured, system, clients);
    let time = |system| runs(system, most).median();
    let direct = System::Lighttpd { tuned: true };
    let growth = time(direct) / runs(direct, fewest).median();
    section.measured("direct-linear", growth / (most as f64 / fewest as f64));
    // The paper's bend.
    let bend = sweep
        .clients
        .iter()
        .copied()
        .filter(|clients| *clients <= 20)
        .max()
        .unwrap_or_default();
    section.measured(
        "one-level-flat",
        runs(LARDER_1, bend).median() / runs(LARDER_1, fewest).median(),
    );
    section.measured(
        "one-level-squid",
        time(SQUID_1) / runs(SQUID_1, fewest).median() / (most as f64 / fewest as f64),
    );
    section.measured("two-levels-gain", time(SQUID_1) / time(SQUID));
    section.measured("two-levels-gain-larder", time(LARDER_1) / time(LARDER));
    // A claim has the better of the two tuned Squids: one is faster, the other takes less CPU.
    section.measured(
        "one-level",
        time(LARDER_1) / least([SQUID_1, SQUID_AHEAD_1].map(time)),
    );
    section.measured(
        "two-levels",
        time(LARDER) / least([SQUID, SQUID_AHEAD].map(time)),
    );
    let cpu_of = |system| cpu(&runs(system, most));
    section.measured(
        "two-levels-cpu",
        cpu_of(LARDER) / least([SQUID, SQUID_AHEAD].map(cpu_of)),
    );
    section.judged()
}

/// Measures 100 MB behind two levels.
pub(super) fn run_large(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(LARGE.0, LARGE.1)?;
    let sweep = experiment.sweep(request.scale);
    let measured = measured(sweep, &LARGE_SYSTEMS, "a large file", request, watch)?;
    let mut section = Section::new(&experiment, request.scale);
    state_forwarder(&mut section, request);
    report(&mut section, sweep, &LARGE_SYSTEMS, &measured);
    let most = sweep.clients.iter().copied().max().unwrap_or_default();
    let [squid, ahead, larder, tuned] = LARGE_SYSTEMS.map(|system| of(&measured, system, most));
    let squid_time = least([squid.median(), ahead.median()]);
    let squid_cpu = least([cpu(&squid), cpu(&ahead)]);
    section.measured("large-time", tuned.median() / squid_time);
    section.measured("large-cpu", cpu(&tuned) / squid_cpu);
    section.measured("large-time-8800", larder.median() / squid_time);
    section.measured("large-cpu-8800", cpu(&larder) / squid_cpu);
    section.judged()
}

/// Measures links of 1 Gb/s.
pub(super) fn run_gigabit(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(GIGABIT.0, GIGABIT.1)?;
    let sweep = experiment.sweep(request.scale);
    let measured = measured(sweep, &GIGABIT_SYSTEMS, "links of 1 Gb/s", request, watch)?;
    let mut section = Section::new(&experiment, request.scale);
    state_forwarder(&mut section, request);
    report(&mut section, sweep, &GIGABIT_SYSTEMS, &measured);
    let most = sweep.clients.iter().copied().max().unwrap_or_default();
    let runs = |system| of(&measured, system, most);
    for (levels, squids, larder) in [
        ("one-level", [SQUID_1, SQUID_AHEAD_1], LARDER_1),
        ("two-levels", [SQUID, SQUID_AHEAD], LARDER),
    ] {
        let time = |system| runs(system).median();
        section.measured(
            format!("gigabit-{levels}"),
            time(larder) / least(squids.map(time)),
        );
        let cpu_of = |system| cpu(&runs(system));
        section.measured(
            format!("gigabit-{levels}-cpu"),
            cpu_of(larder) / least(squids.map(cpu_of)),
        );
    }
    section.judged()
}

fn measured(
    sweep: &Sweep,
    systems: &[System],
    what: &str,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Measured, Error> {
    let _lock = MachineLock::acquire()?;
    let network = Network {
        shape: Shape::Interfaces,
        rate: Some(rate(sweep)?),
        delay: 0,
        loss: 0.0,
    };
    let mut cells = Vec::new();
    // Long runs start first. The order is by run and not by system, so that other work of the
    // machine affects all systems.
    for &clients in sweep.clients.iter().rev() {
        for run in 0..sweep.runs {
            let (bytes, seed) = (sweep.file_bytes, request.seed + run);
            let cell = |&system| Cell {
                system,
                network,
                clients,
                bytes,
                congestion: "cubic",
                seed,
            };
            cells.extend(systems.iter().map(cell));
        }
    }
    watch.begin(what, cells.len() as u64);
    let mut measured = Measured::default();
    // One run at a time. With two, one frame in a hundred was often 1.0 to 1.3 ms late, which is
    // more than allowed, and runs were repeated.
    measured.add(cells, |_| MOST_AT_ONCE, request, watch)?;
    Ok(measured)
}

fn rate(sweep: &Sweep) -> Result<BitRate, Error> {
    sweep
        .rate
        .parse()
        .map_err(|error| Error(format!("experiments/ndn-vs-http: rate: {error}")))
}

fn of(measured: &Measured, system: System, clients: usize) -> Runs<'_> {
    measured.runs(|cell| cell.system == system && cell.clients == clients)
}

/// Returns the CPU time of servers and caches in the median run, s. The compared runs of two
/// systems deliver the same bytes.
fn cpu(runs: &Runs<'_>) -> f64 {
    runs.median_of(|run| run.cpu)
}

fn report(section: &mut Section, sweep: &Sweep, systems: &[System], measured: &Measured) {
    section.condition(
        "links",
        format!(
            "{} an interface, no delay, no loss, queues of 1000 packets; TCP: cubic",
            sweep.rate
        ),
    );
    section.condition(
        "file",
        format!(
            "{} bytes; {} runs; fresh programs, empty caches",
            sweep.file_bytes, sweep.runs
        ),
    );
    measured.state_lateness(section);
    let mut rows = Vec::new();
    for &clients in &sweep.clients {
        for system in systems {
            let runs = of(measured, *system, clients);
            if runs.is_empty() {
                continue;
            }
            let (mean, half) = runs.mean();
            let delivered = (clients * sweep.file_bytes) as f64 / 1e9;
            rows.push(vec![
                clients.to_string(),
                system.name(),
                format!("{mean:.2}"),
                format!("{half:.2}"),
                runs.spread(),
                format!("{:.2}", cpu(&runs) / delivered),
            ]);
        }
    }
    let header = [
        "clients",
        "system",
        "mean, s",
        "± s (90 %)",
        "clients: fastest / median / slowest, s",
        "CPU s a GB",
    ];
    section.table("Download times", header, rows);
    let of_system = |system: &System| {
        let runs = sweep
            .clients
            .iter()
            .map(|&clients| (clients as f64, of(measured, *system, clients)));
        line(system.name(), runs)
    };
    section.figure("clean", systems.iter().map(of_system).collect());
}
