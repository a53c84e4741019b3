//! Shapes of networks, by name: which nodes there are and how they are linked.

use crate::link::{LinkConfig, LinkId};
use crate::node::{NodeConfig, NodeId};
use crate::simulation::{ConfigError, Simulation};

/// One link of a topology.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The nodes, by their place in [`Topology::nodes`].
    pub ends: [usize; 2],
    /// What it is like.
    pub config: LinkConfig,
}

/// Nodes by name and the links between them, before they are a [`Simulation`].
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// The nodes' names.
    pub nodes: Vec<String>,
    /// The links.
    pub edges: Vec<Edge>,
}

impl Topology {
    /// `n0 – n1 – … `: `nodes` nodes in a row.
    pub fn line(nodes: usize, link: &LinkConfig) -> Self {
        let mut line = Topology::default();
        for node in 0..nodes {
            line.node(format!("n{node}"));
            if node > 0 {
                line.link(node - 1, node, link);
            }
        }
        line
    }

    /// `pairs` consumers `c0 …` at router `r1`, as many producers `p0 …` at `r2`, one backbone between the routers.
    pub fn dumbbell(pairs: usize, edge: &LinkConfig, backbone: &LinkConfig) -> Self {
        let mut dumbbell = Topology::default();
        let [r1, r2] = ["r1", "r2"].map(|name| dumbbell.node(name));
        dumbbell.link(r1, r2, backbone);
        for pair in 0..pairs {
            let consumer = dumbbell.node(format!("c{pair}"));
            dumbbell.link(consumer, r1, edge);
        }
        for pair in 0..pairs {
            let producer = dumbbell.node(format!("p{pair}"));
            dumbbell.link(r2, producer, edge);
        }
        dumbbell
    }

    /// Adds a node; returns its place.
    pub fn node(&mut self, name: impl Into<String>) -> usize {
        self.nodes.push(name.into());
        self.nodes.len() - 1
    }

    /// Adds a link.
    pub fn link(&mut self, a: usize, b: usize, config: &LinkConfig) {
        self.edges.push(Edge { ends: [a, b], config: *config });
    }

    /// Makes the nodes and links in a simulation; `config` says what each node is like. Nodes and links keep their order.
    ///
    /// # Errors
    /// [`ConfigError`] where the simulation refuses a node or a link.
    pub fn build(
        &self,
        simulation: &mut Simulation,
        mut config: impl FnMut(&str) -> NodeConfig,
    ) -> Result<(Vec<NodeId>, Vec<LinkId>), ConfigError> {
        let nodes: Result<Vec<NodeId>, _> =
            self.nodes.iter().map(|name| simulation.add_node(name, config(name))).collect();
        let nodes = nodes?;
        let links: Result<Vec<LinkId>, _> = self
            .edges
            .iter()
            .map(|edge| simulation.connect(nodes[edge.ends[0]], nodes[edge.ends[1]], &edge.config))
            .collect();
        Ok((nodes, links?))
    }
}
