//! The pacer: lets Interests leave by a rate and by a clock that may be coarse.
//!
//! Source: Kato, Osada, Yamamoto, Ohzahata, "Impacts of system clock granularity on performance of
//! NDN rate-based congestion control", Int. J. Advances in Telecommunications 11(3&4), 2018,
//! sections III.A and IV.A. A rate makes an Interest due every 1/rate seconds. The interval is that
//! of the rate at its beginning, and does not change later. With a fine clock an Interest leaves
//! when it is due. A coarse clock acts only at its ticks, and all Interests that became due since
//! the last one leave in one burst. With **smoothing** they also leave whenever a Data or a Nack
//! arrives, which wakes the host anyway.
//!
//! Without a rate, an Interest is due when the window has room. With a coarse clock it then waits
//! for the next tick or, with smoothing, leaves with the Data that made the room. Due Interests
//! that cannot be sent (the window is full, or nothing is left to request) are dropped and not
//! saved up. The same holds for Interests that became due while the host slept longer than a tick
//! plus [`MAX_CATCH_UP`]. O(1) per Interest, without allocation.

use larder_units::Time;
use std::time::Duration;

/// The longest sleep of the host after which the Interests that became due by a rate are still
/// sent: longer than the delays of a busy machine's scheduler, and too short for a burst that
/// overflows token buckets.
const MAX_CATCH_UP: Duration = Duration::from_millis(20);

/// The clock by which Interests leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Interests leave at multiples of this; zero is a fine clock.
    pub tick: Duration,
    /// True if due Interests also leave when a Data or a Nack arrives.
    pub smoothing: bool,
}

impl Default for Clock {
    /// Returns a clock as fine as the host's.
    fn default() -> Self {
        Clock {
            tick: Duration::ZERO,
            smoothing: true,
        }
    }
}

/// The pacer of one transfer.
#[derive(Debug)]
pub(crate) struct Pacer {
    clock: Clock,
    /// The time at which the next Interest is due by the rate; `None` before the first.
    next_due: Option<Time>,
    /// The number of due Interests.
    due: u64,
    next_tick: Time,
    /// The last time at which a tick or an arrival let Interests leave.
    open_at: Option<Time>,
    /// True if the pacer has opened since the last request. A host's clock advances between a
    /// packet and the Interests that follow it.
    opened: bool,
    /// True if an Interest waits for its time.
    waiting: bool,
}

impl Pacer {
    pub(crate) fn new(clock: Clock) -> Self {
        Pacer {
            clock,
            next_due: None,
            due: 0,
            next_tick: Time::ZERO,
            open_at: None,
            opened: false,
            waiting: false,
        }
    }

    /// Advances the time at this rate. The caller does this before the rate changes.
    pub(crate) fn advance(&mut self, now: Time, rate: Option<f64>) {
        if !self.clock.tick.is_zero() && now >= self.next_tick {
            let tick = self.clock.tick.as_nanos() as u64;
            self.open(now);
            self.next_tick = Time::from_nanos((now.nanos() / tick + 1).saturating_mul(tick));
        }
        let Some(rate) = rate else {
            (self.next_due, self.due) = (None, 0);
            return;
        };
        let due = *self.next_due.get_or_insert(now);
        // An Interest that becomes due exactly at a tick waits for the next one, because the
        // paper's clock acts first.
        let coarse = u64::from(!self.clock.tick.is_zero());
        let Some(now) = now
            .nanos()
            .checked_sub(coarse)
            .map(Time::from_nanos)
            .filter(|now| due <= *now)
        else {
            return;
        };
        let interval = Duration::from_secs_f64(1.0 / rate.max(1e-9))
            .as_nanos()
            .clamp(1, u64::MAX.into()) as u64;
        let late = (now.since(due)).min(self.clock.tick.max(MAX_CATCH_UP));
        let further = late.as_nanos() as u64 / interval;
        self.due += 1 + further;
        let began = Time::from_nanos(now.nanos() - late.as_nanos() as u64);
        self.next_due = Some(began + Duration::from_nanos(interval.saturating_mul(further + 1)));
    }

    /// Records the arrival of a Data or a Nack.
    pub(crate) fn arrived(&mut self, now: Time) {
        if self.clock.smoothing {
            self.open(now);
        }
    }

    fn open(&mut self, now: Time) {
        (self.open_at, self.opened) = (Some(now), true);
    }

    /// Returns true if an Interest that the window allows may leave now, and counts it as sent.
    pub(crate) fn take(&mut self, now: Time, rate: Option<f64>) -> bool {
        self.advance(now, rate);
        let open = self.clock.tick.is_zero() || self.opened || self.open_at == Some(now);
        let leaves = open && (rate.is_none() || self.due > 0);
        if leaves {
            self.due = self.due.saturating_sub(1);
        }
        self.opened &= leaves;
        self.waiting = !leaves;
        leaves
    }

    /// Drops the due Interests, because nothing may be sent.
    pub(crate) fn idle(&mut self, now: Time) {
        self.due = 0;
        self.opened = false;
        self.waiting = false;
        self.next_due = self.next_due.map(|due| due.max(now));
    }

