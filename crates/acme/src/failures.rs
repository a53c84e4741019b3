//! The orders of one host that failed, and the pause that follows from them.

use crate::limits;
use crate::unix_time::UnixTime;
use larder_units::Stream;

/// The kind of a failed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The authority could not be reached, or failed itself: it did not check the host.
    Unreachable,
    /// The authority refused the order, or could not reach the host.
    Refused,
}

/// The failures since the last certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// The failures in a row.
    count: u32,
    /// The time of the last one.
    last: Option<UnixTime>,
    /// The times of the last refusals, the oldest first; at most [`limits::FAILURES`].
    refusals: Vec<UnixTime>,
    /// The earliest time of the next order.
    retry: UnixTime,
}

impl Failures {
    /// Adds a failure. `chance` spreads the orders of many hosts and nodes.
    pub(crate) fn add(&mut self, now: UnixTime, failure: Failure, chance: &mut Stream) {
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
        let longest = match failure {
            Failure::Unreachable => limits::UNREACHABLE_LONGEST,
            Failure::Refused => {
                if self.refusals.len() == limits::FAILURES {
                    self.refusals.remove(0);
                }
                self.refusals.push(now);
                limits::RETRY_LONGEST
            }
        };
        let doubled = limits::RETRY_FIRST.saturating_mul(1 << (self.count - 1).min(16));
        // Between 1 and 5/4 of it: many nodes that failed together do not repeat together.
        let pause = doubled.min(longest).mul_f64(1.0 + chance.unit() / 4.0);
        self.retry = now.after(pause);
    }

    /// Returns the earliest time of the next order. A failure in the future does not count: the
    /// clock was set back.
    pub(crate) fn retry(&self, now: UnixTime) -> UnixTime {
        if self.last.is_none_or(|last| last > now) {
            return now;
        }
        self.retry.max(self.allowed(now))
    }

    /// Returns the earliest time that [`limits::FAILURES`] allows.
    fn allowed(&self, now: UnixTime) -> UnixTime {
        let past = self.refusals.iter().filter(|time| **time <= now);
        match past.clone().next() {
            Some(oldest) if past.count() == limits::FAILURES => {
                oldest.after(limits::FAILURES_PERIOD)
            }
            _ => now,
        }
    }

    /// Ends the pause, because an operator may have repaired the cause. The limit for each hour
    /// stays.
    pub(crate) fn end_pause(&mut self) {
        self.retry = UnixTime::default();
    }

    /// Returns the text of a file that keeps them over a restart: a node that systemd restarts
    /// again and again must not order each time. The first line has the number of failures, the
    /// time of the next order and that of the last failure; each further one a refusal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}", self.count, self.retry.0);
        if let Some(last) = self.last {
            text += &format!(" {}", last.0);
        }
        for time in &self.refusals {
            text += &format!("\n{}", time.0);
        }
        text + "\n"
    }

    /// Reads such a text. Parts that are no numbers count as 0: the file is a precaution, and a
    /// broken one prevents no order.
    pub fn from_text(text: &str) -> Failures {
        let mut lines = text.lines();
        let mut first = lines.next().unwrap_or_default().split(' ');
        let mut number = || first.next()?.parse::<u64>().ok();
        let (count, retry, last) = (number(), number(), number());
        let last = last.map(UnixTime);
        // No pause is longer than those that this program makes.
        let longest = limits::RETRY_LONGEST.mul_f64(1.25);
        let retry = UnixTime(retry.unwrap_or_default());
        Failures {
            count: count.map_or(0, |count| count.min(u64::from(u32::MAX)) as u32),
            retry: retry.min(last.unwrap_or_default().after(longest)),
            last,
            refusals: lines
                .filter_map(|line| line.parse().ok().map(UnixTime))
                .take(limits::FAILURES)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;
    use proptest::prelude::*;

    /// Failure: a node that restarts forgets its failures, and orders again at once.
    #[test]
    fn a_restart_forgets_failures() {
        let mut chance = Streams::new(3).stream("failures");
        for kinds in [
            vec![Failure::Refused; 9],
            vec![Failure::Unreachable; 3],
            vec![Failure::Unreachable, Failure::Refused],
        ] {
            let mut failures = Failures::default();
            for (at, kind) in kinds.iter().enumerate() {
                failures.add(UnixTime(1_000 + at as u64), *kind, &mut chance);
            }
            let again = Failures::from_text(&failures.to_text());
            assert_eq!(again, failures, "{kinds:?}");
            let now = UnixTime(1_010);
            assert!(again.retry(now) > now);
            assert_eq!(
                again.retry(UnixTime(10)),
                UnixTime(10),
                "the clock was set back"
            );
        }
    }

    proptest! {
        /// Failure: a broken file stops the node, or its orders for good.
        #[test]
        fn a_broken_file_stops_the_orders(text in "[0-9a-z \\n]{0,80}", now in 0..u64::MAX / 4) {
            let failures = Failures::from_text(&text);
            let later = UnixTime(now);
            let longest = limits::RETRY_LONGEST * 2;
            prop_assert!(failures.retry(later) <= later.after(longest));
        }
    }
}
