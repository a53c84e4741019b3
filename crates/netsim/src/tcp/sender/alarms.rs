//! The timers of a sender: one for a timeout, a probe or RACK's reordering window, and one for the
//! pacer.

use super::{Alarm, Control, LONGEST_RTO, Sender, State, TIMER_SLACK};
use crate::tcp::rate::Sample;
use larder_units::Time;
use std::time::Duration;

impl Sender {
    pub(super) fn timeout(&self) -> Duration {
        self.rtt
            .timeout()
            .saturating_mul(1 << self.backoff.min(16))
            .min(LONGEST_RTO)
    }

    /// Sets the timer to a probe or the timeout, from now.
    pub(super) fn set_alarm(&mut self, now: Time) {
        let Some(head) = self.sent.front() else {
            self.alarm = None;
            return;
        };
        let expiry = match self.alarm {
            // A probe or reordering timer before it does not postpone the timeout.
            Some((_, Alarm::Probe | Alarm::Reordering)) => {
                (head.at + self.timeout()).max(now + TIMER_SLACK)
            }
            _ => now + self.timeout(),
        };
        self.alarm = Some(match self.probe_at(now).filter(|at| *at < expiry) {
            Some(at) => (at, Alarm::Probe),
            None => (expiry, Alarm::Timeout),
        });
    }

    /// The time of a tail loss probe (RFC 8985, section 7.2): two round trips, plus 200 ms with one
    /// segment in flight, whose acknowledgement may be delayed.
    pub(super) fn probe_at(&self, now: Time) -> Option<Time> {
        if self.state != State::Open || self.sacked_count > 0 || self.probe.is_some() {
            return None;
        }
        let more = if self.sent.len() == 1 {
            Duration::from_millis(200)
        } else {
            TIMER_SLACK
        };
        Some(now + self.rtt.mean()? * 2 + more)
    }

    pub(in crate::tcp) fn next_timeout(&self) -> Option<Time> {
        let alarm = self.alarm.map(|(at, _)| at);
        let pace = self.waits_for_pace.then_some(self.paced_until);
        alarm.into_iter().chain(pace).min()
    }

    pub(in crate::tcp) fn on_timeout(&mut self, now: Time) {
        if self.waits_for_pace && self.paced_until <= now {
            self.waits_for_pace = false;
        }
        let Some((_, alarm)) = self.alarm.filter(|(at, _)| *at <= now) else {
            return;
        };
        match alarm {
            Alarm::Timeout => self.on_expiry(now),
            Alarm::Probe => {
                self.alarm = Some((now + self.timeout(), Alarm::Timeout));
                self.probe_due = true;
            }
            Alarm::Reordering => {
                let before = self.in_flight_segments();
                self.find_lost(now);
                if self.in_flight_segments() < before && self.state != State::Recovery {
                    self.enter_recovery();
                    if matches!(self.control, Control::Cubic(_)) {
                        self.reduce_by_rate(
                            &Sample {
                                delivered: 1,
                                ..Sample::default()
                            },
                            false,
                        );
                    }
                }
                if self.alarm.is_none() {
                    self.alarm = Some((now + self.timeout(), Alarm::Timeout));
                }
            }
        }
    }
}
