//! The simulation: nodes, channels and applications around one queue of events.

use crate::app::{App, AppId, Received, Sends};
use crate::centrality;
use crate::events::{Event, EventQueue, Frames};
use crate::frame::Frame;
use crate::limits;
use crate::link::{Channel, ChannelId, LinkConfig, LinkId};
use crate::node::{Node, NodeConfig, NodeId, Port};
use crate::routes;
use crate::tcp::{
    CacheConfig, ClientConfig, HostId, HttpCounters, NetworkContext, OriginConfig, TcpConfig, TcpHosts, is_segment,
};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use larder_forwarder::{Body, FaceConfig, FaceId, Forwarder, Outbox};
use larder_packet::{LpPacket, Name, encode_lp};
use larder_units::{ByteSize, Streams, Time};
use std::any::Any;
use std::fmt;
use std::time::Duration;

/// What a simulation cannot be made of. One line that names the thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl ConfigError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        ConfigError(text.into())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// A simulation that would not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// [`limits::EVENTS_AN_INSTANT`] events happened at one instant.
    StandsStill {
        /// When.
        at: Time,
    },
    /// More than [`limits::EVENTS_PLANNED`] events are planned.
    Grows {
        /// When.
        at: Time,
    },
    /// Frames under way, in queues, what consumers wait for, and TCP's connections take more than
    /// [`limits::BYTES_HELD`].
    Fills {
        /// When.
        at: Time,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::StandsStill { at } => {
                let most = limits::EVENTS_AN_INSTANT;
                write!(
                    f,
                    "time stands still at {at}: {most} events at one instant; look for an application whose next timer has always passed"
                )
            }
            RunError::Grows { at } => {
                let most = limits::EVENTS_PLANNED;
                write!(
                    f,
                    "the network only grows: more than {most} events are planned at {at}; look for a consumer that sends more than its link has room for"
                )
            }
            RunError::Fills { at } => {
                let most = ByteSize::from_bytes(limits::BYTES_HELD);
                write!(
                    f,
                    "the network only grows: what is under way, in queues or waited for takes more than {most} at {at}; look for a queue without end, or a consumer whom nobody answers"
                )
            }
        }
    }
}

impl std::error::Error for RunError {}

/// What breaks, or is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The link is gone, and what is on it or waits for it. Routes stay as they are.
    Cut(LinkId),
    /// The link is there again.
    Heal(LinkId),
    /// The node's forwarder stops: frames that reach it are lost, its applications find nobody.
    Crash(NodeId),
    /// It starts afresh, with its routes, without what was pending and stored.
    Restart(NodeId),
}

struct AppSlot {
    app: Box<dyn App>,
    node: NodeId,
    face: FaceId,
    tick: Option<Duration>,
    /// The timer that is planned: events of others are void.
    timer: Option<Time>,
}

/// A network in virtual time. See the crate's documentation for an example.
pub struct Simulation {
    now: Time,
    streams: Streams,
    events: EventQueue,
    frames: Frames,
    nodes: Vec<Node>,
    by_name: HashMap<String, NodeId, FixedState>,
    channels: Vec<Channel>,
    /// Links from one node to another so far.
    parallel: HashMap<[u32; 2], u32, FixedState>,
    apps: Vec<AppSlot>,
    tcp_hosts: TcpHosts,
    faults: Vec<Fault>,
    outbox: Outbox,
    sends: Sends,
    events_at_once: u64,
    events_done: u64,
    packet_hops: u64,
    /// When what it holds is next looked at, in events done.
    next_look: u64,
    /// [`limits::EVENTS_AN_INSTANT`], [`limits::EVENTS_PLANNED`] and [`limits::BYTES_HELD`], but in
    /// tests.
    most_at_once: u64,
    most_planned: usize,
    most_bytes: u64,
}

impl Simulation {
    /// An empty network; every random stream of it comes from this seed.
    pub fn new(seed: u64) -> Self {
        Simulation {
            now: Time::ZERO,
            streams: Streams::new(seed),
            events: EventQueue::default(),
            frames: Frames::default(),
            nodes: Vec::new(),
            by_name: HashMap::default(),
            channels: Vec::new(),
            parallel: HashMap::default(),
            apps: Vec::new(),
            tcp_hosts: TcpHosts::new(),
            faults: Vec::new(),
            outbox: Outbox::new(),
            sends: Sends::default(),
            events_at_once: 0,
            events_done: 0,
            packet_hops: 0,
            next_look: 0,
            most_at_once: limits::EVENTS_AN_INSTANT,
            most_planned: limits::EVENTS_PLANNED,
            most_bytes: limits::BYTES_HELD,
        }
    }

