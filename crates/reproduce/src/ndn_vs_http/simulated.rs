//! The lossy experiment in the simulator, beside the testbed: the same links, the same forwarder, fetcher and publisher, in virtual time.
//!
//! NDN over datagrams is the same protocol there and here, so its figures are held against each other. What the simulator does not have: time that
//! programs and the kernel take, and TCP faces, whose column on the testbed stands beside without a counterpart.

use super::cells::{Cell, Runs};
use super::lossy::{self, Point};
use super::programs::{Faces, System, check_installed};
use super::tree::{CLUSTERS, edge};
use super::{median, series};
use crate::{Error, Experiment, Request, Section, Watch, on_all_cores};
use larder_figure::Series;
use larder_netsim::apps::{Fetch, Serve};
use larder_netsim::{AppId, Capacity, ConfigError, LinkConfig, NodeConfig, NodeId, Simulation};
use larder_packet::Name;
use larder_transfer::{CongestionSpec, FetchOptions, Progress, limits::DEFAULT_SEGMENT_BYTES};
use larder_units::{ByteSize, Time};
use serde::Deserialize;

pub(super) const FILE: (&str, &str) =
    ("ndn-vs-http/simulated.toml", include_str!("../../../../experiments/ndn-vs-http/simulated.toml"));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// Seeds of the simulator at each point: virtual time is cheap.
    pub(super) seeds: u64,
}

/// Bytes of an UDP frame at most, as `larder run` has it on a path of 1500 bytes, and of IP's and UDP's headers before it.
const FRAME_BYTES: usize = 1452;
const HEADER_BYTES: u32 = 28;

/// A download that is not over by then never will be.
const END: Time = Time::from_secs(900);

/// As the testbed's clients are told: over a link that loses half of all segments, the usual number of tries is used up now and then.
const RETRIES: u32 = 100;

const UDP: System = System::Larder { levels: 2, faces: Faces::Udp };
const TCP: System = System::Larder { levels: 2, faces: Faces::Tcp };

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    check_installed()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep { seeds } = *experiment.sweep(request.scale);
    let lossy = Experiment::<lossy::Sweep>::parse(lossy::FILE.0, lossy::FILE.1)?;
    let sweep = lossy.sweep(request.scale);
    let greatest = sweep.greatest();
    let points = [
        Point { delay: 0, loss: 0.0, ..greatest },
        Point { loss: 0.0, ..greatest },
        Point { delay: 0, ..greatest },
        greatest,
    ];

    let mut cells = Vec::new();
    for point in points {
        for system in [UDP, TCP] {
            cells.extend(sweep.cells(point, system, "cubic", request.seed)?);
        }
    }
    cells.sort_by_key(|cell| cell.seed);
    watch.begin("simulated beside measured", cells.len() as u64);
    let measured = lossy::measure(cells, request, watch)?;
    let of = |point: Point, system: System| {
        let there =
            move |cell: &Cell| Point { clients: cell.clients, delay: cell.network.delay, loss: cell.network.loss };
        measured.runs(move |cell| cell.system == system && there(cell) == point)
    };
    let mut tasks = Vec::new();
    for point in points {
        let (network, clients, bytes) = (sweep.network(point)?, point.clients, sweep.file_bytes);
        let cell =
            move |run| Cell { system: UDP, network, clients, bytes, congestion: "cubic", seed: request.seed + run };
        tasks.extend((0..seeds).map(|run| (point, cell(run))));
    }
    let runs = on_all_cores(tasks, |(point, cell)| simulated(&cell).map(|times| (point, times)));
    let runs: Vec<(Point, Vec<f64>)> = runs.into_iter().collect::<Result<_, Error>>()?;
    let simulated = |point: Point| -> Vec<f64> {
        let there = runs.iter().filter(|(at, _)| *at == point);
        there.map(|(_, times)| times.iter().sum::<f64>() / times.len() as f64).collect()
    };

    let mut section = Section::new(&experiment, request.scale);
    section.condition("links and file", "those of the experiment `lossy`");
    section.condition("runs", format!("{seeds} in the simulator; on the testbed as many as `lossy` has"));
    section.condition("latest link", measured.lateness());
    let rows = points.iter().map(|point| row(point, &simulated(*point), &of(*point, UDP), &of(*point, TCP)));
    section.table("Download times", HEADER, rows.collect());
    draw(&mut section, &points, &simulated, &of);
    let ratio = |point: Point| of(point, UDP).median() / median(simulated(point));
    section.measured("lossless", ratio(points[1]));
    section.measured("lossy-near", ratio(points[2]));
    section.measured("lossy-far", ratio(points[3]));
    section.judged()
}

const HEADER: [&str; 8] = [
    "clients",
    "delay, ms",
    "loss, %",
    "simulated, s",
    "± s (90 %)",
    "measured over UDP, s",
    "± s (90 %)",
    "measured over TCP, s",
];

