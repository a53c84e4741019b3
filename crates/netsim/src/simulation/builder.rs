//! Construction of the network: nodes by name, and links with their random streams.

use super::network::Network;
use crate::error::{ConfigError, LinkProblem};
use crate::limits;
use crate::link::{Channel, LinkConfig, LinkId};
use crate::node::{Node, NodeConfig, NodeId, Port};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_forwarder::FaceConfig;
use larder_units::Streams;

/// Names of nodes, and the number of links between each two of them.
pub(super) struct Builder {
    pub(super) streams: Streams,
    by_name: HashMap<String, NodeId, FixedState>,
    /// The number of links from one node to another so far.
    parallel: HashMap<[u32; 2], u32, FixedState>,
}

impl Builder {
    pub(super) fn new(seed: u64) -> Self {
        Builder {
            streams: Streams::new(seed),
            by_name: HashMap::default(),
            parallel: HashMap::default(),
        }
    }

    /// Returns the node of this name.
    pub(super) fn node(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// Adds a node; see [`super::Simulation::add_node`].
    pub(super) fn add_node(
        &mut self,
        network: &mut Network,
        name: &str,
        config: NodeConfig,
    ) -> Result<NodeId, ConfigError> {
        if self.node(name).is_some() {
            return Err(ConfigError::DuplicateNode(name.to_owned()));
        }
        if network.nodes.len() >= limits::NODES {
            return Err(ConfigError::TooManyNodes);
        }
        let id = NodeId(network.nodes.len() as u32);
        network.nodes.push(Node::new(name, config, &self.streams)?);
        self.by_name.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Adds a link; see [`super::Simulation::connect_asymmetric`].
    pub(super) fn connect(
        &mut self,
        network: &mut Network,
        [a, b]: [NodeId; 2],
        [there, back]: [&LinkConfig; 2],
    ) -> Result<LinkId, ConfigError> {
        let [from, to] = [a, b].map(|node| network.nodes[node.0 as usize].name.clone());
        let check = || {
            if a == b {
                return Err(LinkProblem::ToItself);
            }
            if network.channels.len() >= 2 * limits::LINKS {
                return Err(LinkProblem::TooMany);
            }
            check(there).and_then(|()| check(back))
        };
        check().map_err(|problem| ConfigError::Link {
            between: [from.clone(), to.clone()],
            problem,
        })?;
        let link = LinkId(network.channels.len() as u32 / 2);
        let face = |peer: &str, mtu: Option<usize>| {
            let link_reliability = there.reliable && back.reliable;
            let face = FaceConfig {
                link_reliability,
                ..FaceConfig::remote(format!("sim://{peer}"))
            };
            mtu.map_or(face.clone(), |mtu| face.with_mtu(mtu))
        };
        let [there_id, back_id] = link.channels();
        let at_b =
            network.nodes[b.0 as usize].add_face(face(&from, back.mtu), Port::Channel(back_id.0));
        let at_a =
            network.nodes[a.0 as usize].add_face(face(&to, there.mtu), Port::Channel(there_id.0));
        // The name of a stream contains the link's number among the links of these two nodes, so
        // that parallel links draw from streams of their own.
        let parallel = *self.parallel.entry([a.0, b.0]).or_default();
        let stream = |from: &str, to: &str| {
            self.streams
                .stream(&format!("channel {from} {to} {parallel}"))
        };
        let (there_stream, back_stream) = (stream(&from, &to), stream(&to, &from));
        for ends in [[a.0, b.0], [b.0, a.0]] {
            *self.parallel.entry(ends).or_default() += 1;
        }
        let there = Channel::new(there_id.0, a, b, at_b, *there, there_stream);
        let back = Channel::new(back_id.0, b, a, at_a, *back, back_stream);
        network
            .channels
            .extend([there, back].map(|channel| channel.beside(parallel)));
        Ok(link)
    }
}

/// Checks that a link can have this configuration.
fn check(config: &LinkConfig) -> Result<(), LinkProblem> {
    if config.rate.is_some_and(|rate| rate.bits_per_second() == 0) {
        return Err(LinkProblem::NoRate);
    }
    if !config.loss.is_sound() {
        return Err(LinkProblem::Loss);
    }
    if config.mtu.is_some_and(|mtu| mtu < limits::LEAST_MTU) {
        return Err(LinkProblem::Mtu);
    }
    if config.reliable && config.mtu.is_none() {
        return Err(LinkProblem::ReliableWithoutMtu);
    }
    Ok(())
}