    // ---- What the network is made of ----

    /// The random streams of this run, for applications: name each after its component.
    pub fn streams(&self) -> Streams {
        self.streams
    }

    /// A new node.
    ///
    /// # Errors
    /// [`ConfigError`] where there is one of this name, the policy cannot be built, or there are
    /// too many.
    pub fn add_node(&mut self, name: &str, config: NodeConfig) -> Result<NodeId, ConfigError> {
        if self.node(name).is_some() {
            return Err(ConfigError::new(format!("there are two nodes {name}")));
        }
        if self.nodes.len() >= limits::NODES {
            return Err(ConfigError::new(format!("more than {} nodes", limits::NODES)));
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node::new(name, config, &self.streams)?);
        self.by_name.insert(name.to_owned(), id);
        Ok(id)
    }

    /// A link between two nodes, the same in both directions.
    ///
    /// # Errors
    /// [`ConfigError`] where the rate is zero, a probability is none, or a node is linked with
    /// itself.
    pub fn connect(&mut self, a: NodeId, b: NodeId, config: &LinkConfig) -> Result<LinkId, ConfigError> {
        self.connect_asymmetric(a, b, config, config)
    }

    /// A link that is one thing from `a` to `b`, and another back.
    ///
    /// # Errors
    /// As [`Simulation::connect`].
    pub fn connect_asymmetric(
        &mut self,
        a: NodeId,
        b: NodeId,
        there: &LinkConfig,
        back: &LinkConfig,
    ) -> Result<LinkId, ConfigError> {
        let [from, to] = [a, b].map(|node| self.nodes[node.0 as usize].name.clone());
        let refuse = |what: &str| Err(ConfigError::new(format!("the link {from} – {to} {what}")));
        if a == b {
            return refuse("leads from a node to itself");
        }
        if self.channels.len() >= 2 * limits::LINKS {
            return refuse("is one too many");
        }
        for config in [there, back] {
            if config.rate.is_some_and(|rate| rate.bits_per_second() == 0) {
                return refuse("has rate 0: leave the rate out for a link that sends in no time");
            }
            if !config.loss.is_sound() {
                return refuse("has a loss that is no probability");
            }
            if config.mtu.is_some_and(|mtu| mtu < limits::LEAST_MTU) {
                return refuse("has an MTU below 128 bytes");
            }
            if config.reliable && config.mtu.is_none() {
                return refuse("is reliable without an MTU: only frames are sent again");
            }
        }
        let link = LinkId(self.channels.len() as u32 / 2);
        let uri = |peer: &str, mtu: Option<usize>| {
            let link_reliability = there.reliable && back.reliable;
            let face = FaceConfig { link_reliability, ..FaceConfig::remote(format!("sim://{peer}")) };
            mtu.map_or(face.clone(), |mtu| face.with_mtu(mtu))
        };
        let [there_id, back_id] = link.channels();
        let at_b = self.nodes[b.0 as usize].add_face(uri(&from, back.mtu), Port::Channel(back_id.0));
        let at_a = self.nodes[a.0 as usize].add_face(uri(&to, there.mtu), Port::Channel(there_id.0));
        // Parallel links have streams of their own: the name has the number among the links of
        // these two.
        let parallel = *self.parallel.entry([a.0, b.0]).or_default();
        let stream = |from: &str, to: &str| self.streams.stream(&format!("channel {from} {to} {parallel}"));
        let (there_stream, back_stream) = (stream(&from, &to), stream(&to, &from));
        for ends in [[a.0, b.0], [b.0, a.0]] {
            *self.parallel.entry(ends).or_default() += 1;
        }
        let there = Channel::new(there_id.0, a, b, at_b, *there, there_stream);
        let back = Channel::new(back_id.0, b, a, at_a, *back, back_stream);
        self.channels.extend([there, back].map(|channel| channel.beside(parallel)));
        Ok(link)
    }

