//! A random world from a seed.

use super::apps::{AnswerConfig, ConsumerConfig, RandomConsumer, RandomProducer};
use larder_forwarder::strategy::strategy_by_name;
use larder_netsim::{
    AppId, Capacity, CoDel, Depth, Fault, LinkConfig, LinkId, Loss, NodeConfig, NodeId, Queueing,
    Red, Routing, Simulation,
};
use larder_packet::Name;
use larder_policy::{Kind, Spec, registry};
use larder_units::{BitRate, ByteSize, Stream, Streams, Time};
use std::time::Duration;

/// A network that is ready to run, with its expected properties.
pub struct World {
    pub network: Simulation,
    pub consumers: Vec<AppId>,
    pub producers: Vec<AppId>,
    /// The PIT capacity of each node.
    pub pit_entries: Vec<usize>,
    /// Nodes that are down at the end.
    pub down: Vec<NodeId>,
    /// Whether there are no losses and failures and every producer answers, so that every Interest
    /// must be answered.
    pub is_faultless: bool,
    /// Whether some node restarts, with its counters at zero.
    pub restarts: bool,
    pub crashes: bool,
    pub fragments: bool,
    /// A description for failure messages.
    pub words: String,
}

/// Applications send, and faults happen, until this time.
const BUSY: Duration = Duration::from_secs(6);

impl World {
    pub fn new(seed: u64) -> World {
        let mut draw = Draw(Streams::new(seed).stream("world"));
        let is_faultless = draw.0.chance(0.25);
        let fragments = draw.0.chance(0.2);
        let mut world = World {
            network: Simulation::new(seed),
            consumers: Vec::new(),
            producers: Vec::new(),
            pit_entries: Vec::new(),
            down: Vec::new(),
            is_faultless,
            restarts: false,
            crashes: false,
            fragments,
            words: String::new(),
        };
        if !is_faultless {
            // A stream of its own, so that the worlds of earlier seeds stay as they were.
            world.routing(&mut Draw(Streams::new(seed).stream("routing")));
        }
        let nodes = world.nodes(&mut draw);
        let links = world.links(&mut draw, &nodes);
        world.apps(&mut draw, &nodes);
        if !is_faultless {
            world.faults(&mut draw, &nodes, &links);
        }
        world
    }

    fn routing(&mut self, draw: &mut Draw) {
        if draw.0.chance(0.5) {
            return;
        }
        let convergence_time = draw
            .0
            .chance(0.5)
            .then(|| Duration::from_millis(draw.0.below(3000)));
        let routing = Routing {
            next_hops: draw.upto(1, 3),
            convergence_time,
        };
        self.words += &format!("{routing:?}\n");
        self.network.set_routing(routing);
    }

    fn nodes(&mut self, draw: &mut Draw) -> Vec<NodeId> {
        let count = draw.upto(2, 9);
        let mut nodes = Vec::new();
        for number in 0..count {
            let config = draw.node(self.is_faultless);
            let strategy = config
                .strategy
                .as_ref()
                .map_or("default".to_owned(), Name::to_string);
            let NodeConfig {
                policy,
                capacity,
                pit_entries,
                ..
            } = &config;
            self.words += &format!(
                "node n{number}: {policy}, {capacity:?}, {pit_entries} pending, {strategy}\n"
            );
            self.pit_entries.push(*pit_entries);
            nodes.push(
                self.network
                    .add_node(&format!("n{number}"), config)
                    .unwrap(),
            );
        }
        nodes
    }

    /// Adds a random tree, and some additional links.
    fn links(&mut self, draw: &mut Draw, nodes: &[NodeId]) -> Vec<LinkId> {
        let mut ends: Vec<(NodeId, NodeId)> = (1..nodes.len())
            .map(|node| (nodes[draw.below(node)], nodes[node]))
            .collect();
        for _ in 0..draw.below(nodes.len()) {
            let (a, b) = (
                nodes[draw.below(nodes.len())],
                nodes[draw.below(nodes.len())],
            );
            ends.push((a, b));
        }
        ends.retain(|(a, b)| a != b);
        let mut links = Vec::new();
        for (a, b) in ends {
            let [there, back] = [(); 2].map(|()| draw.link(self.is_faultless, self.fragments));
            self.words += &format!("link {a:?} {b:?}: {there:?}, back {back:?}\n");
            links.push(
                self.network
                    .connect_asymmetric(a, b, &there, &back)
                    .unwrap(),
            );
        }
        links
    }

