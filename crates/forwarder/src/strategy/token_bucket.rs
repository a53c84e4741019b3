//! A token bucket that polices Interests: each raises the level by one, time lowers it, and what
//! would raise it above `depth` is refused.
//!
//! Source: Yi et al., "A case for stateful forwarding plane", Computer Communications 36(7), 2013,
//! section 4.3, as ndnSIM 1.0 has it (`LimitsRate`), which Kato et al., "Impacts of system clock
//! granularity …", 2018, measured. Two ways to leak:
//!
//! * **fluid**: at `rate`, continuously. What an operator wants.
//! * **quanta**: 1.001 tokens every 1.001/rate seconds, the first at a random moment of the host's
//!   first millisecond; below 2 tokens a second, once a second. An interval is fixed when it
//!   begins, whatever becomes of the rate. What ndnSIM does: that paper's refusals at a tick of 50
//!   ms come from these quanta, and a fluid bucket has none.
//!
//! Sizes: a token is an Interest, as in both sources; its Data's size is in the rate. Nothing is
//! given back when Data come. Time is settled when the bucket is looked at: O(1), 64 bytes, no
//! timers.

use larder_units::Time;
use std::time::Duration;

/// The way in which the level falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leak {
    Fluid,
    Quanta,
}

/// A leak of ndnSIM is this much longer, and larger, than one token.
const QUANTUM: f64 = 1.001;

/// The first leak of ndnSIM comes within this time.
pub(super) const FIRST_LEAK: Duration = Duration::from_millis(1);

/// The slowest rate, tokens a second: of a bucket that does not leak, no Data would ever raise the
/// rate again.
const LEAST_RATE: f64 = 1.0;

#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    leak: Leak,
    depth: f64,
    level: f64,
    rate: f64,
    most_rate: f64,
    /// Fluid: how far time is settled. Quanta: the next leak.
    at: Time,
    /// The interval that the next leak of quanta stands for.
    interval: Duration,
}

impl TokenBucket {
    /// An empty bucket for `depth` Interests, which leaks at most `rate` a second; the first
    /// quantum left `phase` after the host's start.
    pub(super) fn new(leak: Leak, rate: f64, depth: f64, now: Time, phase: Duration) -> Self {
        let at = match leak {
            Leak::Fluid => now,
            Leak::Quanta => Time::ZERO + phase,
        };
        let mut bucket = TokenBucket {
            leak,
            depth,
            level: 0.0,
            rate,
            most_rate: rate,
            at,
            interval: Duration::ZERO,
        };
        bucket.settle(now);
        bucket
    }

    /// Returns true if one more Interest is allowed. Time must be settled.
    pub(super) fn has_room(&self) -> bool {
        self.depth - self.level >= 1.0
    }

    /// Takes one Interest in.
    pub(super) fn borrow(&mut self) {
        self.level += 1.0;
    }

    /// Lets the time until `now` leak.
    pub(super) fn settle(&mut self, now: Time) {
        match self.leak {
            Leak::Fluid => {
                self.drain(self.rate * now.since(self.at).as_secs_f64());
                self.at = self.at.max(now);
            }
            Leak::Quanta if now >= self.at => {
                self.drain(self.rate * self.interval.as_secs_f64());
                // Where the rate falls so low, ndnSIM looks again in a second.
                self.interval = Duration::from_secs_f64(if self.rate > 1.0 {
                    QUANTUM / self.rate
                } else {
                    1.0
                });
                // At 2^32 Interests a second and more an interval would be no nanosecond.
                let interval = self.interval.as_nanos().max(1) as u64;
                let further = now.since(self.at).as_nanos() as u64 / interval;
                self.drain(self.rate * self.interval.as_secs_f64() * further as f64);
                self.at += Duration::from_nanos(interval.saturating_mul(further + 1));
            }
            Leak::Quanta => {}
        }
    }

