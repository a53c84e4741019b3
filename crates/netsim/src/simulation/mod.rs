//! The simulation: nodes, channels, applications and TCP hosts around one queue of events.
//!
//! | part | task |
//! | --- | --- |
//! | `builder` | makes nodes and links, with their names and random streams |
//! | `network` | moves frames through forwarders and channels |
//! | `app_table` | calls applications and plans their timers |
//! | `fault` | failures and repairs |
//! | `routing` | computes routes, and computes them again after a fault |
//! | `run_guard` | ends a run that does not advance or only grows |

mod app_table;
mod builder;
mod fault;
mod network;
mod routing;
mod run_guard;
#[cfg(test)]
mod tests;

use crate::app::{App, AppId};
use crate::centrality;
use crate::error::{ConfigError, RunError};
use crate::events::Event;
use crate::frame::Frame;
use crate::limits;
use crate::link::{Channel, ChannelId, LinkConfig, LinkId};
use crate::node::{NodeConfig, NodeId};
use crate::tcp::{
    CacheConfig, ClientConfig, HostId, HttpCounters, HttpPurge, Origin, OriginConfig, Requester,
    TcpConfig, TcpHosts,
};
use app_table::AppTable;
use builder::Builder;
pub use fault::Fault;
use larder_forwarder::{FaceId, Forwarder};
use larder_packet::Name;
use larder_units::{ByteSize, Streams, Time};
use network::Network;
pub use routing::Routing;
use routing::RoutingProtocol;
use run_guard::RunGuard;

/// A network in virtual time. The crate's documentation has an example.
///
/// # Panics
/// A method that takes the id of a node, a channel, an application or an HTTP host panics if this
/// network has no such object. An id is valid only in the network that returned it.
pub struct Simulation {
    builder: Builder,
    network: Network,
    apps: AppTable,
    tcp_hosts: TcpHosts,
    routing: RoutingProtocol,
    faults: Vec<Fault>,
    guard: RunGuard,
}

impl Simulation {
    /// Creates an empty network. All its random streams derive from this seed.
    pub fn new(seed: u64) -> Self {
        Simulation {
            builder: Builder::new(seed),
            network: Network::new(),
            apps: AppTable::default(),
            tcp_hosts: TcpHosts::new(),
            routing: RoutingProtocol::default(),
            faults: Vec::new(),
            guard: RunGuard::new(),
        }
    }

    // ---- Construction ----

    /// Returns the random streams of this run. An application names its stream after its component.
    pub fn streams(&self) -> Streams {
        self.builder.streams
    }

    /// Adds a node.
    ///
    /// # Errors
    /// [`ConfigError`] if another node has this name, the policy cannot be built, or there are too
    /// many nodes.
    pub fn add_node(&mut self, name: &str, config: NodeConfig) -> Result<NodeId, ConfigError> {
        self.builder.add_node(&mut self.network, name, config)
    }

