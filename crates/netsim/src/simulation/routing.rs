//! The routing protocol of a simulation: it computes the routes of all nodes to the producers of
//! all prefixes, and computes them again some time after a failure or a repair.
//!
//! It stands for a link-state protocol such as NLSR. The model sends no packets: all nodes learn of
//! a fault at the same time, one convergence time after it, so there are no loops between nodes
//! that know of it and nodes that do not.

use super::fault::Fault;
use super::network::Network;
use crate::error::{ConfigError, RunError};
use crate::events::Event;
use crate::link::LinkId;
use crate::node::NodeId;
use crate::routes::{self, Hop};
use larder_forwarder::NextHop;
use larder_packet::Name;
use larder_units::Time;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

/// How routes are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// The most next hops of a node towards each producer of a prefix: for each link of the node,
    /// the shortest path that begins with it and does not return to the node, the shortest first.
    pub next_hops: usize,
    /// The time from a failure or a repair until all nodes have the routes of the changed network.
    /// With `None` routes stay as they are.
    pub convergence_time: Option<Duration>,
}

impl Default for Routing {
    /// One next hop, and routes that stay.
    fn default() -> Self {
        Routing {
            next_hops: 1,
            convergence_time: None,
        }
    }
}

/// The state of the protocol.
#[derive(Default)]
pub(super) struct RoutingProtocol {
    pub(super) config: Routing,
    /// The nodes with a producer of each prefix, in the order in which they were added.
    producers: BTreeMap<Name, Vec<NodeId>>,
    /// Faults that the nodes do not know of yet, with the time at which they learn of them.
    unknown: VecDeque<(Time, Fault)>,
    /// Links and nodes that have failed, as far as the nodes know.
    dead_links: HashSet<LinkId>,
    dead_nodes: HashSet<NodeId>,
}

impl RoutingProtocol {
    /// Computes the routes of a prefix towards one more node. Returns the nodes without a path.
    pub(super) fn route_to(
        &mut self,
        network: &mut Network,
        prefix: &Name,
        to: NodeId,
    ) -> Result<Vec<NodeId>, ConfigError> {
        self.producers.entry(prefix.clone()).or_default().push(to);
        let hops = routes::next_hops(
            to,
            network.nodes.len(),
            &network.channels,
            self.config.next_hops,
        );
        let mut unreachable = Vec::new();
        for (number, hops) in hops.into_iter().enumerate() {
            let node = NodeId(number as u32);
            if hops.is_empty() {
                unreachable.extend((node != to).then_some(node));
                continue;
            }
            let mut next_hops = network.nodes[number].computed_next_hops(prefix).to_vec();
            merge(&mut next_hops, network, &hops);
            network.nodes[number].set_computed_next_hops(prefix, next_hops)?;
        }
        Ok(unreachable)
    }

    /// Plans the time at which the nodes learn of a fault that happens now.
    pub(super) fn on_fault(&mut self, network: &mut Network, fault: Fault) {
        if let Some(convergence_time) = self.config.convergence_time {
            let at = network.now + convergence_time;
            self.unknown.push_back((at, fault));
            network.events.plan(at, Event::Converge);
        }
    }

    /// Lets the nodes learn of the faults that are due, and computes all routes again. Returns
    /// false if none is due: faults of one instant are learnt together.
    pub(super) fn converge(&mut self, network: &mut Network) -> Result<bool, RunError> {
        let before = self.unknown.len();
        while let Some((_, fault)) = self.unknown.pop_front_if(|(at, _)| *at <= network.now) {
            match fault {
                Fault::Cut(link) => _ = self.dead_links.insert(link),
                Fault::Heal(link) => _ = self.dead_links.remove(&link),
                Fault::Crash(node) => _ = self.dead_nodes.insert(node),
                Fault::Restart(node) => _ = self.dead_nodes.remove(&node),
            }
        }
        if self.unknown.len() == before {
            return Ok(false);
        }
        for channel in &mut network.channels {
            let has_failed = self.dead_links.contains(&LinkId(channel.id / 2))
                || self.dead_nodes.contains(&channel.from)
                || self.dead_nodes.contains(&channel.to);
            channel.is_in_routes = !has_failed;
        }
        for (prefix, producers) in &self.producers {
            let mut next_hops = vec![Vec::new(); network.nodes.len()];
            for to in producers {
                let hops = routes::next_hops(
                    *to,
                    network.nodes.len(),
                    &network.channels,
                    self.config.next_hops,
                );
                for (next_hops, hops) in next_hops.iter_mut().zip(&hops) {
                    merge(next_hops, network, hops);
                }
            }
            for (node, next_hops) in network.nodes.iter_mut().zip(next_hops) {
                // Only a table of routes that is full refuses a prefix that it has taken before.
                let set = node.set_computed_next_hops(prefix, next_hops);
                set.map_err(|_| RunError::Routes { at: network.now })?;
            }
        }
        Ok(true)
    }
}

/// Adds next hops towards another producer. Of two paths that begin with one link, the shorter
/// counts, at its own place: so of the nearest producers at one distance all nodes prefer the
/// first, and Interests do not go in a circle over links with a metric of 0.
fn merge(next_hops: &mut Vec<NextHop>, network: &Network, hops: &[Hop]) {
    for hop in hops {
        let face = network.face_of(hop.channel);
        if !next_hops
            .iter()
            .any(|known| known.face == face && known.cost <= hop.cost)
        {
            next_hops.retain(|known| known.face != face);
            next_hops.push(NextHop {
                face,
                cost: hop.cost,
            });
        }
    }
}
