//! Failures of computed routes: they are not the shortest paths of the remaining network, they
//! change at the wrong time, or they lead in a circle. The networks and their faults are random, by
//! seed; the expected routes are computed by a slower algorithm from the definition.

use larder_forwarder::NextHop;
use larder_netsim::apps::{Payload, Producer, ProducerConfig};
use larder_netsim::scenario::{Figure, Scenario};
use larder_netsim::{
    App, AppId, ChannelId, Fault, LinkConfig, LinkId, NodeConfig, NodeId, Received, Routing, Sends,
    Simulation,
};
use larder_packet::{Data, InterestBuilder, Name};
use larder_units::{BitRate, Stream, Streams, Time};
use std::collections::HashSet;
use std::time::Duration;

/// Faults happen until this time.
const BUSY: Duration = Duration::from_secs(10);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Sends one Interest for a new name under each prefix at each time, and counts the answers.
struct Probe {
    prefixes: Vec<Name>,
    times: Vec<Time>,
    data: HashSet<Name>,
    nacks: u64,
}

impl Probe {
    fn new(prefixes: &[Name], times: Vec<Time>) -> Probe {
        Probe {
            prefixes: prefixes.to_vec(),
            times,
            data: HashSet::new(),
            nacks: 0,
        }
    }
}

/// A name that only one probe requests at one time.
fn asked(prefix: &Name, node: NodeId, at: Time) -> Name {
    let mut name = prefix.clone();
    name.push_sequence(u64::from(node.0))
        .push_sequence(at.nanos());
    name
}

/// A probe with its node.
struct ProbeAt(NodeId, Probe);

impl App for ProbeAt {
    fn next_timer(&self) -> Option<Time> {
        self.1.times.first().copied()
    }

    fn on_timer(&mut self, _: Time, sends: &mut Sends) {
        let at = self.1.times.remove(0);
        for (number, prefix) in self.1.prefixes.iter().enumerate() {
            let nonce = (self.0.0 << 16) ^ (at.nanos() as u32) ^ (number as u32);
            sends.push(
                InterestBuilder::new(asked(prefix, self.0, at))
                    .nonce(nonce)
                    .build(),
            );
        }
    }

    fn on_packet(&mut self, _: Time, packet: &Received<'_>, _: &mut Sends) {
        match packet.header.nack {
            Some(_) => self.1.nacks += 1,
            None => {
                _ = self
                    .1
                    .data
                    .insert(Data::decode(packet.packet).unwrap().name.to_name())
            }
        }
    }
}

/// A random network with faults, and the state in which it ends.
struct World {
    network: Simulation,
    routing: Routing,
    nodes: Vec<NodeId>,
    links: Vec<LinkId>,
    prefixes: Vec<Name>,
    /// The nodes with a producer, by prefix.
    producers: Vec<Vec<NodeId>>,
    probes: Vec<AppId>,
    faults: Vec<(Time, Fault)>,
    dead_links: HashSet<LinkId>,
    dead_nodes: HashSet<NodeId>,
    /// The time from which the routes are those of the last state.
    settled: Time,
}

fn below(stream: &mut Stream, bound: usize) -> usize {
    stream.below(bound as u64) as usize
}

impl World {
    fn new(seed: u64) -> World {
        let mut draw = Streams::new(seed).stream("world");
        let routing = Routing {
            next_hops: 1 + below(&mut draw, 4),
            convergence_time: Some(Duration::from_millis(draw.below(2000))),
        };
        let mut world = World {
            network: Simulation::new(seed),
            routing,
            nodes: Vec::new(),
            links: Vec::new(),
            prefixes: Vec::new(),
            producers: Vec::new(),
            probes: Vec::new(),
            faults: Vec::new(),
            dead_links: HashSet::new(),
            dead_nodes: HashSet::new(),
            settled: Time::ZERO + BUSY + Duration::from_secs(2),
        };
        world.network.set_routing(routing);
        world.build(&mut draw);
        world.plan_faults(&mut draw);
        let mut defaults = Streams::new(seed).stream("default routes");
        if defaults.chance(0.5) {
            world.add_default_routes(&mut defaults);
        }
        world
    }

