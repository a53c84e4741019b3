//! The connections of a network: their ends, the paths of their segments, their timers.

use super::TcpConfig;
use super::endpoint::Endpoint;
use super::messages::Message;
use super::segment::{EndId, HEADER_BYTES, Segment, address};
use super::sender::TcpCounters;
use crate::events::{Event, EventQueue, Frames};
use crate::frame::Frame;
use crate::limits;
use crate::link::Channel;
use crate::node::{Node, NodeId};
use crate::routes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_units::{Streams, Time};
use std::collections::VecDeque;
use std::ops::Range;

/// The number of a host, in the order in which hosts were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// An event for the host of an end.
#[derive(Clone, Debug)]
pub(super) enum TcpEvent {
    /// More bytes of a message.
    Bytes { message: Message, bytes: Range<u64> },
    /// The other end has closed its stream.
    Closed,
    /// The other end does not answer.
    Failed,
}

/// The network, as the connections see it during one call.
pub(crate) struct NetworkContext<'a> {
    pub(crate) now: Time,
    pub(crate) events: &'a mut EventQueue,
    pub(crate) frames: &'a mut Frames,
    pub(crate) channels: &'a mut [Channel],
    pub(crate) nodes: &'a [Node],
}

struct HostSlot {
    node: NodeId,
    tcp: TcpConfig,
    counters: TcpCounters,
    /// The random streams of its connections, by their number at this host.
    streams: Streams,
    opened: u64,
}

struct End {
    endpoint: Endpoint,
    generation: u32,
    host: HostId,
    node: NodeId,
    /// The time of the valid timer event. Events at other times are void.
    wake: Time,
    /// The messages that the other end has not read completely, each with its end position.
    messages: VecDeque<(u64, Message)>,
    /// Bytes that the host has read.
    read_bytes: u64,
    /// Whether the host has read that the other end closed.
    has_read_close: bool,
    /// The endpoint's counters at the last update of the host's counters.
    counted: TcpCounters,
}

/// All connections. Ends `2k` and `2k + 1` belong to one connection: the end that opened it, and
/// the other.
pub(super) struct Connections {
    ends: Vec<Option<End>>,
    free: Vec<u32>,
    generations: u32,
    hosts: Vec<HostSlot>,
    /// By destination: the next channel of each node. Valid for a network of `next_hops_for` nodes
    /// and channels.
    next_hops: HashMap<u32, Vec<Option<u32>>, FixedState>,
    next_hops_for: (usize, usize),
}

impl Connections {
    pub(super) fn new() -> Self {
        let (ends, free, hosts) = Default::default();
        Connections {
            ends,
            free,
            generations: 0,
            hosts,
            next_hops: HashMap::default(),
            next_hops_for: (0, 0),
        }
    }

    pub(super) fn add_host(&mut self, node: NodeId, tcp: TcpConfig, streams: Streams) -> HostId {
        self.hosts.push(HostSlot {
            node,
            tcp,
            counters: TcpCounters::default(),
            streams,
            opened: 0,
        });
        HostId(self.hosts.len() as u32 - 1)
    }

    pub(super) fn node_of(&self, host: HostId) -> NodeId {
        self.hosts[host.0 as usize].node
    }

    pub(super) fn counters(&self, host: HostId) -> TcpCounters {
        self.hosts[host.0 as usize].counters
    }

    /// The number of open connections.
    pub(super) fn count(&self) -> usize {
        self.ends.len() / 2 - self.free.len()
    }

    /// Bytes that connections take, including their records of segments in flight and beyond gaps.
    pub(super) fn held_bytes(&self) -> u64 {
        let known: usize = self
            .ends
            .iter()
            .flatten()
            .map(|end| end.endpoint.held_bytes())
            .sum();
        (known + size_of::<Option<End>>() * self.ends.len()) as u64
    }

    fn end(&self, id: EndId) -> Option<&End> {
        self.ends
            .get(id.number as usize)?
            .as_ref()
            .filter(|end| end.generation == id.generation)
    }

    fn end_mut(&mut self, id: EndId) -> Option<&mut End> {
        self.ends
            .get_mut(id.number as usize)?
            .as_mut()
            .filter(|end| end.generation == id.generation)
    }

    /// The host of an end.
    pub(super) fn host_of(&self, id: EndId) -> Option<HostId> {
        self.end(id).map(|end| end.host)
    }

    // ---- What hosts do ----