    fn apps(&mut self, draw: &mut Draw, nodes: &[NodeId]) {
        let streams = self.network.streams();
        let mut prefixes: Vec<Name> = Vec::new();
        for number in 0..draw.upto(1, 3) {
            let prefix: Name = format!("/p{number}").parse().unwrap();
            let config = draw.config(self.is_faultless);
            self.words += &format!("{prefix}: {config:?}\n");
            let producer =
                RandomProducer::new(config, streams.stream(&format!("answerer {number}")));
            let app = self
                .network
                .add_app(nodes[draw.below(nodes.len())], Box::new(producer));
            assert!(
                self.network.serve(&prefix, app).unwrap().is_empty(),
                "the tree reaches every node"
            );
            self.producers.push(app);
            if !self.is_faultless {
                // Routes beside the shortest ones; some form loops.
                let channels: Vec<_> = self
                    .network
                    .channels()
                    .map(|(id, channel)| (id, channel.ends().0))
                    .collect();
                for _ in 0..draw.below(2 * channels.len()) {
                    let (channel, from) = channels[draw.below(channels.len())];
                    self.network
                        .route(&prefix, from, channel, draw.below(5) as u64)
                        .unwrap();
                }
            }
            prefixes.push(prefix);
        }
        if !self.is_faultless && draw.0.chance(0.3) {
            prefixes.push("/nowhere".parse().unwrap());
        }
        for number in 0..draw.upto(1, 4) {
            let config = ConsumerConfig {
                prefixes: prefixes.clone(),
                names: draw.upto(1, 40) as u64,
                pause: Duration::from_millis(draw.upto(20, 400) as u64),
                until: Time::ZERO + BUSY,
                faultless: self.is_faultless,
            };
            let consumer = RandomConsumer::new(config, streams.stream(&format!("asker {number}")));
            self.consumers.push(
                self.network
                    .add_app(nodes[draw.below(nodes.len())], Box::new(consumer)),
            );
        }
    }

    fn faults(&mut self, draw: &mut Draw, nodes: &[NodeId], links: &[LinkId]) {
        let mut faults: Vec<(Time, Fault)> = Vec::new();
        for _ in 0..draw.below(7) {
            let at = Time::ZERO + BUSY.mul_f64(draw.0.unit());
            let again = at + Duration::from_millis(draw.below(2000) as u64);
            let mends = draw.0.chance(0.7);
            let (breaks, mended) = if draw.0.chance(0.5) {
                let link = links[draw.below(links.len())];
                (Fault::Cut(link), Fault::Heal(link))
            } else {
                let node = nodes[draw.below(nodes.len())];
                (Fault::Crash(node), Fault::Restart(node))
            };
            faults.push((at, breaks));
            faults.extend(mends.then_some((again, mended)));
        }
        faults.sort_by_key(|(at, _)| *at);
        for (at, fault) in faults {
            self.words += &format!("at {at}: {fault:?}\n");
            self.network.plan_fault(at, fault);
            match fault {
                Fault::Crash(node) => {
                    self.crashes = true;
                    self.down.push(node);
                }
                Fault::Restart(node) => {
                    self.restarts = true;
                    self.down.retain(|down| *down != node);
                }
                _ => {}
            }
        }
    }
}