    fn build(&mut self, draw: &mut Stream) {
        for number in 0..2 + below(draw, 9) {
            self.nodes.push(
                self.network
                    .add_node(&format!("n{number}"), NodeConfig::default())
                    .unwrap(),
            );
        }
        let mut ends: Vec<(usize, usize)> = (1..self.nodes.len())
            .map(|node| (below(draw, node), node))
            .collect();
        for _ in 0..below(draw, 2 * self.nodes.len()) {
            ends.push((below(draw, self.nodes.len()), below(draw, self.nodes.len())));
        }
        for (a, b) in ends.into_iter().filter(|(a, b)| a != b) {
            let delay = Duration::from_micros(draw.below(5000));
            let [there, back] = [(); 2].map(|()| LinkConfig {
                metric: draw.below(4),
                ..LinkConfig::new(BitRate::from_bits_per_second(1_000_000_000), delay)
            });
            let link = self
                .network
                .connect_asymmetric(self.nodes[a], self.nodes[b], &there, &back);
            self.links.push(link.unwrap());
        }
        for number in 0..1 + below(draw, 3) {
            let prefix = name(&format!("/p{number}"));
            let mut producers = Vec::new();
            for _ in 0..1 + below(draw, 2) {
                let node = self.nodes[below(draw, self.nodes.len())];
                let config = ProducerConfig {
                    payload: Payload::Content(100),
                    freshness: None,
                };
                let app = self.network.add_app(node, Box::new(Producer::new(config)));
                self.network.serve(&prefix, app).unwrap();
                producers.push(node);
            }
            self.prefixes.push(prefix);
            self.producers.push(producers);
        }
        for node in self.nodes.clone() {
            let mut times: Vec<Time> = (0..20)
                .map(|_| Time::ZERO + BUSY.mul_f64(draw.unit()))
                .collect();
            times.sort();
            times.push(self.settled);
            let probe = ProbeAt(node, Probe::new(&self.prefixes, times));
            self.probes
                .push(self.network.add_app(node, Box::new(probe)));
        }
    }

    /// Adds routes of `/` without cost, as an operator does. Some form loops.
    fn add_default_routes(&mut self, draw: &mut Stream) {
        let channels: Vec<_> = self
            .network
            .channels()
            .map(|(id, channel)| (id, channel.ends().0))
            .collect();
        for (channel, node) in channels {
            if draw.chance(0.5) {
                self.network.route(&Name::root(), node, channel, 0).unwrap();
            }
        }
    }

    fn plan_faults(&mut self, draw: &mut Stream) {
        let mut times: Vec<Time> = (0..1 + below(draw, 8))
            .map(|_| Time::ZERO + BUSY.mul_f64(draw.unit()))
            .collect();
        times.sort();
        if draw.chance(0.3) {
            // Faults of one instant.
            times.push(times[times.len() - 1]);
        }
        for at in times {
            let (link, node) = (
                self.links.get(below(draw, self.links.len().max(1))),
                below(draw, self.nodes.len()),
            );
            let repairs = draw.chance(0.4);
            let fault = match link.filter(|_| draw.chance(0.7)) {
                Some(link) if repairs => Fault::Heal(*link),
                Some(link) => Fault::Cut(*link),
                None if repairs => Fault::Restart(self.nodes[node]),
                None => Fault::Crash(self.nodes[node]),
            };
            match fault {
                Fault::Cut(link) => _ = self.dead_links.insert(link),
                Fault::Heal(link) => _ = self.dead_links.remove(&link),
                Fault::Crash(node) => _ = self.dead_nodes.insert(node),
                Fault::Restart(node) => _ = self.dead_nodes.remove(&node),
            }
            self.network.plan_fault(at, fault);
            self.faults.push((at, fault));
        }
    }

    /// The channels of the last state.
    fn channels(&self) -> Vec<(ChannelId, NodeId, NodeId, u64)> {
        let mut channels = Vec::new();
        for (id, channel) in self.network.channels() {
            let (from, to) = channel.ends();
            let has_failed = self.dead_links.contains(&LinkId(id.0 / 2))
                || self.dead_nodes.contains(&from)
                || self.dead_nodes.contains(&to);
            if !has_failed {
                channels.push((id, from, to, channel.config().metric));
            }
        }
        channels
    }

    /// The cost of the shortest path between two nodes that does not lead over a third one, by
    /// Bellman and Ford's algorithm.
    fn cost(&self, from: NodeId, to: NodeId, without: Option<NodeId>) -> Option<u64> {
        let mut costs = vec![None; self.nodes.len()];
        costs[to.0 as usize] = Some(0);
        let channels = self.channels();
        for _ in &self.nodes {
            for &(_, start, end, metric) in &channels {
                let beyond: Option<u64> = costs[end.0 as usize];
                if let Some(beyond) =
                    beyond.filter(|_| Some(start) != without && Some(end) != without)
                {
                    let known = costs[start.0 as usize];
                    costs[start.0 as usize] =
                        Some(known.map_or(beyond + metric, |known| known.min(beyond + metric)));
                }
            }
        }
        costs[from.0 as usize]
    }

