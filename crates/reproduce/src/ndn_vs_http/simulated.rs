//! The lossy experiment in the simulator and on the testbed: the same links, forwarder, fetcher and
//! publisher, in virtual time.
//!
//! NDN over datagrams is the same protocol in both, and HTTP uses the simulator's model of the
//! kernel's TCP, so the results are compared. The simulator lacks two things: the time that
//! programs and the kernel need, and NDN's TCP faces. The testbed's column for TCP faces has no
//! counterpart.

use super::cell::Cell;
use super::cell::{Faces, SquidSetup, System};
use super::cells::{MachineLock, Measured, Runs};
use super::lossy::{self, Point};

use super::tree::{CLUSTERS, edge};
use super::{mean_and_interval, median, series, shown, state_forwarder};
use crate::{Error, Experiment, Request, Section, Watch, on_all_cores};
use larder_figure::Series;
use larder_netsim::apps::{Fetch, Serve};
use larder_netsim::tcp::{
    CacheConfig, ClientConfig, Congestion, HostId, HttpCounters, OriginConfig, TcpConfig,
};
use larder_netsim::{AppId, Capacity, ConfigError, LinkConfig, NodeConfig, NodeId, Simulation};
use larder_packet::Name;
use larder_transfer::{CongestionSpec, FetchOptions, Progress, limits::DEFAULT_SEGMENT_BYTES};
use larder_units::{ByteSize, Time};
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("ndn-vs-http/simulated.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// The number of the simulator's seeds at each point. Virtual time is cheap.
    pub(super) seeds: u64,
}

/// The most bytes of a UDP frame, as `larder run` has it on a path of 1500 bytes, and the bytes of
/// the IP and UDP headers before it.
const FRAME_BYTES: usize = 1452;
const HEADER_BYTES: u32 = 28;

/// The end of a simulation. A download that is not complete by then never completes.
const END: Time = Time::from_secs(900);

/// The number of retries, as on the testbed. Over a link that loses half of all segments, the usual
/// number is sometimes exhausted.
const RETRIES: u32 = 100;

/// The Content Store of every node and cache. It holds the file.
const CACHE: ByteSize = ByteSize::from_mib(512);

/// A column: what is measured on the testbed, and how it is simulated, if it is.
struct Column {
    name: &'static str,
    system: System,
    congestion: &'static str,
    simulate: Option<Simulate>,
}

/// Returns the download time of each client in virtual time, s.
type Simulate = fn(&Cell) -> Result<Vec<f64>, Error>;

