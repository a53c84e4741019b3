//! A random network of caches from a seed.

use super::oracle::{History, Purge, Seen};
use super::origin::{RandomOrigin, Rules};
use super::requester::RandomRequester;
use larder_netsim::apps::{Names, ZipfMandelbrot};
use larder_netsim::tcp::{CacheConfig, ClientConfig, Congestion, HostId, HttpPurge, TcpConfig};
use larder_netsim::{
    Depth, Fault, LinkConfig, LinkId, Loss, NodeConfig, NodeId, Queueing, Simulation,
};
use larder_policy::{Kind, Spec, registry};
use larder_units::{BitRate, ByteSize, Stream, Streams, Time};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Clients request, and faults and purges happen, until about this time.
const BUSY: Duration = Duration::from_secs(12);

/// A network that is ready to run.
pub struct World {
    network: Simulation,
    history: Arc<Mutex<History>>,
    is_faultless: bool,
    servers: Vec<(NodeId, HostId)>,
    clients: Vec<HostId>,
    links: Vec<LinkId>,
    /// A description for failure messages.
    pub words: String,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut draw = Draw(Streams::new(seed).stream("http world"));
        let mut world = World {
            network: Simulation::new(seed),
            history: Arc::default(),
            is_faultless: draw.0.chance(0.3),
            servers: Vec::new(),
            clients: Vec::new(),
            links: Vec::new(),
            words: String::new(),
        };
        let objects = 1 + draw.0.below(10);
        world.origin(&mut draw, objects);
        for number in 0..1 + draw.below(4) {
            world.cache(&mut draw, number);
        }
        for number in 0..1 + draw.below(5) {
            world.client(&mut draw, number, objects);
        }
        for _ in 0..draw.below(4) {
            world.purge(&mut draw, objects);
        }
        if !world.is_faultless {
            world.faults(&mut draw);
        }
        world
    }

    fn origin(&mut self, draw: &mut Draw, objects: u64) {
        let rules: Vec<Rules> = (0..objects)
            .map(|_| Rules::draw(&mut draw.0, self.is_faultless))
            .collect();
        for (object, rules) in rules.iter().enumerate() {
            self.words += &format!("object {object}: {rules:?}\n");
        }
        let node = self
            .network
            .add_node("origin", NodeConfig::default())
            .unwrap();
        let (history, stream) = (
            Arc::clone(&self.history),
            self.network.streams().stream("random origin"),
        );
        let origin = RandomOrigin {
            writes: vec![0; rules.len()],
            rules,
            stream,
            history,
        };
        let host = self
            .network
            .add_http_origin_with(node, Box::new(origin), draw.tcp());
        self.servers.push((node, host));
    }

    /// Returns the node of a host that uses a server: the server's, or one with a link to it.
    fn node(&mut self, draw: &mut Draw, name: &str, server: NodeId) -> NodeId {
        if draw.0.chance(0.4) {
            return server;
        }
        let node = self.network.add_node(name, NodeConfig::default()).unwrap();
        let link = draw.link(self.is_faultless);
        self.words += &format!("{name}: {link:?}\n");
        self.links
            .push(self.network.connect(node, server, &link).unwrap());
        node
    }

    fn cache(&mut self, draw: &mut Draw, number: usize) {
        let above = draw.below(self.servers.len());
        let (server, upstream) = self.servers[above];
        let node = self.node(draw, &format!("cache{number}"), server);
        let capacity = ByteSize::from_bytes(draw.one(&[2000, 5000, 12_000, 1_000_000]));
        let timeout = !self.is_faultless && draw.0.chance(0.3);
        let timeout = timeout.then(|| Duration::from_millis(100 + draw.0.below(4000)));
        let keep_alive = draw.0.chance(0.7);
        let config = CacheConfig {
            keep_alive,
            timeout,
            ..CacheConfig::new(upstream, draw.policy(), capacity)
        };
        self.words += &format!("cache {number} below {above}: {config:?}\n");
        let host = self
            .network
            .add_http_cache(node, config, draw.tcp())
            .unwrap();
        self.servers.push((node, host));
        let mut history = self.history.lock().unwrap();
        history.may_disconnect |= timeout.is_some();
        let mut path = vec![number];
        if let Some(above) = above.checked_sub(1) {
            path.extend_from_slice(&history.paths[above]);
        }
        history.paths.push(path);
    }

    fn client(&mut self, draw: &mut Draw, number: usize, objects: u64) {
        // The first server is the origin.
        let server = 1 + draw.below(self.servers.len() - 1);
        let (at, host) = self.servers[server];
        let node = self.node(draw, &format!("client{number}"), at);
        let requests = 5 + draw.0.below(25);
        let config = ClientConfig {
            objects: Names::Popularity(ZipfMandelbrot::new(objects as usize, 0.0, draw.0.unit())),
            requests: Some(requests),
            frequency: draw
                .0
                .chance(0.8)
                .then(|| requests as f64 / BUSY.as_secs_f64()),
            randomize: draw.0.chance(0.5),
            keep_alive: draw.0.chance(0.7),
            timeout: (!self.is_faultless && draw.0.chance(0.2))
                .then(|| Duration::from_millis(50 + draw.0.below(3000))),
            start: Time::from_millis(draw.0.below(3) * 500),
            ..ClientConfig::one_file(host)
        };
        self.words += &format!("client {number} of cache {}: {config:?}\n", server - 1);
        let requester = RandomRequester {
            cache: Some(server - 1),
            variants: draw.0.below(4),
            directives: draw.one(&[0.0, 0.2, 0.6]),
            writes: draw.one(&[0.0, 0.0, 0.1]),
            stream: self
                .network
                .streams()
                .stream(&format!("requester {number}")),
            tags: Vec::new(),
            history: Arc::clone(&self.history),
        };
        let client = self
            .network
            .add_http_client_with(node, config, draw.tcp(), Box::new(requester))
            .unwrap();
        self.clients.push(client);
    }

    fn purge(&mut self, draw: &mut Draw, objects: u64) {
        let at = Time::ZERO + BUSY.mul_f64(draw.0.unit());
        let object = draw.0.chance(0.7).then(|| draw.0.below(objects) + 1);
        let purge = HttpPurge {
            object,
            soft: draw.0.chance(0.3),
        };
        let all = draw.0.chance(0.7);
        let caches: Vec<usize> = (0..self.servers.len() - 1)
            .filter(|_| all || draw.0.chance(0.5))
            .collect();
        for cache in &caches {
            self.network
                .plan_http_purge(at, self.servers[cache + 1].1, purge);
        }
        let purge = Purge { at, caches, purge };
        self.words += &format!("{purge:?}\n");
        self.history.lock().unwrap().purges.push(purge);
    }

    fn faults(&mut self, draw: &mut Draw) {
        for _ in 0..if self.links.is_empty() {
            0
        } else {
            draw.below(3)
        } {
            let link = self.links[draw.below(self.links.len())];
            let at = Time::ZERO + BUSY.mul_f64(draw.0.unit());
            let again = at + Duration::from_millis(draw.0.below(6000));
            self.words += &format!("at {at}: cut {link:?} until {again}\n");
            self.network.plan_fault(at, Fault::Cut(link));
            if draw.0.chance(0.8) {
                self.network.plan_fault(again, Fault::Heal(link));
            }
            self.history.lock().unwrap().may_disconnect = true;
        }
    }

    /// Runs the world to its end.
    ///
    /// # Panics
    /// If a client gets a response that RFC 9111 forbids, or no end of a request, or if an
    /// invariant of a cache does not hold.
    pub fn run(mut self) -> Seen {
        for second in 1..=20 {
            self.network.run_until(Time::from_secs(second)).unwrap();
            self.check_caches();
        }
        // A connection over a link that stays cut fails after a quarter of an hour, and so may each
        // of its successors.
        for hour in 1..=200 {
            if self.network.events_planned() == 0 {
                break;
            }
            self.network
                .run_until(Time::from_secs(3600 * hour))
                .unwrap();
        }
        assert_eq!(self.network.events_planned(), 0, "timers are left");
        self.check_caches();
        for client in &self.clients {
            let counters = self.network.http(*client);
            assert_eq!(
                counters.requests,
                counters.responses + counters.failures,
                "a request without an end"
            );
            assert!(
                !self.is_faultless || counters.failures == 0,
                "a connection failed without a fault"
            );
        }
        let mut seen = self.history.lock().unwrap().seen.clone();
        seen.worlds = 1;
        for (_, cache) in &self.servers[1..] {
            let counters = self.network.http(*cache);
            seen.evictions += counters.evictions;
            seen.joined += counters.joined;
            seen.validated += counters.validated;
        }
        seen
    }

    fn check_caches(&self) {
        for (_, cache) in &self.servers[1..] {
            self.network.http_cache(*cache).unwrap().check_invariants();
        }
    }
}