    /// An application behind a local face of the node. Its first timer is asked for now.
    ///
    /// # Errors
    /// None yet; a node takes any number.
    pub fn add_app(&mut self, node: NodeId, app: Box<dyn App>) -> Result<AppId, ConfigError> {
        self.add_app_with_tick(node, app, None)
    }

    /// An application on a coarse clock: it is called for its timers at multiples of `tick` only.
    /// Packets reach it when they come.
    ///
    /// # Errors
    /// [`ConfigError`] where the tick is zero.
    pub fn add_app_with_tick(
        &mut self,
        node: NodeId,
        app: Box<dyn App>,
        tick: Option<Duration>,
    ) -> Result<AppId, ConfigError> {
        if tick.is_some_and(|tick| tick.is_zero()) {
            return Err(ConfigError::new("a clock with a tick of 0: leave the tick out for a fine clock"));
        }
        let id = AppId(self.apps.len() as u32);
        let face = self.nodes[node.0 as usize].add_face(FaceConfig::local(format!("app://{}", id.0)), Port::App(id.0));
        self.apps.push(AppSlot { app, node, face, tick, timer: None });
        self.plan_timer(id.0);
        Ok(id)
    }

    /// Leads the prefix to this application: its own node's route, and the shortest path of every
    /// other node by the links' metrics. Of paths of one length, the one by the node that was made
    /// first. Returns the nodes that cannot reach it.
    ///
    /// # Errors
    /// [`ConfigError`] where a forwarder refuses the prefix.
    pub fn serve(&mut self, prefix: &Name, app: AppId) -> Result<Vec<NodeId>, ConfigError> {
        let AppSlot { node, face, .. } = self.apps[app.0 as usize];
        self.nodes[node.0 as usize].add_route(prefix, face, 0)?;
        self.lead(prefix, node)
    }

    /// Leads the prefix to this node from all others, by the shortest paths. Returns the nodes that
    /// cannot reach it.
    ///
    /// # Errors
    /// [`ConfigError`] where a forwarder refuses the prefix.
    pub fn lead(&mut self, prefix: &Name, to: NodeId) -> Result<Vec<NodeId>, ConfigError> {
        let hops = routes::towards(to, self.nodes.len(), &self.channels);
        let mut unreachable = Vec::new();
        for (node, hop) in hops.into_iter().enumerate() {
            let id = NodeId(node as u32);
            match hop {
                Some(hop) => self.route(prefix, id, hop.channel, hop.cost)?,
                None if id == to => {}
                None => unreachable.push(id),
            }
        }
        Ok(unreachable)
    }

    /// One route: at `node`, over this channel, which leaves from it.
    ///
    /// # Errors
    /// [`ConfigError`] where the channel leaves from elsewhere, or the forwarder refuses the
    /// prefix.
    pub fn route(&mut self, prefix: &Name, node: NodeId, channel: ChannelId, cost: u64) -> Result<(), ConfigError> {
        if self.channels[channel.0 as usize].from != node {
            return Err(ConfigError::new(format!("a route of node {} over another's link", self.node_name(node))));
        }
        // The other direction of the link arrives at this end's face.
        let face = self.channels[(channel.0 ^ 1) as usize].to_face;
        self.nodes[node.0 as usize].add_route(prefix, face, cost)
    }

    /// From now on the caches tell each other their places on the paths, for the policies `lcd`,
    /// `probcache` and `betweenness`. Call it when all links are made: it finds each node's
    /// betweenness, in time that grows with nodes times links.
    pub fn tell_paths(&mut self) {
        let centralities = centrality::betweenness(self.nodes.len(), &self.channels);
        for (node, centrality) in self.nodes.iter_mut().zip(centralities) {
            node.set_centrality(centrality);
        }
    }

    // ---- HTTP ----

    /// An origin at this node.
    ///
    /// # Errors
    /// [`ConfigError`] where its objects are larger than [`limits::HTTP_BODY`].
    pub fn add_http_origin(&mut self, at: NodeId, config: OriginConfig, tcp: TcpConfig) -> Result<HostId, ConfigError> {
        let most = ByteSize::from_bytes(limits::HTTP_BODY);
        if config.body > most {
            return Err(ConfigError::new(format!("objects of {}: expected {most} at most", config.body)));
        }
        let streams = self.host_streams(at);
        Ok(self.tcp_hosts.add_origin(at, config, tcp, streams))
    }

