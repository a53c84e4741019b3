//! The sending half: what is under way, what of it is lost, and when it is sent again.
//!
//! As Linux does it: a scoreboard of segments (RFC 2018, RFC 6675's account of what is in flight),
//! losses found by time (RACK, RFC 8985) from each acknowledgement and from a timer, a probe for
//! losses at the tail (TLP, the same), a timeout with Karn's rule and doubling (RFC 6298), the
//! window in a recovery by the rate of deliveries (PRR, RFC 6937). Positions count the stream's
//! bytes from 0; its end takes one more. Windows count segments. A segment that is sent again has
//! the bytes that it had.
//!
//! Missing: undoing a reduction that was not needed (Eifel, F-RTO), so that reordering beyond a
//! quarter of a round trip costs more than in the kernel; the growth of RACK's patience with
//! reordering; and the shrinking of a window that is not used. O(log n) an acknowledgement and
//! newly told segment, n under way, 90 bytes each.

mod alarms;
mod losses;
mod sending;
mod window;

pub(super) use window::Window;

use super::bbr::Bbr;
use super::cubic::Cubic;
use super::ranges::Ranges;
use super::rate::{Delivery, Newest, Noted};
use super::rtt::Rtt;
use super::segment::Segment;
use super::{Congestion, TcpConfig};
use crate::limits;
use larder_units::{Stream, Time};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The longest timeout (Linux' TCP_RTO_MAX).
pub(super) const LONGEST_RTO: Duration = Duration::from_secs(120);

/// Segments told beyond a gap that make it a loss at once (RFC 8985's DupThresh).
const REORDERING: usize = 3;

/// Where the kernel's timers cannot be earlier: two ticks of 1000 Hz.
const TIMER_SLACK: Duration = Duration::from_millis(2);

/// Of an entry of a tree: two numbers, and what the tree adds.
const NODE_BYTES: usize = 32;

/// What the sender is about, in Linux' names: `Disorder` is folded into `Open`, `Cwr` is over at
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// Segments were lost, and are sent again.
    Recovery,
    /// A timeout.
    Loss,
}

impl State {
    pub(super) fn is_recovering(self) -> bool {
        self != State::Open
    }
}

#[derive(Clone, Debug)]
enum Control {
    Cubic(Cubic),
    Bbr(Box<Bbr>),
}

/// A segment under way, or told to have come.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    /// Of the stream, its end included.
    length: u32,
    /// When it last left, and as the how many-th of all.
    at: Time,
    order: u64,
    noted: Noted,
    is_told: bool,
    /// It is to be sent again.
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

/// RACK's newest delivered segment.
#[derive(Clone, Copy, Debug)]
struct Rack {
    order: u64,
    rtt: Duration,
}

/// PRR's account of a recovery.
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    from: u32,
    delivered: u32,
    out: u32,
}

