//! Transmission: new segments, retransmissions and probes, as window and pacer allow.

use super::{Alarm, Control, Sender, Sent, State, TIMER_SLACK};
use crate::tcp::segment::Segment;
use larder_units::Time;
use std::time::Duration;

impl Sender {
    /// Returns the next segment that may leave now.
    pub(in crate::tcp) fn next_segment(&mut self, now: Time) -> Option<Segment> {
        if std::mem::take(&mut self.probe_due) && !self.sent.is_empty() {
            return self.send_probe(now);
        }
        if self.lost.is_empty() && !self.has_new() {
            if self.next == self.written && self.in_flight() < self.window.segments as usize {
                self.delivery.on_app_limited(self.in_flight_segments());
            }
            return None;
        }
        if self.in_flight() >= self.window.segments as usize {
            self.record_usage(true);
            return None;
        }
        if !self.pacer_allows(now) {
            return None;
        }
        match self.lost.pop_first() {
            Some(seq) => Some(self.send_again(now, seq)),
            None => Some(self.send_new(now)),
        }
    }

    pub(super) fn send_new(&mut self, now: Time) -> Segment {
        if self.sent.is_empty() {
            self.restart(now);
        }
        let room = (self.written - self.next).min(self.limit - self.next);
        let is_last = self.end.is_some() && room == self.written - self.next;
        // The end of the stream is sent in a segment with bytes, if there are any.
        let bytes = (room - u64::from(is_last)).min(u64::from(self.segment_bytes));
        let is_fin = is_last && self.next + bytes + 1 == self.written;
        let seq = self.next;
        let sent = self.record_transmission(now, seq, bytes as u32 + u32::from(is_fin), false);
        self.next = sent.end();
        let begins = self.sent.is_empty();
        self.sent.push_back(sent);
        if self.state == State::Recovery {
            self.reduction.out += 1;
        }
        self.record_usage(false);
        if begins
            || self.state == State::Open
                && self
                    .alarm
                    .is_none_or(|(_, alarm)| alarm != Alarm::Reordering)
        {
            self.set_alarm_after_sending(now, begins);
        }
        self.segment(&sent)
    }

    /// Sets the timer after a transmission. A probe counts from the last transmission, the timeout
    /// from the first.
    pub(super) fn set_alarm_after_sending(&mut self, now: Time, begins: bool) {
        let expiry = match self.alarm {
            Some((at, Alarm::Timeout)) if !begins => at,
            _ => self.sent.front().map_or(now, |head| head.at) + self.timeout(),
        };
        self.alarm = Some(match self.probe_at(now).filter(|at| *at < expiry) {
            Some(at) => (at, Alarm::Probe),
            None => (expiry.max(now + TIMER_SLACK), Alarm::Timeout),
        });
    }

    pub(super) fn send_again(&mut self, now: Time, seq: u64) -> Segment {
        let at = self.sent.partition_point(|sent| sent.seq < seq);
        let length = self.sent[at].length;
        let sent = self.record_transmission(now, seq, length, true);
        self.sent[at] = sent;
        if self.state == State::Recovery {
            self.reduction.out += 1;
        }
        if at == 0
            && self
                .alarm
                .is_none_or(|(_, alarm)| alarm != Alarm::Reordering)
        {
            self.alarm = Some((now + self.timeout(), Alarm::Timeout));
        }
        self.segment(&sent)
    }

    /// Sends a tail loss probe: new data if there is any, else the last segment that is not
    /// acknowledged.
    pub(super) fn send_probe(&mut self, now: Time) -> Option<Segment> {
        let segment = if self.has_new() {
            let segment = self.send_new(now);
            self.probe = Some((self.next, false));
            segment
        } else {
            let last = *self.sent.iter().rev().find(|sent| !sent.is_sacked)?;
            self.probe = Some((self.next, true));
            self.lost.remove(&last.seq);
            self.send_again(now, last.seq)
        };
        self.alarm = Some((now + self.timeout(), Alarm::Timeout));
        Some(segment)
    }

    pub(super) fn record_transmission(
        &mut self,
        now: Time,
        seq: u64,
        length: u32,
        again: bool,
    ) -> Sent {
        self.orders += 1;
        self.by_time.push_back((self.orders, seq));
        self.counters.segments += 1;
        self.counters.retransmissions += u64::from(again);
        self.last_sent_at = now;
        let noted = self.delivery.on_send(now, self.sent.is_empty());
        self.pace(now, length);
        let order = self.orders;
        Sent {
            seq,
            length,
            at: now,
            order,
            noted,
            is_sacked: false,
            is_lost: false,
            was_resent: again,
        }
    }

