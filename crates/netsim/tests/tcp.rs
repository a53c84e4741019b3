//! Failures of TCP: bytes are lost or duplicated; a connection hangs, wastes a link, starves
//! another one, or leaves timers behind.

use larder_netsim::apps::Names;
use larder_netsim::tcp::{
    CacheConfig, ClientConfig, Congestion, HostId, HttpCounters, OriginConfig, TcpConfig,
};
use larder_netsim::{
    CoDel, Depth, Fault, LinkConfig, Loss, NodeConfig, NodeId, Queueing, Simulation,
};
use larder_units::{ByteSize, Time};
use std::time::Duration;

const BOTH: [Congestion; 2] = [Congestion::Cubic, Congestion::Bbr];

fn tcp(congestion: Congestion) -> TcpConfig {
    TcpConfig {
        congestion,
        ..TcpConfig::default()
    }
}

fn link(rate: &str, delay_ms: u64, loss: f64) -> LinkConfig {
    let loss = if loss > 0.0 {
        Loss::Uniform(loss)
    } else {
        Loss::None
    };
    let queue = Queueing::DropTail(Depth::Packets(1000));
    LinkConfig {
        loss,
        queue,
        ..LinkConfig::new(rate.parse().unwrap(), Duration::from_millis(delay_ms))
    }
}

