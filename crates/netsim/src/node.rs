//! Nodes: a forwarder, and the channel or application behind each of its faces.

use crate::error::ConfigError;
use crate::limits::MAX_PACKET_BYTES;
use larder_forwarder::{
    CAPTURE, CHILD_INHERIT, Config, FaceConfig, FaceId, Forwarder, NextHop, Route, RouteError,
};
use larder_packet::Name;
use larder_policy::{Engine, Spec};
use larder_units::{ByteSize, Streams, Time};
use std::collections::BTreeMap;

/// The origin of routes to applications and of those that were added one by one, as of routes that
/// an operator adds (NFD management protocol, "Route origins").
const ORIGIN_STATIC: u64 = 255;

/// The origin of computed routes: NLSR's. As NLSR's, they capture, so that an Interest follows the
/// longest prefix that has a producer, and not a cheaper route of a shorter prefix.
const ORIGIN_COMPUTED: u64 = 128;

/// The number of a node, in the order in which nodes were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The policy of the Content Store.
    pub policy: Spec,
    /// The capacity of the Content Store.
    pub capacity: Capacity,
    /// The strategy of the prefix `/`. `None` keeps the forwarder's default.
    pub strategy: Option<Name>,
    /// The capacity of the PIT.
    pub pit_entries: usize,
    /// The size of the largest packet that the node accepts: 8800 bytes in real networks, up to
    /// [`crate::limits::MAX_PACKET_BYTES`] here. All nodes must have the same value.
    pub max_packet_bytes: usize,
}

impl Default for NodeConfig {
    /// LRU in 16 MiB.
    fn default() -> Self {
        NodeConfig {
            policy: "lru".parse().expect("a policy of the registry"),
            capacity: Capacity::Bytes(ByteSize::from_mib(16)),
            strategy: None,
            pit_entries: larder_forwarder::limits::PIT_ENTRIES,
            max_packet_bytes: larder_forwarder::limits::MAX_PACKET_BYTES,
        }
    }
}

/// The capacity of a Content Store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// A number of bytes, counted as Larder does: packets and their metadata.
    Bytes(ByteSize),
    /// A number of packets of any size, counted as NFD and ndnSIM do.
    Packets(u64),
}

/// The destination of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Channel(u32),
    App(u32),
}

pub(crate) struct Node {
    pub(crate) name: String,
    config: NodeConfig,
    pub(crate) forwarder: Forwarder,
    /// By face number, from the forwarder's first face on.
    ports: Vec<(FaceConfig, Port)>,
    first_face: u64,
    /// The routes to the node's applications, and those that were added one by one.
    own_routes: BTreeMap<Name, Vec<Route>>,
    /// The next hops that the routing protocol has computed.
    computed: BTreeMap<Name, Vec<NextHop>>,
    /// The time of the planned wake-up event.
    pub(crate) wake: Time,
    pub(crate) is_up: bool,
    streams: Streams,
    restarts: u32,
    centrality: Option<u64>,
    /// Frames that arrived while the node was down.
    pub(crate) missed: u64,
}

impl Node {
    pub(crate) fn new(
        name: &str,
        config: NodeConfig,
        streams: &Streams,
    ) -> Result<Self, ConfigError> {
        let streams = Streams::new(streams.stream(&format!("node {name}")).bits());
        Ok(Node {
            name: name.to_owned(),
            forwarder: forwarder(name, &config, streams)?,
            config,
            ports: Vec::new(),
            first_face: 0,
            own_routes: BTreeMap::new(),
            computed: BTreeMap::new(),
            wake: Time::MAX,
            is_up: true,
            streams,
            restarts: 0,
            centrality: None,
            missed: 0,
        })
    }

    pub(crate) fn add_face(&mut self, config: FaceConfig, port: Port) -> FaceId {
        let face = self.forwarder.add_face(config.clone());
        if self.ports.is_empty() {
            self.first_face = face.0;
        }
        self.ports.push((config, port));
        face
    }

    pub(crate) fn port(&self, face: FaceId) -> Option<Port> {
        let index = face.0.checked_sub(self.first_face)?;
        self.ports.get(index as usize).map(|(_, port)| *port)
    }

    /// Returns the next hops of a prefix that the routing protocol has computed.
    pub(crate) fn computed_next_hops(&self, prefix: &Name) -> &[NextHop] {
        self.computed.get(prefix).map_or(&[], Vec::as_slice)
    }

    /// Replaces the next hops of a prefix that the routing protocol has computed.
    pub(crate) fn set_computed_next_hops(
        &mut self,
        prefix: &Name,
        hops: Vec<NextHop>,
    ) -> Result<(), ConfigError> {
        if self.computed_next_hops(prefix) == hops {
            return Ok(());
        }
        self.withdraw_computed(prefix);
        if hops.is_empty() {
            _ = self.computed.remove(prefix)
        } else {
            _ = self.computed.insert(prefix.clone(), hops)
        }
        self.announce_computed(prefix)
    }