    pub(super) fn segment(&self, sent: &Sent) -> Segment {
        let is_fin = self.end.is_some_and(|end| sent.end() == end + 1);
        Segment {
            seq: sent.seq,
            bytes: sent.length - u32::from(is_fin),
            is_fin,
            ..Segment::default()
        }
    }

    /// Restarts after an idle time. The path may have changed, so the window is halved for each
    /// timeout that passed (RFC 2861). BBR keeps its window, as in Linux.
    pub(super) fn restart(&mut self, now: Time) {
        let idle = now.since(self.last_sent_at);
        match &mut self.control {
            Control::Bbr(bbr) if self.delivery.is_app_limited() => return bbr.on_idle(now),
            Control::Bbr(_) => return,
            Control::Cubic(cubic) => cubic.on_idle(idle),
        }
        let timeout = self.rtt.timeout();
        if self.next > 0 && idle > timeout {
            let least = self.window.segments.min(self.initial_window);
            self.window.threshold = self.window.threshold.max(self.window.segments / 4 * 3);
            let mut left = idle;
            while left > timeout && self.window.segments > least {
                left -= timeout;
                self.window.segments /= 2;
            }
            self.window.segments = self.window.segments.max(least);
        }
    }

    pub(super) fn record_usage(&mut self, is_limited: bool) {
        let out = self.sent.len();
        if self.una >= self.usage_end
            || is_limited
            || (!self.is_window_limited && out > self.most_out)
        {
            (self.is_window_limited, self.most_out, self.usage_end) = (is_limited, out, self.next);
        }
    }

    /// Returns true if the pacer allows a segment.
    pub(super) fn pacer_allows(&mut self, now: Time) -> bool {
        let Control::Bbr(bbr) = &self.control else {
            return true;
        };
        if now >= self.paced_until {
            self.burst_left = bbr.burst();
        }
        self.waits_for_pace = self.burst_left == 0;
        !self.waits_for_pace
    }

    pub(super) fn pace(&mut self, now: Time, length: u32) {
        let Control::Bbr(bbr) = &self.control else {
            return;
        };
        self.burst_left = self.burst_left.saturating_sub(1);
        let takes = Duration::from_secs_f64(f64::from(length) / bbr.pacing_rate().max(1.0));
        self.paced_until = self.paced_until.max(now) + takes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{Congestion, TcpConfig};
    use larder_units::Streams;

    fn sender(congestion: Congestion) -> Sender {
        let config = TcpConfig {
            congestion,
            ..TcpConfig::default()
        };
        let mut sender = Sender::new(Time::ZERO, &config, Streams::new(1).stream("sender"));
        sender.allow(1 << 20);
        sender
    }

    #[test]
    fn a_probe_of_what_has_come_is_under_way_for_ever() {
        let mut sender = sender(Congestion::Cubic);
        sender.write(2 * 1448);
        let sent = [0, 0].map(|_: u8| sender.next_segment(Time::ZERO).unwrap());
        let mut ack = Segment {
            ack: Some(0),
            window: 1 << 20,
            ..Segment::default()
        };
        ack.blocks.push((sent[1].seq, 2 * 1448));
        sender.on_ack(Time::from_millis(100), &ack);
        // The probe's timer expired just before.
        sender.probe_due = true;
        assert_eq!(
            sender
                .next_segment(Time::from_millis(100))
                .map(|segment| segment.seq),
            Some(0)
        );
        let all = Segment {
            ack: Some(2 * 1448),
            window: 1 << 20,
            ..Segment::default()
        };
        sender.on_ack(Time::from_millis(200), &all);
        assert_eq!((sender.sacked_count, sender.in_flight()), (0, 0));
    }

    #[test]
    fn more_is_under_way_than_the_buffer_holds() {
        let mut sender = sender(Congestion::Cubic);
        (sender.limit, sender.window.segments) = (u64::MAX, 100_000);
        sender.write(1 << 30);
        let leave =
            |sender: &mut Sender| std::iter::from_fn(|| sender.next_segment(Time::ZERO)).count();
        assert_eq!(leave(&mut sender), 2500);
        // The application sleeps until a third of the buffer is free.
        for (acked, left) in [(800, 0), (834, 834)] {
            let ack = Segment {
                ack: Some(acked * 1448),
                window: u32::MAX,
                ..Segment::default()
            };
            sender.on_ack(Time::from_millis(100), &ack);
            sender.window.segments = 100_000;
            assert_eq!(leave(&mut sender), left);
        }
    }

    #[test]
    fn a_pause_takes_bbrs_window_or_leaves_cubics() {
        for (congestion, left) in [(Congestion::Cubic, 10), (Congestion::Bbr, 100)] {
            let mut sender = sender(congestion);
            (sender.next, sender.window.segments) = (1448, 100);
            sender.restart(Time::from_secs(60));
            assert_eq!(sender.window.segments, left, "{congestion:?}");
        }
    }
}
