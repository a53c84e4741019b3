//! The connections of a network: their ends, the ways of their segments, their timers.

use super::TcpConfig;
use super::endpoint::Endpoint;
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

/// A host's number, in the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// What a message says. Its length is said where it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Request {
        object: u64,
    },
    /// With so many bytes behind its head.
    Response {
        object: u64,
        body: u64,
    },
}

/// What an end hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TcpEvent {
    /// So many bytes more of a message, and whether that is all of it.
    Bytes { message: Message, bytes: u64, is_all: bool },
    /// The other end sends nothing more.
    Closed,
    /// The other end does not answer.
    Failed,
}

/// The network around the connections, for the length of a call.
pub(crate) struct NetworkContext<'a> {
    pub(crate) now: Time,
    pub(crate) events: &'a mut EventQueue,
    pub(crate) frames: &'a mut Frames,
    pub(crate) channels: &'a mut [Channel],
    pub(crate) nodes: &'a [Node],
}

struct Place {
    node: NodeId,
    tcp: TcpConfig,
    counters: TcpCounters,
    /// Of its connections, by their number among its own.
    streams: Streams,
    opened: u64,
}

struct End {
    endpoint: Endpoint,
    life: u32,
    host: HostId,
    node: NodeId,
    /// When the timer event comes that counts.
    wake: Time,
    /// What it has begun to send, and the other has not heard whole: where each ends.
    messages: VecDeque<(u64, Message)>,
    /// Bytes that its host has heard.
    event: u64,
    /// Whether its host has heard that the other has closed.
    heard_close: bool,
    /// Of the endpoint's counters, what the host's have.
    counted: TcpCounters,
}

/// Ends `2k` and `2k + 1` are of one connection: who opened it, and who was asked.
pub(super) struct Connections {
    ends: Vec<Option<End>>,
    free: Vec<u32>,
    lives: u32,
    places: Vec<Place>,
    /// By destination: the channel of each node; of a network of so many nodes and channels.
    ways: HashMap<u32, Vec<Option<u32>>, FixedState>,
    ways_of: (usize, usize),
}

impl Connections {
    pub(super) fn new() -> Self {
        let (ends, free, places) = Default::default();
        Connections { ends, free, lives: 0, places, ways: HashMap::default(), ways_of: (0, 0) }
    }

    pub(super) fn add_host(&mut self, node: NodeId, tcp: TcpConfig, streams: Streams) -> HostId {
        self.places.push(Place { node, tcp, counters: TcpCounters::default(), streams, opened: 0 });
        HostId(self.places.len() as u32 - 1)
    }

    pub(super) fn node_of(&self, host: HostId) -> NodeId {
        self.places[host.0 as usize].node
    }

    pub(super) fn counters(&self, host: HostId) -> TcpCounters {
        self.places[host.0 as usize].counters
    }

    /// Connections that stand.
    pub(super) fn count(&self) -> usize {
        self.ends.len() / 2 - self.free.len()
    }

    /// Bytes that connections take, what they know of segments under way and beyond gaps included.
    pub(super) fn held_bytes(&self) -> u64 {
        let known: usize = self.ends.iter().flatten().map(|end| end.endpoint.held_bytes()).sum();
        (known + size_of::<Option<End>>() * self.ends.len()) as u64
    }

    fn end(&self, id: EndId) -> Option<&End> {
        self.ends.get(id.number as usize)?.as_ref().filter(|end| end.life == id.life)
    }

    fn end_mut(&mut self, id: EndId) -> Option<&mut End> {
        self.ends.get_mut(id.number as usize)?.as_mut().filter(|end| end.life == id.life)
    }

    /// Whose end it is.
    pub(super) fn host_of(&self, id: EndId) -> Option<HostId> {
        self.end(id).map(|end| end.host)
    }

    // ---- What hosts do ----

    /// A connection from one host to another: its end here. `None` where no links lead there, or
    /// there are too many.
    pub(super) fn open(&mut self, context: &mut NetworkContext<'_>, from: HostId, to: HostId) -> Option<EndId> {
        let [here, there] = [from, to].map(|host| self.places[host.0 as usize].node);
        let mtu = self.path_mtu(context, here, there)?.min(self.path_mtu(context, there, here)?);
        if self.count() >= limits::TCP_CONNECTIONS {
            return None;
        }
        let pair = self.free.pop().unwrap_or_else(|| {
            self.ends.extend([None, None]);
            self.ends.len() as u32 / 2 - 1
        });
        self.lives = self.lives.wrapping_add(1);
        let life = self.lives;
        let opener = &mut self.places[from.0 as usize];
        opener.opened += 1;
        let (streams, opened) = (opener.streams, opener.opened);
        for (side, host) in [from, to].into_iter().enumerate() {
            let number = 2 * pair + side as u32;
            let Place { node, mut tcp, .. } = self.places[host.0 as usize];
            tcp.segment_bytes = tcp.segment_bytes.min(mtu.saturating_sub(HEADER_BYTES).max(1) as u32);
            let stream = streams.stream(&format!("connection {opened} {side}"));
            let endpoint = match side {
                0 => Endpoint::connect(context.now, &tcp, stream),
                _ => Endpoint::listen(context.now, &tcp, stream),
            };
            let (wake, messages, counted) = (Time::MAX, VecDeque::new(), TcpCounters::default());
            let end = End { endpoint, life, host, node, wake, messages, event: 0, heard_close: false, counted };
            self.ends[number as usize] = Some(end);
        }
        let id = EndId { number: 2 * pair, life };
        self.flush(context, id);
        Some(id)
    }