/// What a sender has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Segments with bytes, those sent again included.
    pub segments: u64,
    /// Of those, sent again.
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
    /// What the other end takes.
    limit: u64,
    /// What the application has written, its end included; and of that, what the send buffer has
    /// taken.
    written: u64,
    buffer: u64,
    buffered: u64,
    /// Where the stream ends, once it is closed.
    end: Option<u64>,
    sent: VecDeque<Sent>,
    told: Ranges,
    told_count: usize,
    lost: BTreeSet<u64>,
    /// What left, in that order: order and position. What was sent again since stands there twice.
    by_time: VecDeque<(u64, u64)>,
    orders: u64,
    rack: Option<Rack>,
    state: State,
    /// Recovery and loss end where all up to here is acknowledged.
    recovery_end: u64,
    reduction: Reduction,
    window: Window,
    control: Control,
    rtt: Rtt,
    backoff: u32,
    tries: u32,
    alarm: Option<(Time, Alarm)>,
    /// What was sent up to when a probe left, and whether that was sent before.
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
            Congestion::Bbr => Control::Bbr(Box::new(Bbr::new(config.segment_bytes, config.initial_window, stream))),
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
            told: Ranges::default(),
            told_count: 0,
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

    /// Bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.end.unwrap_or(self.written)
    }

    /// Whether all that was written is acknowledged, the stream's end too.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.una > end)
    }

    /// Whether the other end has not answered for too long.
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

    /// Bytes of what it knows of segments under way.
    pub(super) fn held_bytes(&self) -> usize {
        let of_each = size_of::<Sent>() * self.sent.len() + size_of::<(u64, u64)>() * self.by_time.len();
        of_each + NODE_BYTES * (self.lost.len() + self.told.len())
    }

    /// The other end takes bytes up to this place.
    pub(super) fn allow(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    fn in_flight(&self) -> usize {
        self.sent.len() - self.told_count - self.lost.len()
    }

    fn in_flight_segments(&self) -> u32 {
        u32::try_from(self.in_flight()).unwrap_or(u32::MAX)
    }

    // ---- Acknowledgements ----

    pub(super) fn on_ack(&mut self, now: Time, segment: &Segment) {
        let Some(ack) = segment.ack.filter(|ack| *ack <= self.next) else { return };
        self.allow(ack + u64::from(segment.window));
        let prior = (self.in_flight_segments(), self.delivery.delivered, self.lost_count);
        let mut news = News::default();
        for block in segment.blocks.as_slice() {
            match block.1 <= ack {
                true => news.twice = true,
                false => self.tell(*block, &mut news),
            }
        }
        let advanced = ack > self.una;
        self.take_acknowledged(ack, &mut news);
        let rtt = self.measure(now, &mut news);
        let shortest = self.rtt.shortest();
        self.advance_rack(now, &news, shortest);
        self.end_probe(ack, news.twice);
        if news.delivered > 0 || self.state.is_recovering() {
            self.judge(now);
        }
        let mut sample = self.delivery.sample(now, news.newest, shortest);
        sample.delivered = (self.delivery.delivered - prior.1) as u32;
        sample.lost = (self.lost_count - prior.2) as u32;
        (sample.prior_in_flight, sample.rtt) = (prior.0, rtt);
        self.control(now, &sample, advanced);
        if (advanced || news.rearms) && self.alarm.is_none_or(|(_, alarm)| alarm != Alarm::Reordering) {
            self.set_alarm(now);
        }
        if self.alarm.is_none() {
            self.set_alarm(now);
        }
    }

    /// The other end tells of bytes beyond a gap.
    fn tell(&mut self, (start, end): (u64, u64), news: &mut News) {
        let (start, end) = (start.max(self.una), end.min(self.next));
        let mut fresh = Vec::new();
        self.told.insert(start, end, |from, to| fresh.push((from, to)));
        for (from, to) in fresh {
            let first = self.sent.partition_point(|sent| sent.seq < from);
            for at in first..self.sent.len() {
                let sent = &mut self.sent[at];
                if sent.end() > to {
                    break;
                }
                if !sent.is_told {
                    sent.is_told = true;
                    self.told_count += 1;
                    if std::mem::take(&mut sent.is_lost) {
                        self.lost.remove(&sent.seq);
                    }
                    news.see(sent, true);
                    self.delivery.delivered += 1;
                }
            }
        }
    }

    fn take_acknowledged(&mut self, ack: u64, news: &mut News) {
        if ack <= self.una {
            return;
        }
        while let Some(sent) = self.sent.front().filter(|sent| sent.end() <= ack).copied() {
            self.sent.pop_front();
            match sent.is_told {
                true => self.told_count -= 1,
                false => {
                    if sent.is_lost {
                        self.lost.remove(&sent.seq);
                    }
                    news.see(&sent, false);
                    self.delivery.delivered += 1;
                }
            }
        }
        self.una = ack;
        self.fill_buffer();
        self.told.remove_below(ack);
        (self.backoff, self.tries) = (0, 0);
    }

    /// The application is woken when a third of the buffer is free (`sk_stream_is_writeable`), and
    /// fills it.
    fn fill_buffer(&mut self) {
        if 3 * self.buffered.saturating_sub(self.una) > 2 * self.buffer {
            return;
        }
        // Meanwhile all was sent: what is delivered tells nothing of the path's rate.
        if self.next == self.buffered && self.in_flight() < self.window.segments as usize {
            self.delivery.on_app_limited(self.in_flight_segments());
        }
        self.buffered = self.una + self.buffer;
    }

    /// Whether there is something new that the other end takes.
    fn has_new(&self) -> bool {
        self.next < self.written.min(self.limit).min(self.buffered)
    }

    /// The round trip that an acknowledgement tells, if any: the kernel's `ca_rtt`, of its last
    /// segment. The estimate takes the first one's.
    fn measure(&mut self, now: Time, news: &mut News) -> Option<Duration> {
        let head = self.sent.front().map(|sent| sent.at);
        let estimate = news.first_acked.or(news.first_told).or(news.resent);
        if let Some(at) = estimate {
            self.rtt.sample(now.since(at), self.una, self.next);
        }
        // What left after the first that is missing was told: that one's timeout runs from its own
        // time.
        news.rearms =
            news.first_acked.is_none() && news.first_told.is_some_and(|at| head.is_some_and(|head| at < head));
        news.last_acked.or(news.last_told).map(|at| now.since(at))
    }

    fn advance_rack(&mut self, now: Time, news: &News, shortest: Option<Duration>) {
        for (order, at, was_resent) in news.seen.iter().copied() {
            let rtt = now.since(at);
            // Sooner than any round trip: it was the first sending that came.
            if was_resent && shortest.is_some_and(|shortest| rtt < shortest) {
                continue;
            }
            if self.rack.is_none_or(|rack| order > rack.order) {
                self.rack = Some(Rack { order, rtt });
            }
        }
    }

    /// TLP: whether the probe mended a loss that nobody else would have noticed (RFC 8985, section
    /// 7.4).
    fn end_probe(&mut self, ack: u64, twice: bool) {
        let Some((until, was_resent)) = self.probe.filter(|(until, _)| ack >= *until) else { return };
        if was_resent && !twice && ack > until {
            self.probe = None;
            self.reduce();
            self.finish_reduction();
        } else if !was_resent || twice || ack > until {
            self.probe = None;
        }
    }
}

/// What an acknowledgement brought.
#[derive(Default)]
struct News {
    delivered: u32,
    newest: Newest,
    /// Order, when it left, whether it had been sent again.
    seen: Vec<(u64, Time, bool)>,
    first_acked: Option<Time>,
    last_acked: Option<Time>,
    first_told: Option<Time>,
    last_told: Option<Time>,
    resent: Option<Time>,
    twice: bool,
    rearms: bool,
}

impl News {
    fn see(&mut self, sent: &Sent, is_told: bool) {
        self.delivered += 1;
        self.newest.see(sent.order, sent.at, sent.noted);
        self.seen.push((sent.order, sent.at, sent.was_resent));
        // Karn: of what was sent twice, nobody knows which one came.
        let (first, last) = match (sent.was_resent, is_told) {
            (true, _) => return self.resent = Some(sent.at),
            (false, true) => (&mut self.first_told, &mut self.last_told),
            (false, false) => (&mut self.first_acked, &mut self.last_acked),
        };
        first.get_or_insert(sent.at);
        *last = Some(sent.at);
    }
}
