//! Topologies: named nodes and the links between them, generated or from files.

mod error;
mod files;
mod graphml;
mod lines;

pub use error::TopologyError;
pub use files::FileFormat;

use crate::error::ConfigError;
use crate::limits;
use crate::link::{LinkConfig, LinkId};
use crate::node::{NodeConfig, NodeId};
use crate::simulation::Simulation;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use larder_units::Stream;
use std::time::Duration;

/// The size of Europe: from Lisbon to Bucharest, and from Athens to Stockholm.
const EUROPE_KM: [f64; 2] = [3000.0, 2400.0];

/// The reach of Waxman's rule: the distance at which the probability of a link falls by e, as a
/// share of the greatest distance.
const WAXMAN_REACH: f64 = 0.15;

/// Two thirds of the speed of light, on a path that is half as long again as the straight line.
const FIBRE_NANOS_A_KM: f64 = 7500.0;

/// One link of a topology.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The two nodes, as indexes into [`Topology::nodes`].
    pub ends: [usize; 2],
    /// The configuration of the link.
    pub config: LinkConfig,
}

/// Nodes by name and the links between them, before they are built in a [`Simulation`].
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// The nodes' names.
    pub nodes: Vec<String>,
    /// The links.
    pub edges: Vec<Edge>,
    /// The positions of nodes in drawings, if known: to the right, and downwards, in any unit.
    pub positions: Vec<Option<(f64, f64)>>,
}

impl Topology {
    /// `nodes` nodes in a row: `n0 – n1 – … `.
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

    /// `pairs` consumers `c0 …` at router `r1`, as many producers `p0 …` at `r2`, one backbone
    /// between the routers.
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

    /// A tree with the root `t`, and `levels` levels of `children` nodes below each node: `t.0`,
    /// `t.0.1`, …
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

    /// A grid of `height` rows of `width` nodes, each linked to its neighbours: `g0.0` is the
    /// corner, and `g1.0` is below it.
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

    /// A scale-free network (Barabási and Albert, Science 286, 1999). Each new node is linked to
    /// `links` different earlier nodes, with a probability that grows with their degree. The first
    /// `links` + 1 nodes are all linked to each other.
    pub fn scale_free(nodes: usize, links: usize, link: &LinkConfig, mut stream: Stream) -> Self {
        let mut network = Topology::default();
        // Contains each node once for each of its links, so that a uniform draw is a draw by
        // degree.
        let mut ends: Vec<usize> = Vec::new();
        for number in 0..nodes {
            let node = network.node(format!("n{number}"));
            let mut peers: Vec<usize> = if node <= links {
                (0..node).collect()
            } else {
                Vec::new()
            };
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

    /// A backbone similar to GÉANT: `nodes` random positions in a rectangle of Europe's size, and
    /// three links for two nodes (GÉANT of 2012 has 61 for 40). Each node is linked to the nearest
    /// earlier node, so that all are connected. The other links are drawn by Waxman's rule (Routing
    /// of multipoint connections, IEEE JSAC 6(9), 1988), which prefers near nodes. The delay of
    /// light in fibre over the distance is added to the delay of `link`. The nodes are `n0`, `n1`,
    /// …, with positions in kilometres. O(nodes²).
    pub fn geant_like(nodes: usize, link: &LinkConfig, mut stream: Stream) -> Self {
        let mut backbone = Topology::default();
        for number in 0..nodes {
            let node = backbone.node(format!("n{number}"));
            let [width, height] = EUROPE_KM;
            backbone.positions[node] = Some((width * stream.unit(), height * stream.unit()));
            let nearest = (0..node).min_by(|a, b| {
                backbone
                    .kilometres(*a, node)
                    .total_cmp(&backbone.kilometres(*b, node))
            });
            if let Some(nearest) = nearest {
                backbone.link_by_distance(nearest, node, link);
            }
        }
        let most = nodes * nodes.saturating_sub(1) / 2;
        let mut linked: HashSet<[usize; 2], FixedState> =
            backbone.edges.iter().map(|edge| edge.ends).collect();
        while backbone.edges.len() < (nodes * 3 / 2).min(most) {
            let [a, b] = [0, 0].map(|_: usize| stream.below(nodes as u64) as usize);
            let ends = [a.min(b), a.max(b)];
            let reach = length(EUROPE_KM) * WAXMAN_REACH;
            let is_drawn = stream.unit() < (-backbone.kilometres(a, b) / reach).exp();
            if a != b && is_drawn && linked.insert(ends) {
                backbone.link_by_distance(ends[0], ends[1], link);
            }
        }
        backbone
    }

    fn link_by_distance(&mut self, a: usize, b: usize, link: &LinkConfig) {
        let delay =
            link.delay + Duration::from_nanos((self.kilometres(a, b) * FIBRE_NANOS_A_KM) as u64);
        self.link(a, b, &LinkConfig { delay, ..*link });
    }

    /// The distance between two nodes.
    fn kilometres(&self, a: usize, b: usize) -> f64 {
        let [a, b] = [a, b].map(|node| self.positions[node].unwrap_or_default());
        length([a.0 - b.0, a.1 - b.1])
    }

    /// Adds a node, and returns its index.
    pub fn node(&mut self, name: impl Into<String>) -> usize {
        self.nodes.push(name.into());
        self.positions.push(None);
        self.nodes.len() - 1
    }

    /// Adds a link.
    pub fn link(&mut self, a: usize, b: usize, config: &LinkConfig) {
        self.edges.push(Edge {
            ends: [a, b],
            config: *config,
        });
    }

    /// Adds the nodes and links to a simulation, in their order; `config` returns the configuration
    /// of a node.
    ///
    /// # Errors
    /// [`ConfigError`] if the simulation refuses a node or a link.
    pub fn build(
        &self,
        simulation: &mut Simulation,
        mut config: impl FnMut(&str) -> NodeConfig,
    ) -> Result<(Vec<NodeId>, Vec<LinkId>), ConfigError> {
        let nodes: Result<Vec<NodeId>, _> = self
            .nodes
            .iter()
            .map(|name| simulation.add_node(name, config(name)))
            .collect();
        let nodes = nodes?;
        let links: Result<Vec<LinkId>, _> = self
            .edges
            .iter()
            .map(|edge| simulation.connect(nodes[edge.ends[0]], nodes[edge.ends[1]], &edge.config))
            .collect();
        Ok((nodes, links?))
    }
}

fn length([x, y]: [f64; 2]) -> f64 {
    (x * x + y * y).sqrt()
}