const SQUID: System = System::Squid {
    levels: 1,
    setup: SquidSetup::ReadsAhead,
};
const COLUMNS: [Column; 4] = [
    Column {
        name: "Squid, CUBIC",
        system: SQUID,
        congestion: "cubic",
        simulate: Some(http),
    },
    Column {
        name: "Squid, BBR",
        system: SQUID,
        congestion: "bbr",
        simulate: Some(http),
    },
    Column {
        name: "Larder over UDP",
        system: System::Larder {
            levels: 2,
            faces: Faces::Udp,
        },
        congestion: "cubic",
        simulate: Some(ndn),
    },
    Column {
        name: "Larder over TCP",
        system: System::Larder {
            levels: 2,
            faces: Faces::Tcp,
        },
        congestion: "cubic",
        simulate: None,
    },
];
const CUBIC: usize = 0;
const BBR: usize = 1;
const UDP: usize = 2;

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let _lock = MachineLock::acquire()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep { seeds } = *experiment.sweep(request.scale);
    let lossy = Experiment::<lossy::Sweep>::parse(lossy::FILE.0, lossy::FILE.1)?;
    let sweep = lossy.sweep(request.scale);
    let greatest = sweep.greatest();
    // Cells that `lossy` has measured, in this run or the previous one, are not measured again.
    let [lossless, near] = [
        Point {
            loss: 0.0,
            ..greatest
        },
        Point {
            delay: 0,
            ..greatest
        },
    ];
    let points = [lossless, near, greatest];
    let (mut cells, mut tasks) = (Vec::new(), Vec::new());
    for point in points {
        for (
            at,
            Column {
                system,
                congestion,
                simulate,
                ..
            },
        ) in COLUMNS.iter().enumerate()
        {
            let measured = sweep.cells(point, *system, congestion, request.seed)?;
            cells.extend(measured);
            let Some(simulate) = simulate else { continue };
            let (network, clients, bytes) =
                (sweep.network(point)?, point.clients, sweep.file_bytes);
            let cell = |run| Cell {
                system: *system,
                network,
                clients,
                bytes,
                congestion,
                seed: request.seed + run,
            };
            tasks.extend((0..seeds).map(|run| (point, at, simulate, cell(run))));
        }
    }
    watch.begin(
        "simulated beside measured",
        (cells.len() + tasks.len()) as u64,
    );
    let runs = on_all_cores(tasks, |(point, at, simulate, cell)| {
        if watch.is_stopped() {
            return Err(Error::interrupted());
        }
        let times = simulate(&cell)?;
        watch.advance(1);
        Ok((point, at, times.iter().sum::<f64>() / times.len() as f64))
    });
    let runs: Vec<(Point, usize, f64)> = runs.into_iter().collect::<Result<_, Error>>()?;
    let measured = lossy::measure(cells, request, watch)?;
    let beside = Beside {
        measured: &measured,
        simulated: &runs,
    };

    let mut section = Section::new(&experiment, request.scale);
    state_forwarder(&mut section, request);
    section.condition("links and file", "those of the experiment `lossy`");
    section.condition(
        "runs",
        format!("{seeds} in the simulator; on the testbed as many as `lossy` has"),
    );
    measured.state_lateness(&mut section);
    let places = points
        .iter()
        .flat_map(|point| (0..COLUMNS.len()).map(|at| (*point, at)));
    section.table(
        "Download times",
        HEADER,
        places.map(|(point, at)| beside.row(point, at)).collect(),
    );
    let names = points
        .iter()
        .map(|point| format!("{} %, {} ms", point.loss, point.delay));
    section.named_figure("beside", names, beside.lines(&points));
    for (point, at, claim) in [
        (lossless, UDP, "lossless"),
        (near, UDP, "lossy-near"),
        (greatest, UDP, "lossy-far"),
        (lossless, CUBIC, "http-lossless"),
        (greatest, CUBIC, "http-cubic"),
        (greatest, BBR, "http-bbr"),
    ] {
        section.measured(claim, beside.ratio(point, at));
    }
    let simulated = |at| median(beside.simulated(greatest, at));
    section.measured("gain", simulated(CUBIC) / simulated(UDP));
    section.judged()
}

const HEADER: [&str; 9] = [
    "clients",
    "delay, ms",
    "loss, %",
    "system",
    "simulated, s",
    "± s (90 %)",
    "measured, s",
    "± s (90 %)",
    "measured by simulated (medians)",
];

/// The results of both, by point and column.
struct Beside<'a> {
    measured: &'a Measured,
    /// The mean over the clients, of each run.
    simulated: &'a [(Point, usize, f64)],
}

impl Beside<'_> {
    fn measured(&self, point: Point, at: usize) -> Runs<'_> {
        let Column {
            system, congestion, ..
        } = COLUMNS[at];
        self.measured.runs(|cell| {
            let there = Point {
                clients: cell.clients,
                delay: cell.network.delay,
                loss: cell.network.loss,
            };
            there == point && cell.system == system && cell.congestion == congestion
        })
    }

    fn simulated(&self, point: Point, at: usize) -> Vec<f64> {
        self.simulated
            .iter()
            .filter(|run| (run.0, run.1) == (point, at))
            .map(|run| run.2)
            .collect()
    }

    fn ratio(&self, point: Point, at: usize) -> f64 {
        self.measured(point, at).median() / median(self.simulated(point, at))
    }

    fn row(&self, point: Point, at: usize) -> Vec<String> {
        let Point {
            clients,
            delay,
            loss,
        } = point;
        let place = [
            clients.to_string(),
            delay.to_string(),
            loss.to_string(),
            COLUMNS[at].name.to_owned(),
        ];
        let ((simulated, half), (measured, half_measured)) = (
            mean_and_interval(&self.simulated(point, at)),
            self.measured(point, at).mean(),
        );
        let figures = [
            simulated,
            half,
            measured,
            half_measured,
            self.ratio(point, at),
        ];
        place.into_iter().chain(figures.map(shown)).collect()
    }

    fn lines(&self, points: &[Point]) -> Vec<Series> {
        let line = |name: String, mean: &dyn Fn(Point) -> (f64, f64)| {
            let at = |(at, point): (usize, &Point)| {
                let (mean, half) = mean(*point);
                (at as f64, mean, half)
            };
            series(name, &points.iter().enumerate().map(at).collect::<Vec<_>>())
        };
        let mut lines = Vec::new();
        for (at, column) in COLUMNS.iter().enumerate() {
            lines.push(line(format!("{}, measured", column.name), &|point| {
                self.measured(point, at).mean()
            }));
            if column.simulate.is_some() {
                let simulated = |point| mean_and_interval(&self.simulated(point, at));
                lines.push(line(format!("{}, simulated", column.name), &simulated));
            }
        }
        lines
    }
}

