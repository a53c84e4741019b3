//! The retransmission of ndnSIM's consumers: which Interests to send again, and when.
//!
//! Source: ndnSIM 1.0 and 2.8, `Consumer` and `RttMeanDeviation` (after Jacobson, SIGCOMM 1988).
//! The estimate starts at 1 s. The gains are 1/8 for the mean and 1/4 for the deviation. The first
//! sample sets the mean to itself and the deviation to half of it. The timeout is the mean plus
//! four deviations, at least 200 ms, all multiplied by a factor. Each timeout and each Nack doubles
//! the factor (up to 64), and an answer to an Interest that was sent once resets it (Karn). A scan
//! finds timeouts every 50 ms.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_units::Time;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The time between two scans for timeouts.
const SCAN: Duration = Duration::from_millis(50);
const INITIAL_RTT: f64 = 1.0;
const LEAST_RTO: f64 = 0.2;
const MOST_RTO: f64 = 200.0;
const MOST_BACKOFF: f64 = 64.0;

/// The pending Interests.
#[derive(Default)]
pub(crate) struct Retransmission {
    pending: HashMap<u64, Pending, FixedState>,
    /// Numbers by the time of their Interests. Entries of answered numbers are skipped.
    by_time: VecDeque<(Time, u64)>,
    /// Numbers to send again, lowest first.
    again: BTreeSet<u64>,
    rtt: Option<(f64, f64)>,
    backoff: f64,
    start: Time,
}

#[derive(Clone, Copy)]
struct Pending {
    first: Time,
    last: Time,
    sends: u32,
    /// The time of the number's entry in `by_time`. `None` if the number is to be sent again.
    watched: Option<Time>,
}

/// The times of an answered Interest.
pub(crate) struct Answered {
    /// The time since the first Interest.
    pub(crate) full: Duration,
    /// The time since the last Interest.
    pub(crate) last: Duration,
    /// The number of Interests.
    pub(crate) sends: u32,
}

impl Retransmission {
    /// Creates the state. Scans are at multiples of 50 ms after `start`.
    pub(crate) fn new(start: Time) -> Self {
        Retransmission {
            backoff: 1.0,
            start,
            ..Retransmission::default()
        }
    }

    /// Removes and returns the next number to send again.
    pub(crate) fn next_again(&mut self) -> Option<u64> {
        self.again.pop_first()
    }

    /// Records an Interest. Returns true if the number was sent before and not answered.
    pub(crate) fn sent(&mut self, now: Time, number: u64) -> bool {
        let fresh = Pending {
            first: now,
            last: now,
            sends: 0,
            watched: None,
        };
        let pending = self.pending.entry(number).or_insert(fresh);
        pending.last = now;
        pending.sends += 1;
        // A number that is already timed keeps its time.
        if pending.watched.is_none() {
            pending.watched = Some(now);
            self.by_time.push_back((now, number));
        }
        pending.sends > 1
    }

    pub(crate) fn answered(&mut self, now: Time, number: u64) -> Option<Answered> {
        self.again.remove(&number);
        let pending = self.pending.remove(&number)?;
        if pending.sends == 1 {
            self.sample(now.since(pending.first).as_secs_f64());
        }
        Some(Answered {
            full: now.since(pending.first),
            last: now.since(pending.last),
            sends: pending.sends,
        })
    }

    /// Handles a Nack: the number is sent again with the next Interest. Returns the time of the
    /// Interest, if it was pending.
    pub(crate) fn refused(&mut self, number: u64) -> Option<Time> {
        let pending = self.pending.get_mut(&number);
        let sent_at = pending.map(|pending| {
            pending.watched = None;
            pending.last
        });
        if sent_at.is_some() {
            self.again.insert(number);
        }
        self.back_off();
        sent_at
    }