    /// The level at `now`, in Interests.
    pub(super) fn level(&self, now: Time) -> f64 {
        let mut then = self.clone();
        then.settle(now);
        then.level
    }

    /// The rate at which it leaks, Interests a second.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Leaks at `rate` from now on, within 1 and the rate that it was made with.
    pub(super) fn set_rate(&mut self, now: Time, rate: f64) {
        self.settle(now);
        self.rate = rate.min(self.most_rate).max(LEAST_RATE);
    }

    fn drain(&mut self, tokens: f64) {
        self.level = (self.level - tokens).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `burst` Interests pass at `now`.
    fn pass(bucket: &mut TokenBucket, now: Time, burst: u32) -> u32 {
        bucket.settle(now);
        let passes = |bucket: &mut TokenBucket| {
            let room = bucket.has_room();
            if room {
                bucket.borrow();
            }
            u32::from(room)
        };
        (0..burst).map(|_| passes(bucket)).sum()
    }

    #[test]
    fn the_fifty_first_of_a_burst_passes() {
        for leak in [Leak::Fluid, Leak::Quanta] {
            let mut bucket = TokenBucket::new(leak, 1000.0, 50.0, Time::ZERO, Duration::ZERO);
            assert_eq!(pass(&mut bucket, Time::ZERO, 60), 50, "{leak:?}");
            assert_eq!(pass(&mut bucket, Time::from_secs(1), 60), 50, "{leak:?}");
        }
    }

    #[test]
    fn fifty_every_fifty_milliseconds_pass_a_fluid_bucket_and_not_always_quanta() {
        let refused = |leak, phase| {
            let mut bucket =
                TokenBucket::new(leak, 1000.0, 50.0, Time::ZERO, Duration::from_micros(phase));
            (0..200)
                .map(|tick| 50 - pass(&mut bucket, Time::from_millis(50 * tick), 50))
                .sum::<u32>()
        };
        assert_eq!(refused(Leak::Fluid, 0), 0);
        // 50 quanta are 50.05 ms: about every twentieth tick is short of one.
        for phase in [1, 300, 999] {
            assert!(
                (8..=11).contains(&refused(Leak::Quanta, phase)),
                "{phase}: {}",
                refused(Leak::Quanta, phase)
            );
        }
    }

    #[test]
    fn looking_more_often_changes_what_has_leaked() {
        for leak in [Leak::Fluid, Leak::Quanta] {
            let start = || {
                let mut bucket =
                    TokenBucket::new(leak, 700.0, 500.0, Time::ZERO, Duration::from_micros(137));
                pass(&mut bucket, Time::ZERO, 500);
                bucket
            };
            let mut often = start();
            for nanos in (0..=400_000_000).step_by(77_777) {
                often.settle(Time::from_nanos(nanos));
            }
            let now = Time::from_millis(400);
            assert!(
                (often.level(now) - start().level(now)).abs() < 1e-6,
                "{leak:?}"
            );
        }
    }

    #[test]
    fn an_interval_follows_the_rate_before_its_time() {
        let mut bucket = TokenBucket::new(Leak::Quanta, 1000.0, 50.0, Time::ZERO, Duration::ZERO);
        pass(&mut bucket, Time::ZERO, 50);
        bucket.set_rate(Time::ZERO, 1.0);
        // The interval of 1.001 ms is under way, and passes at the new rate; the next is a second.
        assert!((bucket.level(Time::from_millis(2)) - 49.998_999).abs() < 1e-9);
        assert!((bucket.level(Time::from_millis(1000)) - 49.998_999).abs() < 1e-9);
        assert!((bucket.level(Time::from_millis(1002)) - 48.998_999).abs() < 1e-9);
        bucket.set_rate(Time::from_secs(2), 1e9);
        assert_eq!(bucket.rate(), 1000.0);
        bucket.set_rate(Time::from_secs(2), 0.0);
        assert_eq!(bucket.rate(), 1.0);
    }
}