/// Simulates NDN over datagrams.
fn ndn(cell: &Cell) -> Result<Vec<f64>, Error> {
    let refused = |error: &dyn std::fmt::Display| refused(cell, error);
    let (mut network, clients) = ndn_network(cell).map_err(|error| refused(&error))?;
    network.run_until(END).map_err(|error| refused(&error))?;
    let time = |client: &AppId| {
        let fetch = network.app::<Fetch>(*client);
        match fetch.map(|fetch| (fetch.span(), fetch.progress())) {
            Some(((begun, Some(ended)), Progress::Done)) => Ok(ended.since(begun).as_secs_f64()),
            Some((_, Progress::Failed(error))) => Err(refused(&error)),
            _ => Err(refused(&format_args!(
                "a client's download takes longer than {END}"
            ))),
        }
    };
    clients.iter().map(time).collect()
}

/// Simulates HTTP, with a cache at the top that collapses requests, as the tuned Squid does, and
/// reads without waiting for a client.
fn http(cell: &Cell) -> Result<Vec<f64>, Error> {
    let refused = |error: &dyn std::fmt::Display| refused(cell, error);
    let (mut network, clients) = http_network(cell).map_err(|error| refused(&error))?;
    network.run_until(END).map_err(|error| refused(&error))?;
    let time = |client: &HostId| match network.http(*client) {
        HttpCounters {
            responses: 1,
            seconds,
            ..
        } => Ok(seconds),
        HttpCounters { failures: 1.., .. } => Err(refused(&"a client's connection failed")),
        _ => Err(refused(&format_args!(
            "a client's download takes longer than {END}"
        ))),
    };
    clients.iter().map(time).collect()
}

fn refused(cell: &Cell, error: &dyn std::fmt::Display) -> Error {
    Error(format!("the simulation of {cell:?}: {error}"))
}

/// The testbed's network with these links and nodes of this kind.
struct Tree {
    network: Simulation,
    server: NodeId,
    top: NodeId,
    clients: Vec<NodeId>,
}

impl Tree {
    fn new(
        cell: &Cell,
        node: &NodeConfig,
        frames: impl Fn(LinkConfig) -> LinkConfig,
    ) -> Result<Tree, ConfigError> {
        let mut network = Simulation::new(cell.seed);
        let server = network.add_node("server", node.clone())?;
        let top = network.add_node("top", node.clone())?;
        network.connect(server, top, &frames(cell.network.clean()))?;
        let mut edges = Vec::new();
        for cluster in 0..CLUSTERS {
            let edge = network.add_node(&edge(cluster), node.clone())?;
            network.connect(top, edge, &frames(cell.network.core()))?;
            edges.push(edge);
        }
        let mut clients = Vec::new();
        let access = frames(cell.network.access());
        // The client offers retransmission on its link, and the edge accepts. Between nodes, the
        // route would have to ask for it.
        let access = LinkConfig {
            reliable: access.mtu.is_some(),
            ..access
        };
        for client in 0..cell.clients {
            // `larder get` has no node, so its node here stores nothing.
            let host = NodeConfig {
                capacity: Capacity::Bytes(ByteSize::from_bytes(0)),
                ..node.clone()
            };
            let host = network.add_node(&format!("client{client}"), host)?;
            network.connect(edges[client % CLUSTERS], host, &access)?;
            clients.push(host);
        }
        Ok(Tree {
            network,
            server,
            top,
            clients,
        })
    }
}