    /// The costs of a node's paths to a producer, one for each link, in order.
    fn expected_costs(&self, node: NodeId, to: NodeId) -> Vec<u64> {
        let mut costs = Vec::new();
        for (_, _, next, metric) in self
            .channels()
            .into_iter()
            .filter(|channel| channel.1 == node)
        {
            costs.extend(
                self.cost(next, to, Some(node))
                    .map(|beyond| beyond + metric),
            );
        }
        costs.sort_unstable();
        costs.truncate(self.routing.next_hops);
        costs
    }

    /// # Panics
    /// If the routes at the end are not those of the last state.
    fn routes_are_shortest_paths(&self) {
        for (prefix, producers) in self.prefixes.iter().zip(&self.producers) {
            for node in self
                .nodes
                .iter()
                .filter(|node| !self.dead_nodes.contains(node))
            {
                let hops = self.network.forwarder(*node).next_hops(prefix);
                let shortest = producers
                    .iter()
                    .filter_map(|to| self.cost(*node, *to, None))
                    .min();
                let is_alive = |to: &NodeId| !self.dead_nodes.contains(to);
                let shortest = shortest.filter(|_| producers.iter().any(is_alive));
                assert_eq!(
                    hops.first().map(|hop| hop.cost),
                    shortest,
                    "{prefix} at {node:?}: {hops:?}"
                );
                let [to] = producers[..] else { continue };
                if to != *node {
                    let costs: Vec<u64> = hops.iter().map(|hop| hop.cost).collect();
                    assert_eq!(
                        costs,
                        self.expected_costs(*node, to),
                        "{prefix} at {node:?}: {hops:?}"
                    );
                }
            }
        }
    }

    /// # Panics
    /// If first next hops lead in a circle.
    fn first_next_hops_reach_an_end(&self) {
        for (prefix, producers) in self.prefixes.iter().zip(&self.producers) {
            for start in &self.nodes {
                let (mut at, mut visited) = (*start, HashSet::new());
                while !producers.contains(&at) {
                    assert!(
                        visited.insert(at),
                        "{prefix} from {start:?}: in a circle through {at:?}"
                    );
                    let Some(hop) = self.network.forwarder(at).next_hops(prefix).first() else {
                        break;
                    };
                    let mut channels = self.network.channels();
                    let over = channels.find(|(id, channel)| {
                        channel.ends().0 == at && self.network.face_of(*id) == hop.face
                    });
                    at = over.unwrap().1.ends().1;
                }
            }
        }
    }

    /// # Panics
    /// If a packet still travels, or an Interest after the last change did not get its answer.
    fn everything_has_ended(&self) {
        assert_eq!(
            self.network.events_planned(),
            0,
            "events long after the last Interest"
        );
        for (node, probe) in self.nodes.iter().zip(&self.probes) {
            if self.dead_nodes.contains(node) {
                continue;
            }
            assert_eq!(
                self.network.forwarder(*node).stats().pit_entries,
                0,
                "{node:?} waits for ever"
            );
            let ProbeAt(_, probe) = self.network.app::<ProbeAt>(*probe).unwrap();
            for (prefix, producers) in self.prefixes.iter().zip(&self.producers) {
                let leads = |to: &NodeId| {
                    !self.dead_nodes.contains(to) && self.cost(*node, *to, None).is_some()
                };
                let has_answer = probe.data.contains(&asked(prefix, *node, self.settled));
                assert_eq!(
                    has_answer,
                    producers.iter().any(leads),
                    "{prefix} at {node:?}"
                );
            }
        }
    }
}

/// Prints the seed and the faults of a world that failed.
struct Describe(u64, String);

impl Drop for Describe {
    #[allow(clippy::print_stderr, reason = "the seed of a failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}: {}", self.0, self.1);
        }
    }
}

