//! Benchmark of packet-hops per second of one thread, and of the cost of a simulated dumbbell:
//! `cargo bench -p larder-netsim`. `cargo bench -p larder-netsim -- chain` runs only the networks
//! with this word in their names. `--svg=FILE` also draws the networks that grow: the figure of
//! docs/guides/simulation.md.
//!
//! The result is the thread's CPU time, the median of five runs, so that other programs on the
//! machine have little influence. The allocator is that of the binary `larder`.

#![allow(clippy::print_stdout, missing_docs)]

use larder_figure::{Axis, Figure, Series};
use larder_netsim::apps::{
    Cbr, CbrConfig, Names, Payload, Producer, ProducerConfig, ZipfMandelbrot,
};
use larder_netsim::{Capacity, Depth, LinkConfig, NodeConfig, Queueing, Simulation, Topology};
use larder_units::{BitRate, ByteSize, Time};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // Runs first, while the allocator holds no freed memory.
    if wanted("memory") {
        memory();
    }
    println!(
        "{:<46} {:>9} {:>9} {:>12} {:>12}",
        "network", "simulated", "CPU s", "packet-hops", "hops a CPU s"
    );
    report("chain of 8, 1 KB, no hits", 0, 10, || {
        chain(8, 5_000.0, 1_000)
    });
    report("chain of 8, 5 KB, no hits", 0, 10, || {
        chain(8, 5_000.0, 5_000)
    });
    report("two nodes, 1 KB, no hits", 0, 10, || {
        chain(2, 20_000.0, 1_000)
    });
    report("dumbbell, 5 KB, LRU, fragments", 0, 30, || {
        dumbbell(5_000, 900.0, Some(1500))
    });
    report("dumbbell, 5 KB, LRU, whole", 0, 30, || {
        dumbbell(5_000, 900.0, None)
    });
    report("dumbbell, 160 KB, LRU, fragments", 0, 30, || {
        dumbbell(160_000, 28.0, Some(1500))
    });
    let grown = [nodes_grow(), links_grow(), flight_grows()];
    if let Some(file) = argument("--svg=") {
        std::fs::write(&file, draw(grown))
            .unwrap_or_else(|error| panic!("cannot write {file}: {error}"));
    }
}

// ---- How it grows: with nodes and links at one load, and with packets in flight ----

/// The size of a network, and the speeds of its runs.
type Grown = Vec<(f64, Speeds)>;

fn nodes_grow() -> (&'static str, Grown) {
    let of = |nodes: usize| {
        let speeds = report(
            &format!("grows: scale-free, {nodes} nodes, 2 links each"),
            1,
            6,
            || scale_free(nodes, 2),
        );
        speeds.map(|speeds| (nodes as f64, speeds))
    };
    (
        "nodes, of 2 links each",
        [10, 30, 100, 300, 1_000, 3_000, 10_000]
            .into_iter()
            .filter_map(of)
            .collect(),
    )
}

fn links_grow() -> (&'static str, Grown) {
    let of = |links: usize| {
        let speeds = report(
            &format!("grows: scale-free, 1000 nodes, {links} links each"),
            1,
            6,
            || scale_free(1_000, links),
        );
        speeds.map(|speeds| (1_000.0 * links as f64, speeds))
    };
    (
        "links, of 1000 nodes",
        [1, 2, 4, 8, 16].into_iter().filter_map(of).collect(),
    )
}

fn flight_grows() -> (&'static str, Grown) {
    let of = |packets: u64| {
        // The warm-up ends when all of them are in flight.
        let (name, warm_up) = (
            format!("grows: two nodes, {packets} in flight"),
            packets.div_ceil(20_000),
        );
        let speeds = report(&name, warm_up, 5, || in_flight_at_once(packets));
        speeds.map(|speeds| (packets as f64, speeds))
    };
    (
        "packets in flight, of two nodes",
        [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]
            .into_iter()
            .filter_map(of)
            .collect(),
    )
}