    /// The time of the next scan for timeouts.
    pub(crate) fn next_scan(&mut self) -> Option<Time> {
        let oldest = self.oldest()? + self.rto();
        let scan = SCAN.as_nanos() as u64;
        let scans = oldest
            .since(self.start)
            .as_nanos()
            .div_ceil(u128::from(scan))
            .max(1);
        Some(
            self.start
                + Duration::from_nanos(
                    scan.saturating_mul(u64::try_from(scans).unwrap_or(u64::MAX)),
                ),
        )
    }

    /// Scans for timeouts, and returns the times of their Interests.
    pub(crate) fn scan(&mut self, now: Time) -> Vec<Time> {
        let mut found = Vec::new();
        while let Some(oldest) = self.oldest()
            && oldest + self.rto() <= now
        {
            let Some((_, number)) = self.by_time.pop_front() else {
                break;
            };
            if let Some(pending) = self.pending.get_mut(&number) {
                pending.watched = None;
                found.push(pending.last);
                self.again.insert(number);
                self.back_off();
            }
        }
        found
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The number of Interests whose answers are awaited: those that are pending and not to be sent
    /// again.
    pub(crate) fn in_flight(&self) -> usize {
        self.pending.len() - self.again.len()
    }

    /// The smoothed round trip, once there is one.
    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.rtt.map(|(mean, _)| Duration::from_secs_f64(mean))
    }

    fn oldest(&mut self) -> Option<Time> {
        while let Some((at, number)) = self.by_time.front() {
            if self
                .pending
                .get(number)
                .is_some_and(|pending| pending.watched == Some(*at))
            {
                return Some(*at);
            }
            self.by_time.pop_front();
        }
        None
    }

    fn rto(&self) -> Duration {
        let (mean, deviation) = self.rtt.unwrap_or((INITIAL_RTT, 0.0));
        let rto = (self.backoff * (mean + 4.0 * deviation))
            .max(self.backoff * LEAST_RTO)
            .min(MOST_RTO);
        Duration::from_secs_f64(rto)
    }

    fn sample(&mut self, rtt: f64) {
        self.rtt = Some(match self.rtt {
            None => (rtt, rtt / 2.0),
            Some((mean, deviation)) => {
                let error = rtt - mean;
                (
                    mean + error / 8.0,
                    deviation + (error.abs() - deviation) / 4.0,
                )
            }
        });
        self.backoff = 1.0;
    }

    fn back_off(&mut self) {
        self.backoff = (self.backoff * 2.0).min(MOST_BACKOFF);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn an_unanswered_interest_is_sent_again_at_a_scan() {
        let mut retransmission = Retransmission::new(ms(0));
        assert!(!retransmission.sent(ms(10), 7));
        // The first timeout is 1 s. It expires at 1.010 s, after the scan at 1.000 s.
        assert_eq!(retransmission.next_scan(), Some(ms(1050)));
        assert_eq!(retransmission.scan(ms(1000)), []);
        assert_eq!(retransmission.scan(ms(1050)), [ms(10)]);
        assert_eq!(retransmission.next_again(), Some(7));
        assert!(retransmission.sent(ms(1050), 7));
        // The timeout is doubled. The answer gives no sample, because it may belong to either
        // Interest.
        assert_eq!(retransmission.next_scan(), Some(ms(3050)));
        let answered = retransmission.answered(ms(1150), 7).unwrap();
        assert_eq!(
            (answered.full, answered.last),
            (Duration::from_millis(1140), Duration::from_millis(100))
        );
        assert_eq!(retransmission.rto(), Duration::from_secs(2));
        assert_eq!(
            (retransmission.next_scan(), retransmission.pending()),
            (None, 0)
        );
    }

    #[test]
    fn a_clean_answer_sets_the_time_out() {
        let mut retransmission = Retransmission::new(ms(0));
        retransmission.sent(ms(0), 1);
        retransmission.answered(ms(100), 1);
        assert_eq!(retransmission.rto(), Duration::from_millis(300));
        retransmission.sent(ms(100), 2);
        retransmission.refused(2);
        assert_eq!(retransmission.rto(), Duration::from_millis(600));
        assert_eq!(retransmission.next_again(), Some(2));
        assert_eq!(retransmission.next_again(), None);
    }
}