    /// Opens a connection between two hosts, and returns the first host's end. Without a path, its
    /// SYNs are lost until there is one. `None` if there are too many connections.
    pub(super) fn open(
        &mut self,
        context: &mut NetworkContext<'_>,
        from: HostId,
        to: HostId,
    ) -> Option<EndId> {
        let [here, there] = [from, to].map(|host| self.hosts[host.0 as usize].node);
        let mut mtu_of = |from, to| self.path_mtu(context, from, to).unwrap_or(usize::MAX);
        let mtu = mtu_of(here, there).min(mtu_of(there, here));
        if self.count() >= limits::TCP_CONNECTIONS {
            return None;
        }
        let pair = self.free.pop().unwrap_or_else(|| {
            self.ends.extend([None, None]);
            self.ends.len() as u32 / 2 - 1
        });
        self.generations = self.generations.wrapping_add(1);
        let generation = self.generations;
        let opener = &mut self.hosts[from.0 as usize];
        opener.opened += 1;
        let (streams, opened) = (opener.streams, opener.opened);
        for (side, host) in [from, to].into_iter().enumerate() {
            let number = 2 * pair + side as u32;
            let HostSlot { node, mut tcp, .. } = self.hosts[host.0 as usize];
            tcp.segment_bytes = tcp
                .segment_bytes
                .min(mtu.saturating_sub(HEADER_BYTES).max(1) as u32);
            let stream = streams.stream(&format!("connection {opened} {side}"));
            let endpoint = match side {
                0 => Endpoint::connect(context.now, &tcp, stream),
                _ => Endpoint::listen(context.now, &tcp, stream),
            };
            let (wake, messages, counted) = (Time::MAX, VecDeque::new(), TcpCounters::default());
            let end = End {
                endpoint,
                generation,
                host,
                node,
                wake,
                messages,
                read_bytes: 0,
                has_read_close: false,
                counted,
            };
            self.ends[number as usize] = Some(end);
        }
        let id = EndId {
            number: 2 * pair,
            generation,
        };
        self.flush(context, id);
        Some(id)
    }

    /// Begins a message. [`Connections::write`] provides its bytes.
    pub(super) fn begin(&mut self, id: EndId, message: Message) {
        if let Some(end) = self.end_mut(id) {
            let bytes = message.bytes();
            let from = end
                .messages
                .back()
                .map_or(end.endpoint.written(), |(stop, _)| *stop)
                .max(end.endpoint.written());
            end.messages.push_back((from + bytes, message));
        }
    }

    /// Writes this many bytes of the current message.
    pub(super) fn write(&mut self, context: &mut NetworkContext<'_>, id: EndId, bytes: u64) {
        if let Some(end) = self.end_mut(id) {
            end.endpoint.write(bytes);
            self.flush(context, id);
        }
    }

    /// Closes the stream of this end.
    pub(super) fn close(&mut self, context: &mut NetworkContext<'_>, id: EndId) {
        if let Some(end) = self.end_mut(id) {
            end.endpoint.close();
            self.flush(context, id);
        }
    }

    // ---- What the network does ----

    /// Returns the end to which a frame is addressed, and its node. `None` if the connection is
    /// over.
    pub(super) fn destination(&self, frame: &[u8]) -> Option<(EndId, NodeId)> {
        let id = address(frame)?;
        self.end(id).map(|end| (id, end.node))
    }

    /// Forwards a frame from a node on its path.
    pub(super) fn forward(
        &mut self,
        context: &mut NetworkContext<'_>,
        at: NodeId,
        to: NodeId,
        frame: Frame,
    ) {
        if at == to {
            let frame = context.frames.put(frame);
            return context
                .events
                .plan(context.now, Event::Segment { node: to.0, frame });
        }
        if let Some(channel) = self.next_hops_to(context, to)[at.0 as usize] {
            context.channels[channel as usize].send_frame(
                context.now,
                frame,
                context.events,
                context.frames,
            );
        }
    }

    /// Gives a frame to its end. [`Connections::next_event`] then returns what its host has to
    /// handle.
    pub(super) fn arrive(&mut self, context: &NetworkContext<'_>, id: EndId, frame: &[u8]) {
        if let (Some(segment), Some(end)) = (Segment::read(frame), self.end_mut(id)) {
            end.endpoint.on_segment(context.now, &segment);
        }
    }

    /// Handles a timer event. Returns its end if the event is valid.
    pub(super) fn on_timer(&mut self, now: Time, number: u32) -> Option<EndId> {
        let end = self
            .ends
            .get_mut(number as usize)?
            .as_mut()
            .filter(|end| end.wake == now)?;
        end.wake = Time::MAX;
        if end.endpoint.next_timeout().is_some_and(|at| at <= now) {
            end.endpoint.on_timeout(now);
        }
        Some(EndId {
            number,
            generation: end.generation,
        })
    }

