//! Shapes of networks, by name: which nodes there are and how they are linked.

mod files;
mod graphml;
mod lines;

pub use files::{FileFormat, TopologyError};

use crate::limits;
use crate::link::{LinkConfig, LinkId};
use crate::node::{NodeConfig, NodeId};
use crate::simulation::{ConfigError, Simulation};
use larder_units::Stream;

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
    /// Where a node is drawn, if that is known: to the right, and downwards, in any unit.
    pub positions: Vec<Option<(f64, f64)>>,
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

    /// A tree with its root `t`, and `levels` levels of `children` below each node: `t.0`, `t.0.1`, …
    pub fn tree(children: usize, levels: usize, link: &LinkConfig) -> Self {
        let mut tree = Topology::default();
        let root = tree.node("t");
        let mut level = vec![root];
        for _ in 0..levels {
            let mut below = Vec::new();
            for parent in level {
                for child in 0..children {
                    if tree.nodes.len() > limits::NODES {
                        return tree;
                    }
                    let node = tree.node(format!("{}.{child}", tree.nodes[parent]));
                    tree.link(parent, node, link);
                    below.push(node);
                }
            }
            level = below;
        }
        tree
    }

    /// A grid of `height` rows of `width` nodes, each linked with those beside it: `g0.0` is the corner, `g1.0` the one below it.
    pub fn grid(width: usize, height: usize, link: &LinkConfig) -> Self {
        let mut grid = Topology::default();
        for row in 0..height {
            for column in 0..width {
                if grid.nodes.len() > limits::NODES {
                    return grid;
                }
                let node = grid.node(format!("g{row}.{column}"));
                if column > 0 {
                    grid.link(node - 1, node, link);
                }
                if row > 0 {
                    grid.link(node - width, node, link);
                }
            }
        }
        grid
    }

    /// A scale-free network (Barabási and Albert, Science 286, 1999): node after node is linked to `links` different earlier ones, each with
    /// a chance that grows with its links; the first `links` + 1 are all linked.
    pub fn scale_free(nodes: usize, links: usize, link: &LinkConfig, mut stream: Stream) -> Self {
        let mut network = Topology::default();
        // Each node once for each of its links: a uniform draw is a draw by degree.
        let mut ends: Vec<usize> = Vec::new();
        for number in 0..nodes {
            let node = network.node(format!("n{number}"));
            let mut peers: Vec<usize> = if node <= links { (0..node).collect() } else { Vec::new() };
            while node > links && peers.len() < links {
                let peer = ends[stream.below(ends.len() as u64) as usize];
                if !peers.contains(&peer) {
                    peers.push(peer);
                }
            }
            if network.edges.len() > limits::LINKS {
                return network;
            }
            for peer in peers {
                network.link(peer, node, link);
                ends.extend([peer, node]);
            }
        }
        network
    }

    /// Adds a node; returns its place.
    pub fn node(&mut self, name: impl Into<String>) -> usize {
        self.nodes.push(name.into());
        self.positions.push(None);
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