/// The random draws for a world.
struct Draw(Stream);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    /// Draws from `least` to `most`, both included.
    fn upto(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn node(&mut self, faultless: bool) -> NodeConfig {
        let strategies = ["best-route", "multicast", "asf", "random"];
        let rough = [
            "stateful/v=1/rate~50/depth~5/mark~2/aimd~halve",
            "stateful/v=1/rate~50/depth~5/fib~each/report~fair",
            "hobhis/v=1/rate~50/target~3/queue~5/report~share",
        ];
        // The strategy `random` forwards again for each consumer, as NFD's does, so its Interests
        // do not add up.
        let strategy = if !faultless && self.0.chance(0.4) {
            self.one(&rough)
        } else {
            self.one(&strategies)
        };
        let capacity = if self.0.chance(0.5) {
            Capacity::Bytes(ByteSize::from_bytes(self.0.below(40_000)))
        } else {
            Capacity::Packets(self.0.below(30))
        };
        let pit_entries = if !faultless && self.0.chance(0.3) {
            self.upto(1, 10)
        } else {
            larder_forwarder::limits::PIT_ENTRIES
        };
        let strategy = self
            .0
            .chance(0.8)
            .then(|| strategy_by_name(strategy).unwrap());
        NodeConfig {
            policy: self.policy(),
            capacity,
            strategy,
            pit_entries,
            ..NodeConfig::default()
        }
    }

    fn policy(&mut self) -> Spec {
        let of = |kind: Kind| {
            registry()
                .iter()
                .filter(move |entry| entry.kind() == kind && !entry.is_offline())
        };
        let (admit, evict): (Vec<_>, Vec<_>) =
            (of(Kind::Admission).collect(), of(Kind::Eviction).collect());
        // A few policies need parameters. Others are drawn in their place.
        loop {
            let evict = evict[self.below(evict.len())].name;
            let admit = admit[self.below(admit.len())].name;
            let spec = if self.0.chance(0.5) {
                format!("{admit}+{evict}")
            } else {
                evict.to_owned()
            };
            if let Ok(spec) = spec.parse() {
                return spec;
            }
        }
    }

    fn link(&mut self, faultless: bool, fragments: bool) -> LinkConfig {
        let rate = BitRate::from_bits_per_second(if faultless {
            100_000_000
        } else {
            self.one(&[100_000, 1_000_000, 10_000_000, 1_000_000_000])
        });
        let delay = Duration::from_micros(self.0.below(20_000));
        let mtu = fragments.then(|| self.upto(150, 3000));
        let link = LinkConfig {
            mtu,
            metric: self.0.below(3),
            ..LinkConfig::new(rate, delay)
        };
        if faultless {
            return LinkConfig {
                queue: Queueing::DropTail(Depth::Packets(100_000)),
                ..link
            };
        }
        let depth = if self.0.chance(0.5) {
            Depth::Packets(self.upto(1, 50))
        } else {
            Depth::Bytes(self.0.below(50_000))
        };
        let mark = self.0.chance(0.5);
        let queue = match self.below(3) {
            0 => Queueing::DropTail(depth),
            1 => Queueing::CoDel(CoDel {
                depth,
                mark,
                ..CoDel::default()
            }),
            _ => Queueing::Red(Red {
                weight: 0.1,
                depth,
                mark,
                ..Red::default()
            }),
        };
        let loss = match self.below(3) {
            0 => Loss::None,
            1 => Loss::Uniform(0.3 * self.0.unit()),
            _ => Loss::GilbertElliott {
                to_bad: 0.05,
                to_good: 0.3,
                good: 0.0,
                bad: 0.9,
            },
        };
        let jitter = Duration::from_micros(self.one(&[0, 5000, 50_000]));
        let rate = self.0.chance(0.9).then_some(rate);
        LinkConfig {
            rate,
            queue,
            loss,
            jitter,
            reorders: self.0.chance(0.5),
            ..link
        }
    }

    fn config(&mut self, faultless: bool) -> AnswerConfig {
        let freshness = self
            .0
            .chance(0.7)
            .then(|| Duration::from_millis(self.0.below(3000)));
        if faultless {
            return AnswerConfig {
                freshness,
                ..AnswerConfig::default()
            };
        }
        let mut share = || 0.2 * self.0.unit();
        AnswerConfig {
            ignored: share(),
            refused: share(),
            late: share(),
            unsolicited: share(),
            freshness,
        }
    }
}