fn pair(seed: u64, link: &LinkConfig) -> (Simulation, NodeId, NodeId) {
    let mut network = Simulation::new(seed);
    let [c, s] = ["c", "s"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
    network.connect(c, s, link).unwrap();
    (network, c, s)
}

fn origin(network: &mut Simulation, node: NodeId, bytes: u64, congestion: Congestion) -> HostId {
    let body = ByteSize::from_bytes(bytes);
    network
        .add_http_origin(node, OriginConfig::new(body), tcp(congestion))
        .unwrap()
}

/// A download over one link: the counters of the client and of the origin.
fn download(
    seed: u64,
    link: &LinkConfig,
    bytes: u64,
    congestion: Congestion,
) -> (HttpCounters, HttpCounters) {
    let (mut network, c, s) = pair(seed, link);
    let server = origin(&mut network, s, bytes, congestion);
    let client = network
        .add_http_client(c, ClientConfig::one_file(server), TcpConfig::default())
        .unwrap();
    network.run_until(Time::from_secs(3000)).unwrap();
    assert_eq!(
        network.tcp_connections(),
        0,
        "the connection is over on both sides"
    );
    assert_eq!(network.events_planned(), 0, "timers are left");
    (network.http(client), network.http(server))
}

#[test]
fn bytes_are_lost_or_come_twice() {
    for congestion in BOTH {
        for (seed, loss) in [0.0, 0.01, 0.05, 0.1, 0.2].into_iter().enumerate() {
            let jitter = Duration::from_millis(if seed % 2 == 0 { 0 } else { 3 });
            let link = LinkConfig {
                jitter,
                reorders: true,
                ..link("20Mbps", 10, loss)
            };
            let (client, server) = download(seed as u64, &link, 300_000, congestion);
            assert_eq!(
                (client.responses, client.bytes, client.failures),
                (1, 300_000, 0),
                "{congestion:?}, {loss}"
            );
            let least = (300_000u64 + 250).div_ceil(1448) + 1;
            assert!(
                server.tcp.segments - server.tcp.retransmissions <= least + 1,
                "{server:?}"
            );
            assert_eq!(
                server.tcp.retransmissions == 0,
                loss == 0.0,
                "{congestion:?}, {loss}: {server:?}"
            );
        }
    }
}

#[test]
fn a_connection_hangs_at_losses_of_a_fifth() {
    for congestion in BOTH {
        for seed in 0..20 {
            let (client, server) = download(seed, &link("10Mbps", 20, 0.2), 100_000, congestion);
            assert_eq!(
                (client.bytes, client.failures),
                (100_000, 0),
                "{congestion:?}, seed {seed}: {server:?}"
            );
        }
    }
}

#[test]
fn a_seed_gives_other_bytes() {
    for congestion in BOTH {
        let run = |seed| {
            format!(
                "{:?}",
                download(seed, &link("20Mbps", 10, 0.05), 500_000, congestion)
            )
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }
}

/// Two servers behind one link of 20 Mb/s with a queue of one bandwidth-delay product. Returns the
/// rate of each of two clients in the last 40 of 60 s, in Mb/s.
fn shares(congestions: [Congestion; 2]) -> [f64; 2] {
    let mut network = Simulation::new(5);
    let [a, b] = ["a", "b"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
    let queue = Queueing::DropTail(Depth::Bytes(100_000));
    network
        .connect(
            a,
            b,
            &LinkConfig {
                queue,
                ..link("20Mbps", 20, 0.0)
            },
        )
        .unwrap();
    let clients = [0, 1].map(|at| {
        let server = origin(&mut network, b, 1 << 40, congestions[at]);
        let start = Time::from_millis(1500 * at as u64);
        let config = ClientConfig {
            start,
            ..ClientConfig::one_file(server)
        };
        network
            .add_http_client(a, config, TcpConfig::default())
            .unwrap()
    });
    network.run_until(Time::from_secs(20)).unwrap();
    let before = clients.map(|client| network.http(client).bytes);
    network.run_until(Time::from_secs(60)).unwrap();
    [0, 1].map(|at| (network.http(clients[at]).bytes - before[at]) as f64 * 8.0 / 40e6)
}

#[test]
fn one_flow_starves_another() {
    for congestion in BOTH {
        let [a, b] = shares([congestion; 2]);
        let fairness = (a + b).powi(2) / (2.0 * (a * a + b * b));
        assert!(
            fairness > 0.9 && a + b > 18.0,
            "{congestion:?}: {a} and {b} Mb/s, Jain {fairness}"
        );
    }
}

#[test]
fn a_link_with_a_queue_of_one_product_is_wasted() {
    for congestion in BOTH {
        let queue = Queueing::DropTail(Depth::Bytes(100_000));
        let (mut network, c, s) = pair(
            2,
            &LinkConfig {
                queue,
                ..link("20Mbps", 20, 0.0)
            },
        );
        let server = origin(&mut network, s, 1 << 40, congestion);
        let client = network
            .add_http_client(c, ClientConfig::one_file(server), TcpConfig::default())
            .unwrap();
        network.run_until(Time::from_secs(5)).unwrap();
        let before = network.http(client).bytes;
        network.run_until(Time::from_secs(65)).unwrap();
        // The share of the link without the headers.
        let used =
            (network.http(client).bytes - before) as f64 * 8.0 / 60.0 / (20e6 * 1448.0 / 1500.0);
        assert!((0.9..=1.001).contains(&used), "{congestion:?}: {used}");
    }
}

#[test]
fn a_cut_is_never_noticed_or_never_mended() {
    let (mut network, c, s) = pair(3, &link("10Mbps", 20, 0.0));
    let server = origin(&mut network, s, 5_000_000, Congestion::Cubic);
    let client = network
        .add_http_client(c, ClientConfig::one_file(server), TcpConfig::default())
        .unwrap();
    let link = larder_netsim::LinkId(0);
    network.plan_fault(Time::from_secs(1), Fault::Cut(link));
    network.plan_fault(Time::from_secs(3), Fault::Heal(link));
    network.run_until(Time::from_secs(30)).unwrap();
    assert_eq!(network.http(client).responses, 1);
    // Four seconds of sending, two seconds of the cut, and the time until the backed-off timeout
    // finds the link up again.
    assert!(
        (6.0..10.0).contains(&network.http(client).seconds),
        "{}",
        network.http(client).seconds
    );

    let (mut network, c, s) = pair(3, &self::link("10Mbps", 20, 0.0));
    let server = origin(&mut network, s, 5_000_000, Congestion::Bbr);
    let client = network
        .add_http_client(c, ClientConfig::one_file(server), TcpConfig::default())
        .unwrap();
    network.plan_fault(Time::from_secs(1), Fault::Cut(link));
    network.run_until(Time::from_secs(600)).unwrap();
    assert_eq!(
        (network.http(client).failures, network.tcp_connections()),
        (0, 1),
        "Linux waits a quarter of an hour"
    );
    network.run_until(Time::from_secs(2000)).unwrap();
    assert_eq!(
        (
            network.http(client).failures,
            network.tcp_connections(),
            network.events_planned()
        ),
        (1, 0, 0)
    );
}

#[test]
fn a_link_that_marks_lets_tcp_fill_its_queue() {
    let queue = Queueing::CoDel(CoDel {
        mark: true,
        ..CoDel::default()
    });
    let (mut network, c, s) = pair(
        4,
        &LinkConfig {
            queue,
            ..link("10Mbps", 20, 0.0)
        },
    );
    let server = origin(&mut network, s, 10_000_000, Congestion::Cubic);
    network
        .add_http_client(c, ClientConfig::one_file(server), TcpConfig::default())
        .unwrap();
    network.run_until(Time::from_secs(6)).unwrap();
    let seen = network.channels().nth(1).unwrap().1.counters();
    assert!(seen.dropped > 5 && seen.marked == 0, "{seen:?}");
}

/// Clients behind a cache behind an origin: the counters of the clients, the cache and the origin.
fn cached(
    keep_alive: bool,
    capacity: u64,
    requests: u64,
) -> (Vec<HttpCounters>, HttpCounters, HttpCounters) {
    let mut network = Simulation::new(6);
    let [s, t] = ["s", "t"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
    network.connect(s, t, &link("10Mbps", 20, 0.01)).unwrap();
    let server = origin(&mut network, s, 200_000, Congestion::Bbr);
    let policy = "lru".parse().unwrap();
    let capacity = ByteSize::from_bytes(capacity);
    let config = CacheConfig {
        keep_alive,
        ..CacheConfig::new(server, policy, capacity)
    };
    let cache = network
        .add_http_cache(t, config, TcpConfig::default())
        .unwrap();
    let clients: Vec<HostId> = (0..4)
        .map(|number| {
            let node = network
                .add_node(&format!("c{number}"), NodeConfig::default())
                .unwrap();
            network.connect(t, node, &link("10Mbps", 1, 0.01)).unwrap();
            let objects = Names::Sequence {
                end: Some(requests),
            };
            let config = ClientConfig {
                requests: None,
                objects,
                keep_alive,
                ..ClientConfig::one_file(cache)
            };
            network
                .add_http_client(node, config, TcpConfig::default())
                .unwrap()
        })
        .collect();
    network.run_until(Time::from_secs(600)).unwrap();
    assert_eq!(network.events_planned(), 0, "timers are left");
    network.http_cache(cache).unwrap().check_invariants();
    (
        clients
            .into_iter()
            .map(|client| network.http(client))
            .collect(),
        network.http(cache),
        network.http(server),
    )
}

#[test]
fn a_cache_asks_twice_for_what_is_on_its_way() {
    let (clients, cache, origin) = cached(false, 1 << 30, 1);
    assert_eq!(
        (cache.requests, cache.misses, cache.joined, cache.hits),
        (4, 1, 3, 0)
    );
    assert_eq!((origin.requests, cache.connections), (1, 1));
    assert!(
        clients
            .iter()
            .all(|client| client.bytes == 200_000 && client.failures == 0)
    );
}

#[test]
fn a_connection_that_is_kept_mixes_up_its_objects() {
    let (clients, cache, origin) = cached(true, 1 << 30, 10);
    for client in &clients {
        assert_eq!(
            (client.responses, client.bytes, client.connections),
            (10, 2_000_000, 1)
        );
    }
    assert_eq!(
        (cache.misses, origin.requests),
        (10, 10),
        "each object once"
    );
    assert!(
        cache.connections < 4 && cache.hits + cache.joined == 30,
        "{cache:?}"
    );
    // The cache has room for four objects, so a slow client finds that its object is gone.
    let (clients, cache, _) = cached(false, 1_000_000, 10);
    assert!(
        clients
            .iter()
            .all(|client| client.responses == 10 && client.connections == 10)
    );
    assert!(
        cache.evictions >= cache.misses - 4 && cache.evictions > 5,
        "{cache:?}"
    );
    // A body above a fifth of a small capacity is not stored.
    let (clients, cache, _) = cached(false, 500_000, 10);
    assert!(clients.iter().all(|client| client.responses == 10));
    assert_eq!((cache.misses, cache.hits, cache.evictions), (40, 0, 0));
}

#[test]
fn a_flow_of_bbr_forgets_its_rate_while_it_looks_at_the_round_trip() {
    let (mut network, c, s) = pair(5, &link("20Mbps", 5, 0.0));
    let server = origin(&mut network, s, 1 << 40, Congestion::Bbr);
    let client = network
        .add_http_client(c, ClientConfig::one_file(server), TcpConfig::default())
        .unwrap();
    let mut seconds = Vec::new();
    for second in 1..=25 {
        let before = network.http(client).bytes;
        network.run_until(Time::from_secs(second)).unwrap();
        seconds.push((network.http(client).bytes - before) as f64 * 8e-6);
    }
    // 200 ms plus a few round trips with four segments in flight, twenty in all: more than the ten
    // rounds that the rate's filter remembers.
    let least = seconds[1..].iter().copied().fold(f64::INFINITY, f64::min);
    assert!((15.3..17.5).contains(&least), "{seconds:?} Mb/s");
}

#[test]
fn a_rate_of_next_to_nothing_ends_the_run() {
    let (mut network, c, s) = pair(1, &link("20Mbps", 5, 0.0));
    let server = origin(&mut network, s, 1000, Congestion::Cubic);
    let config = ClientConfig {
        frequency: Some(1e-30),
        requests: None,
        ..ClientConfig::one_file(server)
    };
    let client = network
        .add_http_client(c, config, TcpConfig::default())
        .unwrap();
    network.run_until(Time::from_secs(1)).unwrap();
    assert_eq!(network.http(client).responses, 1);
}

#[test]
fn a_download_without_losses_takes_another_time_than_the_kernels() {
    // Linux 6.18 over the same link, in seconds: medians of nine, which all agree within 10 ms.
    let kernel = [
        (
            Congestion::Cubic,
            [(5, 1, 0.13), (5, 10, 0.87), (100, 1, 1.61), (100, 10, 2.53)],
        ),
        (
            Congestion::Bbr,
            [(5, 1, 0.13), (5, 10, 0.88), (100, 1, 1.69), (100, 10, 2.59)],
        ),
    ];
    for (congestion, cells) in kernel {
        for (delay_ms, megabytes, kernel) in cells {
            let (client, _) = download(
                1,
                &link("100Mbps", delay_ms, 0.0),
                megabytes * 1_000_000,
                congestion,
            );
            let apart = (client.seconds - kernel).abs();
            assert!(
                apart < 0.02 * kernel + 0.005,
                "{congestion:?}, {megabytes} MB: {} s",
                client.seconds
            );
        }
    }
}