fn draw(grown: [(&str, Grown); 3]) -> String {
    let series = |(name, points): (&str, Grown)| {
        let line = points
            .iter()
            .map(|(size, speeds)| (*size, speeds.median / 1e6))
            .collect();
        let interval = points
            .iter()
            .map(|(_, speeds)| (speeds.least / 1e6, speeds.most / 1e6))
            .collect();
        Series::line(name, line).with_interval(interval)
    };
    let figure = Figure {
        title: "The simulator on one thread: median, least and most of five runs".to_owned(),
        x: Axis::log("so many"),
        y: Axis::linear("million packet-hops a CPU-second"),
        series: grown.into_iter().map(series).collect(),
    };
    figure.svg()
}

// ---- Measuring ----

/// Returns the value of a command-line option with this prefix.
#[allow(clippy::disallowed_methods, reason = "the command line of a benchmark")]
fn argument(name: &str) -> Option<String> {
    std::env::args().find_map(|word| word.strip_prefix(name).map(str::to_owned))
}

/// Returns true if the command line names it, or names nothing.
#[allow(clippy::disallowed_methods, reason = "the command line of a benchmark")]
fn wanted(what: &str) -> bool {
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .peekable();
    words.peek().is_none() || words.any(|word| what.contains(&word))
}

/// Packet-hops per CPU-second.
struct Speeds {
    least: f64,
    median: f64,
    most: f64,
}

/// Runs a network five times, and prints the speed of the seconds after the warm-up.
fn report(what: &str, warm_up: u64, seconds: u64, make: impl Fn() -> Simulation) -> Option<Speeds> {
    if !wanted(what) {
        return None;
    }
    let mut runs: Vec<(f64, u64)> = (0..5)
        .map(|_| {
            let mut network = make();
            network
                .run_until(Time::from_secs(warm_up))
                .expect("time passes");
            let (begun, before) = (cpu(), network.packet_hops());
            network
                .run_until(Time::from_secs(warm_up + seconds))
                .expect("time passes");
            (cpu() - begun, network.packet_hops() - before)
        })
        .collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (took, hops) = runs[2];
    let speed = |(took, hops): (f64, u64)| hops as f64 / took;
    println!(
        "{what:<46} {seconds:>7} s {took:>9.3} {hops:>12} {:>12.0}",
        speed(runs[2])
    );
    Some(Speeds {
        least: speed(runs[4]),
        median: speed(runs[2]),
        most: speed(runs[0]),
    })
}

/// A consumer at one end and a producer at the other, without repeated requests.
fn chain(nodes: usize, frequency: f64, payload: usize) -> Simulation {
    let mut network = Simulation::new(1);
    let link = LinkConfig::new(
        BitRate::from_bits_per_second(1_000_000_000),
        Duration::from_millis(2),
    );
    let config = NodeConfig {
        capacity: Capacity::Bytes(ByteSize::from_mib(1)),
        ..NodeConfig::default()
    };
    let (nodes, _) = Topology::line(nodes, &link)
        .build(&mut network, |_| config.clone())
        .expect("a line");
    let config = CbrConfig {
        frequency,
        ..CbrConfig::new("/a".parse().expect("a name"))
    };
    let consumer = Cbr::new(config, network.streams().stream("consumer"));
    network.add_app(nodes[0], Box::new(consumer));
    serve(&mut network, nodes[nodes.len() - 1], "/a", payload);
    network
}

/// A Barabási–Albert network with a producer at the first node and consumers at the last ten,
/// together 4000 Interests per second, without hits.
fn scale_free(nodes: usize, links: usize) -> Simulation {
    let mut network = Simulation::new(1);
    let link = LinkConfig::new(
        BitRate::from_bits_per_second(1_000_000_000),
        Duration::from_millis(2),
    );
    let config = NodeConfig {
        capacity: Capacity::Packets(100),
        ..NodeConfig::default()
    };
    let topology = Topology::scale_free(nodes, links, &link, network.streams().stream("topology"));
    let (nodes, _) = topology
        .build(&mut network, |_| config.clone())
        .expect("a network");
    for (number, node) in nodes.iter().rev().take(nodes.len().min(10) - 1).enumerate() {
        let config = CbrConfig {
            frequency: 4_000.0 / 9.0,
            ..CbrConfig::new("/a".parse().expect("a name"))
        };
        let names = Names::Sequence { end: None };
        let prefix = format!("/a/{number}").parse().expect("a name");
        let config = CbrConfig {
            names,
            prefixes: vec![prefix],
            ..config
        };
        let consumer = Cbr::new(
            config,
            network.streams().stream(&format!("consumer {number}")),
        );
        network.add_app(*node, Box::new(consumer));
    }
    serve(&mut network, nodes[0], "/a", 1_000);
    network
}