fn row(point: &Point, simulated: &[f64], udp: &Runs<'_>, tcp: &Runs<'_>) -> Vec<String> {
    let Point { clients, delay, loss } = point;
    let place = [clients.to_string(), delay.to_string(), loss.to_string()];
    let [(simulated, half), (udp, udp_half)] = [super::mean_and_interval(simulated), udp.mean()];
    let figures = [simulated, half, udp, udp_half, tcp.mean().0];
    place.into_iter().chain(figures.map(|seconds| format!("{seconds:.2}"))).collect()
}

fn draw<'a>(
    section: &mut Section,
    points: &[Point],
    simulated: &dyn Fn(Point) -> Vec<f64>,
    of: &dyn Fn(Point, System) -> Runs<'a>,
) {
    let names = points.iter().map(|point| format!("{} %, {} ms", point.loss, point.delay));
    let line = |name: &str, mean: &dyn Fn(Point) -> (f64, f64)| -> Series {
        let at = |(at, point): (usize, &Point)| {
            let (mean, half) = mean(*point);
            (at as f64, mean, half)
        };
        series(name, &points.iter().enumerate().map(at).collect::<Vec<_>>())
    };
    let lines = vec![
        line("simulated, UDP", &|point| super::mean_and_interval(&simulated(point))),
        line("measured, UDP", &|point| of(point, UDP).mean()),
        line("measured, TCP", &|point| of(point, TCP).mean()),
    ];
    section.named_figure("beside", names, lines);
}

/// Download time of each client in virtual time, s.
fn simulated(cell: &Cell) -> Result<Vec<f64>, Error> {
    let refused = |error: &dyn std::fmt::Display| Error(format!("the simulation of {cell:?}: {error}"));
    let (mut network, clients) = network(cell).map_err(|error| refused(&error))?;
    network.run_until(END).map_err(|error| refused(&error))?;
    let time = |client: &AppId| {
        let fetch = network.app::<Fetch>(*client);
        match fetch.map(|fetch| (fetch.span(), fetch.progress())) {
            Some(((begun, Some(ended)), Progress::Done)) => Ok(ended.since(begun).as_secs_f64()),
            Some((_, Progress::Failed(error))) => Err(refused(&error)),
            _ => Err(refused(&format_args!("a client is not done after {END}"))),
        }
    };
    clients.iter().map(time).collect()
}

/// The network of the testbed, and its clients' downloads.
fn network(cell: &Cell) -> Result<(Simulation, Vec<AppId>), ConfigError> {
    let mut network = Simulation::new(cell.seed);
    let frames = |link: LinkConfig| LinkConfig { mtu: Some(FRAME_BYTES), overhead_bytes: HEADER_BYTES, ..link };
    let [clean, core, access] = [cell.network.clean(), cell.network.core(), cell.network.access()].map(frames);
    let cache = |bytes| NodeConfig { capacity: Capacity::Bytes(bytes), ..NodeConfig::default() };
    let node = cache(ByteSize::from_mib(512));
    let [server, top] = ["server", "top"].map(|name| network.add_node(name, node.clone()));
    let (server, top) = (server?, top?);
    network.connect(server, top, &clean)?;
    let mut edges: Vec<NodeId> = Vec::new();
    for cluster in 0..CLUSTERS {
        let edge = network.add_node(&edge(cluster), node.clone())?;
        network.connect(top, edge, &core)?;
        edges.push(edge);
    }
    let mut file = Name::root();
    file.push_generic(b"repo").push_generic(b"file");
    let publisher = Serve::new(file.clone(), ByteSize::from_bytes(cell.bytes as u64), DEFAULT_SEGMENT_BYTES)?;
    let publisher = network.add_app(server, Box::new(publisher))?;
    let mut clients = Vec::new();
    for client in 0..cell.clients {
        let name = format!("client{client}");
        // `larder get` has no node: its own one here keeps nothing.
        let host = network.add_node(&name, cache(ByteSize::from_bytes(0)))?;
        network.connect(edges[client % CLUSTERS], host, &access)?;
        let stream = network.streams().stream(&format!("app {name}"));
        let options = FetchOptions { retries: RETRIES, ..FetchOptions::default() };
        let fetch = Fetch::with_options(file.clone(), options, Time::ZERO, CongestionSpec::default().build(), stream);
        clients.push(network.add_app(host, Box::new(fetch))?);
    }
    network.serve(&file, publisher)?;
    Ok((network, clients))
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Network, Shape};
    use super::*;

    /// The fear: what is simulated is another network than the one that is measured.
    #[test]
    fn the_simulated_link_is_not_the_measured_one() {
        let rate = Some("100Mbps".parse().unwrap());
        let network = Network { shape: Shape::Links, rate, delay: 100, loss: 0.0 };
        let cell = Cell { system: UDP, network, clients: 6, bytes: 80_000, congestion: "cubic", seed: 1 };
        let times = simulated(&cell).unwrap();
        // The metadata, then ten segments by windows that begin with two: four round trips of 200 ms and what sending takes.
        assert!(times.len() == 6 && times.iter().all(|time| (0.8..0.85).contains(time)), "{times:?}");
        let lossy = Cell { network: Network { loss: 10.0, ..network }, ..cell };
        let lossy = simulated(&lossy).unwrap();
        assert!(lossy.iter().all(|time| *time > 1.0), "half of the segments are lost on the clients' links: {lossy:?}");
    }
}