    /// A cache at this node.
    ///
    /// # Errors
    /// [`ConfigError`] where the policy cannot be built, or no links lead to whom it asks.
    pub fn add_http_cache(&mut self, at: NodeId, config: CacheConfig, tcp: TcpConfig) -> Result<HostId, ConfigError> {
        let (upstream, streams) = (config.upstream, self.host_streams(at));
        let host = self.tcp_hosts.add_cache(at, config, tcp, streams)?;
        self.check_way(at, host, upstream)
    }

    /// A client at this node. Segments take the shortest paths by the links' metrics.
    ///
    /// # Errors
    /// [`ConfigError`] where no links lead to whom it asks.
    pub fn add_http_client(&mut self, at: NodeId, config: ClientConfig, tcp: TcpConfig) -> Result<HostId, ConfigError> {
        let (server, streams) = (config.server, self.host_streams(at));
        let host = self.tcp_hosts.add_client(at, config, tcp, streams);
        self.online(|tcp_hosts, context| tcp_hosts.plan(context, host));
        self.check_way(at, host, server)
    }

    /// Named after the node, and the host's number among its own: another node's hosts draw the
    /// same.
    fn host_streams(&self, at: NodeId) -> Streams {
        let label = format!("http {} {}", self.node_name(at), self.tcp_hosts.hosts_at(at));
        Streams::new(self.streams.stream(&label).bits())
    }

    fn check_way(&mut self, at: NodeId, host: HostId, to: HostId) -> Result<HostId, ConfigError> {
        match self.online(|tcp_hosts, context| tcp_hosts.reaches(context, host, to)) {
            true => Ok(host),
            false => Err(ConfigError::new(format!("no links lead from {} to whom it asks", self.node_name(at)))),
        }
    }

    /// Plans a fault. One that is planned for the past happens at once.
    pub fn plan_fault(&mut self, at: Time, fault: Fault) {
        self.faults.push(fault);
        self.events.plan(at.max(self.now), Event::Fault { index: self.faults.len() as u32 - 1 });
    }

    // ---- Time ----

