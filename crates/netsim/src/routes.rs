//! Next hops towards a node: Dijkstra's algorithm from the destination outwards, over the metrics
//! of the channels that routes may use.
//!
//! With more than one next hop per node, a node has those of NLSR: for each of its channels, the
//! shortest path that begins with it and does not return to the node. A neighbour whose own
//! shortest path leads through the node takes a detour. Its cost is found by the same algorithm
//! among the nodes behind the node, the only ones whose paths change without it. So all detours
//! take time that grows with nodes times the length of paths.

use crate::link::{Channel, ChannelId};
use crate::node::NodeId;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
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
/// Of equal paths, the one whose next node is nearer to `to` wins, then the lower node number, then
/// the lower link number, so that the result is the same on every machine.
pub(crate) fn towards(to: NodeId, nodes: usize, channels: &[Channel]) -> Vec<Option<Hop>> {
    shortest(to, channels, &channels_into(nodes, channels))
}

/// Returns each node's next hops towards `to`, the cheapest first, at most `most`. The first is
/// that of [`towards`].
pub(crate) fn next_hops(to: NodeId, nodes: usize, channels: &[Channel], most: usize) -> Vec<Vec<Hop>> {
    let into = channels_into(nodes, channels);
    let shortest = shortest(to, channels, &into);
    if most <= 1 {
        return shortest.into_iter().map(|hop| hop.into_iter().collect()).collect();
    }
    let (mut out, mut behind) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
    for channel in channels.iter().filter(|channel| channel.is_in_routes) {
        out[channel.from.0 as usize].push(channel.id);
    }
    for (node, hop) in shortest.iter().enumerate() {
        if let Some(hop) = hop {
            behind[channels[hop.channel.0 as usize].to.0 as usize].push(node as u32);
        }
    }
    let paths = Paths { to, channels, into, out, shortest, behind };
    (0..nodes as u32).map(|node| paths.next_hops_of(node, most)).collect()
}

/// Returns the channels that end at each node.
fn channels_into(nodes: usize, channels: &[Channel]) -> Vec<Vec<u32>> {
    let mut into: Vec<Vec<u32>> = vec![Vec::new(); nodes];
    for channel in channels.iter().filter(|channel| channel.is_in_routes) {
        into[channel.to.0 as usize].push(channel.id);
    }
    into
}

fn shortest(to: NodeId, channels: &[Channel], into: &[Vec<u32>]) -> Vec<Option<Hop>> {
    let mut hops: Vec<Option<Hop>> = vec![None; into.len()];
    let mut done = vec![false; into.len()];
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

/// The shortest paths to a node, for detours around each other node.
struct Paths<'a> {
    to: NodeId,
    channels: &'a [Channel],
    /// By node: the channels that end there, and those that start there.
    into: Vec<Vec<u32>>,
    out: Vec<Vec<u32>>,
    shortest: Vec<Option<Hop>>,
    /// By node: the nodes whose next hop it is.
    behind: Vec<Vec<u32>>,
}

impl Paths<'_> {
    /// The cost of a node's shortest path.
    fn cost_from(&self, node: u32) -> Option<u64> {
        match node == self.to.0 {
            true => Some(0),
            false => self.shortest[node as usize].map(|hop| hop.cost),
        }
    }

    fn next_hops_of(&self, node: u32, most: usize) -> Vec<Hop> {
        let Some(first) = self.shortest[node as usize] else { return Vec::new() };
        let detours = self.detours_around(node);
        let mut hops = Vec::new();
        for id in &self.out[node as usize] {
            let channel = &self.channels[*id as usize];
            let beyond = match detours.get(&channel.to.0) {
                Some(detour) => *detour,
                None => self.cost_from(channel.to.0),
            };
            if let Some(beyond) = beyond {
                let cost = beyond.saturating_add(channel.config().metric);
                hops.push((cost, ChannelId(*id) != first.channel, channel.to, *id));
            }
        }
        hops.sort_unstable();
        hops.truncate(most);
        hops.into_iter().map(|(cost, .., id)| Hop { channel: ChannelId(id), cost }).collect()
    }

    /// Returns the nodes whose shortest paths lead through a node, each with the cost of its
    /// shortest path that does not, if there is one.
    fn detours_around(&self, node: u32) -> HashMap<u32, Option<u64>, FixedState> {
        let mut detours: HashMap<u32, Option<u64>, FixedState> = HashMap::default();
        let mut nodes_behind = self.behind[node as usize].clone();
        while let Some(next) = nodes_behind.pop() {
            detours.insert(next, None);
            nodes_behind.extend(&self.behind[next as usize]);
        }
        let mut reached = BinaryHeap::new();
        for from in detours.keys() {
            for id in &self.out[*from as usize] {
                let channel = &self.channels[*id as usize];
                let leads_away = channel.to.0 != node && !detours.contains_key(&channel.to.0);
                if let Some(beyond) = self.cost_from(channel.to.0).filter(|_| leads_away) {
                    reached.push(Reverse((beyond.saturating_add(channel.config().metric), *from)));
                }
            }
        }
        while let Some(Reverse((cost, from))) = reached.pop() {
            let Some(detour @ None) = detours.get_mut(&from) else { continue };
            *detour = Some(cost);
            for id in &self.into[from as usize] {
                let channel = &self.channels[*id as usize];
                if detours.get(&channel.from.0) == Some(&None) {
                    reached.push(Reverse((cost.saturating_add(channel.config().metric), channel.from.0)));
                }
            }
        }
        detours
    }
}
