//! The sending half: segments in flight, which of them are lost, and when they are sent again.
//!
//! The mechanisms are Linux': a scoreboard of segments (RFC 2018, with RFC 6675's count of segments
//! in flight), losses found by time (RACK, RFC 8985) at each acknowledgement and by a timer, a
//! probe for losses at the tail (TLP, RFC 8985), a timeout with Karn's rule and doubling (RFC
//! 6298), and the window in a recovery by the rate of deliveries (PRR, RFC 6937). Positions count
//! the stream's bytes from 0; its end takes one more. Windows count segments. A segment that is
//! sent again has the same bytes.
//!
//! Missing: undoing an unnecessary reduction (Eifel, F-RTO), so that reordering beyond a quarter of
//! a round trip costs more than in the kernel; the growth of RACK's reordering window; and the
//! shrinking of an unused window. O(log n) per acknowledgement and newly acknowledged segment, with
//! n in flight, 90 bytes each.

mod alarms;
mod losses;
mod sending;
mod window;

use super::bbr::Bbr;
use super::cubic::Cubic;
use super::ranges::Ranges;
use super::rate::{Delivery, Newest, Noted};
use super::rtt::Rtt;
use super::segment::Segment;
use super::window::{State, Window};
use super::{Congestion, TcpConfig};
use crate::limits;
use larder_units::{Stream, Time};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The longest timeout (Linux' TCP_RTO_MAX).
pub(super) const LONGEST_RTO: Duration = Duration::from_secs(120);

/// Segments acknowledged beyond a gap that make it a loss at once (RFC 8985's DupThresh).
const REORDERING: usize = 3;

/// The least time of the kernel's timers: two ticks of 1000 Hz.
const TIMER_SLACK: Duration = Duration::from_millis(2);

/// Bytes of a tree entry: two numbers, and the overhead of the tree.
const NODE_BYTES: usize = 32;

#[derive(Clone, Debug)]
enum Control {
    Cubic(Cubic),
    Bbr(Box<Bbr>),
}

/// A segment in flight, or acknowledged beyond a gap.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    /// The length in the stream, including its end.
    length: u32,
    /// The time of its last transmission, and the number of that transmission.
    at: Time,
    order: u64,
    noted: Noted,
    is_sacked: bool,
    /// Whether it is to be sent again.
    is_lost: bool,
    was_resent: bool,
}

impl Sent {
    fn end(&self) -> u64 {
        self.seq + u64::from(self.length)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alarm {
    Timeout,
    Probe,
    Reordering,
}

/// The newest delivered segment, for RACK.
#[derive(Clone, Copy, Debug)]
struct Rack {
    order: u64,
    rtt: Duration,
}

/// The state of PRR in a recovery.
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    from: u32,
    delivered: u32,
    out: u32,
}

/// The counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Segments with bytes, including those sent again.
    pub segments: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Timeouts.
    pub timeouts: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Sender {
    segment_bytes: u32,
    initial_window: u32,
    una: u64,
    next: u64,
    /// The position up to which the other end accepts bytes.
    limit: u64,
    /// The position up to which the application has written, including the stream's end, and the
    /// part of it that the send buffer has taken.
    written: u64,
    buffer: u64,
    buffered: u64,
    /// The position of the stream's end, once it is closed.
    end: Option<u64>,
    sent: VecDeque<Sent>,
    sacked: Ranges,
    sacked_count: usize,
    lost: BTreeSet<u64>,
    /// Transmissions in their order: number and position. A segment that was sent again occurs
    /// twice.
    by_time: VecDeque<(u64, u64)>,
    orders: u64,
    rack: Option<Rack>,
    state: State,
    /// Recovery and loss end when all up to here is acknowledged.
    recovery_end: u64,
    reduction: Reduction,
    window: Window,
    control: Control,
    rtt: Rtt,
    backoff: u32,
    tries: u32,
    alarm: Option<(Time, Alarm)>,
    /// The last position sent when a probe left, and whether the probe was a retransmission.
    probe: Option<(u64, bool)>,
    probe_due: bool,
    delivery: Delivery,
    lost_count: u64,
    last_sent_at: Time,
    most_out: usize,
    is_window_limited: bool,
    usage_end: u64,
    paced_until: Time,
    burst_left: u32,
    waits_for_pace: bool,
    counters: TcpCounters,
}

impl Sender {
    pub(super) fn new(now: Time, config: &TcpConfig, stream: Stream) -> Self {
        let control = match config.congestion {
            Congestion::Cubic => Control::Cubic(Cubic::default()),
            Congestion::Bbr => Control::Bbr(Box::new(Bbr::new(
                config.segment_bytes,
                config.initial_window,
                stream,
            ))),
        };
        Sender {
            segment_bytes: config.segment_bytes,
            initial_window: config.initial_window,
            una: 0,
            next: 0,
            limit: 0,
            written: 0,
            buffer: u64::from(config.send_buffer),
            buffered: u64::from(config.send_buffer),
            end: None,
            sent: VecDeque::new(),
            sacked: Ranges::default(),
            sacked_count: 0,
            lost: BTreeSet::new(),
            by_time: VecDeque::new(),
            orders: 0,
            rack: None,
            state: State::Open,
            recovery_end: 0,
            reduction: Reduction::default(),
            window: Window::new(config.initial_window),
            control,
            rtt: Rtt::new(config),
            backoff: 0,
            tries: 0,
            alarm: None,
            probe: None,
            probe_due: false,
            delivery: Delivery::new(now),
            lost_count: 0,
            last_sent_at: now,
            most_out: 0,
            is_window_limited: false,
            usage_end: 0,
            paced_until: now,
            burst_left: 0,
            waits_for_pace: false,
            counters: TcpCounters::default(),
        }
    }

