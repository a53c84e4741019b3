//! Links: two channels, one per direction, each with a queue, a rate, losses and a delay.
//!
//! A frame that finds its channel idle is sent at once: it takes its length over the rate, is lost
//! or not, and arrives a delay later. Otherwise it waits in the queue. `busy_until` is the time at
//! which the channel becomes idle; an event is planned for that time only if frames wait.

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

/// The number of a link, in the order in which links were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

impl LinkId {
    /// The channel from the first node of the link to the second, and the channel back.
    pub fn channels(self) -> [ChannelId; 2] {
        [ChannelId(2 * self.0), ChannelId(2 * self.0 + 1)]
    }
}

/// The configuration of a link, for one direction or both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// Bits per second. `None` sends in no time.
    pub rate: Option<BitRate>,
    /// The propagation delay.
    pub delay: Duration,
    /// The greatest extra delay of a frame. The extra delay is drawn uniformly for each frame.
    pub jitter: Duration,
    /// Whether a frame with less jitter may overtake an earlier one. Otherwise it arrives no
    /// earlier than the frame before it.
    pub reorders: bool,
    /// The queue before the link.
    pub queue: Queueing,
    /// The losses on the link.
    pub loss: Loss,
    /// Bytes that each frame takes beside its own: 2 for PPP in ns-3, 46 for Ethernet, IP and UDP.
    pub overhead_bytes: u32,
    /// The size of the largest frame in bytes. Larger packets are cut into NDNLPv2 fragments.
    /// `None` sends packets of any size whole.
    pub mtu: Option<usize>,
    /// Whether both ends take part in NDNLPv2's link reliability: the sender of a lost frame sends
    /// it again over this link. It needs an MTU.
    pub reliable: bool,
    /// The cost of the link in routes.
    pub metric: u64,
}

impl LinkConfig {
    /// A link without losses and without fragmentation, with ns-3's queue of 100 packets.
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

/// The counters of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Frames sent, including those that were lost afterwards.
    pub frames: u64,
    /// Bytes of the frames sent, with the link's overhead.
    pub bytes: u64,
    /// Frames that the queue dropped.
    pub dropped: u64,
    /// Frames that the queue marked.
    pub marked: u64,
    /// Frames lost on the link, including those lost in a cut.
    pub lost: u64,
    /// Packets that do not fit the MTU even in fragments.
    pub oversized: u64,
}