    /// Adds a link between two nodes, with the same configuration in both directions.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration of the link is not possible (rate zero, a loss that is
    /// not a probability, an MTU below [`limits::LEAST_MTU`], link reliability without an MTU), if
    /// both ends are one node, or if there are too many links.
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        config: &LinkConfig,
    ) -> Result<LinkId, ConfigError> {
        self.connect_asymmetric(a, b, config, config)
    }

    /// Adds a link with a configuration for each direction: `there` from `a` to `b`, `back` from
    /// `b` to `a`.
    ///
    /// # Errors
    /// Those of [`Simulation::connect`].
    pub fn connect_asymmetric(
        &mut self,
        a: NodeId,
        b: NodeId,
        there: &LinkConfig,
        back: &LinkConfig,
    ) -> Result<LinkId, ConfigError> {
        self.builder
            .connect(&mut self.network, [a, b], [there, back])
    }

    /// Adds an application behind a local face of the node, and plans its first timer. A node takes
    /// any number of applications.
    pub fn add_app(&mut self, node: NodeId, app: Box<dyn App>) -> AppId {
        self.apps.add(&mut self.network, node, app)
    }

    /// Sets how routes are computed, for all nodes. Call it before [`Simulation::serve`].
    pub fn set_routing(&mut self, routing: Routing) {
        self.routing.config = routing;
    }

    /// Routes the prefix to this application: with a route at its own node, and along the shortest
    /// path by the links' metrics from every other node, or several paths ([`Routing`]). Of paths
    /// of one length, the one whose next node is nearer to the application is used, then the one
    /// whose next node was added first. Returns the nodes without a path.
    ///
    /// # Errors
    /// [`ConfigError`] if a forwarder refuses the prefix.
    pub fn serve(&mut self, prefix: &Name, app: AppId) -> Result<Vec<NodeId>, ConfigError> {
        let (node, face) = self.place_of(app);
        self.network.nodes[node.0 as usize].add_route(prefix, face, 0)?;
        self.route_to(prefix, node)
    }

    /// Routes the prefix from all other nodes to this node as [`Simulation::serve`] does. Returns
    /// the nodes without a path.
    ///
    /// # Errors
    /// [`ConfigError`] if a forwarder refuses the prefix.
    pub fn route_to(&mut self, prefix: &Name, to: NodeId) -> Result<Vec<NodeId>, ConfigError> {
        self.routing.route_to(&mut self.network, prefix, to)
    }

    /// Adds one route at `node` over a channel that starts there, beside the computed ones. Faults
    /// do not change it. Longer prefixes inherit it, unless they have computed routes.
    ///
    /// # Errors
    /// [`ConfigError`] if the channel starts at another node, or the forwarder refuses the prefix.
    pub fn route(
        &mut self,
        prefix: &Name,
        node: NodeId,
        channel: ChannelId,
        cost: u64,
    ) -> Result<(), ConfigError> {
        if self.channel(channel).from != node {
            return Err(ConfigError::ForeignChannel(self.node_name(node).to_owned()));
        }
        let face = self.network.face_of(channel);
        self.network.nodes[node.0 as usize].add_route(prefix, face, cost)
    }

    /// Gives each node its betweenness, and lets caches exchange their positions on paths from now
    /// on, for the policies `lcd`, `probcache` and `betweenness`. Call it after all links are
    /// added. It takes time that grows with nodes times links.
    pub fn share_path_positions(&mut self) {
        let Network {
            nodes, channels, ..
        } = &mut self.network;
        let centralities = centrality::betweenness(nodes.len(), channels);
        for (node, centrality) in nodes.iter_mut().zip(centralities) {
            node.set_centrality(centrality);
        }
    }

    /// Adds an HTTP origin at this node.
    ///
    /// # Errors
    /// [`ConfigError`] if its objects are larger than [`limits::HTTP_BODY`], or a lifetime is not
    /// in whole seconds.
    pub fn add_http_origin(
        &mut self,
        at: NodeId,
        config: OriginConfig,
        tcp: TcpConfig,
    ) -> Result<HostId, ConfigError> {
        if config.body > ByteSize::from_bytes(limits::HTTP_BODY) {
            return Err(ConfigError::HttpBody(config.body));
        }
        let lifetimes = [
            Some(config.max_age),
            config.stale_while_revalidate,
            config.stale_if_error,
        ];
        if let Some(odd) = lifetimes
            .into_iter()
            .flatten()
            .find(|lifetime| lifetime.subsec_nanos() > 0)
        {
            return Err(ConfigError::HttpLifetime(odd));
        }
        let streams = self.host_streams(at);
        Ok(self
            .tcp_hosts
            .add_configured_origin(at, config, tcp, streams))
    }

    /// Adds an HTTP origin with a behaviour of its own at this node.
    pub fn add_http_origin_with(
        &mut self,
        at: NodeId,
        origin: Box<dyn Origin>,
        tcp: TcpConfig,
    ) -> HostId {
        let streams = self.host_streams(at);
        self.tcp_hosts.add_origin(at, origin, tcp, streams)
    }

    /// Adds an HTTP cache at this node.
    ///
    /// # Errors
    /// [`ConfigError`] if the policy cannot be built, the capacity is too large, or no path leads
    /// to its upstream.
    pub fn add_http_cache(
        &mut self,
        at: NodeId,
        config: CacheConfig,
        tcp: TcpConfig,
    ) -> Result<HostId, ConfigError> {
        let (upstream, streams) = (config.upstream, self.host_streams(at));
        let host = self.tcp_hosts.add_cache(at, config, tcp, streams)?;
        self.check_path(at, host, upstream)
    }

    /// Adds an HTTP client at this node. Segments take the shortest paths by the links' metrics.
    ///
    /// # Errors
    /// [`ConfigError`] if no path leads to its server.
    pub fn add_http_client(
        &mut self,
        at: NodeId,
        config: ClientConfig,
        tcp: TcpConfig,
    ) -> Result<HostId, ConfigError> {
        self.add_client(at, config, tcp, None)
    }

    /// Adds an HTTP client with requests of its own at this node. The configuration determines the
    /// objects and times of the requests.
    ///
    /// # Errors
    /// Those of [`Simulation::add_http_client`].
    pub fn add_http_client_with(
        &mut self,
        at: NodeId,
        config: ClientConfig,
        tcp: TcpConfig,
        requester: Box<dyn Requester>,
    ) -> Result<HostId, ConfigError> {
        self.add_client(at, config, tcp, Some(requester))
    }

    fn add_client(
        &mut self,
        at: NodeId,
        config: ClientConfig,
        tcp: TcpConfig,
        requester: Option<Box<dyn Requester>>,
    ) -> Result<HostId, ConfigError> {
        let (server, streams) = (config.server, self.host_streams(at));
        let host = self
            .tcp_hosts
            .add_client(at, config, tcp, streams, requester);
        self.tcp_hosts.plan(&mut self.network.context(), host);
        self.check_path(at, host, server)
    }

    /// Plans a purge of an HTTP cache. A purge whose time has passed happens at once.
    ///
    /// # Panics
    /// If the host is not a cache.
    pub fn plan_http_purge(&mut self, at: Time, cache: HostId, purge: HttpPurge) {
        let is_cache = self
            .tcp_hosts
            .plan_purge(&mut self.network.context(), cache, at, purge);
        assert!(is_cache, "{cache:?} is not an HTTP cache");
    }

    /// Returns random streams named after the node and the host's number there, so that hosts of
    /// other nodes do not change what a host draws.
    fn host_streams(&self, at: NodeId) -> Streams {
        let label = format!(
            "http {} {}",
            self.node_name(at),
            self.tcp_hosts.hosts_at(at)
        );
        Streams::new(self.builder.streams.stream(&label).bits())
    }

    fn check_path(&mut self, at: NodeId, host: HostId, to: HostId) -> Result<HostId, ConfigError> {
        if self.tcp_hosts.reaches(&self.network.context(), host, to) {
            Ok(host)
        } else {
            Err(ConfigError::NoPath(self.node_name(at).to_owned()))
        }
    }

    /// Plans a fault. A fault whose time has passed happens at once.
    pub fn plan_fault(&mut self, at: Time, fault: Fault) {
        self.faults.push(fault);
        let event = Event::Fault {
            index: self.faults.len() as u32 - 1,
        };
        self.network.events.plan(at.max(self.network.now), event);
    }

    // ---- The run ----

    /// Executes all events up to and including the time `end`.
    ///
    /// # Errors
    /// [`RunError`] if time does not advance, or the network only grows.
    pub fn run_until(&mut self, end: Time) -> Result<(), RunError> {
        while let Some((at, event)) = self.network.events.next(end) {
            self.guard
                .advance(&mut self.network, &self.apps, &self.tcp_hosts, at)?;
            self.dispatch(event)?;
        }
        self.network.now = self.network.now.max(end);
        Ok(())
    }

    fn dispatch(&mut self, event: Event) -> Result<(), RunError> {
        let Simulation {
            network,
            apps,
            tcp_hosts,
            routing,
            ..
        } = self;
        match event {
            Event::Arrive {
                channel,
                frame,
                epoch,
            } => {
                if let Some((node, segment)) = network.on_arrival(channel, frame, epoch) {
                    self.receive_segment(node, segment);
                }
            }
            Event::Ready { channel, epoch } => network.on_ready(channel, epoch),
            Event::Reliability { channel } => network.on_reliability(channel),
            Event::Deliver { app, frame } => apps.deliver(network, app, frame),
            Event::Timer { app } => apps.on_timer(network, app),
            Event::Wake { node } => network.on_wake(node as usize),
            Event::Segment { node, frame } => {
                let segment = network.frames.take(frame);
                self.receive_segment(NodeId(node), segment);
            }
            Event::Tcp { end } => tcp_hosts.on_tcp_timer(&mut network.context(), end),
            Event::Http { host } => tcp_hosts.on_host_timer(&mut network.context(), host),
            Event::Fault { index } => self.apply(self.faults[index as usize]),
            Event::Converge => {
                if routing.converge(network)? {
                    tcp_hosts.forget_paths();
                }
            }
        }
        Ok(())
    }

    fn receive_segment(&mut self, at: NodeId, segment: Frame) {
        if self.network.accepts(at) {
            self.tcp_hosts
                .on_segment(&mut self.network.context(), at, segment);
        }
    }

    fn apply(&mut self, fault: Fault) {
        match fault {
            Fault::Cut(link) => self.network.set_link_up(link, false),
            Fault::Heal(link) => self.network.set_link_up(link, true),
            Fault::Crash(node) => self.network.nodes[node.0 as usize].is_up = false,
            Fault::Restart(node) => {
                // The node was built from this configuration before, so this cannot fail.
                let restarted = self.network.nodes[node.0 as usize].restart();
                debug_assert!(restarted.is_ok(), "{restarted:?}");
            }
        }
        self.routing.on_fault(&mut self.network, fault);
    }

    // ---- Results ----

    /// Returns the present time.
    pub fn now(&self) -> Time {
        self.network.now
    }

    /// Returns the number of events that have been executed.
    pub fn events_done(&self) -> u64 {
        self.guard.events_done
    }

    /// Returns the number of frames that reached the end of a channel.
    pub fn packet_hops(&self) -> u64 {
        self.network.packet_hops
    }

    /// Returns the number of planned events: frames on links, and timers.
    pub fn events_planned(&self) -> usize {
        self.network.events.len()
    }

    /// Returns the counters of an HTTP host.
    pub fn http(&self, host: HostId) -> HttpCounters {
        self.tcp_hosts.counters(host)
    }

    /// Returns the number of objects that an HTTP cache stores, and their bytes.
    pub fn http_stored(&self, host: HostId) -> (usize, ByteSize) {
        let engine = self.tcp_hosts.cache(host).map(larder_http::Cache::engine);
        engine.map_or((0, ByteSize::from_bytes(0)), |engine| {
            (engine.len(), engine.used())
        })
    }

    /// Returns the HTTP cache of a host, to check its invariants, or `None` if the host is not a
    /// cache.
    pub fn http_cache(&self, host: HostId) -> Option<&larder_http::Cache> {
        self.tcp_hosts.cache(host)
    }

    /// Returns the number of open TCP connections.
    pub fn tcp_connections(&self) -> usize {
        self.tcp_hosts.connections()
    }

    /// Returns the node of this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.builder.node(name)
    }

    /// Returns all nodes, in the order in which they were added.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.network.nodes.len() as u32).map(NodeId)
    }

    /// Returns a node's name.
    pub fn node_name(&self, node: NodeId) -> &str {
        &self.network.nodes[node.0 as usize].name
    }

    /// Returns a node's forwarder, with its counters and faces.
    pub fn forwarder(&self, node: NodeId) -> &Forwarder {
        &self.network.nodes[node.0 as usize].forwarder
    }

    /// Returns a node's forwarder, to change its strategies. A restart drops the changes.
    pub fn forwarder_mut(&mut self, node: NodeId) -> &mut Forwarder {
        &mut self.network.nodes[node.0 as usize].forwarder
    }

    /// Returns the largest number of next hops that a node has for one prefix.
    pub fn most_next_hops(&self, node: NodeId) -> usize {
        self.network.nodes[node.0 as usize].most_next_hops()
    }

    /// Returns the number of frames that reached a node while it was down.
    pub fn missed(&self, node: NodeId) -> u64 {
        self.network.nodes[node.0 as usize].missed
    }

    /// Returns true if a node runs.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.network.nodes[node.0 as usize].is_up
    }

    /// Returns one direction of a link.
    pub fn channel(&self, channel: ChannelId) -> &Channel {
        &self.network.channels[channel.0 as usize]
    }

    /// Returns a channel's name: its start and its end, as in `r1 r2`. The second link between two
    /// nodes has the channel `r1 r2 (2)`.
    pub fn channel_name(&self, channel: ChannelId) -> String {
        let channel = self.channel(channel);
        let [from, to] = [channel.from, channel.to].map(|node| self.node_name(node));
        match channel.parallel {
            0 => format!("{from} {to}"),
            before => format!("{from} {to} ({})", before + 1),
        }
    }

    /// Returns all channels, two for each link.
    pub fn channels(&self) -> impl Iterator<Item = (ChannelId, &Channel)> {
        self.network
            .channels
            .iter()
            .map(|channel| (ChannelId(channel.id), channel))
    }

    /// Returns the face from which a channel starts, at its first node.
    pub fn face_of(&self, channel: ChannelId) -> FaceId {
        self.network.face_of(channel)
    }

    /// Returns an application's node, and its face there.
    pub fn place_of(&self, app: AppId) -> (NodeId, FaceId) {
        let slot = self.apps.slot(app);
        (slot.node, slot.face)
    }

    /// Returns an application, or `None` if it is not an `A`.
    pub fn app<A: App>(&self, app: AppId) -> Option<&A> {
        self.apps.get(app)
    }

    /// Returns an application to change, for example before the run, or `None` if it is not an `A`.
    pub fn app_mut<A: App>(&mut self, app: AppId) -> Option<&mut A> {
        self.apps.get_mut(app)
    }

    #[cfg(test)]
    pub(crate) fn into_channels(self) -> Vec<Channel> {
        self.network.channels
    }
}