    /// Returns the next event for the host of an end, or `None` if there are no more.
    pub(super) fn next_event(&mut self, id: EndId) -> Option<TcpEvent> {
        let (received, event) = self
            .end(id)
            .map(|end| (end.endpoint.received(), end.read_bytes))?;
        if received > event {
            let there = self.ends[(id.number ^ 1) as usize].as_mut()?;
            let &(stop, ref message) = there.messages.front()?;
            let upto = received.min(stop);
            let start = stop - message.bytes();
            let message = if upto == stop {
                there.messages.pop_front()?.1
            } else {
                message.clone()
            };
            self.end_mut(id)?.read_bytes = upto;
            return Some(TcpEvent::Bytes {
                message,
                bytes: event - start..upto - start,
            });
        }
        let end = self.end_mut(id)?;
        if end.endpoint.has_failed() {
            return Some(TcpEvent::Failed);
        }
        (end.endpoint.is_closed_there() && !std::mem::replace(&mut end.has_read_close, true))
            .then_some(TcpEvent::Closed)
    }

    /// Sends what an end has to send, and plans its timer. A connection whose both ends are
    /// finished is removed.
    pub(super) fn flush(&mut self, context: &mut NetworkContext<'_>, id: EndId) {
        let there = EndId {
            number: id.number ^ 1,
            ..id
        };
        let Some(to) = self.end(there).map(|end| end.node) else {
            return;
        };
        while let Some(end) = self.end_mut(id)
            && let Some(segment) = end.endpoint.next_segment(context.now)
        {
            let at = end.node;
            // A host at a node that is down sends nothing.
            if context.nodes[at.0 as usize].is_up {
                self.forward(context, at, to, segment.frame(there).into());
            }
        }
        let Some(end) = self.end_mut(id) else { return };
        if let Some(at) = end.endpoint.next_timeout()
            && at < end.wake
        {
            end.wake = at.max(context.now);
            context.events.plan(end.wake, Event::Tcp { end: id.number });
        }
        let (counters, host) = (end.endpoint.counters(), end.host);
        let new = counters.since(&std::mem::replace(&mut end.counted, counters));
        self.hosts[host.0 as usize].counters.add(&new);
        let is_over = |id: EndId| self.end(id).is_none_or(|end| end.endpoint.is_over());
        if is_over(id) && is_over(there) {
            self.forget(id);
        }
    }

    /// Removes a connection with both its ends.
    pub(super) fn forget(&mut self, id: EndId) {
        if self.end(id).is_some() {
            let pair = id.number / 2;
            self.ends[2 * pair as usize] = None;
            self.ends[2 * pair as usize + 1] = None;
            self.free.push(pair);
        }
    }

    // ---- Ways ----

    /// The size of the largest frame that crosses every link on the path; `None` without a path.
    pub(super) fn path_mtu(
        &mut self,
        context: &NetworkContext<'_>,
        from: NodeId,
        to: NodeId,
    ) -> Option<usize> {
        let next_hops = self.next_hops_to(context, to);
        let (mut at, mut mtu) = (from, usize::MAX);
        while at != to {
            let channel = &context.channels[next_hops[at.0 as usize]? as usize];
            mtu = mtu.min(channel.config().mtu.unwrap_or(usize::MAX));
            at = channel.to;
        }
        Some(mtu)
    }

    /// Forgets all paths, after the routes have changed.
    pub(super) fn forget_paths(&mut self) {
        self.next_hops.clear();
    }

    fn next_hops_to(&mut self, context: &NetworkContext<'_>, to: NodeId) -> &[Option<u32>] {
        let network = (context.nodes.len(), context.channels.len());
        if self.next_hops_for != network {
            self.next_hops.clear();
            self.next_hops_for = network;
        }
        self.next_hops.entry(to.0).or_insert_with(|| {
            let hops = routes::towards(to, context.nodes.len(), context.channels);
            hops.into_iter()
                .map(|hop| hop.map(|hop| hop.channel.0))
                .collect()
        })
    }
}

impl TcpCounters {
    pub(crate) fn since(&self, before: &TcpCounters) -> TcpCounters {
        TcpCounters {
            segments: self.segments - before.segments,
            retransmissions: self.retransmissions - before.retransmissions,
            timeouts: self.timeouts - before.timeouts,
        }
    }

    fn add(&mut self, more: &TcpCounters) {
        self.segments += more.segments;
        self.retransmissions += more.retransmissions;
        self.timeouts += more.timeouts;
    }
}
