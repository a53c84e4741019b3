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
pub(crate) fn next_hops(
    to: NodeId,
    nodes: usize,
    channels: &[Channel],
    most: usize,
) -> Vec<Vec<Hop>> {
    let into = channels_into(nodes, channels);
    let shortest = shortest(to, channels, &into);
    if most <= 1 {
        return shortest
            .into_iter()
            .map(|hop| hop.into_iter().collect())
            .collect();
    }
    let mut paths = Paths::new(to, channels, into, shortest);
    (0..nodes as u32)
        .map(|node| paths.next_hops_of(node, most))
        .collect()
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
            hops[from] = Some(Hop {
                channel: ChannelId(*id),
                cost,
            });
            reached.push(Reverse((cost, channel.from.0)));
        }
    }
    hops
}

/// The shortest paths to a node as a tree, for detours around each other node.
struct Paths<'a> {
    to: NodeId,
    channels: &'a [Channel],
    /// By node: the channels that end there, and those that start there.
    into: Vec<Vec<u32>>,
    out: Vec<Vec<u32>>,
    shortest: Vec<Option<Hop>>,
    /// The nodes with a path, in preorder: behind each node follow those whose paths lead through
    /// it.
    preorder: Vec<u32>,
    /// By node: its place in `preorder`, and the end of the nodes behind it. Zero without a path.
    place: Vec<usize>,
    end: Vec<usize>,
    /// By node: the cost of its detour around the node in question; `None` otherwise.
    detours: Vec<Option<u64>>,
}

impl<'a> Paths<'a> {
    fn new(
        to: NodeId,
        channels: &'a [Channel],
        into: Vec<Vec<u32>>,
        shortest: Vec<Option<Hop>>,
    ) -> Self {
        let nodes = shortest.len();
        let (mut out, mut children) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for channel in channels.iter().filter(|channel| channel.is_in_routes) {
            out[channel.from.0 as usize].push(channel.id);
        }
        let next_of = |hop: &Hop| channels[hop.channel.0 as usize].to.0 as usize;
        for (node, hop) in shortest.iter().enumerate() {
            if let Some(hop) = hop {
                children[next_of(hop)].push(node as u32);
            }
        }
        let (mut preorder, mut place, mut end) = (Vec::new(), vec![0; nodes], vec![0; nodes]);
        let mut left = vec![to.0];
        while let Some(node) = left.pop() {
            place[node as usize] = preorder.len();
            end[node as usize] = preorder.len() + 1;
            preorder.push(node);
            left.extend(&children[node as usize]);
        }
        // From the last node to the first, so that a node's own end is known before it counts.
        for node in preorder.iter().rev() {
            if let Some(hop) = &shortest[*node as usize] {
                let next = next_of(hop);
                end[next] = end[next].max(end[*node as usize]);
            }
        }
        Paths {
            to,
            channels,
            into,
            out,
            shortest,
            preorder,
            place,
            end,
            detours: vec![None; nodes],
        }
    }

    /// The cost of a node's shortest path.
    fn cost_from(&self, node: NodeId) -> Option<u64> {
        if node == self.to {
            Some(0)
        } else {
            self.shortest[node.0 as usize].map(|hop| hop.cost)
        }
    }

    /// Returns true if the shortest path of a node leads through `through`, another node.
    fn is_behind(&self, node: NodeId, through: u32) -> bool {
        let (place, through) = (self.place[node.0 as usize], through as usize);
        self.place[through] < place && place < self.end[through]
    }

    fn next_hops_of(&mut self, node: u32, most: usize) -> Vec<Hop> {
        let Some(first) = self.shortest[node as usize] else {
            return Vec::new();
        };
        self.find_detours(node);
        let mut hops = Vec::new();
        for id in &self.out[node as usize] {
            let channel = &self.channels[*id as usize];
            let beyond = if self.is_behind(channel.to, node) {
                self.detours[channel.to.0 as usize]
            } else {
                self.cost_from(channel.to)
            };
            if let Some(beyond) = beyond {
                let cost = beyond.saturating_add(channel.config().metric);
                hops.push((cost, ChannelId(*id) != first.channel, channel.to, *id));
            }
        }
        hops.sort_unstable();
        hops.truncate(most);
        hops.into_iter()
            .map(|(cost, .., id)| Hop {
                channel: ChannelId(id),
                cost,
            })
            .collect()
    }

    /// Finds for each node whose shortest path leads through `around` the shortest path that does
    /// not.
    fn find_detours(&mut self, around: u32) {
        let behind = self.place[around as usize] + 1..self.end[around as usize];
        let mut reached = BinaryHeap::new();
        for from in &self.preorder[behind] {
            self.detours[*from as usize] = None;
            for id in &self.out[*from as usize] {
                let channel = &self.channels[*id as usize];
                if channel.to.0 == around || self.is_behind(channel.to, around) {
                    continue;
                }
                if let Some(beyond) = self.cost_from(channel.to) {
                    reached.push(Reverse((
                        beyond.saturating_add(channel.config().metric),
                        *from,
                    )));
                }
            }
        }
        while let Some(Reverse((cost, from))) = reached.pop() {
            if self.detours[from as usize].is_some() {
                continue;
            }
            self.detours[from as usize] = Some(cost);
            for id in &self.into[from as usize] {
                let channel = &self.channels[*id as usize];
                if self.is_behind(channel.from, around)
                    && self.detours[channel.from.0 as usize].is_none()
                {
                    reached.push(Reverse((
                        cost.saturating_add(channel.config().metric),
                        channel.from.0,
                    )));
                }
            }
        }
    }
}
