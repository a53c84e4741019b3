//! Figure 13: the cost of AdaptSize in a server that always hits and in one that always misses.
//! Also checks that client and origin leave the server enough of the machine.
//!
//! The paper reports bytes per second of dedicated servers. Here client, cache and origin share a
//! machine, so the measure is requests per second of the cache's own processor time. AdaptSize and
//! LRU run in consecutive pairs, and the report has the interval of their ratio.

use super::serve::{Load, repeat, replay};
use super::servers::{FEW_THREADS, Server, System};
use crate::programs::cpu_seconds;
use crate::site::Site;
use crate::statistics::{Confidence, count, greatest, mean_and_interval, median};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_replay::Access;
use larder_units::Time;
use serde::{Deserialize, Serialize};

pub(super) const FILE: (&str, &str) = experiment_file!("adaptsize/testbed-throughput.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// The numbers of the client's connections.
    connections: Vec<usize>,
    /// The number of times that each measurement is repeated.
    pub(super) rounds: usize,
    /// The number of requests of one measurement.
    requests: u64,
    /// The bytes of an object.
    object_bytes: u64,
    /// The capacity of a cache, bytes. It is small, so it is full and every miss needs a decision.
    capacity: u64,
    /// The number of connections with which the client's own limit is measured.
    most_connections: usize,
}

/// Two forms of AdaptSize, LRU as their baseline, and Varnish, which the paper also compares.
const SYSTEMS: [&str; 4] = [
    "AdaptSize(Chance)",
    "AdaptSize(Threshold)",
    "LRU",
    "Varnish",
];
const LRU: usize = 2;

/// Varnish with few threads, so that few responses are under way at once whatever the number of
/// connections. It has a place after [`SYSTEMS`], and serves the client's own limit only.
const LIMITED_VARNISH: usize = SYSTEMS.len();

fn system(at: usize) -> System {
    match at {
        0 => System::Larder("adaptsize(chance)+lru".to_owned()),
        1 => System::Larder("adaptsize(threshold)+lru".to_owned()),
        LRU => System::Larder("lru".to_owned()),
        LIMITED_VARNISH => System::VarnishThreads(FEW_THREADS),
        _ => System::Varnish { is_exact: false },
    }
}

/// The hits or the misses of figure 13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Hits,
    Misses,
}

impl Half {
    fn id(self) -> &'static str {
        if self == Half::Hits { "hits" } else { "misses" }
    }

    fn says(self) -> &'static str {
        if self == Half::Hits { "100 %" } else { "0 %" }
    }
}

/// The time of one measurement, seconds per request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Spent {
    cache: f64,
    origin: f64,
    client: f64,
    wall: f64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    super::servers::check_installed()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    let Sweep {
        rounds,
        requests,
        object_bytes,
        ..
    } = *sweep;
    section.condition(
        "a measurement",
        format!("{requests} requests for {object_bytes} bytes, {rounds} rounds"),
    );
    let measurements = 2 * sweep.connections.len() * (rounds + 1) * SYSTEMS.len();
    watch.begin("throughput", measurements as u64 * requests);
    let mut bench = Bench::new(sweep)?;
    let mut found = Findings::default();
    for half in [Half::Hits, Half::Misses] {
        for &connections in &sweep.connections {
            watch.now(&format!(
                "throughput: {} hits, {connections} connections",
                half.says()
            ));
            let key = format!("adaptsize, testbed: {half:?}, {connections} connections, {sweep:?}");
            let spent = request
                .rows
                .get_or(&key, || bench.measure(half, connections, watch))?;
            found.add(half, connections, &spent);
        }
    }
    let most = sweep.most_connections;
    watch.now(&format!("throughput: {most} connections"));
    let fewer = sweep.connections.iter().max().copied().unwrap_or(1);
    for (id, at, name) in [
        ("bed-client-most", LRU, "LRU"),
        (
            "bed-client-few-responses",
            LIMITED_VARNISH,
            "Varnish, 10 threads",
        ),
    ] {
        let key = format!("adaptsize, testbed: the client with {name}, {sweep:?}");
        let spent: [f64; 2] = request
            .rows
            .get_or(&key, || bench.client_times(at, [fewer, most]))?;
        section.condition(
            &format!("{name}, hits, {fewer} and {most} connections"),
            format!(
                "client {:.1} and {:.1} \u{b5}s of processor time a request",
                spent[0] * 1e6,
                spent[1] * 1e6
            ),
        );
        section.measured(id, spent[1] / spent[0]);
    }
    found.report(&mut section);
    section.judged()
}

