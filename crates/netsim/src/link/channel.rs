//! Links: two channels, one each way, each with a queue, a rate, losses and a delay.
//!
//! A frame that finds the channel idle is sent at once: it takes its bits over the rate, is lost or
//! not, and arrives a delay later. Else it waits in the queue. The sender's clock of each channel
//! is `busy_until`; an event is planned for it only where frames wait.

use super::loss::Loss;
use super::queue::{Depth, Queue, Queueing};
use crate::events::{Event, EventQueue, Frames};
use crate::frame::Frame;
use crate::limits::MAX_PACKET_BYTES;
use crate::node::NodeId;
use larder_forwarder::FaceId;
use larder_packet::{Fragmenter, Reliability};
use larder_units::{BitRate, Stream, Time};
use std::time::Duration;

/// A link's number, in the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

impl LinkId {
    /// From the node that was named first to the second, and back.
    pub fn channels(self) -> [ChannelId; 2] {
        [ChannelId(2 * self.0), ChannelId(2 * self.0 + 1)]
    }
}

/// What a link is like, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// Bits a second; `None` sends in no time.
    pub rate: Option<BitRate>,
    /// Propagation.
    pub delay: Duration,
    /// Up to so much is added to the delay of each frame, uniformly.
    pub jitter: Duration,
    /// Whether a frame with less jitter may overtake; else it arrives with the one before it at the
    /// earliest.
    pub reorders: bool,
    /// The queue before it.
    pub queue: Queueing,
    /// What it loses.
    pub loss: Loss,
    /// Bytes that each frame takes beside its own: 2 of PPP in ns-3, 46 of Ethernet, IP and UDP.
    pub overhead_bytes: u32,
    /// The largest frame, bytes: larger packets go in NDNLPv2 fragments. `None`: whole, whatever
    /// their size.
    pub mtu: Option<usize>,
    /// Whether both ends take part in NDNLPv2's link reliability: what is lost is sent again by who
    /// is at the link. It needs an MTU.
    pub reliable: bool,
    /// What routes count it as.
    pub metric: u64,
}

impl LinkConfig {
    /// A link without losses, with ns-3's queue of 100 packets and without fragmentation.
    pub fn new(rate: BitRate, delay: Duration) -> Self {
        LinkConfig {
            rate: Some(rate),
            delay,
            jitter: Duration::ZERO,
            reorders: false,
            queue: Queueing::DropTail(Depth::Packets(100)),
            loss: Loss::None,
            overhead_bytes: 0,
            mtu: None,
            reliable: false,
            metric: 1,
        }
    }
}

/// What a channel has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Frames sent, those that were then lost included.
    pub frames: u64,
    /// Their bytes, with the link's overhead.
    pub bytes: u64,
    /// Frames that the queue dropped.
    pub dropped: u64,
    /// Frames that the queue marked.
    pub marked: u64,
    /// Frames lost on the way, and those that a cut took.
    pub lost: u64,
    /// Packets that could not be cut to the MTU.
    pub uncut: u64,
}

/// One direction of a link.
pub struct Channel {
    pub(crate) id: u32,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// At the receiver.
    pub(crate) to_face: FaceId,
    /// Links between the same two nodes that were made before.
    pub(crate) parallel: u32,
    config: LinkConfig,
    queue: Queue,
    fragmenter: Fragmenter,
    /// That of the end from which it leads, for what comes by the other channel of the link too.
    reliability: Option<Box<Reliability>>,
    /// When it is planned to be called.
    reliability_timer: Option<Time>,
    stream: Stream,
    in_bad: bool,
    busy_until: Time,
    last_arrival: Time,
    ready_planned: bool,
    is_up: bool,
    /// Counts cuts: what was under way at one never arrives.
    pub(crate) epoch: u32,
    counters: ChannelCounters,
}

impl Channel {
    pub(crate) fn new(
        id: u32,
        from: NodeId,
        to: NodeId,
        to_face: FaceId,
        config: LinkConfig,
        mut stream: Stream,
    ) -> Self {
        let reliability =
            config.reliable.then(|| Box::new(Reliability::new(stream.bits()).for_packets_of(MAX_PACKET_BYTES)));
        Channel {
            id,
            from,
            to,
            to_face,
            parallel: 0,
            config,
            queue: Queue::new(config.queue),
            fragmenter: Fragmenter::new(0).for_packets_of(MAX_PACKET_BYTES),
            reliability,
            reliability_timer: None,
            stream,
            in_bad: false,
            busy_until: Time::ZERO,
            last_arrival: Time::ZERO,
            ready_planned: false,
            is_up: true,
            epoch: 0,
            counters: ChannelCounters::default(),
        }
    }

    /// The same, beside so many links of the same two nodes.
    pub(crate) fn beside(self, parallel: u32) -> Self {
        Channel { parallel, ..self }
    }

    /// Where it leads from and to.
    pub fn ends(&self) -> (NodeId, NodeId) {
        (self.from, self.to)
    }

    /// What it is like.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What it has seen.
    pub fn counters(&self) -> ChannelCounters {
        self.counters
    }

    /// Frames and bytes that wait.
    pub fn waiting(&self) -> (usize, u64) {
        (self.queue.len(), self.queue.bytes())
    }

    /// The frames that wait.
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Frame> {
        self.queue.frames()
    }

