//! Nodes: a forwarder, and the channel or application behind each of its faces.

use crate::error::ConfigError;
use crate::limits::MAX_PACKET_BYTES;
use larder_forwarder::{Config, FaceConfig, FaceId, Forwarder, Route, RouteError};
use larder_packet::Name;
use larder_policy::{Engine, Spec};
use larder_units::{ByteSize, Streams, Time};
use std::collections::BTreeMap;

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
    routes: Vec<(Name, Route)>,
    /// The costs of the routes.
    costs: BTreeMap<(Name, FaceId), u64>,
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
    pub(crate) fn new(name: &str, config: NodeConfig, streams: &Streams) -> Result<Self, ConfigError> {
        let streams = Streams::new(streams.stream(&format!("node {name}")).bits());
        Ok(Node {
            name: name.to_owned(),
            forwarder: forwarder(name, &config, streams)?,
            config,
            ports: Vec::new(),
            first_face: 0,
            routes: Vec::new(),
            costs: BTreeMap::new(),
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

    /// Returns true if the node has a route for the prefix over this face that costs less.
    pub(crate) fn has_cheaper_route(&self, prefix: &Name, face: FaceId, cost: u64) -> bool {
        self.costs.get(&(prefix.clone(), face)).is_some_and(|known| *known < cost)
    }

    pub(crate) fn add_route(&mut self, prefix: &Name, face: FaceId, cost: u64) -> Result<(), ConfigError> {
        let route = Route { face, origin: 255, cost, flags: larder_forwarder::CHILD_INHERIT, expires: None };
        let added = self.forwarder.add_route(prefix, route.clone());
        added.map_err(|error| refused_route(&self.name, prefix, error))?;
        self.routes.push((prefix.clone(), route));
        self.costs.insert((prefix.clone(), face), cost);
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
        let seed = self.streams.stream(&format!("restart {}", self.restarts)).bits();
        self.forwarder = forwarder(&self.name, &self.config, Streams::new(seed))?;
        if let Some(centrality) = self.centrality {
            self.forwarder.set_centrality(centrality);
        }
        for (config, _) in &self.ports {
            self.forwarder.add_face(config.clone());
        }
        for (prefix, route) in &self.routes {
            let added = self.forwarder.add_route(prefix, route.clone());
            added.map_err(|error| refused_route(&self.name, prefix, error))?;
        }
        self.wake = Time::MAX;
        self.is_up = true;
        Ok(())
    }
}

fn refused_route(node: &str, prefix: &Name, error: RouteError) -> ConfigError {
    ConfigError::Route { node: node.to_owned(), prefix: prefix.clone(), error }
}

fn forwarder(name: &str, config: &NodeConfig, streams: Streams) -> Result<Forwarder, ConfigError> {
    let (capacity, counts_packets) = match config.capacity {
        Capacity::Bytes(size) => (size, false),
        Capacity::Packets(packets) => (ByteSize::from_bytes(packets), true),
    };
    let engine = Engine::new(&config.policy, capacity, &streams);
    let engine = engine.map_err(|error| ConfigError::Policy { cache: format!("node {name}"), error })?;
    let mut keys = streams.stream("hash key");
    let key = [keys.bits(), keys.bits()];
    let NodeConfig { pit_entries, max_packet_bytes, .. } = *config;
    if max_packet_bytes > MAX_PACKET_BYTES {
        return Err(ConfigError::PacketSize { node: name.to_owned(), bytes: max_packet_bytes });
    }
    let mut forwarder =
        Forwarder::new(Config { pit_entries, max_packet_bytes, counts_packets, ..Config::new(key, streams) }, engine);
    if let Some(strategy) = &config.strategy {
        let set = forwarder.set_strategy(&Name::root(), strategy);
        set.map_err(|error| ConfigError::Strategy { node: name.to_owned(), error })?;
    }
    Ok(forwarder)
}