    /// Adds a route, or replaces that of the same prefix and face. Among routes of the same cost,
    /// it comes before those that the routing protocol has computed, so that Interests for an
    /// application of this node do not leave the node.
    pub(crate) fn add_route(
        &mut self,
        prefix: &Name,
        face: FaceId,
        cost: u64,
    ) -> Result<(), ConfigError> {
        self.withdraw_computed(prefix);
        let route = Route {
            face,
            origin: ORIGIN_STATIC,
            cost,
            flags: CHILD_INHERIT,
            expires: None,
        };
        let added = self.forwarder.add_route(prefix, route.clone());
        added.map_err(|error| refused_route(&self.name, prefix, error))?;
        let routes = self.own_routes.entry(prefix.clone()).or_default();
        match routes.iter_mut().find(|old| old.face == face) {
            Some(old) => *old = route,
            None => routes.push(route),
        }
        self.announce_computed(prefix)
    }

    /// Returns the largest number of next hops of one prefix.
    pub(crate) fn most_next_hops(&self) -> usize {
        let prefixes = self.own_routes.keys().chain(self.computed.keys());
        prefixes
            .map(|prefix| self.forwarder.next_hops(prefix).len())
            .max()
            .unwrap_or_default()
    }

    fn withdraw_computed(&mut self, prefix: &Name) {
        for hop in self.computed.get(prefix).into_iter().flatten() {
            self.forwarder
                .remove_route(prefix, hop.face, ORIGIN_COMPUTED);
        }
    }

    fn announce_computed(&mut self, prefix: &Name) -> Result<(), ConfigError> {
        for NextHop { face, cost } in self.computed.get(prefix).into_iter().flatten().copied() {
            let route = Route {
                face,
                origin: ORIGIN_COMPUTED,
                cost,
                flags: CAPTURE,
                expires: None,
            };
            let added = self.forwarder.add_route(prefix, route);
            added.map_err(|error| refused_route(&self.name, prefix, error))?;
        }
        Ok(())
    }

    /// Lets this cache exchange its position on paths with others, with this betweenness.
    pub(crate) fn set_centrality(&mut self, centrality: u64) {
        self.centrality = Some(centrality);
        self.forwarder.set_centrality(centrality);
    }

    /// Replaces the forwarder with a new one that has the same faces and routes. Pending Interests
    /// and stored Data are lost.
    pub(crate) fn restart(&mut self) -> Result<(), ConfigError> {
        self.restarts += 1;
        let seed = self
            .streams
            .stream(&format!("restart {}", self.restarts))
            .bits();
        self.forwarder = forwarder(&self.name, &self.config, Streams::new(seed))?;
        if let Some(centrality) = self.centrality {
            self.forwarder.set_centrality(centrality);
        }
        for (config, _) in &self.ports {
            self.forwarder.add_face(config.clone());
        }
        for (prefix, routes) in &self.own_routes {
            for route in routes {
                let added = self.forwarder.add_route(prefix, route.clone());
                added.map_err(|error| refused_route(&self.name, prefix, error))?;
            }
        }
        let computed: Vec<Name> = self.computed.keys().cloned().collect();
        for prefix in &computed {
            self.announce_computed(prefix)?;
        }
        self.wake = Time::MAX;
        self.is_up = true;
        Ok(())
    }
}

fn refused_route(node: &str, prefix: &Name, error: RouteError) -> ConfigError {
    ConfigError::Route {
        node: node.to_owned(),
        prefix: prefix.clone(),
        error,
    }
}

fn forwarder(name: &str, config: &NodeConfig, streams: Streams) -> Result<Forwarder, ConfigError> {
    let (capacity, counts_packets) = match config.capacity {
        Capacity::Bytes(size) => (size, false),
        Capacity::Packets(packets) => (ByteSize::from_bytes(packets), true),
    };
    let engine = Engine::new(&config.policy, capacity, &streams);
    let engine = engine.map_err(|error| ConfigError::Policy {
        cache: format!("node {name}"),
        error,
    })?;
    let mut keys = streams.stream("hash key");
    let key = [keys.bits(), keys.bits()];
    let NodeConfig {
        pit_entries,
        max_packet_bytes,
        ..
    } = *config;
    if max_packet_bytes > MAX_PACKET_BYTES {
        return Err(ConfigError::PacketSize {
            node: name.to_owned(),
            bytes: max_packet_bytes,
        });
    }
    let mut forwarder = Forwarder::new(
        Config {
            pit_entries,
            max_packet_bytes,
            counts_packets,
            ..Config::new(key, streams)
        },
        engine,
    );
    if let Some(strategy) = &config.strategy {
        let set = forwarder.set_strategy(&Name::root(), strategy);
        set.map_err(|error| ConfigError::Strategy {
            node: name.to_owned(),
            error,
        })?;
    }
    Ok(forwarder)
}