    /// Lets everything happen that happens up to `end`, `end` included.
    ///
    /// # Errors
    /// [`RunError`] where time does not pass, or what is planned only grows.
    pub fn run_until(&mut self, end: Time) -> Result<(), RunError> {
        while let Some((at, event)) = self.events.next(end) {
            if at > self.now {
                self.now = at;
                self.events_at_once = 0;
            }
            self.events_at_once += 1;
            self.events_done += 1;
            if self.events_at_once > self.most_at_once {
                return Err(RunError::StandsStill { at });
            }
            if self.events.len() > self.most_planned {
                return Err(RunError::Grows { at });
            }
            if self.events_done >= self.next_look {
                // All channels and connections are looked at: with very many of them, more seldom.
                let looks = self.channels.len() + 2 * self.tcp_hosts.connections();
                self.next_look = self.events_done + limits::EVENTS_BETWEEN_LOOKS.max(looks as u64);
                if self.bytes_held() > self.most_bytes {
                    let (frames, twice) = self.bytes_counted_twice();
                    self.next_look += frames;
                    if self.bytes_held() - twice > self.most_bytes {
                        return Err(RunError::Fills { at });
                    }
                }
            }
            self.dispatch(event);
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Of frames under way and in queues, of what applications wait for, and of connections. Data
    /// that many channels hold counts in each of them.
    fn bytes_held(&self) -> u64 {
        let waiting: u64 = self.channels.iter().map(|channel| channel.waiting().1).sum();
        let kept: u64 = self.apps.iter().map(|slot| slot.app.kept_bytes()).sum();
        self.frames.bytes() + waiting + kept + self.tcp_hosts.held_bytes()
    }

    /// The frames under way and in queues, and what [`Simulation::bytes_held`] counts too much for
    /// those of them that share their bytes.
    fn bytes_counted_twice(&self) -> (u64, u64) {
        let mut seen: HashSet<*const u8, FixedState> = HashSet::default();
        let (mut count, mut twice) = (0, 0);
        for frame in self.frames.iter().chain(self.channels.iter().flat_map(Channel::queued)) {
            count += 1;
            let is_known = frame.shared_at().is_some_and(|start| !seen.insert(start));
            twice += if is_known { frame.len() as u64 } else { 0 };
        }
        (count, twice)
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Arrive { channel, frame, epoch } => {
                let frame = self.frames.take(frame);
                let channel = &mut self.channels[channel as usize];
                if channel.epoch != epoch {
                    return channel.count_lost();
                }
                self.packet_hops += 1;
                let (node, face, back) = (channel.to, channel.to_face, channel.id ^ 1);
                if is_segment(&frame) {
                    return self.hand_segment(node, frame);
                }
                // Who is down acknowledges nothing: it comes again.
                let is_down = !self.nodes[node.0 as usize].is_up;
                if is_down || self.channels[back as usize].hears(self.now, &frame, &mut self.events) {
                    self.hand_in(node, face, frame);
                }
            }
            Event::Ready { channel, epoch } => {
                let channel = &mut self.channels[channel as usize];
                if channel.epoch == epoch {
                    channel.on_ready(self.now, &mut self.events, &mut self.frames);
                }
            }
            Event::Reliability { channel } => {
                self.channels[channel as usize].on_reliability(self.now, &mut self.events, &mut self.frames);
            }
            Event::Deliver { app, frame } => {
                let frame = self.frames.take(frame);
                let Ok(LpPacket { header, fragment: Some(packet), .. }) = LpPacket::decode(&frame) else { return };
                self.call(app, |app, now, sends| app.on_packet(now, &Received { header, packet }, sends));
            }
            Event::Timer { app } => {
                let slot = &mut self.apps[app as usize];
                if slot.timer == Some(self.now) {
                    slot.timer = None;
                    self.call(app, |app, now, sends| app.on_timer(now, sends));
                }
            }
            Event::Wake { node } => self.wake(node as usize),
            Event::Segment { node, frame } => {
                let frame = self.frames.take(frame);
                self.hand_segment(NodeId(node), frame);
            }
            Event::Tcp { end } => self.online(|tcp_hosts, context| tcp_hosts.on_tcp_timer(context, end)),
            Event::Http { host } => self.online(|tcp_hosts, context| tcp_hosts.on_host_timer(context, host)),
            Event::Fault { index } => self.strike(self.faults[index as usize]),
        }
    }

    /// Calls an application, hands what it sends to its forwarder, and plans its next timer.
    fn call(&mut self, app: u32, act: impl FnOnce(&mut dyn App, Time, &mut Sends)) {
        let slot = &mut self.apps[app as usize];
        let (node, face) = (slot.node, slot.face);
        let mut sends = std::mem::take(&mut self.sends);
        act(&mut *slot.app, self.now, &mut sends);
        for frame in sends.frames.drain(..) {
            self.hand_in(node, face, Frame::sent(frame));
        }
        self.sends = sends;
        self.plan_timer(app);
    }

    fn plan_timer(&mut self, app: u32) {
        let slot = &mut self.apps[app as usize];
        let next = slot.app.next_timer().map(|at| on_tick(at.max(self.now), slot.tick));
        if next != slot.timer {
            slot.timer = next;
            if let Some(at) = next {
                self.events.plan(at, Event::Timer { app });
            }
        }
    }

    /// A frame for a node's forwarder, and what it sends on.
    fn hand_in(&mut self, id: NodeId, face: FaceId, mut frame: Frame) {
        let node = &mut self.nodes[id.0 as usize];
        if !node.is_up {
            node.missed += 1;
            return;
        }
        // What is dropped, the forwarder has counted.
        let _ = match &mut frame {
            Frame::Own(bytes) => node.forwarder.on_packet(self.now, face, bytes, &mut self.outbox),
            Frame::Shared(packet) => node.forwarder.on_shared(self.now, face, packet, &mut self.outbox),
        };
        self.carry_out(id.0 as usize, frame);
    }

    fn hand_segment(&mut self, at: NodeId, frame: Frame) {
        let node = &mut self.nodes[at.0 as usize];
        if !node.is_up {
            node.missed += 1;
            return;
        }
        self.online(|tcp_hosts, context| tcp_hosts.on_segment(context, at, frame));
    }

    fn online<T>(&mut self, act: impl FnOnce(&mut TcpHosts, &mut NetworkContext<'_>) -> T) -> T {
        let Simulation { now, events, frames, channels, nodes, tcp_hosts, .. } = self;
        act(tcp_hosts, &mut NetworkContext { now: *now, events, frames, channels, nodes })
    }

    fn wake(&mut self, id: usize) {
        let node = &mut self.nodes[id];
        if node.wake != self.now || !node.is_up {
            return;
        }
        node.wake = Time::MAX;
        // It may be early: what it was planned for has been answered meanwhile.
        if node.forwarder.next_timeout().is_some_and(|at| at <= self.now) {
            node.forwarder.on_timeout(self.now, &mut self.outbox);
            return self.carry_out(id, Frame::default());
        }
        self.plan_wake(id);
    }

    fn plan_wake(&mut self, id: usize) {
        let node = &mut self.nodes[id];
        if let Some(at) = node.forwarder.next_timeout()
            && at < node.wake
        {
            node.wake = at.max(self.now);
            self.events.plan(node.wake, Event::Wake { node: id as u32 });
        }
    }

    /// Sends what a forwarder wants sent; `input` is the frame that it was handed.
    fn carry_out(&mut self, id: usize, mut input: Frame) {
        let range = self.outbox.input();
        let mut left = self.outbox.sends().len();
        for send in self.outbox.sends() {
            left -= 1;
            let port = self.nodes[id].port(send.face);
            let fits = |bytes: usize| match port {
                Some(Port::Channel(channel)) => self.channels[channel as usize].fits(bytes),
                _ => true,
            };
            let is_input = matches!(send.body, Body::Input) && range == (0..input.len());
            // What needs no other header goes on as it is.
            let as_it_is = match (&send.body, &input) {
                _ if !send.header.is_empty() => None,
                (Body::Cached(packet), _) => fits(packet.len()).then(|| Frame::Shared(packet.clone())),
                (Body::Input, Frame::Shared(packet)) if is_input && fits(packet.len()) => {
                    Some(Frame::Shared(packet.clone()))
                }
                (Body::Input, bytes) if is_input && left == 0 && fits(bytes.len()) => Some(std::mem::take(&mut input)),
                _ => None,
            };
            let packet = input.get(range.clone()).unwrap_or_default();
            match port {
                Some(Port::Channel(channel)) => {
                    let channel = &mut self.channels[channel as usize];
                    match as_it_is {
                        Some(frame) => channel.send_frame(self.now, frame, &mut self.events, &mut self.frames),
                        None => channel.send(self.now, send, packet, &mut self.events, &mut self.frames),
                    }
                }
                Some(Port::App(app)) => {
                    let frame = as_it_is.unwrap_or_else(|| {
                        let packet = send.packet(packet);
                        let mut frame = Vec::with_capacity(packet.len() + 64);
                        encode_lp(&send.header, packet, &mut frame);
                        frame.into()
                    });
                    self.events.plan(self.now, Event::Deliver { app, frame: self.frames.put(frame) });
                }
                None => {}
            }
        }
        // What is sent stands in frames now. There are no sockets here that management could open.
        self.outbox.drain();
        self.outbox.drain_requests();
        self.plan_wake(id);
    }

    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Cut(link) | Fault::Heal(link) => {
                for channel in link.channels() {
                    self.channels[channel.0 as usize].set_up(self.now, matches!(fault, Fault::Heal(_)));
                }
            }
            Fault::Crash(node) => self.nodes[node.0 as usize].is_up = false,
            Fault::Restart(node) => {
                // It was made of this configuration before: it cannot fail now.
                let restarted = self.nodes[node.0 as usize].restart();
                debug_assert!(restarted.is_ok(), "{restarted:?}");
            }
        }
    }