/// Builds the NDN network with its clients' downloads.
fn ndn_network(cell: &Cell) -> Result<(Simulation, Vec<AppId>), ConfigError> {
    let node = NodeConfig {
        capacity: Capacity::Bytes(CACHE),
        ..NodeConfig::default()
    };
    let frames = |link| LinkConfig {
        mtu: Some(FRAME_BYTES),
        overhead_bytes: HEADER_BYTES,
        ..link
    };
    let Tree {
        mut network,
        server,
        clients: hosts,
        ..
    } = Tree::new(cell, &node, frames)?;
    let mut file = Name::root();
    file.push_generic(b"repo").push_generic(b"file");
    let publisher = Serve::new(
        file.clone(),
        ByteSize::from_bytes(cell.bytes as u64),
        DEFAULT_SEGMENT_BYTES,
    )?;
    let publisher = network.add_app(server, Box::new(publisher));
    let mut clients = Vec::new();
    for (client, host) in hosts.into_iter().enumerate() {
        let stream = network.streams().stream(&format!("app client{client}"));
        let options = FetchOptions {
            retries: RETRIES,
            ..FetchOptions::default()
        };
        let fetch = Fetch::with_options(
            file.clone(),
            options,
            Time::ZERO,
            CongestionSpec::default().build(),
            stream,
        );
        clients.push(network.add_app(host, Box::new(fetch)));
    }
    network.serve(&file, publisher)?;
    Ok((network, clients))
}

/// Builds the HTTP network with its clients' downloads.
fn http_network(cell: &Cell) -> Result<(Simulation, Vec<HostId>), ConfigError> {
    let node = NodeConfig::default();
    let Tree {
        mut network,
        server,
        top,
        clients: hosts,
    } = Tree::new(cell, &node, |link| link)?;
    let congestion = if cell.congestion == "bbr" {
        Congestion::Bbr
    } else {
        Congestion::Cubic
    };
    let tcp = TcpConfig {
        congestion,
        ..TcpConfig::default()
    };
    let origin = OriginConfig::new(ByteSize::from_bytes(cell.bytes as u64));
    let upstream = network.add_http_origin(server, origin, tcp)?;
    let cache = CacheConfig::new(upstream, node.policy, CACHE);
    let cache = network.add_http_cache(top, cache, tcp)?;
    let client = |host| network.add_http_client(host, ClientConfig::one_file(cache), tcp);
    let clients = hosts.into_iter().map(client).collect::<Result<_, _>>()?;
    Ok((network, clients))
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Network, Shape};
    use super::*;

    /// Failure: the simulated network differs from the measured one.
    #[test]
    fn the_simulated_link_is_not_the_measured_one() {
        let rate = Some("100Mbps".parse().unwrap());
        let network = Network {
            shape: Shape::Links,
            rate,
            delay: 100,
            loss: 0.0,
        };
        let cell = Cell {
            system: COLUMNS[UDP].system,
            network,
            clients: 6,
            bytes: 80_000,
            congestion: "cubic",
            seed: 1,
        };
        let times = ndn(&cell).unwrap();
        // The metadata, then ten segments in the first window: two round trips of 200 ms and the
        // transmission.
        assert!(
            times.len() == 6 && times.iter().all(|time| (0.4..0.42).contains(time)),
            "{times:?}"
        );
        let lossy = Cell {
            network: Network {
                loss: 10.0,
                ..network
            },
            ..cell
        };
        let lossy = ndn(&lossy).unwrap();
        let mean = lossy.iter().sum::<f64>() / 6.0;
        assert!(
            (0.42..2.0).contains(&mean),
            "what the clients' links lose comes again from the edge: {lossy:?}"
        );
        // The connection's round trip, then 80 kB from the top in windows of 10 segments, 20, and
        // the rest.
        let times = http(&Cell {
            system: SQUID,
            ..cell
        })
        .unwrap();
        assert!(
            times.len() == 6 && times.iter().all(|time| (0.8..0.85).contains(time)),
            "{times:?}"
        );
    }
}