    // ---- The application's side ----

    pub(super) fn write(&mut self, bytes: u64) {
        if self.end.is_none() {
            self.written += bytes;
        }
    }

    pub(super) fn close(&mut self) {
        if self.end.is_none() {
            self.end = Some(self.written);
            self.written += 1;
        }
    }

    /// The number of written bytes.
    pub(super) fn written(&self) -> u64 {
        self.end.unwrap_or(self.written)
    }

    /// Returns true if all written bytes and the stream's end are acknowledged.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.una > end)
    }

    /// Returns true if the other end has not answered for too long.
    pub(super) fn has_failed(&self) -> bool {
        self.tries > limits::TCP_TRIES
    }

    pub(super) fn counters(&self) -> TcpCounters {
        self.counters
    }

    pub(super) fn rtt_sample(&mut self, rtt: Duration) {
        self.rtt.sample(rtt, self.una, self.next);
    }

    #[cfg(test)]
    pub(super) fn shortest_rtt(&self) -> Option<Duration> {
        self.rtt.shortest()
    }

    /// The bytes of its records of segments.
    pub(super) fn held_bytes(&self) -> usize {
        let of_each =
            size_of::<Sent>() * self.sent.len() + size_of::<(u64, u64)>() * self.by_time.len();
        of_each + NODE_BYTES * (self.lost.len() + self.sacked.len())
    }