/// Two nodes with a long link between them, so that this many Interests and Data are in flight.
fn in_flight_at_once(packets: u64) -> Simulation {
    let mut network = Simulation::new(1);
    let delay = Duration::from_secs_f64(packets as f64 / 20_000.0 / 2.0);
    let link = LinkConfig::new(BitRate::from_bits_per_second(1_000_000_000), delay);
    let (nodes, _) = Topology::line(2, &link)
        .build(&mut network, |_| NodeConfig::default())
        .expect("a line");
    let lifetime = Some(Duration::from_secs(100));
    let config = CbrConfig {
        frequency: 20_000.0,
        lifetime,
        ..CbrConfig::new("/a".parse().expect("a name"))
    };
    let consumer = Cbr::new(config, network.streams().stream("consumer"));
    network.add_app(nodes[0], Box::new(consumer));
    serve(&mut network, nodes[1], "/a", 1_000);
    network
}

/// The chunk-size paper's network without congestion.
fn dumbbell(payload: usize, frequency: f64, mtu: Option<usize>) -> Simulation {
    let mut network = Simulation::new(1);
    let link = |mbps: u64| LinkConfig {
        queue: Queueing::DropTail(Depth::Packets(1000)),
        mtu,
        ..LinkConfig::new(
            BitRate::from_bits_per_second(mbps * 1_000_000),
            Duration::from_millis(10),
        )
    };
    let config = NodeConfig {
        max_packet_bytes: 200_000,
        capacity: Capacity::Packets(1000),
        ..NodeConfig::default()
    };
    let topology = Topology::dumbbell(2, &link(40), &link(160));
    topology
        .build(&mut network, |_| config.clone())
        .expect("a dumbbell");
    for pair in 0..2 {
        let prefix = format!("/p{pair}");
        let names = Names::Popularity(ZipfMandelbrot::new(2000, 0.7, 0.7));
        let config = CbrConfig {
            frequency,
            names,
            ..CbrConfig::new(prefix.parse().expect("a name"))
        };
        let consumer = Cbr::new(
            config,
            network.streams().stream(&format!("consumer {pair}")),
        );
        let at = network.node(&format!("c{pair}")).expect("a consumer");
        network.add_app(at, Box::new(consumer));
        let at = network.node(&format!("p{pair}")).expect("a producer");
        serve(&mut network, at, &prefix, payload);
    }
    network
}

fn serve(network: &mut Simulation, at: larder_netsim::NodeId, prefix: &str, payload: usize) {
    let config = ProducerConfig {
        payload: Payload::Content(payload),
        freshness: None,
    };
    let producer = network.add_app(at, Box::new(Producer::new(config)));
    network
        .serve(&prefix.parse().expect("a name"), producer)
        .expect("routes");
}

/// Prints the bytes of this process per pending Interest, with 200,000 of them on one long link.
fn memory() {
    let mut network = Simulation::new(1);
    let link = LinkConfig::new(
        BitRate::from_bits_per_second(10_000_000_000),
        Duration::from_secs(3),
    );
    let (nodes, _) = Topology::line(2, &link)
        .build(&mut network, |_| NodeConfig::default())
        .expect("a line");
    let config = CbrConfig {
        frequency: 100_000.0,
        ..CbrConfig::new("/a".parse().expect("a name"))
    };
    let config = CbrConfig {
        lifetime: Some(Duration::from_secs(100)),
        ..config
    };
    let consumer = Cbr::new(config, network.streams().stream("consumer"));
    network.add_app(nodes[0], Box::new(consumer));
    serve(&mut network, nodes[1], "/a", 1000);
    let before = resident();
    network.run_until(Time::from_secs(2)).expect("time passes");
    let pending = network.events_planned() as f64;
    println!(
        "{:.0} bytes a pending Interest, its PIT entry included ({pending:.0} of them)",
        (resident() - before) / pending
    );
}

fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The resident memory in bytes, on Linux; 0 elsewhere.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<f64>().ok())
        .unwrap_or(0.0)
        * 4096.0
}