/// One direction of a link.
pub struct Channel {
    pub(crate) id: u32,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// The face at the receiver.
    pub(crate) to_face: FaceId,
    /// The number of earlier links between the same two nodes.
    pub(crate) parallel: u32,
    config: LinkConfig,
    queue: Queue,
    fragmenter: Fragmenter,
    /// The link reliability of the end at which this channel starts. It also handles the frames
    /// that arrive by the link's other channel.
    reliability: Option<Box<Reliability>>,
    /// The time of the planned timer of link reliability.
    reliability_timer: Option<Time>,
    stream: Stream,
    in_bad: bool,
    busy_until: Time,
    last_arrival: Time,
    ready_planned: bool,
    is_up: bool,
    /// Whether routes may lead over the channel. False after its failure has become known.
    pub(crate) is_in_routes: bool,
    /// The number of cuts. A frame that was on the link during a cut never arrives.
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
        let reliability = config
            .reliable
            .then(|| Box::new(Reliability::new(stream.bits()).for_packets_of(MAX_PACKET_BYTES)));
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
            is_in_routes: true,
            epoch: 0,
            counters: ChannelCounters::default(),
        }
    }

    /// Sets the number of earlier links between the same two nodes.
    pub(crate) fn beside(self, parallel: u32) -> Self {
        Channel { parallel, ..self }
    }

    /// The nodes at which the channel starts and ends.
    pub fn ends(&self) -> (NodeId, NodeId) {
        (self.from, self.to)
    }

    /// The configuration.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// The counters.
    pub fn counters(&self) -> ChannelCounters {
        self.counters
    }

    /// The number of frames in the queue, and their bytes.
    pub fn waiting(&self) -> (usize, u64) {
        (self.queue.len(), self.queue.bytes())
    }

    /// The frames in the queue.
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Frame> {
        self.queue.frames()
    }

    /// Sends a packet with its link header, in fragments if it does not fit the MTU.
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
            self.counters.oversized += u64::from(cut.is_err());
            return self.restore(now, reliability, events);
        }
        let mut fragmenter = std::mem::take(&mut self.fragmenter);
        let cut = send.write_frames(input, mtu, &mut fragmenter, |frame| {
            self.send_frame(now, frame.to_vec().into(), events, frames)
        });
        self.fragmenter = fragmenter;
        self.counters.oversized += u64::from(cut.is_err());
    }

    /// Returns true if a packet of this length without a link header is sent as one frame.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.reliability.is_none() && self.config.mtu.is_none_or(|mtu| bytes <= mtu)
    }

    /// Processes the link reliability of a frame that arrived by the link's other channel. Returns
    /// false for a duplicate.
    pub(crate) fn receive_reliability(
        &mut self,
        now: Time,
        frame: &[u8],
        events: &mut EventQueue,
    ) -> bool {
        let Some(mut reliability) = self.reliability.take() else {
            return true;
        };
        let is_new = reliability.receive(now, frame);
        self.restore(now, reliability, events);
        is_new
    }

    /// Runs the timer of link reliability: retransmissions and acknowledgements.
    pub(crate) fn on_reliability(
        &mut self,
        now: Time,
        events: &mut EventQueue,
        frames: &mut Frames,
    ) {
        let (Some(mtu), true) = (self.config.mtu, self.reliability_timer == Some(now)) else {
            return;
        };
        self.reliability_timer = None;
        if let Some(mut reliability) = self.reliability.take() {
            reliability.on_timeout(now, mtu, |frame| {
                self.send_frame(now, frame.to_vec().into(), events, frames)
            });
            self.restore(now, reliability, events);
        }
    }

    /// Puts the link reliability back and plans its next timer; an overdue timer runs now.
    fn restore(&mut self, now: Time, reliability: Box<Reliability>, events: &mut EventQueue) {
        let next = reliability.next_timeout().map(|at| at.max(now));
        self.reliability = Some(reliability);
        if let Some(at) = next.filter(|_| next != self.reliability_timer) {
            events.plan(at, Event::Reliability { channel: self.id });
        }
        self.reliability_timer = next;
    }

    /// Sends a frame, or puts it into the queue.
    pub(crate) fn send_frame(
        &mut self,
        now: Time,
        frame: Frame,
        events: &mut EventQueue,
        frames: &mut Frames,
    ) {
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

    /// Starts the next frame, after the last one has been sent.
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
            events.plan(
                self.busy_until,
                Event::Ready {
                    channel: self.id,
                    epoch: self.epoch,
                },
            );
        }
    }

    fn start(&mut self, now: Time, frame: Frame, events: &mut EventQueue, frames: &mut Frames) {
        let bytes = frame.len() as u64 + u64::from(self.config.overhead_bytes);
        self.counters.frames += 1;
        self.counters.bytes += bytes;
        self.busy_until = now
            + self
                .config
                .rate
                .map_or(Duration::ZERO, |rate| sending_time(bytes, rate));
        if self.config.loss.is_lost(&mut self.in_bad, &mut self.stream) {
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
        events.plan(
            arrival,
            Event::Arrive {
                channel: self.id,
                frame: frames.put(frame),
                epoch: self.epoch,
            },
        );
    }

    /// Cuts the channel, and loses all frames on it and in its queue, or mends it.
    pub(crate) fn set_up(&mut self, now: Time, is_up: bool) {
        if self.is_up && !is_up {
            self.counters.lost += self.queue.clear();
            self.epoch = self.epoch.wrapping_add(1);
            self.ready_planned = false;
            self.busy_until = now;
        }
        self.is_up = is_up;
    }

    /// Counts a frame that was on the link when it was cut.
    pub(crate) fn count_lost(&mut self) {
        self.counters.lost += 1;
    }
}

/// The time that bytes take at a rate, rounded down to a nanosecond.
fn sending_time(bytes: u64, rate: BitRate) -> Duration {
    let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate.bits_per_second().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