/// The random draws for a world.
struct Draw(Stream);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn tcp(&mut self) -> TcpConfig {
        TcpConfig {
            congestion: self.one(&[Congestion::Cubic, Congestion::Bbr]),
            ..TcpConfig::default()
        }
    }

    fn link(&mut self, is_faultless: bool) -> LinkConfig {
        let rate = BitRate::from_bits_per_second(self.one(&[1_000_000, 10_000_000, 1_000_000_000]));
        let delay = Duration::from_micros(self.0.below(50_000));
        let loss = if is_faultless || self.0.chance(0.5) {
            Loss::None
        } else {
            Loss::Uniform(0.1 * self.0.unit())
        };
        let queue = Queueing::DropTail(Depth::Packets(1000));
        LinkConfig {
            loss,
            queue,
            ..LinkConfig::new(rate, delay)
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
        // A few policies need parameters or a position on the path. Others are drawn in their
        // place.
        loop {
            let evict = evict[self.below(evict.len())].name;
            let admit = admit[self.below(admit.len())].name;
            let spec = if self.0.chance(0.4) {
                format!("{admit}+{evict}")
            } else {
                evict.to_owned()
            };
            if let Some(spec) = spec.parse::<Spec>().ok().filter(|spec| !spec.needs_path()) {
                return spec;
            }
        }
    }
}
