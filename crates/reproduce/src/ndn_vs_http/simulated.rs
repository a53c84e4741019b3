//! The lossy experiment in the simulator, beside the testbed: the same links, the same forwarder, fetcher and publisher, in virtual time.
//!
//! NDN over datagrams is the same protocol there and here, so its figures are held against each other. What the simulator does not have: time that
//! programs and the kernel take, and TCP faces, whose column on the testbed stands beside without a counterpart.

use super::cells::{Cell, Ground, Measured, Runs};
use super::lossy::{self, Point};
use super::programs::{Faces, System};
use super::tree::{CLUSTERS, edge};
use super::{mean_and_interval, median, series};
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

/// A column: what is measured on the testbed, and how it is simulated, where it is.
struct Column {
    name: &'static str,
    system: System,
    congestion: &'static str,
    simulate: Option<Simulate>,
}

/// Download time of each client in virtual time, s.
type Simulate = fn(&Cell) -> Result<Vec<f64>, Error>;

const COLUMNS: [Column; 2] = [
    Column {
        name: "Larder over UDP",
        system: System::Larder { levels: 2, faces: Faces::Udp },
        congestion: "cubic",
        simulate: Some(ndn),
    },
    Column {
        name: "Larder over TCP",
        system: System::Larder { levels: 2, faces: Faces::Tcp },
        congestion: "cubic",
        simulate: None,
    },
];
const UDP: usize = 0;

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let _ground = Ground::take()?;
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
    let (mut cells, mut tasks) = (Vec::new(), Vec::new());
    for point in points {
        for (at, Column { system, congestion, simulate, .. }) in COLUMNS.iter().enumerate() {
            let measured = sweep.cells(point, *system, congestion, request.seed)?;
            cells.extend(measured);
            let Some(simulate) = simulate else { continue };
            let (network, clients, bytes) = (sweep.network(point)?, point.clients, sweep.file_bytes);
            let cell = |run| Cell { system: *system, network, clients, bytes, congestion, seed: request.seed + run };
            tasks.extend((0..seeds).map(|run| (point, at, simulate, cell(run))));
        }
    }
    cells.sort_by_key(|cell| cell.seed);
    watch.begin("simulated beside measured", (cells.len() + tasks.len()) as u64);
    let runs = on_all_cores(tasks, |(point, at, simulate, cell)| {
        let times = simulate(&cell)?;
        watch.advance(1);
        Ok((point, at, times.iter().sum::<f64>() / times.len() as f64))
    });
    let runs: Vec<(Point, usize, f64)> = runs.into_iter().collect::<Result<_, Error>>()?;
    let measured = lossy::measure(cells, request, watch)?;
    let beside = Beside { measured: &measured, simulated: &runs };

    let mut section = Section::new(&experiment, request.scale);
    section.condition("links and file", "those of the experiment `lossy`");
    section.condition("runs", format!("{seeds} in the simulator; on the testbed as many as `lossy` has"));
    section.condition("latest link", measured.lateness());
    let places = points.iter().flat_map(|point| (0..COLUMNS.len()).map(|at| (*point, at)));
    section.table("Download times", HEADER, places.map(|(point, at)| beside.row(point, at)).collect());
    let names = points.iter().map(|point| format!("{} %, {} ms", point.loss, point.delay));
    section.named_figure("beside", names, beside.lines(&points));
    section.measured("lossless", beside.ratio(points[1], UDP));
    section.measured("lossy-near", beside.ratio(points[2], UDP));
    section.measured("lossy-far", beside.ratio(points[3], UDP));
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

/// Both, by point and column.
struct Beside<'a> {
    measured: &'a Measured,
    /// The mean over the clients, of each run.
    simulated: &'a [(Point, usize, f64)],
}

impl Beside<'_> {
    fn measured(&self, point: Point, at: usize) -> Runs<'_> {
        let Column { system, congestion, .. } = COLUMNS[at];
        self.measured.runs(|cell| {
            let there = Point { clients: cell.clients, delay: cell.network.delay, loss: cell.network.loss };
            there == point && cell.system == system && cell.congestion == congestion
        })
    }

    fn simulated(&self, point: Point, at: usize) -> Vec<f64> {
        self.simulated.iter().filter(|run| (run.0, run.1) == (point, at)).map(|run| run.2).collect()
    }

    fn ratio(&self, point: Point, at: usize) -> f64 {
        self.measured(point, at).median() / median(self.simulated(point, at))
    }

    fn row(&self, point: Point, at: usize) -> Vec<String> {
        let Point { clients, delay, loss } = point;
        let place = [clients.to_string(), delay.to_string(), loss.to_string(), COLUMNS[at].name.to_owned()];
        let ((simulated, half), (measured, half_measured)) =
            (mean_and_interval(&self.simulated(point, at)), self.measured(point, at).mean());
        let figures = [simulated, half, measured, half_measured, self.ratio(point, at)];
        let shown = |figure: f64| if figure.is_finite() { format!("{figure:.2}") } else { "\u{2013}".to_owned() };
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
            lines.push(line(format!("{}, measured", column.name), &|point| self.measured(point, at).mean()));
            if column.simulate.is_some() {
                let simulated = |point| mean_and_interval(&self.simulated(point, at));
                lines.push(line(format!("{}, simulated", column.name), &simulated));
            }
        }
        lines
    }
}

/// NDN, over datagrams.
fn ndn(cell: &Cell) -> Result<Vec<f64>, Error> {
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
        // The client offers to send again what is lost, and the edge takes part; between nodes a route would have to say so.
        network.connect(edges[client % CLUSTERS], host, &LinkConfig { reliable: true, ..access })?;
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
        let cell =
            Cell { system: COLUMNS[UDP].system, network, clients: 6, bytes: 80_000, congestion: "cubic", seed: 1 };
        let times = ndn(&cell).unwrap();
        // The metadata, then ten segments in the first window: two round trips of 200 ms and what sending takes.
        assert!(times.len() == 6 && times.iter().all(|time| (0.4..0.42).contains(time)), "{times:?}");
        let lossy = Cell { network: Network { loss: 10.0, ..network }, ..cell };
        let lossy = ndn(&lossy).unwrap();
        let mean = lossy.iter().sum::<f64>() / 6.0;
        assert!((0.42..2.0).contains(&mean), "what the clients' links lose comes again from the edge: {lossy:?}");
    }
}
