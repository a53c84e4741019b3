//! Figure 13a in Gb/s over the number of clients, and hits with several request threads, which
//! share the statistics of AdaptSize. Servers, client and origin share one machine.

use super::serve::repeat;
use super::servers::{FEW_THREADS, Server, System};
use crate::programs::cpu_seconds;
use crate::site::Site;
use crate::statistics::{Confidence, least, mean_and_interval};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::{Deserialize, Serialize};

pub(super) const FILE: (&str, &str) = experiment_file!("adaptsize/testbed-gigabits.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// The numbers of the client's connections. [`PEAK`] is one of them.
    clients: Vec<usize>,
    /// The number of times that each measurement is repeated.
    pub(super) rounds: usize,
    /// The bytes of an object, and the number of requests for it in one measurement.
    object_bytes: u64,
    requests: u64,
    /// The same for the measurements with several request threads.
    small_bytes: u64,
    small_requests: u64,
    /// The numbers of request threads.
    threads: Vec<usize>,
    /// The capacity of a cache, bytes.
    capacity: u64,
}

/// The systems of figure 13a, LRU in the same server as AdaptSize, and Varnish with
/// [`FEW_THREADS`].
const SYSTEMS: [&str; 5] = [
    "AdaptSize(Chance)",
    "AdaptSize(Threshold)",
    "LRU",
    "Varnish",
    "Varnish, 10 threads",
];
const POLICIES: [&str; 3] = ["adaptsize(chance)+lru", "adaptsize(threshold)+lru", "lru"];
const LRU: usize = 2;
const VARNISH: usize = 3;
const LIMITED_VARNISH: usize = 4;

/// The number of clients of the published peak. More than these are past it.
const PEAK: usize = 50;

/// The means over the rounds of one measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Rates {
    /// Gb/s of bodies by the clock, with half the 95 % interval.
    gigabits: (f64, f64),
    /// Requests for each second of the server's processor time, and of the client's.
    requests: f64,
    client_requests: f64,
}

/// Servers that run at once. One of them is measured at a time.
struct Bench {
    /// Ends the servers when it is dropped.
    _site: Site,
    servers: Vec<Server>,
}

impl Bench {
    fn new(systems: impl IntoIterator<Item = System>, capacity: u64) -> Result<Bench, Error> {
        let mut site = Site::in_memory()?;
        let origin = Server::origin(&mut site)?;
        let start = |system| Server::start(&mut site, &system, capacity, origin.port);
        let servers = systems
            .into_iter()
            .map(start)
            .collect::<Result<Vec<Server>, Error>>()?;
        Ok(Bench {
            _site: site,
            servers,
        })
    }

    /// Returns the rates of each server. The first round does not count, because its connections
    /// are new.
    fn measure(
        &self,
        bytes: u64,
        requests: u64,
        clients: usize,
        rounds: usize,
    ) -> Result<Vec<Rates>, Error> {
        let mut found = vec![Vec::new(); self.servers.len()];
        for round in 0..=rounds {
            for (server, found) in self.servers.iter().zip(&mut found) {
                repeat(server.port, bytes, 2, 1)?;
                let before = cpu_seconds(server.pid);
                let load = repeat(server.port, bytes, requests, clients)?;
                if load.hits < requests {
                    let misses = requests - load.hits;
                    return Err(Error(format!(
                        "port {}: {misses} of {requests} hits are misses",
                        server.port
                    )));
                }
                let seconds = cpu_seconds(server.pid) - before;
                if round > 0 {
                    let gigabits = (bytes * requests * 8) as f64 / load.seconds / 1e9;
                    found.push([
                        gigabits,
                        requests as f64 / seconds,
                        requests as f64 / load.cpu_seconds,
                    ]);
                }
            }
        }
        let of = |found: &[[f64; 3]], at: usize| {
            found.iter().map(|rates| rates[at]).collect::<Vec<f64>>()
        };
        let mean =
            |found: &[[f64; 3]], at: usize| of(found, at).iter().sum::<f64>() / found.len() as f64;
        let rates = |found: &Vec<[f64; 3]>| Rates {
            gigabits: mean_and_interval(&of(found, 0), Confidence::NinetyFive),
            requests: mean(found, 1),
            client_requests: mean(found, 2),
        };
        Ok(found.iter().map(rates).collect())
    }
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    super::servers::check_installed()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    let Sweep {
        rounds,
        object_bytes,
        requests,
        ..
    } = *sweep;
    section.condition(
        "a measurement",
        format!("{requests} hits of {object_bytes} bytes, {rounds} rounds"),
    );
    watch.begin("Gb/s", (sweep.clients.len() + sweep.threads.len()) as u64);
    over_clients(sweep, &mut section, request, watch)?;
    over_threads(sweep, &mut section, request, watch)?;
    section.judged()
}