    /// A message of so many bytes begins; [`Connections::write`] brings them.
    pub(super) fn begin(&mut self, id: EndId, bytes: u64, message: Message) {
        if let Some(end) = self.end_mut(id) {
            let from =
                end.messages.back().map_or(end.endpoint.written(), |(stop, _)| *stop).max(end.endpoint.written());
            end.messages.push_back((from + bytes, message));
        }
    }

    /// So many bytes of the message that was begun.
    pub(super) fn write(&mut self, context: &mut NetworkContext<'_>, id: EndId, bytes: u64) {
        if let Some(end) = self.end_mut(id) {
            end.endpoint.write(bytes);
            self.flush(context, id);
        }
    }

    /// This end sends nothing more.
    pub(super) fn close(&mut self, context: &mut NetworkContext<'_>, id: EndId) {
        if let Some(end) = self.end_mut(id) {
            end.endpoint.close();
            self.flush(context, id);
        }
    }

    // ---- What the network does ----

    /// The node of the end that a frame is for; `None` where its connection is over.
    pub(super) fn destination(&self, frame: &[u8]) -> Option<(EndId, NodeId)> {
        let id = address(frame)?;
        self.end(id).map(|end| (id, end.node))
    }

    /// Passes a frame on from a node on its way.
    pub(super) fn pass_on(&mut self, context: &mut NetworkContext<'_>, at: NodeId, to: NodeId, frame: Frame) {
        if at == to {
            let frame = context.frames.put(frame);
            return context.events.plan(context.now, Event::Segment { node: to.0, frame });
        }
        if let Some(channel) = self.ways_to(context, to)[at.0 as usize] {
            context.channels[channel as usize].send_frame(context.now, frame, context.events, context.frames);
        }
    }

    /// A frame has reached its end. [`Connections::hear`] tells what that means for its host.
    pub(super) fn arrive(&mut self, context: &NetworkContext<'_>, id: EndId, frame: &[u8]) {
        if let (Some(segment), Some(end)) = (Segment::read(frame), self.end_mut(id)) {
            end.endpoint.on_segment(context.now, &segment);
        }
    }

    /// A timer event came for an end; the end, where it counts.
    pub(super) fn on_timer(&mut self, now: Time, number: u32) -> Option<EndId> {
        let end = self.ends.get_mut(number as usize)?.as_mut().filter(|end| end.wake == now)?;
        end.wake = Time::MAX;
        if end.endpoint.next_timeout().is_some_and(|at| at <= now) {
            end.endpoint.on_timeout(now);
        }
        Some(EndId { number, life: end.life })
    }

    /// The next thing that an end's host has to hear; `None` where it has heard all.
    pub(super) fn hear(&mut self, id: EndId) -> Option<TcpEvent> {
        let (received, event) = self.end(id).map(|end| (end.endpoint.received(), end.event))?;
        if received > event {
            let there = self.ends[(id.number ^ 1) as usize].as_mut()?;
            let &(stop, message) = there.messages.front()?;
            let upto = received.min(stop);
            if upto == stop {
                there.messages.pop_front();
            }
            self.end_mut(id)?.event = upto;
            return Some(TcpEvent::Bytes { message, bytes: upto - event, is_all: upto == stop });
        }
        let end = self.end_mut(id)?;
        if end.endpoint.has_failed() {
            return Some(TcpEvent::Failed);
        }
        (end.endpoint.is_closed_there() && !std::mem::replace(&mut end.heard_close, true)).then_some(TcpEvent::Closed)
    }

    /// Sends what an end has to send, and plans its timer; a connection that both ends have done
    /// with is forgotten.
    pub(super) fn flush(&mut self, context: &mut NetworkContext<'_>, id: EndId) {
        let there = EndId { number: id.number ^ 1, ..id };
        let Some(to) = self.end(there).map(|end| end.node) else { return };
        while let Some(end) = self.end_mut(id)
            && let Some(segment) = end.endpoint.next_segment(context.now)
        {
            let at = end.node;
            // An unplugged host talks to nobody.
            if context.nodes[at.0 as usize].is_up {
                self.pass_on(context, at, to, segment.frame(there).into());
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
        self.places[host.0 as usize].counters.add(&new);
        let is_over = |id: EndId| self.end(id).is_none_or(|end| end.endpoint.is_over());
        if is_over(id) && is_over(there) {
            self.forget(id);
        }
    }

    /// Forgets a connection, both its ends.
    pub(super) fn forget(&mut self, id: EndId) {
        if self.end(id).is_some() {
            let pair = id.number / 2;
            self.ends[2 * pair as usize] = None;
            self.ends[2 * pair as usize + 1] = None;
            self.free.push(pair);
        }
    }

    // ---- Ways ----

    /// The largest frame that crosses every link on the way; `None` where there is no way.
    pub(super) fn path_mtu(&mut self, context: &NetworkContext<'_>, from: NodeId, to: NodeId) -> Option<usize> {
        let ways = self.ways_to(context, to);
        let (mut at, mut mtu) = (from, usize::MAX);
        while at != to {
            let channel = &context.channels[ways[at.0 as usize]? as usize];
            mtu = mtu.min(channel.config().mtu.unwrap_or(usize::MAX));
            at = channel.to;
        }
        Some(mtu)
    }

    fn ways_to(&mut self, context: &NetworkContext<'_>, to: NodeId) -> &[Option<u32>] {
        let network = (context.nodes.len(), context.channels.len());
        if self.ways_of != network {
            self.ways.clear();
            self.ways_of = network;
        }
        self.ways.entry(to.0).or_insert_with(|| {
            let hops = routes::towards(to, context.nodes.len(), context.channels);
            hops.into_iter().map(|hop| hop.map(|hop| hop.channel.0)).collect()
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