    /// Records that the other end accepts bytes up to this position.
    pub(super) fn allow(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    fn in_flight(&self) -> usize {
        self.sent.len() - self.sacked_count - self.lost.len()
    }

    fn in_flight_segments(&self) -> u32 {
        u32::try_from(self.in_flight()).unwrap_or(u32::MAX)
    }

    // ---- Acknowledgements ----

    pub(super) fn on_ack(&mut self, now: Time, segment: &Segment) {
        let Some(ack) = segment.ack.filter(|ack| *ack <= self.next) else {
            return;
        };
        self.allow(ack + u64::from(segment.window));
        let prior = (
            self.in_flight_segments(),
            self.delivery.delivered,
            self.lost_count,
        );
        let mut summary = AckSummary::default();
        for block in segment.blocks.as_slice() {
            if block.1 <= ack {
                summary.twice = true
            } else {
                self.mark_sacked(*block, &mut summary)
            }
        }
        let advanced = ack > self.una;
        self.take_acknowledged(ack, &mut summary);
        let rtt = self.measure(now, &mut summary);
        let shortest = self.rtt.shortest();
        self.advance_rack(now, &summary, shortest);
        self.end_probe(ack, summary.twice);
        if summary.delivered > 0 || self.state.is_recovering() {
            self.detect_losses(now);
        }
        let mut sample = self.delivery.sample(now, summary.newest, shortest);
        sample.delivered = (self.delivery.delivered - prior.1) as u32;
        sample.lost = (self.lost_count - prior.2) as u32;
        (sample.prior_in_flight, sample.rtt) = (prior.0, rtt);
        self.control(now, &sample, advanced);
        if (advanced || summary.rearms)
            && self
                .alarm
                .is_none_or(|(_, alarm)| alarm != Alarm::Reordering)
        {
            self.set_alarm(now);
        }
        if self.alarm.is_none() {
            self.set_alarm(now);
        }
    }

    /// Handles a block of bytes that the other end has beyond a gap.
    fn mark_sacked(&mut self, (start, end): (u64, u64), summary: &mut AckSummary) {
        let (start, end) = (start.max(self.una), end.min(self.next));
        let mut fresh = Vec::new();
        self.sacked
            .insert(start, end, |from, to| fresh.push((from, to)));
        for (from, to) in fresh {
            let first = self.sent.partition_point(|sent| sent.seq < from);
            for at in first..self.sent.len() {
                let sent = &mut self.sent[at];
                if sent.end() > to {
                    break;
                }
                if !sent.is_sacked {
                    sent.is_sacked = true;
                    self.sacked_count += 1;
                    if std::mem::take(&mut sent.is_lost) {
                        self.lost.remove(&sent.seq);
                    }
                    summary.add(sent, true);
                    self.delivery.delivered += 1;
                }
            }
        }
    }

    fn take_acknowledged(&mut self, ack: u64, summary: &mut AckSummary) {
        if ack <= self.una {
            return;
        }
        while let Some(sent) = self.sent.front().filter(|sent| sent.end() <= ack).copied() {
            self.sent.pop_front();
            if sent.is_sacked {
                self.sacked_count -= 1
            } else {
                if sent.is_lost {
                    self.lost.remove(&sent.seq);
                }
                summary.add(&sent, false);
                self.delivery.delivered += 1;
            }
        }
        self.una = ack;
        self.fill_buffer();
        self.sacked.remove_below(ack);
        (self.backoff, self.tries) = (0, 0);
    }

    /// The application is woken when a third of the buffer is free (`sk_stream_is_writeable`), and
    /// fills it.
    fn fill_buffer(&mut self) {
        if 3 * self.buffered.saturating_sub(self.una) > 2 * self.buffer {
            return;
        }
        // All was sent before that, so the deliveries do not measure the path's rate.
        if self.next == self.buffered && self.in_flight() < self.window.segments as usize {
            self.delivery.on_app_limited(self.in_flight_segments());
        }
        self.buffered = self.una + self.buffer;
    }

    /// Returns true if there is new data that the other end accepts.
    fn has_new(&self) -> bool {
        self.next < self.written.min(self.limit).min(self.buffered)
    }

    /// Returns the round trip of an acknowledgement, if it gives one: the kernel's `ca_rtt`, of its
    /// last segment. The estimate uses the first segment.
    fn measure(&mut self, now: Time, summary: &mut AckSummary) -> Option<Duration> {
        let head = self.sent.front().map(|sent| sent.at);
        let estimate = summary
            .first_acked
            .or(summary.first_sacked)
            .or(summary.resent);
        if let Some(at) = estimate {
            self.rtt.sample(now.since(at), self.una, self.next);
        }
        // A segment that was sent after the first missing one is acknowledged, so the timeout of
        // the missing one runs from its own time.
        summary.rearms = summary.first_acked.is_none()
            && summary
                .first_sacked
                .is_some_and(|at| head.is_some_and(|head| at < head));
        summary
            .last_acked
            .or(summary.last_sacked)
            .map(|at| now.since(at))
    }

    fn advance_rack(&mut self, now: Time, summary: &AckSummary, shortest: Option<Duration>) {
        for (order, at, was_resent) in summary.seen.iter().copied() {
            let rtt = now.since(at);
            // A span below any round trip means that the first transmission arrived.
            if was_resent && shortest.is_some_and(|shortest| rtt < shortest) {
                continue;
            }
            if self.rack.is_none_or(|rack| order > rack.order) {
                self.rack = Some(Rack { order, rtt });
            }
        }
    }

    /// TLP: checks whether the probe repaired a loss that nothing else would have shown (RFC 8985,
    /// section 7.4).
    fn end_probe(&mut self, ack: u64, twice: bool) {
        let Some((until, was_resent)) = self.probe.filter(|(until, _)| ack >= *until) else {
            return;
        };
        if was_resent && !twice && ack > until {
            self.probe = None;
            self.reduce();
            self.finish_reduction();
        } else if !was_resent || twice || ack > until {
            self.probe = None;
        }
    }
}

/// The changes of an acknowledgement.
#[derive(Default)]
struct AckSummary {
    delivered: u32,
    newest: Newest,
    /// For each delivered segment: its transmission number, its time, and whether it was sent
    /// again.
    seen: Vec<(u64, Time, bool)>,
    first_acked: Option<Time>,
    last_acked: Option<Time>,
    first_sacked: Option<Time>,
    last_sacked: Option<Time>,
    resent: Option<Time>,
    twice: bool,
    rearms: bool,
}

impl AckSummary {
    fn add(&mut self, sent: &Sent, is_sacked: bool) {
        self.delivered += 1;
        self.newest.update(sent.order, sent.at, sent.noted);
        self.seen.push((sent.order, sent.at, sent.was_resent));
        // Karn: the acknowledgement of a segment that was sent twice may belong to either
        // transmission.
        let (first, last) = match (sent.was_resent, is_sacked) {
            (true, _) => return self.resent = Some(sent.at),
            (false, true) => (&mut self.first_sacked, &mut self.last_sacked),
            (false, false) => (&mut self.first_acked, &mut self.last_acked),
        };
        first.get_or_insert(sent.at);
        *last = Some(sent.at);
    }
}