    // ---- What has become of it ----

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events that have happened.
    pub fn events_done(&self) -> u64 {
        self.events_done
    }

    /// Frames that reached the other end of a channel.
    pub fn packet_hops(&self) -> u64 {
        self.packet_hops
    }

    /// Events that are planned: frames under way, timers.
    pub fn events_planned(&self) -> usize {
        self.events.len()
    }

    /// What an HTTP host has counted.
    pub fn http(&self, host: HostId) -> HttpCounters {
        self.tcp_hosts.counters(host)
    }

    /// Objects that an HTTP cache holds, and their bytes.
    pub fn http_stored(&self, host: HostId) -> (usize, ByteSize) {
        self.tcp_hosts.stored(host)
    }

    /// TCP connections that stand.
    pub fn tcp_connections(&self) -> usize {
        self.tcp_hosts.connections()
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// All nodes, in the order in which they were made.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// A node's name.
    pub fn node_name(&self, node: NodeId) -> &str {
        &self.nodes[node.0 as usize].name
    }

    /// A node's forwarder: its counters, its faces.
    pub fn forwarder(&self, node: NodeId) -> &Forwarder {
        &self.nodes[node.0 as usize].forwarder
    }

    /// The same, to change its strategies. A restart forgets what was changed.
    pub fn forwarder_mut(&mut self, node: NodeId) -> &mut Forwarder {
        &mut self.nodes[node.0 as usize].forwarder
    }

    /// Frames that reached a node while it was down.
    pub fn missed(&self, node: NodeId) -> u64 {
        self.nodes[node.0 as usize].missed
    }

    /// One direction of a link.
    pub fn channel(&self, channel: ChannelId) -> &Channel {
        &self.channels[channel.0 as usize]
    }

    #[cfg(test)]
    pub(crate) fn into_channels(self) -> Vec<Channel> {
        self.channels
    }

    /// A channel's name: from where, to where; of the second link between the two `r1 r2 (2)`.
    pub fn channel_name(&self, channel: ChannelId) -> String {
        let channel = self.channel(channel);
        let [from, to] = [channel.from, channel.to].map(|node| self.node_name(node));
        match channel.parallel {
            0 => format!("{from} {to}"),
            before => format!("{from} {to} ({})", before + 1),
        }
    }

    /// All channels: two a link.
    pub fn channels(&self) -> impl Iterator<Item = (ChannelId, &Channel)> {
        self.channels.iter().map(|channel| (ChannelId(channel.id), channel))
    }

    /// The face of the node from which a channel leaves.
    pub fn face_of(&self, channel: ChannelId) -> FaceId {
        self.channels[(channel.0 ^ 1) as usize].to_face
    }

    /// An application's node, and the face of it behind which it stands.
    pub fn place_of(&self, app: AppId) -> (NodeId, FaceId) {
        let slot = &self.apps[app.0 as usize];
        (slot.node, slot.face)
    }

    /// The same, to be set up before the run.
    pub(crate) fn app_mut<A: App>(&mut self, app: AppId) -> Option<&mut A> {
        let app: &mut dyn Any = &mut *self.apps[app.0 as usize].app;
        app.downcast_mut()
    }

    /// Whether a node runs.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes[node.0 as usize].is_up
    }