#[test]
fn routes_after_random_faults_are_not_the_shortest_of_what_remains() {
    let mut detours = 0;
    for seed in 0..300 {
        let mut world = World::new(seed);
        let _describe = Describe(seed, format!("{:?}, {:?}", world.routing, world.faults));
        for tenth in 1..=120 {
            world
                .network
                .run_until(Time::from_millis(100 * tenth))
                .unwrap();
            world.first_next_hops_reach_an_end();
        }
        world.network.run_until(Time::from_secs(1000)).unwrap();
        world.routes_are_shortest_paths();
        world.everything_has_ended();
        detours += world
            .nodes
            .iter()
            .filter(|node| world.network.most_next_hops(**node) > 1)
            .count();
    }
    assert!(detours > 500, "{detours} nodes with several next hops");
}

fn metric(metric: u64) -> LinkConfig {
    LinkConfig {
        metric,
        ..LinkConfig::new(
            BitRate::from_bits_per_second(10_000_000),
            Duration::from_millis(1),
        )
    }
}

#[test]
fn a_repair_is_known_before_its_time() {
    let mut network = Simulation::new(1);
    let convergence_time = Some(Duration::from_millis(500));
    network.set_routing(Routing {
        convergence_time,
        ..Routing::default()
    });
    let [a, b, c] =
        ["a", "b", "c"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
    let direct = network.connect(a, b, &metric(1)).unwrap();
    let detour = network.connect(a, c, &metric(1)).unwrap();
    network.connect(c, b, &metric(1)).unwrap();
    network.route_to(&name("/p"), b).unwrap();
    network.plan_fault(Time::from_millis(1000), Fault::Cut(direct));
    network.plan_fault(Time::from_millis(1200), Fault::Heal(direct));
    for (at, link, cost) in [
        (0, direct, 1),
        (1499, direct, 1),
        (1500, detour, 2),
        (1699, detour, 2),
        (1700, direct, 1),
    ] {
        network.run_until(Time::from_millis(at)).unwrap();
        let hop = NextHop {
            face: network.face_of(link.channels()[0]),
            cost,
        };
        assert_eq!(
            network.forwarder(a).next_hops(&name("/p")),
            [hop],
            "at {at} ms"
        );
    }
}

/// Failure: a route of a shorter prefix, at the same cost, takes the Interests of an application,
/// or the simulator's nodes inherit routes otherwise than the RIB of a node does.
#[test]
fn inherited_routes_come_before_those_of_an_application() {
    let mut network = Simulation::new(1);
    let nodes = ["a", "b", "c"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
    let links = [[0, 1], [1, 2]]
        .map(|[from, to]| network.connect(nodes[from], nodes[to], &metric(1)).unwrap());
    let [there, back] = links[0].channels();
    let [onward, inward] = links[1].channels();
    // As `route add /svs NEIGHBOUR` on each link of a line, at cost 0.
    for (node, channel) in [
        (nodes[0], there),
        (nodes[1], back),
        (nodes[1], onward),
        (nodes[2], inward),
    ] {
        network.route(&name("/svs"), node, channel, 0).unwrap();
    }
    let config = ProducerConfig {
        payload: Payload::Content(100),
        freshness: None,
    };
    let apps = nodes.map(|node| network.add_app(node, Box::new(Producer::new(config))));
    for (app, prefix) in apps.into_iter().zip(["/svs/a", "/svs/b", "/svs/c"]) {
        network.serve(&name(prefix), app).unwrap();
    }
    let faces = |network: &Simulation, node: NodeId, prefix: &str| -> Vec<(u64, u64)> {
        let hops = network.forwarder(node).next_hops(&name(prefix));
        hops.iter().map(|hop| (hop.face.0, hop.cost)).collect()
    };
    let own = network.place_of(apps[1]).1.0;
    let [to_a, to_c] = [back, onward].map(|channel| network.face_of(channel).0);
    // The application's route comes first, then both inherited ones.
    assert_eq!(
        faces(&network, nodes[1], "/svs/b"),
        [(own, 0), (to_a, 0), (to_c, 0)]
    );
    assert_eq!(faces(&network, nodes[1], "/svs"), [(to_a, 0), (to_c, 0)]);
    // A computed route inherits nothing: in transit, the longest prefix counts.
    assert_eq!(faces(&network, nodes[1], "/svs/a"), [(to_a, 1)]);
    assert_eq!(faces(&network, nodes[1], "/svs/c"), [(to_c, 1)]);
    // Nothing changes when the node starts again.
    network.plan_fault(Time::from_secs(1), Fault::Restart(nodes[1]));
    network.run_until(Time::from_secs(1)).unwrap();
    assert_eq!(
        faces(&network, nodes[1], "/svs/b"),
        [(own, 0), (to_a, 0), (to_c, 0)]
    );
    assert_eq!(faces(&network, nodes[1], "/svs/a"), [(to_a, 1)]);
}

/// Failure: a producer elsewhere, at the end of a link without cost, takes the Interests of a
/// node's own producer of the same prefix.
#[test]
fn a_computed_route_comes_before_an_application_of_the_same_prefix() {
    for order in [[0, 1, 2], [1, 0, 2], [1, 2, 0]] {
        let mut network = Simulation::new(1);
        let nodes =
            ["a", "b", "c"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
        network.connect(nodes[0], nodes[1], &metric(0)).unwrap();
        network.connect(nodes[0], nodes[2], &metric(0)).unwrap();
        let config = ProducerConfig {
            payload: Payload::Content(100),
            freshness: None,
        };
        let mut own = None;
        for node in order {
            let app = network.add_app(nodes[node], Box::new(Producer::new(config)));
            network.serve(&name("/p"), app).unwrap();
            own = own.or((node == 0).then_some(app));
        }
        let first = network.forwarder(nodes[0]).next_hops(&name("/p"))[0];
        assert_eq!(
            first,
            NextHop {
                face: network.place_of(own.unwrap()).1,
                cost: 0
            },
            "{order:?}"
        );
    }
}

/// Nodes `c`, `r1`, `r2`, `r3` and `o`: a short way over `r2`, and a detour over `r3`.
const TWO_WAYS: &str = r#"
    duration = "60s"
    [[node]]
    name = "c"
    [[node]]
    name = "r1"
    [[node]]
    name = "r2"
    [[node]]
    name = "r3"
    [[node]]
    name = "o"
    [[link]]
    ends = ["c", "r1"]
    like = { rate = "10Mbps", delay = "5ms" }
    [[link]]
    ends = ["r1", "r2"]
    like = { rate = "10Mbps", delay = "5ms" }
    [[link]]
    ends = ["r2", "o"]
    like = { rate = "10Mbps", delay = "5ms" }
    [[link]]
    ends = ["r1", "r3"]
    like = { rate = "10Mbps", delay = "5ms", metric = 5 }
    [[link]]
    ends = ["r3", "o"]
    like = { rate = "10Mbps", delay = "5ms" }
    [[http-origin]]
    node = "o"
    size = "10kB"
    [[http-client]]
    node = "c"
    server = "o"
    frequency = 10
"#;

fn value(figures: &[Figure], component: &str, quantity: &str) -> f64 {
    let mut found = figures
        .iter()
        .filter(|figure| figure.component == component && figure.quantity == quantity);
    found
        .next()
        .unwrap_or_else(|| panic!("no {quantity} of {component}"))
        .value
}

#[test]
fn segments_stay_on_a_cut_link_or_their_clients_give_up_without_a_route() {
    let run = |added: &str| {
        let figures = Scenario::parse(&format!("{TWO_WAYS}{added}"), "ways.toml")
            .unwrap()
            .run(1)
            .unwrap();
        let of = |quantity| value(&figures, "http-client c", quantity);
        (
            of("requests"),
            of("responses"),
            of("failures"),
            value(&figures, "channel r1 r3", "frames"),
        )
    };
    let converges = "[routing]\nconvergence-time = \"1s\"\n";
    let crash = "[[fault]]\nat = \"10s\"\ncrash = \"r2\"\n";
    let (_, responses, _, detour) = run(crash);
    assert!(
        responses < 105.0 && detour == 0.0,
        "routes stay: {responses} {detour}"
    );
    let (requests, responses, failures, detour) = run(&format!("{converges}{crash}"));
    assert!(
        responses > requests - 5.0 && failures == 0.0 && detour > 1000.0,
        "{requests} {responses} {detour}"
    );
    let restart = "[[fault]]\nat = \"30s\"\nrestart = \"r2\"\n";
    let (_, _, failures, shorter) = run(&format!("{converges}{crash}{restart}"));
    assert!(
        failures == 0.0 && shorter < 0.6 * detour && shorter > 0.2 * detour,
        "{shorter} of {detour}"
    );
    // For five seconds there is no route at all, and the client starts in them. Its SYNs are lost.
    let apart = "start = \"3s\"\n[[fault]]\nat = \"1s\"\ncut = [\"c\", \"r1\"]\n[[fault]]\nat = \"6s\"\nheal = [\"c\", \"r1\"]\n";
    let (requests, responses, failures, _) = run(&format!("{apart}{converges}"));
    assert!(
        responses > requests - 5.0 && failures == 0.0,
        "{requests} {responses} {failures}"
    );
}