    /// Sends a packet with its link header; `mtu`'s fragments if need be.
    pub(crate) fn send(
        &mut self,
        now: Time,
        send: &larder_forwarder::Send,
        input: &[u8],
        events: &mut EventQueue,
        frames: &mut Frames,
    ) {
        let Some(mtu) = self.config.mtu else {
            let mut frame = Vec::with_capacity(send.packet(input).len() + 64);
            send.write_stream(input, &mut frame);
            return self.send_frame(now, frame.into(), events, frames);
        };
        if let Some(mut reliability) = self.reliability.take() {
            let emit = |frame: &[u8]| self.send_frame(now, frame.to_vec().into(), events, frames);
            let cut = reliability.send(now, &send.header, send.packet(input), mtu, emit);
            self.counters.uncut += u64::from(cut.is_err());
            return self.keep(now, reliability, events);
        }
        let mut fragmenter = std::mem::take(&mut self.fragmenter);
        let cut = send.write_frames(input, mtu, &mut fragmenter, |frame| {
            self.send_frame(now, frame.to_vec().into(), events, frames)
        });
        self.fragmenter = fragmenter;
        self.counters.uncut += u64::from(cut.is_err());
    }

    /// Whether a bare packet of this length goes as one frame.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.reliability.is_none() && self.config.mtu.is_none_or(|mtu| bytes <= mtu)
    }

    /// Takes in what a frame that came by the link's other channel says of the link; false where it
    /// came before.
    pub(crate) fn receive_reliability(&mut self, now: Time, frame: &[u8], events: &mut EventQueue) -> bool {
        let Some(mut reliability) = self.reliability.take() else { return true };
        let is_new = reliability.receive(now, frame);
        self.keep(now, reliability, events);
        is_new
    }

    /// Time for what is to be sent again, and for Acks.
    pub(crate) fn on_reliability(&mut self, now: Time, events: &mut EventQueue, frames: &mut Frames) {
        let (Some(mtu), true) = (self.config.mtu, self.reliability_timer == Some(now)) else { return };
        self.reliability_timer = None;
        if let Some(mut reliability) = self.reliability.take() {
            reliability.on_timeout(now, mtu, |frame| self.send_frame(now, frame.to_vec().into(), events, frames));
            self.keep(now, reliability, events);
        }
    }

    /// Puts it back, and plans its next call: now, where that is overdue.
    fn keep(&mut self, now: Time, reliability: Box<Reliability>, events: &mut EventQueue) {
        let next = reliability.next_timeout().map(|at| at.max(now));
        self.reliability = Some(reliability);
        if let Some(at) = next.filter(|_| next != self.reliability_timer) {
            events.plan(at, Event::Reliability { channel: self.id });
        }
        self.reliability_timer = next;
    }

    /// Sends a frame, or lets it wait.
    pub(crate) fn send_frame(&mut self, now: Time, frame: Frame, events: &mut EventQueue, frames: &mut Frames) {
        if !self.is_up {
            self.counters.lost += 1;
            return;
        }
        if self.queue.len() == 0 && self.busy_until <= now {
            return self.start(now, frame, events, frames);
        }
        let verdict = self.queue.push(now, frame, &mut self.stream);
        self.counters.dropped += verdict.dropped;
        self.counters.marked += verdict.marked;
        self.plan_ready(events);
    }

    /// The last frame is out.
    pub(crate) fn on_ready(&mut self, now: Time, events: &mut EventQueue, frames: &mut Frames) {
        self.ready_planned = false;
        let (next, verdict) = self.queue.pop(now);
        self.counters.dropped += verdict.dropped;
        self.counters.marked += verdict.marked;
        if let Some(frame) = next {
            self.start(now, frame, events, frames);
        }
        self.plan_ready(events);
    }

    fn plan_ready(&mut self, events: &mut EventQueue) {
        if self.queue.len() > 0 && !self.ready_planned {
            self.ready_planned = true;
            events.plan(self.busy_until, Event::Ready { channel: self.id, epoch: self.epoch });
        }
    }

    fn start(&mut self, now: Time, frame: Frame, events: &mut EventQueue, frames: &mut Frames) {
        let bytes = frame.len() as u64 + u64::from(self.config.overhead_bytes);
        self.counters.frames += 1;
        self.counters.bytes += bytes;
        self.busy_until = now + self.config.rate.map_or(Duration::ZERO, |rate| sending_time(bytes, rate));
        if self.config.loss.strikes(&mut self.in_bad, &mut self.stream) {
            self.counters.lost += 1;
            return;
        }
        let mut arrival = self.busy_until + self.config.delay;
        if !self.config.jitter.is_zero() {
            let most = u64::try_from(self.config.jitter.as_nanos()).unwrap_or(u64::MAX);
            arrival += Duration::from_nanos(self.stream.below(most.saturating_add(1)));
            if !self.config.reorders {
                arrival = arrival.max(self.last_arrival);
            }
            self.last_arrival = arrival;
        }
        events.plan(arrival, Event::Arrive { channel: self.id, frame: frames.put(frame), epoch: self.epoch });
    }

    /// Takes the link away with all that is on it, or mends it.
    pub(crate) fn set_up(&mut self, now: Time, is_up: bool) {
        if self.is_up && !is_up {
            self.counters.lost += self.queue.clear();
            self.epoch = self.epoch.wrapping_add(1);
            self.ready_planned = false;
            self.busy_until = now;
        }
        self.is_up = is_up;
    }

    /// A frame that was under way when the link was cut.
    pub(crate) fn count_lost(&mut self) {
        self.counters.lost += 1;
    }
}

/// How long bytes take at a rate, to the nanosecond below.
fn sending_time(bytes: u64, rate: BitRate) -> Duration {
    let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate.bits_per_second().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