    /// An application; `None` where it is not an `A`.
    pub fn app<A: App>(&self, app: AppId) -> Option<&A> {
        let app: &dyn Any = &*self.apps[app.0 as usize].app;
        app.downcast_ref()
    }
}

/// The first tick at or after a time.
fn on_tick(at: Time, tick: Option<Duration>) -> Time {
    let Some(tick) = tick else { return at };
    let tick = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX);
    Time::from_nanos(at.nanos().div_ceil(tick).saturating_mul(tick))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::{Cbr, CbrConfig, Payload, Producer, ProducerConfig};
    use crate::queue::{Depth, Queueing};

    struct Restless;

    impl App for Restless {
        fn next_timer(&self) -> Option<Time> {
            Some(Time::ZERO)
        }

        fn on_timer(&mut self, _: Time, _: &mut Sends) {}

        fn on_packet(&mut self, _: Time, _: &Received<'_>, _: &mut Sends) {}
    }

    struct Silent;

    impl App for Silent {
        fn next_timer(&self) -> Option<Time> {
            None
        }

        fn on_timer(&mut self, _: Time, _: &mut Sends) {}

        fn on_packet(&mut self, _: Time, _: &Received<'_>, _: &mut Sends) {}
    }

    #[test]
    fn a_run_that_cannot_end_takes_all_time() {
        let mut network = Simulation::new(1);
        network.most_at_once = 1000;
        let node = network.add_node("a", NodeConfig::default()).unwrap();
        network.add_app(node, Box::new(Restless)).unwrap();
        let stuck = network.run_until(Time::from_secs(1)).unwrap_err();
        assert_eq!(stuck, RunError::StandsStill { at: Time::ZERO });
        assert!(stuck.to_string().contains("time stands still"));
    }

    #[test]
    fn a_run_that_only_grows_takes_all_memory() {
        let mut network = Simulation::new(1);
        network.most_planned = 1000;
        let [a, b] = ["a", "b"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
        // A link that sends in no time, to a place an hour away.
        let far = LinkConfig { rate: None, ..LinkConfig::new("1Gbps".parse().unwrap(), Duration::from_secs(3600)) };
        network.connect(a, b, &far).unwrap();
        let prefix: Name = "/p".parse().unwrap();
        let config = CbrConfig { frequency: 10_000.0, ..CbrConfig::new(prefix.clone()) };
        network.add_app(a, Box::new(Cbr::new(config, network.streams().stream("app")))).unwrap();
        let nobody = network.add_app(b, Box::new(Silent)).unwrap();
        network.serve(&prefix, nobody).unwrap();
        let stuck = network.run_until(Time::from_secs(1)).unwrap_err();
        assert!(matches!(stuck, RunError::Grows { .. }) && stuck.to_string().contains("only grows"), "{stuck}");
    }

    /// Two nodes, and a consumer of large Data that a producer sends, or nobody.
    fn filling(queue: usize, answers: bool) -> RunError {
        let mut network = Simulation::new(1);
        network.most_bytes = 2_000_000;
        let [a, b] = ["a", "b"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
        let link = LinkConfig {
            queue: Queueing::DropTail(Depth::Packets(queue)),
            ..LinkConfig::new("1Mbps".parse().unwrap(), Duration::ZERO)
        };
        network.connect(a, b, &link).unwrap();
        let prefix: Name = "/p".parse().unwrap();
        let config = CbrConfig { frequency: 1000.0, ..CbrConfig::new(prefix.clone()) };
        network.add_app(a, Box::new(Cbr::new(config, network.streams().stream("app")))).unwrap();
        let producer = ProducerConfig { payload: Payload::Content(5000), freshness: None };
        let app: Box<dyn App> = if answers { Box::new(Producer::new(producer)) } else { Box::new(Silent) };
        let app = network.add_app(b, app).unwrap();
        network.serve(&prefix, app).unwrap();
        network.run_until(Time::from_secs(100)).unwrap_err()
    }

    #[test]
    fn one_data_on_many_links_takes_all_memory() {
        let mut network = Simulation::new(1);
        network.most_bytes = 2_000_000;
        let node = |network: &mut Simulation, name: &str| network.add_node(name, NodeConfig::default()).unwrap();
        let hub = node(&mut network, "hub");
        let prefix: Name = "/p".parse().unwrap();
        let producer = ProducerConfig { payload: Payload::Content(5000), freshness: None };
        let producer = network.add_app(hub, Box::new(Producer::new(producer))).unwrap();
        // Twenty Data a second of which each link takes a few, in the queues of fifty links: 5 MB
        // if each counted.
        let slow = LinkConfig::new("100kbps".parse().unwrap(), Duration::ZERO);
        for leaf in 0..50 {
            let leaf = node(&mut network, &format!("leaf {leaf}"));
            network.connect(hub, leaf, &slow).unwrap();
            let config = CbrConfig { frequency: 20.0, ..CbrConfig::new(prefix.clone()) };
            network.add_app(leaf, Box::new(Cbr::new(config, network.streams().stream("app")))).unwrap();
        }
        network.serve(&prefix, producer).unwrap();
        network.run_until(Time::from_secs(2)).unwrap();
        let (frames, twice) = network.bytes_counted_twice();
        assert!(network.bytes_held() > 4_000_000 && frames > 800, "{} of {frames}", network.bytes_held());
        assert!(network.bytes_held() - twice < 600_000, "{twice} of {}", network.bytes_held());
    }

    #[test]
    fn a_queue_without_end_or_a_consumer_whom_nobody_answers_takes_all_memory() {
        for stuck in [filling(usize::MAX, true), filling(10, false)] {
            assert!(matches!(stuck, RunError::Fills { .. }), "{stuck:?}");
            assert!(stuck.to_string().contains("takes more than 8GiB at"), "{stuck}");
        }
    }
}