/// All servers run at once, and one of them is measured at a time.
struct Bench<'a> {
    sweep: &'a Sweep,
    site: Site,
    origin: Server,
    caches: Vec<Server>,
    /// The first object id that has not been requested yet.
    fresh: u64,
}

impl<'a> Bench<'a> {
    fn new(sweep: &'a Sweep) -> Result<Bench<'a>, Error> {
        let mut site = Site::in_memory()?;
        let origin = Server::origin(&mut site)?;
        let start = |at| Server::start(&mut site, &system(at), sweep.capacity, origin.port);
        let caches = (0..=LIMITED_VARNISH)
            .map(start)
            .collect::<Result<Vec<Server>, Error>>()?;
        Ok(Bench {
            sweep,
            site,
            origin,
            caches,
            fresh: 0,
        })
    }

    /// Returns the measurements by system and round. The first round does not count, because its
    /// connections and tables are new.
    fn measure(
        &mut self,
        half: Half,
        connections: usize,
        watch: &dyn Watch,
    ) -> Result<Vec<Vec<Spent>>, Error> {
        let requests = self.sweep.requests;
        let mut spent = vec![Vec::new(); SYSTEMS.len()];
        for round in 0..=self.sweep.rounds {
            // Alternates the direction, so that a slow change of the machine affects all systems.
            let order: Vec<usize> = if round % 2 == 0 {
                (0..SYSTEMS.len()).collect()
            } else {
                (0..SYSTEMS.len()).rev().collect()
            };
            for at in order {
                let one = match half {
                    Half::Hits => self.hits(connections, at, requests)?,
                    Half::Misses => self.misses(connections, at)?,
                };
                if round > 0 {
                    spent[at].push(one);
                }
                watch.advance(requests);
            }
        }
        Ok(spent)
    }

    fn hits(&mut self, connections: usize, at: usize, requests: u64) -> Result<Spent, Error> {
        let (port, bytes) = (self.caches[at].port, self.sweep.object_bytes);
        // The object may have been evicted in the meantime.
        repeat(port, bytes, 2, 1)?;
        let (spent, load) = self.spent(at, || repeat(port, bytes, requests, connections))?;
        if load.hits == requests {
            Ok(spent)
        } else {
            Err(Error(format!(
                "{}: of {requests} hits {} are misses",
                system(at).name(),
                requests - load.hits
            )))
        }
    }

    /// Returns the client's processor time a hit with each number of connections, s: the median of
    /// the rounds, in which both take turns. All have as many requests, 20 or more a connection.
    fn client_times(&mut self, at: usize, connections: [usize; 2]) -> Result<[f64; 2], Error> {
        let requests = connections[1] as u64 * 20;
        let mut spent = [const { Vec::new() }; 2];
        for _ in 0..self.sweep.rounds {
            for (connections, spent) in connections.into_iter().zip(&mut spent) {
                spent.push(self.hits(connections, at, requests)?.client);
            }
        }
        Ok(spent.map(median))
    }

    fn misses(&mut self, connections: usize, at: usize) -> Result<Spent, Error> {
        let Sweep {
            requests,
            object_bytes: size,
            ..
        } = *self.sweep;
        let accesses: Vec<Access> = (self.fresh..self.fresh + requests)
            .map(|id| Access {
                id,
                size,
                now: Time::ZERO,
            })
            .collect();
        self.fresh += requests;
        let port = self.caches[at].port;
        let (spent, load) = self.spent(at, || replay(&self.site, port, &accesses, connections))?;
        match load.hits {
            0 => Ok(spent),
            hits => Err(Error(format!(
                "{}: of {requests} misses {hits} are hits",
                SYSTEMS[at]
            ))),
        }
    }

    fn spent(
        &self,
        at: usize,
        drive: impl Fn() -> Result<Load, Error>,
    ) -> Result<(Spent, Load), Error> {
        let now = || [&self.caches[at], &self.origin].map(|server| cpu_seconds(server.pid));
        let before = now();
        let load = drive()?;
        let after = now();
        let [cache, origin, client, wall] = [
            after[0] - before[0],
            after[1] - before[1],
            load.cpu_seconds,
            load.seconds,
        ]
        .map(|s| s / load.requests as f64);
        Ok((
            Spent {
                cache,
                origin,
                client,
                wall,
            },
            load,
        ))
    }
}

/// The results of all measurements, for the report.
#[derive(Default)]
struct Findings {
    rows: Vec<Vec<String>>,
    /// By half and system: connections, the mean in thousand requests per processor second, and
    /// half its interval.
    lines: [[Vec<(f64, f64, f64)>; SYSTEMS.len()]; 2],
    /// By half: the ratio of AdaptSize's requests per processor second to LRU's, with half its
    /// interval.
    ratios: [Vec<(f64, f64)>; 2],
    /// The origin's processor time for misses, as a share of LRU's.
    origin: Vec<f64>,
}

impl Findings {
    fn add(&mut self, half: Half, connections: usize, spent: &[Vec<Spent>]) {
        for (at, rounds) in spent.iter().enumerate() {
            let rates: Vec<f64> = rounds.iter().map(|one| 1e-3 / one.cache).collect();
            let (mean, spread) = mean_and_interval(&rates, Confidence::NinetyFive);
            self.lines[half as usize][at].push((connections as f64, mean, spread));
            let mean_of =
                |of: fn(&Spent) -> f64| rounds.iter().map(of).sum::<f64>() / rounds.len() as f64;
            let ratios = rounds
                .iter()
                .zip(&spent[LRU])
                .map(|(own, lru)| lru.cache / own.cache)
                .collect::<Vec<f64>>();
            let (ratio, width) = mean_and_interval(&ratios, Confidence::NinetyFive);
            if at < LRU {
                self.ratios[half as usize].push((ratio, width));
            }
            if at == LRU && half == Half::Misses {
                self.origin
                    .push(mean_of(|one| one.origin) / mean_of(|one| one.cache));
            }
            let time = |of: fn(&Spent) -> f64| format!("{:.1}", mean_of(of) * 1e6);
            self.rows.push(vec![
                half.says().to_owned(),
                connections.to_string(),
                SYSTEMS[at].to_owned(),
                format!("{mean:.1} \u{b1} {spread:.1}"),
                format!("{ratio:.3} \u{b1} {width:.3}"),
                time(|one| one.cache),
                time(|one| one.origin),
                time(|one| one.client),
                format!("{:.0}", 1.0 / mean_of(|one| one.wall)),
            ]);
        }
    }

