//! One end of a connection: the handshake, a sender and a receiver, and the stream's end, without
//! IO, clock and bytes.
//!
//! RFC 9293 but for what the model has no use for: no resets (where one end gives up, the other
//! hears of it at once), no TIME-WAIT (an end answers as long as the connection is kept), no
//! simultaneous opening, no urgent data, no zero window; a SYN carries no data. A SYN that is not
//! answered is sent again after 1, 2, 3, 4, then 6, 10, … s (Linux' `tcp_syn_linear_timeouts`), its
//! answer after 1, 3, 7, … s.

use super::TcpConfig;
use super::receiver::Receiver;
use super::rtt::INITIAL_RTO;
use super::segment::Segment;
use super::sender::{LONGEST_RTO, Sender, TcpCounters};
use crate::limits;
use larder_units::{Stream, Time};

/// Tries of a SYN before its timeout doubles.
const LINEAR_TRIES: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for a SYN.
    Listening,
    /// Waits for the answer to its SYN.
    Asking,
    /// Waits for the answer to its answer.
    Answering,
    Open,
}

/// See the module. It is handed what arrives, polled for what leaves ([`Endpoint::next_segment`]
/// until there is none, after every call), and called again at [`Endpoint::next_timeout`].
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    phase: Phase,
    sender: Sender,
    receiver: Receiver,
    /// When each SYN left, how many did, and whether one is to leave.
    syns_at: [Time; limits::TCP_SYN_TRIES as usize + 1],
    syns: u32,
    /// The attempt of the other end's last SYN.
    echo: u8,
    syn_due: bool,
    retry: Option<Time>,
}

impl Endpoint {
    /// The end that opens a connection; `stream` is of its congestion control.
    pub(super) fn connect(now: Time, config: &TcpConfig, stream: Stream) -> Self {
        Endpoint { phase: Phase::Asking, syn_due: true, ..Endpoint::listen(now, config, stream) }
    }

    /// The end that waits for it.
    pub(super) fn listen(now: Time, config: &TcpConfig, stream: Stream) -> Self {
        Endpoint {
            phase: Phase::Listening,
            sender: Sender::new(now, config, stream),
            receiver: Receiver::new(config),
            syns_at: [now; limits::TCP_SYN_TRIES as usize + 1],
            syns: 0,
            echo: 0,
            syn_due: false,
            retry: None,
        }
    }

    // ---- The application's side ----

    /// So many bytes more are to be sent. Nothing after [`Endpoint::close`].
    pub(super) fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// The stream ends behind what was written.
    pub(super) fn close(&mut self) {
        self.sender.close();
    }

    /// Bytes written.
    pub(super) fn written(&self) -> u64 {
        self.sender.written()
    }

    /// Bytes that came in order.
    pub(super) fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Whether the other end has closed, and all its bytes came.
    pub(super) fn is_closed_there(&self) -> bool {
        self.receiver.is_over()
    }

    /// Whether both streams have ended, as far as this end can tell.
    pub(super) fn is_over(&self) -> bool {
        self.receiver.is_over() && self.sender.is_over()
    }

    /// Whether the other end has not answered for too long.
    pub(super) fn has_failed(&self) -> bool {
        self.sender.has_failed() || self.syns > limits::TCP_SYN_TRIES
    }

    /// Bytes of what it holds beside itself.
    pub(super) fn held_bytes(&self) -> usize {
        self.sender.held_bytes() + 32 * self.receiver.early()
    }

    pub(super) fn counters(&self) -> TcpCounters {
        self.sender.counters()
    }

    // ---- The network's side ----

    /// A segment came.
    pub(super) fn on_segment(&mut self, now: Time, segment: &Segment) {
        if segment.is_syn {
            self.echo = segment.attempt;
        }
        match (self.phase, segment.is_syn, segment.ack.is_some()) {
            (Phase::Listening | Phase::Answering, true, false) => {
                (self.phase, self.syn_due) = (Phase::Answering, true);
                return self.sender.allow(u64::from(segment.window));
            }
            (Phase::Asking, true, true) => {
                self.sender.allow(u64::from(segment.window));
                self.open(now, segment.echo);
                return self.receiver.hurry();
            }
            // The answer came twice: the acknowledgement of the first is lost.
            (Phase::Open, true, true) => return self.receiver.hurry(),
            (Phase::Answering, false, true) => self.open(now, segment.echo),
            (Phase::Open, false, true) => {}
            _ => return,
        }
        self.sender.on_ack(now, segment);
        self.receiver.on_segment(now, segment);
    }

