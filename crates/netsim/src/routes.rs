//! Shortest paths: Dijkstra's algorithm from the producer outwards, over the metrics of the
//! channels towards it.

use crate::link::{Channel, ChannelId};
use crate::node::NodeId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The next hop of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) channel: ChannelId,
    /// The cost of the whole path.
    pub(crate) cost: u64,
}

/// Returns each node's next hop towards `to`; `None` for `to` itself and for nodes without a path.
/// Of equal paths, the one through the lower node number wins, then the lower link number, so that
/// the result is the same on every machine.
pub(crate) fn towards(to: NodeId, nodes: usize, channels: &[Channel]) -> Vec<Option<Hop>> {
    let mut into: Vec<Vec<u32>> = vec![Vec::new(); nodes];
    for channel in channels {
        into[channel.to.0 as usize].push(channel.id);
    }
    let mut hops: Vec<Option<Hop>> = vec![None; nodes];
    let mut done = vec![false; nodes];
    let mut reached = BinaryHeap::from([Reverse((0u64, to.0))]);
    while let Some(Reverse((cost, node))) = reached.pop() {
        if std::mem::replace(&mut done[node as usize], true) {
            continue;
        }
        for id in &into[node as usize] {
            let channel = &channels[*id as usize];
            let from = channel.from.0 as usize;
            let cost = cost.saturating_add(channel.config().metric);
            if done[from] || hops[from].is_some_and(|hop| hop.cost <= cost) {
                continue;
            }
            hops[from] = Some(Hop { channel: ChannelId(*id), cost });
            reached.push(Reverse((cost, channel.from.0)));
        }
    }
    hops
}