    /// Returns the time at which the waiting Interest may leave; `None` if none waits, or the time
    /// is unknown.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let next = if self.clock.tick.is_zero() {
            self.next_due
        } else {
            Some(self.next_tick)
        };
        next.filter(|_| self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the Interests that leave at each of the pacer's times until `millis`, at a constant
    /// rate.
    fn departures(clock: Clock, rate: f64, millis: u64) -> Vec<(u64, u32)> {
        let mut pacer = Pacer::new(clock);
        let (mut now, mut all) = (Time::ZERO, Vec::new());
        while now <= Time::from_millis(millis) {
            let left = std::iter::from_fn(|| pacer.take(now, Some(rate)).then_some(())).count();
            all.push((now.nanos() / 1_000_000, left as u32));
            now = pacer.next_timeout().unwrap();
        }
        all
    }

    #[test]
    fn a_fine_clock_sends_bursts() {
        let all = departures(Clock::default(), 100.0, 1000);
        assert_eq!(all.len(), 101);
        assert!(
            all.iter()
                .enumerate()
                .all(|(n, departure)| *departure == (n as u64 * 10, 1))
        );
    }

    #[test]
    fn a_tick_sends_more_or_less_than_became_due() {
        let clock = Clock {
            tick: Duration::from_millis(50),
            smoothing: false,
        };
        let all = departures(clock, 1000.0, 500);
        assert_eq!(all[0], (0, 0));
        assert!(
            all[1..]
                .iter()
                .all(|(at, count)| *count == 50 && at % 50 == 0),
            "{all:?}"
        );
    }

    #[test]
    fn an_arrival_between_ticks_flushes_nothing_or_without_smoothing() {
        for smoothing in [true, false] {
            let mut pacer = Pacer::new(Clock {
                tick: Duration::from_millis(50),
                smoothing,
            });
            assert!(
                !pacer.take(Time::ZERO, Some(1000.0)),
                "due at the tick, not before it"
            );
            let now = Time::from_millis(20);
            pacer.advance(now, Some(1000.0));
            pacer.arrived(now);
            let left = std::iter::from_fn(|| pacer.take(now, Some(1000.0)).then_some(())).count();
            assert_eq!(left, if smoothing { 20 } else { 0 });
            assert_eq!(pacer.next_timeout(), Some(Time::from_millis(50)));
            assert!(
                !pacer.take(Time::from_millis(21), Some(1000.0)),
                "the arrival is over"
            );
        }
    }

    #[test]
    fn a_host_that_asks_a_moment_after_the_packet_waits_for_the_tick() {
        for rate in [None, Some(1000.0)] {
            let mut pacer = Pacer::new(Clock {
                tick: Duration::from_millis(50),
                smoothing: true,
            });
            while pacer.take(Time::from_millis(1), Some(1000.0)) {}
            // A packet wakes the host at 20 ms, and after the tick at 51 ms. It requests an
            // Interest 3 µs later.
            for millis in [20, 51] {
                pacer.advance(Time::from_millis(millis), rate);
                pacer.arrived(Time::from_millis(millis));
                let later = Time::from_nanos(millis * 1_000_000 + 3000);
                assert!(
                    pacer.take(later, rate) && pacer.take(later, rate),
                    "{millis} ms, {rate:?}"
                );
                pacer.idle(later);
                assert!(
                    !pacer.take(Time::from_millis(millis + 1), rate),
                    "the arrival is over"
                );
            }
        }
    }

    #[test]
    fn an_interval_under_way_follows_a_change_of_the_rate() {
        let mut pacer = Pacer::new(Clock::default());
        assert!(pacer.take(Time::ZERO, Some(1.0)));
        let now = Time::from_millis(500);
        pacer.advance(now, Some(1.0));
        assert!(!pacer.take(now, Some(1000.0)));
        assert_eq!(pacer.next_timeout(), Some(Time::from_secs(1)));
        assert!(pacer.take(Time::from_secs(1), Some(1000.0)));
        pacer.take(Time::from_secs(1), Some(1000.0));
        assert_eq!(pacer.next_timeout(), Some(Time::from_millis(1001)));
    }

    #[test]
    fn a_pause_is_made_up_by_a_burst() {
        let mut pacer = Pacer::new(Clock::default());
        assert!(pacer.take(Time::ZERO, Some(1000.0)));
        pacer.idle(Time::from_millis(1));
        let count = |pacer: &mut Pacer, now| {
            std::iter::from_fn(|| pacer.take(now, Some(1000.0)).then_some(())).count()
        };
        // After an hour of sleep, the Interests that became due in the longest delay leave.
        let most = MAX_CATCH_UP.as_millis() as usize + 1;
        assert_eq!(count(&mut pacer, Time::from_secs(3600)), most);
        for second in 3601..3700 {
            pacer.idle(Time::from_secs(second));
        }
        assert_eq!(
            count(&mut pacer, Time::from_secs(3699)),
            1,
            "the window was full all the time"
        );
    }

    #[test]
    fn a_window_waits_for_its_tick() {
        let mut pacer = Pacer::new(Clock {
            tick: Duration::from_millis(10),
            smoothing: false,
        });
        assert!(pacer.take(Time::ZERO, None) && pacer.take(Time::ZERO, None));
        pacer.idle(Time::ZERO);
        pacer.arrived(Time::from_millis(3));
        assert!(!pacer.take(Time::from_millis(3), None));
        assert_eq!(pacer.next_timeout(), Some(Time::from_millis(10)));
        assert!(pacer.take(Time::from_millis(10), None));
    }
}
