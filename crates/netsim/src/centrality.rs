//! Betweenness centrality of nodes (Brandes, A faster algorithm for betweenness centrality, J.
//! Math. Sociology 25, 2001, algorithm 1).
//!
//! From each node, a breadth-first search over the links counts shortest paths. Then, from the
//! farthest node back, each node adds to its predecessors their shares of the paths that end at it
//! or behind it. Each link counts as one hop, whatever its metric, as in Cache less for more (Chai
//! et al., 2012). O(nodes · links) time, O(nodes + links) memory.

use crate::link::Channel;

/// The unit of centralities, a fraction of a path. Rounding to it keeps equal sums equal when three
/// or seven nodes share a path.
const PARTS: f64 = 1024.0;

/// Returns for each node the number of ordered pairs of other nodes whose shortest paths lead
/// through it, in 1024ths of a path. Several shortest paths of one pair share its count equally.
pub(crate) fn betweenness(nodes: usize, channels: &[Channel]) -> Vec<u64> {
    let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); nodes];
    for channel in channels {
        let (from, to) = channel.ends();
        neighbours[from.0 as usize].push(to.0);
    }
    // Parallel links add no paths.
    for list in &mut neighbours {
        list.sort_unstable();
        list.dedup();
    }
    let mut total = vec![0.0; nodes];
    for source in 0..nodes {
        add_paths_from(source, &neighbours, &mut total);
    }
    total
        .into_iter()
        .map(|share| (share * PARTS).round() as u64)
        .collect()
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
        topology
            .build(&mut network, |_| NodeConfig::default())
            .unwrap();
        let channels: Vec<_> = network.into_channels();
        super::betweenness(topology.nodes.len(), &channels)
    }

    #[test]
    fn a_line_a_star_and_a_ring_by_hand() {
        let link = LinkConfig::new("1Mbps".parse().unwrap(), Duration::ZERO);
        // In a row of five nodes, 3 pairs cross the second node and 4 the middle one, in both
        // directions.
        assert_eq!(
            of(&Topology::line(5, &link)),
            [0, 6, 8, 6, 0].map(|pairs| pairs * 1024)
        );
        // All pairs of leaves cross the root.
        assert_eq!(
            of(&Topology::tree(4, 1, &link)),
            [12, 0, 0, 0, 0].map(|pairs| pairs * 1024)
        );
        // In a square, each of two opposite corners carries half of the paths of the other two.
        assert_eq!(of(&Topology::grid(2, 2, &link)), [1024; 4]);
        // Networkx's betweenness_centrality(normalized=False), for both ways: 8/3 in the corners,
        // 10 at the sides, 64/3 in the middle.
        let (corner, side) = (2731, 10 * 1024);
        assert_eq!(
            of(&Topology::grid(3, 3, &link)),
            [
                corner, side, corner, side, 21845, side, corner, side, corner
            ]
        );
    }
}
