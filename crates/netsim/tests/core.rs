//! The basis of all other tests: the arithmetic of links, the order of events, and the determinism
//! of a seed.

use larder_netsim::apps::{
    Cbr, CbrConfig, Fetch, Names, Payload, Producer, ProducerConfig, Randomize, Serve,
    ZipfMandelbrot,
};
use larder_netsim::{
    App, AppId, Depth, Fault, LinkConfig, LinkId, Loss, NodeConfig, NodeId, Queueing, Received,
    Sends, Simulation, Topology,
};
use larder_packet::{InterestBuilder, Name};
use larder_units::{BitRate, ByteSize, Time};
use std::time::Duration;

fn mbps(rate: u64) -> BitRate {
    BitRate::from_bits_per_second(rate * 1_000_000)
}

fn link(rate: u64, delay_ms: u64) -> LinkConfig {
    LinkConfig::new(mbps(rate), Duration::from_millis(delay_ms))
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Sends a burst at its start, and records the arrival times of the answers.
struct Burst {
    interests: u64,
    sent: bool,
    heard: Vec<(Time, Option<larder_packet::NackReason>)>,
}

impl Burst {
    fn boxed(interests: u64) -> Box<Burst> {
        Box::new(Burst {
            interests,
            sent: false,
            heard: Vec::new(),
        })
    }
}

impl App for Burst {
    fn next_timer(&self) -> Option<Time> {
        (!self.sent).then_some(Time::ZERO)
    }

    fn on_timer(&mut self, _: Time, sends: &mut Sends) {
        self.sent = true;
        for number in 0..self.interests {
            let mut asked = name("/p");
            asked.push_sequence(number);
            sends.push(InterestBuilder::new(asked).nonce(number as u32).build());
        }
    }

    fn on_packet(&mut self, now: Time, packet: &Received<'_>, _: &mut Sends) {
        self.heard.push((now, packet.header.nack));
    }
}

/// Two nodes, a burst, a producer of 1250 bytes.
fn pair(config: &LinkConfig, interests: u64) -> (Simulation, AppId, LinkId) {
    let mut network = Simulation::new(1);
    let [a, b] = ["a", "b"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
    let link = network.connect(a, b, config).unwrap();
    let burst = network.add_app(a, Burst::boxed(interests));
    let payload = ProducerConfig {
        payload: Payload::Packet(1250),
        freshness: None,
    };
    let producer = network.add_app(b, Box::new(Producer::new(payload)));
    assert!(network.serve(&name("/p"), producer).unwrap().is_empty());
    (network, burst, link)
}

#[test]
fn data_comes_back_when_the_rates_and_delays_say() {
    let (mut network, burst, _) = pair(&link(10, 50), 2);
    network.run_until(Time::from_secs(1)).unwrap();
    // The Interest has 25 bytes and takes 20 µs, then 50 ms. The Data has 1250 bytes and takes 1
    // ms, then 50 ms. The second Data waits for the first.
    let interest = InterestBuilder::new("/p/seq=0".parse::<Name>().unwrap())
        .nonce(1)
        .build()
        .len() as u64;
    let first = Time::from_nanos(interest * 800) + Duration::from_millis(101);
    let heard: Vec<Time> = network
        .app::<Burst>(burst)
        .unwrap()
        .heard
        .iter()
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(heard, [first, first + Duration::from_millis(1)]);
}

#[test]
fn a_full_queue_drops_the_last_to_come() {
    let shallow = LinkConfig {
        queue: Queueing::DropTail(Depth::Packets(4)),
        ..link(10, 50)
    };
    let (mut network, burst, link) = pair(&shallow, 100);
    network.run_until(Time::from_secs(1)).unwrap();
    // One frame on the link, and four in the queue.
    assert_eq!(network.app::<Burst>(burst).unwrap().heard.len(), 5);
    let [there, back] = link
        .channels()
        .map(|channel| network.channel(channel).counters());
    assert_eq!((there.dropped, there.frames, back.frames), (95, 5, 5));
    assert_eq!(back.bytes, 5 * 1250);
    // In bytes: the Interests have 22 bytes each, and the queue takes as many as fit besides the
    // first.
    let in_bytes = LinkConfig {
        queue: Queueing::DropTail(Depth::Bytes(225)),
        ..shallow
    };
    let (mut network, _, link) = pair(&in_bytes, 10);
    network.run_until(Time::from_secs(1)).unwrap();
    let bytes = InterestBuilder::new(name("/p/seq=9"))
        .nonce(1)
        .build()
        .len() as u64;
    assert_eq!(
        network.channel(link.channels()[0]).counters().frames,
        1 + (225 / bytes).min(9)
    );
}

#[test]
fn a_burst_hears_of_its_refusals_when_it_is_out() {
    let mut network = Simulation::new(1);
    let node = network.add_node("a", NodeConfig::default()).unwrap();
    let burst = network.add_app(node, Burst::boxed(3));
    network.run_until(Time::ZERO).unwrap();
    let heard = &network.app::<Burst>(burst).unwrap().heard;
    assert_eq!(heard.len(), 3, "no route: each is refused, at once");
    assert!(
        heard
            .iter()
            .all(|(at, nack)| *at == Time::ZERO && nack.is_some())
    );
}

#[test]
fn a_cut_takes_what_is_on_the_link_and_a_restart_what_is_stored() {
    let (mut network, burst, link) = pair(&link(10, 50), 5);
    network.plan_fault(Time::from_millis(20), Fault::Cut(link));
    network.plan_fault(Time::from_millis(30), Fault::Heal(link));
    network.run_until(Time::from_secs(10)).unwrap();
    assert_eq!(network.channel(link.channels()[0]).counters().lost, 5);
    assert!(network.app::<Burst>(burst).unwrap().heard.is_empty());

    // Sends the same burst at other times; `heard` contains the answers.
    let burst = |network: &mut Simulation, seconds: u64, interests: u64| {
        let burst = network.add_app(NodeId(0), Burst::boxed(interests));
        network.run_until(Time::from_secs(seconds)).unwrap();
        network.app::<Burst>(burst).unwrap().heard.len()
    };
    let [a, b] = [NodeId(0), NodeId(1)];
    assert_eq!(burst(&mut network, 20, 5), 5);
    assert_eq!(network.forwarder(a).stats().content_store_entries, 5);
    for fault in [Fault::Crash(b), Fault::Crash(a), Fault::Restart(a)] {
        network.plan_fault(Time::from_secs(21), fault);
    }
    network.run_until(Time::from_secs(22)).unwrap();
    assert_eq!(network.forwarder(a).stats().content_store_entries, 0);
    assert_eq!((burst(&mut network, 40, 5), network.missed(b)), (0, 5));
    network.plan_fault(Time::from_secs(40), Fault::Restart(b));
    assert_eq!(burst(&mut network, 60, 6), 6, "its routes are there again");
}

/// Failure: the end of a link acknowledges a frame that its node missed.
#[test]
fn who_is_down_acknowledges() {
    let reliable = LinkConfig {
        reliable: true,
        mtu: Some(1452),
        ..link(10, 5)
    };
    let (mut network, burst, _) = pair(&reliable, 5);
    network.plan_fault(Time::from_millis(1), Fault::Crash(NodeId(1)));
    network.plan_fault(Time::from_millis(100), Fault::Restart(NodeId(1)));
    network.run_until(Time::from_secs(10)).unwrap();
    assert_eq!(
        network.app::<Burst>(burst).unwrap().heard.len(),
        5,
        "sent again when it is up"
    );
}

/// A dumbbell with losses, jitter and popularity: all components that draw random numbers.
fn dumbbell(seed: u64, third: bool) -> Vec<u64> {
    let mut network = Simulation::new(seed);
    let edge = LinkConfig {
        loss: Loss::Uniform(0.02),
        jitter: Duration::from_millis(3),
        ..link(20, 5)
    };
    let backbone = LinkConfig {
        mtu: Some(1500),
        ..link(10, 20)
    };
    let topology = Topology::dumbbell(2, &edge, &backbone);
    let (_, links) = topology
        .build(&mut network, |_| NodeConfig::default())
        .unwrap();
    let node = |network: &Simulation, name: &str| network.node(name).unwrap();
    for pair in 0..2 {
        let prefix = name(&format!("/p{pair}"));
        let at = node(&network, &format!("p{pair}"));
        let payload = ProducerConfig {
            payload: Payload::Content(4000),
            freshness: None,
        };
        let producer = network.add_app(at, Box::new(Producer::new(payload)));
        network.serve(&prefix, producer).unwrap();
        let names = Names::Popularity(ZipfMandelbrot::new(500, 0.7, 0.7));
        let config = CbrConfig {
            frequency: 200.0,
            names,
            randomize: Randomize::Exponential,
            ..CbrConfig::new(prefix)
        };
        let stream = network.streams().stream(&format!("consumer {pair}"));
        let at = node(&network, &format!("c{pair}"));
        network.add_app(at, Box::new(Cbr::new(config, stream)));
    }
    if third {
        let at = network.add_node("apart", NodeConfig::default()).unwrap();
        let r1 = node(&network, "r1");
        network.connect(at, r1, &edge).unwrap();
    }
    for second in 1..=3 {
        network.run_until(Time::from_secs(second)).unwrap();
        for node in network.nodes() {
            network.forwarder(node).check_invariants();
        }
    }
    let mut seen: Vec<u64> = Vec::new();
    for link in links {
        for channel in link.channels() {
            let counters = network.channel(channel).counters();
            seen.extend([
                counters.frames,
                counters.bytes,
                counters.dropped,
                counters.lost,
            ]);
        }
    }
    for app in [1, 3] {
        let counters = network.app::<Cbr>(AppId(app)).unwrap().counters();
        seen.extend([
            counters.data,
            counters.retransmissions,
            counters.timeouts,
            counters.full_delay.to_bits(),
        ]);
    }
    seen
}

#[test]
fn a_seed_is_a_run_and_a_node_beside_it_changes_nothing() {
    let run = dumbbell(7, false);
    assert_eq!(run, dumbbell(7, false));
    assert_eq!(run, dumbbell(7, true));
    assert_ne!(run, dumbbell(8, false));
    // The run contains losses, retransmissions and fragments.
    assert!(
        run[11] > 0 && run[run.len() - 3] > 0 && run[run.len() - 4] > 300 && run[4] > 1000,
        "{run:?}"
    );
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let mut network = Simulation::new(1);
    let [a, b] = ["a", "b"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
    let refused = |error: larder_netsim::ConfigError, expected: &str| {
        assert!(error.to_string().contains(expected), "{error}");
    };
    refused(
        network.add_node("a", NodeConfig::default()).unwrap_err(),
        "two nodes a",
    );
    refused(
        network.connect(a, a, &link(1, 1)).unwrap_err(),
        "a – a leads from a node to itself",
    );
    refused(
        network.connect(a, b, &link(0, 1)).unwrap_err(),
        "a – b has rate 0",
    );
    let lossy = LinkConfig {
        loss: Loss::Uniform(1.5),
        ..link(1, 1)
    };
    refused(
        network.connect(a, b, &lossy).unwrap_err(),
        "not a probability",
    );
    let app = network.add_app(b, Burst::boxed(0));
    assert_eq!(
        network.serve(&name("/p"), app).unwrap(),
        [a],
        "no link: a cannot reach it"
    );
}

/// Failure: a second producer of a prefix makes the path to the first one look longer.
#[test]
fn a_farther_producer_hides_a_nearer_one_on_the_same_link() {
    let metric = |metric| LinkConfig {
        metric,
        ..link(100, 1)
    };
    for order in [[1, 2, 3], [3, 2, 1], [2, 1, 3], [1, 3, 2]] {
        let mut network = Simulation::new(1);
        let nodes = ["a", "near", "far", "other"]
            .map(|name| network.add_node(name, NodeConfig::default()).unwrap());
        let to_near = network.connect(nodes[0], nodes[1], &metric(1)).unwrap();
        network.connect(nodes[1], nodes[2], &metric(5)).unwrap();
        let to_other = network.connect(nodes[0], nodes[3], &metric(2)).unwrap();
        network.add_app(nodes[0], Burst::boxed(10));
        for node in order {
            let payload = ProducerConfig {
                payload: Payload::Packet(1250),
                freshness: None,
            };
            let producer = network.add_app(nodes[node], Box::new(Producer::new(payload)));
            network.serve(&name("/p"), producer).unwrap();
        }
        network.run_until(Time::from_secs(1)).unwrap();
        let sent = |link: LinkId| {
            link.channels()
                .map(|channel| network.channel(channel).counters().frames)
        };
        assert!(sent(to_near)[0] > 0 && sent(to_other)[0] == 0, "{order:?}");
    }
}

/// Failure: a reliable link loses packets, or its ends never stop sending.
#[test]
fn a_reliable_link_loses_what_it_carries() {
    let lossy = LinkConfig {
        loss: Loss::Uniform(0.1),
        mtu: Some(1452),
        ..link(100, 1)
    };
    let fetched = |link: LinkConfig| {
        let mut network = Simulation::new(3);
        let [c, p] = ["c", "p"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
        let link = network.connect(c, p, &link).unwrap();
        let name = name("/file");
        let stream = network.streams().stream("fetch");
        let congestion = larder_transfer::CongestionSpec::default().build();
        let fetch = Fetch::new(name.clone(), Time::ZERO, congestion, stream);
        let fetch = network.add_app(c, Box::new(fetch));
        let serve = Serve::new(name.clone(), ByteSize::from_bytes(250_000), 8000).unwrap();
        let serve = network.add_app(p, Box::new(serve));
        network.serve(&name, serve).unwrap();
        network.run_until(Time::from_secs(60)).unwrap();
        let ended = network.app::<Fetch>(fetch).unwrap().span().1;
        let lost: u64 = link
            .channels()
            .map(|channel| network.channel(channel).counters().lost)
            .iter()
            .sum();
        assert!(lost > 5, "{lost} frames lost");
        (ended.unwrap(), network.events_planned())
    };
    let (plain, _) = fetched(lossy);
    let (reliable, planned) = fetched(LinkConfig {
        reliable: true,
        ..lossy
    });
    assert!(
        reliable < Time::from_millis(500) && plain > Time::from_secs(1),
        "{reliable} and {plain}"
    );
    assert_eq!(planned, 0, "nothing is to be sent again when all has come");
    let mut network = Simulation::new(1);
    let [a, b] = ["a", "b"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
    let whole = LinkConfig {
        reliable: true,
        mtu: None,
        ..lossy
    };
    assert!(
        network
            .connect(a, b, &whole)
            .unwrap_err()
            .to_string()
            .contains("reliable without an MTU")
    );
}

#[path = "../examples/custom_app.rs"]
#[allow(dead_code)]
mod custom_app;

#[test]
fn an_application_from_outside_the_crate_runs() {
    custom_app::main().unwrap();
}
