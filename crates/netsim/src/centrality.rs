//! Betweenness centrality of nodes (Brandes, A faster algorithm for betweenness centrality, J.
//! Math. Sociology 25, 2001, algorithm 1).
//!
//! From each node in turn: breadth first over the links, counting shortest paths; then from the
//! farthest node back, each hands its predecessors their shares of the paths that end at it or
//! behind it. Links count one hop each, as in Cache less for more (Chai et al., 2012), whatever
//! their metric. O(nodes · links) time, O(nodes + links) memory.

use crate::link::Channel;

/// Parts of a path that the centralities are told in: where paths are shared by three or seven
/// nodes, sums that are equal stay so.
const PARTS: f64 = 1024.0;

/// Of each node, the pairs of other nodes whose shortest paths lead through it, each pair counted
/// in both directions and shared among its shortest paths; in 1024ths.
pub(crate) fn betweenness(nodes: usize, channels: &[Channel]) -> Vec<u64> {
    let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); nodes];
    for channel in channels {
        let (from, to) = channel.ends();
        neighbours[from.0 as usize].push(to.0);
    }
    // Parallel links make no more paths.
    for list in &mut neighbours {
        list.sort_unstable();
        list.dedup();
    }
    let mut total = vec![0.0; nodes];
    for source in 0..nodes {
        add_paths_from(source, &neighbours, &mut total);
    }
    total.into_iter().map(|share| (share * PARTS).round() as u64).collect()
}

fn add_paths_from(source: usize, neighbours: &[Vec<u32>], total: &mut [f64]) {
    let nodes = neighbours.len();
    let mut distance = vec![u32::MAX; nodes];
    let mut paths = vec![0.0; nodes];
    let mut order = Vec::with_capacity(nodes);
    (distance[source], paths[source]) = (0, 1.0);
    order.push(source);
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for &peer in &neighbours[node] {
            let peer = peer as usize;
            if distance[peer] == u32::MAX {
                distance[peer] = distance[node] + 1;
                order.push(peer);
            }
            if distance[peer] == distance[node] + 1 {
                paths[peer] += paths[node];
            }
        }
    }
    let mut dependency = vec![0.0; nodes];
    for &node in order.iter().rev() {
        for &peer in &neighbours[node] {
            let peer = peer as usize;
            if distance[peer] == distance[node] + 1 {
                dependency[node] += paths[node] / paths[peer] * (1.0 + dependency[peer]);
            }
        }
        if node != source {
            total[node] += dependency[node];
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{LinkConfig, NodeConfig, Simulation, Topology};
    use std::time::Duration;

    fn of(topology: &Topology) -> Vec<u64> {
        let mut network = Simulation::new(1);
        topology.build(&mut network, |_| NodeConfig::default()).unwrap();
        let channels: Vec<_> = network.into_channels();
        super::betweenness(topology.nodes.len(), &channels)
    }

    #[test]
    fn a_line_a_star_and_a_ring_by_hand() {
        let link = LinkConfig::new("1Mbps".parse().unwrap(), Duration::ZERO);
        // Of five in a row: 3 pairs cross the second, 4 the middle, both ways.
        assert_eq!(of(&Topology::line(5, &link)), [0, 6, 8, 6, 0].map(|pairs| pairs * 1024));
        // All pairs of leaves cross the root.
        assert_eq!(of(&Topology::tree(4, 1, &link)), [12, 0, 0, 0, 0].map(|pairs| pairs * 1024));
        // Of a square, each of two opposite corners carries half of the other two's paths.
        assert_eq!(of(&Topology::grid(2, 2, &link)), [1024; 4]);
        // Networkx's betweenness_centrality(normalized=False), for both ways: 8/3 in the corners,
        // 10 at the sides, 64/3 in the middle.
        let (corner, side) = (2731, 10 * 1024);
        assert_eq!(of(&Topology::grid(3, 3, &link)), [corner, side, corner, side, 21845, side, corner, side, corner]);
    }
}