/// Adds figure 13a.
fn over_clients(
    sweep: &Sweep,
    section: &mut Section,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let policies = POLICIES.map(|policy| System::Larder(policy.to_owned()));
    let varnish = [
        System::Varnish { is_exact: false },
        System::VarnishThreads(FEW_THREADS),
    ];
    let bench = Bench::new(policies.into_iter().chain(varnish), sweep.capacity)?;
    let mut found = Vec::new();
    for &clients in &sweep.clients {
        watch.now(&format!("Gb/s: {clients} clients"));
        let key = format!("adaptsize, testbed: Gb/s, {clients} clients, {sweep:?}");
        let measure = || bench.measure(sweep.object_bytes, sweep.requests, clients, sweep.rounds);
        found.push((clients, request.rows.get_or(&key, measure)?));
        watch.advance(1);
    }
    let at_peak =
        |system: usize| mean_of(found.iter().filter(|(clients, _)| *clients == PEAK), system);
    let past_peak =
        |system: usize| mean_of(found.iter().filter(|(clients, _)| *clients > PEAK), system);
    section.measured("bed-gigabits-peak", at_peak(0));
    section.measured(
        "bed-gigabits-chance",
        mean_of(found.iter(), 0) / mean_of(found.iter(), LRU),
    );
    section.measured(
        "bed-gigabits-threshold",
        mean_of(found.iter(), 1) / mean_of(found.iter(), LRU),
    );
    section.measured("bed-gigabits-varnish", at_peak(0) / at_peak(VARNISH));
    let decline = |system| past_peak(system) / at_peak(system);
    section.measured("bed-decline", decline(0));
    section.measured("bed-decline-varnish", decline(VARNISH));
    section.measured("bed-decline-varnish-threads", decline(LIMITED_VARNISH));
    section.measured(
        "bed-gigabits-varnish-threads",
        at_peak(0) / at_peak(LIMITED_VARNISH),
    );
    let most = sweep.clients.iter().max().copied().unwrap_or(PEAK);
    let at_most =
        |system: usize| mean_of(found.iter().filter(|(clients, _)| *clients == most), system);
    section.measured(
        "bed-gigabits-varnish-threads-most",
        at_most(0) / at_most(LIMITED_VARNISH),
    );
    let line = |(system, name): (usize, &str)| {
        let of = |(clients, rates): &(usize, Vec<Rates>)| (*clients as f64, rates[system].gigabits);
        let points: Vec<(f64, (f64, f64))> = found.iter().map(of).collect();
        let interval = points
            .iter()
            .map(|(_, (mean, half))| (mean - half, mean + half))
            .collect();
        Series::line(
            name,
            points.iter().map(|(x, (mean, _))| (*x, *mean)).collect(),
        )
        .with_interval(interval)
    };
    section.figure(
        "bed-gigabits",
        SYSTEMS.into_iter().enumerate().map(line).collect(),
    );
    let shown = |rates: &Rates| format!("{:.1} \u{b1} {:.1}", rates.gigabits.0, rates.gigabits.1);
    let rows = found.iter().map(|(clients, rates)| {
        [clients.to_string()]
            .into_iter()
            .chain(rates.iter().map(shown))
            .collect::<Vec<String>>()
    });
    section.table(
        "100 % hits, Gb/s",
        ["clients"].into_iter().chain(SYSTEMS),
        rows.collect(),
    );
    let spent = |rates: &Rates| {
        format!(
            "{:.1} + {:.1}",
            1e6 / rates.requests,
            1e6 / rates.client_requests
        )
    };
    let rows = found.iter().map(|(clients, rates)| {
        [clients.to_string()]
            .into_iter()
            .chain(rates.iter().map(spent))
            .collect::<Vec<String>>()
    });
    let title = "The same, \u{b5}s of processor time a hit: of the server + of the client";
    section.table(
        title,
        ["clients"].into_iter().chain(SYSTEMS),
        rows.collect(),
    );
    Ok(())
}

/// Returns the mean Gb/s of a system.
fn mean_of<'a>(found: impl Iterator<Item = &'a (usize, Vec<Rates>)>, system: usize) -> f64 {
    let rates: Vec<f64> = found.map(|(_, rates)| rates[system].gigabits.0).collect();
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// Adds the hits with several request threads.
fn over_threads(
    sweep: &Sweep,
    section: &mut Section,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let mut rows = Vec::new();
    let [mut shares, mut by_clock] = [const { Vec::new() }; 2];
    for &threads in &sweep.threads {
        watch.now(&format!("Gb/s: {threads} request threads"));
        let key = format!("adaptsize, testbed: {threads} request threads, {sweep:?}");
        let found = request.rows.get_or(&key, || {
            let policies = POLICIES.map(|policy| System::LarderThreads(policy.to_owned(), threads));
            Bench::new(policies, sweep.capacity)?.measure(
                sweep.small_bytes,
                sweep.small_requests,
                PEAK,
                sweep.rounds,
            )
        })?;
        let ratios = [0, 1].map(|system| found[system].requests / found[LRU].requests);
        shares.extend(ratios);
        by_clock.extend([0, 1].map(|system| found[system].gigabits.0 / found[LRU].gigabits.0));
        let rates = found
            .iter()
            .map(|rates| format!("{:.1}", rates.requests / 1e3));
        let ratios = ratios.iter().map(|ratio| format!("{ratio:.3}"));
        let each_second =
            |rates: &Rates| rates.gigabits.0 * 1e9 / 8.0 / sweep.small_bytes as f64 / 1e3;
        let clock = found
            .iter()
            .map(|rates| format!("{:.1}", each_second(rates)));
        rows.push(
            [threads.to_string()]
                .into_iter()
                .chain(rates)
                .chain(ratios)
                .chain(clock)
                .collect(),
        );
        watch.advance(1);
    }
    section.measured("bed-threads", least(shares));
    section.measured("bed-threads-clock", least(by_clock));
    let title = format!(
        "100 % hits of {} bytes, thousand requests a processor second, and a second",
        sweep.small_bytes
    );
    let rates = [SYSTEMS[0], SYSTEMS[1], SYSTEMS[LRU]].map(str::to_owned);
    let clock = rates.clone().map(|name| format!("{name}, by the clock"));
    let ratios = ["Chance to LRU", "Threshold to LRU"].map(str::to_owned);
    let header = ["request threads".to_owned()]
        .into_iter()
        .chain(rates)
        .chain(ratios)
        .chain(clock);
    section.table(&title, header, rows);
    Ok(())
}