    fn report(self, section: &mut Section) {
        let header = [
            "hits",
            "connections",
            "system",
            "thousand requests a CPU second",
            "ratio to LRU",
            "cache, CPU \u{b5}s a request",
            "origin",
            "client",
            "requests/s",
        ];
        section.table(
            "Processor time, means and 95 % intervals",
            header,
            self.rows,
        );
        for (half, lines) in [Half::Hits, Half::Misses].into_iter().zip(self.lines) {
            let series = SYSTEMS.into_iter().zip(lines).map(|(name, points)| {
                let line = Series::line(
                    name,
                    points.iter().map(|(x, mean, _)| (*x, *mean)).collect(),
                );
                line.with_interval(
                    points
                        .iter()
                        .map(|(_, mean, spread)| (mean - spread, mean + spread))
                        .collect(),
                )
            });
            section.figure(&format!("bed-{}", half.id()), series.collect());
            let ratios = &self.ratios[half as usize];
            let mean = ratios.iter().map(|(ratio, _)| ratio).sum::<f64>() / ratios.len() as f64;
            section.measured(format!("bed-{}-to-lru", half.id()), mean);
        }
        let all = || self.ratios.iter().flatten();
        section.measured(
            "bed-slower",
            count(all().map(|(ratio, width)| ratio + width < 1.0)),
        );
        section.measured("bed-widest", greatest(all().map(|(_, width)| *width)));
        section.measured("bed-origin", greatest(self.origin.iter().copied()));
    }
}
