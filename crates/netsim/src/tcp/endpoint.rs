//! One end of a connection: the handshake, a sender and a receiver, and the end of the stream,
//! without IO, clock and bytes.
//!
//! The behaviour follows RFC 9293 except for what the model does not need: there are no resets (the
//! other end learns at once that an end gives up), no TIME-WAIT (an end answers while the
//! connection is kept), no simultaneous open, no urgent data and no zero window; a SYN carries no
//! data. An unanswered SYN is sent again after 1, 2, 3, 4, then 6, 10, … s (Linux'
//! `tcp_syn_linear_timeouts`), and its answer after 1, 3, 7, … s.

use super::TcpConfig;
use super::receiver::Receiver;
use super::rtt::INITIAL_RTO;
use super::segment::Segment;
use super::sender::{LONGEST_RTO, Sender, TcpCounters};
use crate::limits;
use larder_units::{Stream, Time};

/// SYNs before their timeout doubles.
const LINEAR_TRIES: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for a SYN.
    Listening,
    /// Waits for the answer to its SYN.
    SynSent,
    /// Waits for the acknowledgement of its answer.
    SynReceived,
    Open,
}

/// One end of a connection. The caller gives it arriving segments, polls [`Endpoint::next_segment`]
/// after every call until it returns `None`, and calls [`Endpoint::on_timeout`] at
/// [`Endpoint::next_timeout`].
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    phase: Phase,
    sender: Sender,
    receiver: Receiver,
    /// The time of each SYN, their number, and whether one is due.
    syns_at: [Time; limits::TCP_SYN_TRIES as usize + 1],
    syns: u32,
    /// The attempt number of the other end's last SYN.
    echo: u8,
    syn_due: bool,
    retry: Option<Time>,
}

impl Endpoint {
    /// Creates the end that opens a connection; `stream` is for its congestion control.
    pub(super) fn connect(now: Time, config: &TcpConfig, stream: Stream) -> Self {
        Endpoint {
            phase: Phase::SynSent,
            syn_due: true,
            ..Endpoint::listen(now, config, stream)
        }
    }

    /// Creates the end that waits for a connection.
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

    /// Writes bytes. It has no effect after [`Endpoint::close`].
    pub(super) fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// Ends the stream after the written bytes.
    pub(super) fn close(&mut self) {
        self.sender.close();
    }

    /// The number of written bytes.
    pub(super) fn written(&self) -> u64 {
        self.sender.written()
    }

    /// The number of bytes received in order.
    pub(super) fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Returns true if the other end has closed and all its bytes have arrived.
    pub(super) fn is_closed_there(&self) -> bool {
        self.receiver.is_over()
    }

    /// Returns true if both streams have ended, as far as this end knows.
    pub(super) fn is_over(&self) -> bool {
        self.receiver.is_over() && self.sender.is_over()
    }

    /// Returns true if the other end has not answered for too long.
    pub(super) fn has_failed(&self) -> bool {
        self.sender.has_failed() || self.syns > limits::TCP_SYN_TRIES
    }

    /// The bytes that it holds beside itself.
    pub(super) fn held_bytes(&self) -> usize {
        self.sender.held_bytes() + 32 * self.receiver.early()
    }

    pub(super) fn counters(&self) -> TcpCounters {
        self.sender.counters()
    }

    // ---- The network's side ----

    /// Handles a segment.
    pub(super) fn on_segment(&mut self, now: Time, segment: &Segment) {
        if segment.is_syn {
            self.echo = segment.attempt;
        }
        match (self.phase, segment.is_syn, segment.ack.is_some()) {
            (Phase::Listening | Phase::SynReceived, true, false) => {
                (self.phase, self.syn_due) = (Phase::SynReceived, true);
                return self.sender.allow(u64::from(segment.window));
            }
            (Phase::SynSent, true, true) => {
                self.sender.allow(u64::from(segment.window));
                self.open(now, segment.echo);
                return self.receiver.acknowledge_now();
            }
            // A second answer means that the acknowledgement of the first one was lost.
            (Phase::Open, true, true) => return self.receiver.acknowledge_now(),
            (Phase::SynReceived, false, true) => self.open(now, segment.echo),
            (Phase::Open, false, true) => {}
            _ => return,
        }
        self.sender.on_ack(now, segment);
        self.receiver.on_segment(now, segment);
    }

    /// Opens the connection. The other end echoed this attempt, so the round trip began with that
    /// SYN.
    fn open(&mut self, now: Time, attempt: u8) {
        (self.phase, self.retry, self.syn_due, self.syns) = (Phase::Open, None, false, 0);
        if let Some(at) = self.syns_at.get(usize::from(attempt)) {
            self.sender.rtt_sample(now.since(*at));
        }
    }

    /// The time at which [`Endpoint::on_timeout`] should be called.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let all = [
            self.retry,
            self.sender.next_timeout(),
            self.receiver.next_timeout(),
        ];
        all.into_iter().flatten().min()
    }

    /// Handles the timer.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.retry.is_some_and(|at| at <= now) {
            (self.retry, self.syn_due) = (None, true);
        }
        if self.phase == Phase::Open {
            self.sender.on_timeout(now);
        }
    }

    /// Returns the next segment that leaves now.
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
            None if self.receiver.is_due(now) => Segment {
                seq: self.sender.written(),
                ..Segment::default()
            },
            None => return None,
        };
        self.receiver.acknowledge(&mut segment);
        segment.echo = self.echo;
        Some(segment)
    }

    fn syn(&mut self, now: Time) -> Segment {
        let attempt = self.syns.min(limits::TCP_SYN_TRIES);
        self.syns_at[attempt as usize] = now;
        let mut segment = Segment {
            is_syn: true,
            attempt: attempt as u8,
            echo: self.echo,
            ..Segment::default()
        };
        self.receiver.acknowledge(&mut segment);
        let is_linear = self.phase == Phase::SynSent && self.syns < LINEAR_TRIES;
        let doublings = if self.phase == Phase::SynSent {
            self.syns.saturating_sub(LINEAR_TRIES - 1)
        } else {
            self.syns
        };
        let timeout = if is_linear {
            INITIAL_RTO
        } else {
            INITIAL_RTO * (1 << doublings.min(7))
        };
        if self.phase == Phase::SynSent {
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
        let (mut here, mut there) = (
            Endpoint::connect(Time::ZERO, &config, stream()),
            Endpoint::listen(Time::ZERO, &config, stream()),
        );
        let first = here.next_segment(Time::ZERO).unwrap();
        // The answer takes 1.4 s, so a second SYN leaves before it.
        there.on_segment(Time::from_millis(700), &first);
        let answer = there.next_segment(Time::from_millis(700)).unwrap();
        here.on_timeout(Time::from_secs(1));
        let second = here.next_segment(Time::from_secs(1)).unwrap();
        assert_eq!((first.attempt, second.attempt, answer.echo), (0, 1, 0));
        here.on_segment(Time::from_millis(1400), &answer);
        assert_eq!(
            here.sender.shortest_rtt(),
            Some(Duration::from_millis(1400))
        );
        // If the first SYN is lost, the round trip began with the second one.
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