    /// The other end answers this attempt: the round trip is since that one left.
    fn open(&mut self, now: Time, attempt: u8) {
        (self.phase, self.retry, self.syn_due, self.syns) = (Phase::Open, None, false, 0);
        if let Some(at) = self.syns_at.get(usize::from(attempt)) {
            self.sender.rtt_sample(now.since(*at));
        }
    }

    /// When [`Endpoint::on_timeout`] is to be called.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let all = [self.retry, self.sender.next_timeout(), self.receiver.next_timeout()];
        all.into_iter().flatten().min()
    }

    /// The time has come.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.retry.is_some_and(|at| at <= now) {
            (self.retry, self.syn_due) = (None, true);
        }
        if self.phase == Phase::Open {
            self.sender.on_timeout(now);
        }
    }

    /// The next segment that leaves now.
    pub(super) fn next_segment(&mut self, now: Time) -> Option<Segment> {
        if self.has_failed() {
            return None;
        }
        if std::mem::take(&mut self.syn_due) {
            return Some(self.syn(now));
        }
        if self.phase != Phase::Open {
            return None;
        }
        let mut segment = match self.sender.next_segment(now) {
            Some(segment) => segment,
            None if self.receiver.is_due(now) => Segment { seq: self.sender.written(), ..Segment::default() },
            None => return None,
        };
        self.receiver.acknowledge(&mut segment);
        segment.echo = self.echo;
        Some(segment)
    }

    fn syn(&mut self, now: Time) -> Segment {
        let attempt = self.syns.min(limits::TCP_SYN_TRIES);
        self.syns_at[attempt as usize] = now;
        let mut segment = Segment { is_syn: true, attempt: attempt as u8, echo: self.echo, ..Segment::default() };
        self.receiver.acknowledge(&mut segment);
        let is_linear = self.phase == Phase::Asking && self.syns < LINEAR_TRIES;
        let doublings =
            if self.phase == Phase::Asking { self.syns.saturating_sub(LINEAR_TRIES - 1) } else { self.syns };
        let timeout = if is_linear { INITIAL_RTO } else { INITIAL_RTO * (1 << doublings.min(7)) };
        if self.phase == Phase::Asking {
            segment.ack = None;
        }
        self.syns += 1;
        self.retry = Some(now + timeout.min(LONGEST_RTO));
        segment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;
    use std::time::Duration;

    #[test]
    fn a_round_trip_above_a_second_is_measured_from_the_wrong_syn() {
        let stream = || Streams::new(1).stream("end");
        let config = TcpConfig::default();
        let (mut here, mut there) =
            (Endpoint::connect(Time::ZERO, &config, stream()), Endpoint::listen(Time::ZERO, &config, stream()));
        let first = here.next_segment(Time::ZERO).unwrap();
        // Its answer takes 1.4 s: meanwhile another SYN has left.
        there.on_segment(Time::from_millis(700), &first);
        let answer = there.next_segment(Time::from_millis(700)).unwrap();
        here.on_timeout(Time::from_secs(1));
        let second = here.next_segment(Time::from_secs(1)).unwrap();
        assert_eq!((first.attempt, second.attempt, answer.echo), (0, 1, 0));
        here.on_segment(Time::from_millis(1400), &answer);
        assert_eq!(here.sender.shortest_rtt(), Some(Duration::from_millis(1400)));
        // And where the first is lost, from the second.
        let mut there = Endpoint::listen(Time::ZERO, &config, stream());
        let mut here = Endpoint::connect(Time::ZERO, &config, stream());
        here.next_segment(Time::ZERO);
        here.on_timeout(Time::from_secs(1));
        let second = here.next_segment(Time::from_secs(1)).unwrap();
        there.on_segment(Time::from_millis(1100), &second);
        let answer = there.next_segment(Time::from_millis(1100)).unwrap();
        here.on_segment(Time::from_millis(1200), &answer);
        assert_eq!(here.sender.shortest_rtt(), Some(Duration::from_millis(200)));
    }
}
