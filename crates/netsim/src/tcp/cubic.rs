//! CUBIC as in Linux: RFC 9438 with HyStart.
//!
//! * After a loss the window falls to 0.7 of itself and then grows as a cube of time, which is flat
//!   at the window of the last loss: W = 0.4 (t − K)³ + W_max.
//! * If Reno's window would be larger, it grows as Reno's (section 4.3).
//! * A loss below the last W_max lowers W_max further (fast convergence, section 4.7).
//! * Slow start ends before the first loss if a train of acknowledgements is as long as half a
//!   round trip, or the round trip has grown by an eighth (Ha and Rhee, Computer Networks 55,
//!   2011).
//! * A timeout resets the whole state.
//!
//! The deviations from the RFC are those of the kernel (tcp_cubic.c): the window grows by one per
//! cnt segments, at most one segment for two acknowledged; the curve is evaluated when the window
//! has changed or 1/32 s has passed; the limit of 1.5 W_cubic is missing. Deviations from the
//! kernel: time is not in jiffies of 1 to 10 ms, and numbers have fractions; HyStart counts rounds
//! from the first acknowledgement on. The kernel starts in the middle of a flight, when the window
//! has 16 segments. But it also holds segments back to send more at once (TSO), which aligns its
//! rounds with the beginnings of flights, where delays contain no queue of its own. Windows count
//! segments, whatever their bytes. O(1) per acknowledgement; 120 bytes per connection.
//!
//! `larder-transfer` has another CUBIC for NDN: it handles marks, Nacks and timeouts of single
//! segments, and has no cumulative acknowledgements.

use super::window::Window;
use larder_units::Time;
use std::time::Duration;

/// The factor after a loss, 717/1024, as the kernel rounds 0.7.
const BETA: f64 = 717.0 / 1024.0;

/// Segments per cubic second.
const C: f64 = 0.4;

/// The window from which on HyStart is active.
const LEAST_HYSTART_WINDOW: u32 = 16;

/// The greatest gap between acknowledgements of one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);

/// The samples of a round trip before its delay counts.
const DELAY_SAMPLES: u32 = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// The window at the last loss, or its reduction by fast convergence; 0 before the first loss.
    last_max: f64,
    /// The start of the curve.
    epoch: Option<Time>,
    origin: f64,
    /// Seconds from the epoch to the flat part of the curve.
    k: f64,
    /// The window of Reno.
    reno: f64,
    acked: f64,
    last_evaluated: (u32, Time),
    /// Acknowledged segments per growth of one segment.
    count: f64,
    shortest: Option<Duration>,
    hystart: HyStart,
}

#[derive(Clone, Debug, Default)]
struct HyStart {
    round_start: Time,
    last_ack: Time,
    round_end: u64,
    shortest: Option<Duration>,
    samples: u32,
    found: bool,
}

impl Cubic {
    /// Returns the threshold after a loss at this window.
    pub(super) fn on_loss(&mut self, window: u32) -> u32 {
        let window = f64::from(window);
        self.epoch = None;
        self.last_max = if window < self.last_max {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        ((window * BETA) as u32).max(2)
    }

    pub(super) fn on_timeout(&mut self) {
        *self = Cubic::default();
    }

    /// Handles an idle time: the curve does not advance during it.
    pub(super) fn on_idle(&mut self, idle: Duration) {
        if let Some(epoch) = &mut self.epoch {
            *epoch += idle;
        }
    }

    /// Handles a round-trip sample; `una` is acknowledged of what was sent up to `next`.
    pub(super) fn on_rtt(
        &mut self,
        now: Time,
        rtt: Duration,
        una: u64,
        next: u64,
        window: &mut Window,
    ) {
        // Just after a recovery, delays still contain the queue that led to the loss.
        if self
            .epoch
            .is_some_and(|epoch| now.since(epoch) < Duration::from_secs(1))
        {
            return;
        }
        let rtt = rtt.max(Duration::from_micros(1));
        let shortest = *self
            .shortest
            .insert(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        if window.is_in_slow_start() && !self.hystart.found {
            self.hystart.begin_round(now, una, next);
            if window.segments >= LEAST_HYSTART_WINDOW {
                self.hystart.on_rtt(now, rtt, shortest);
                if self.hystart.found {
                    window.threshold = window.segments;
                }
            }
        }
    }

    /// Grows the window, after segments were acknowledged while the window limited the sender.
    pub(super) fn grow(&mut self, now: Time, acked: u32, window: &mut Window) {
        let rest = window.slow_start(acked);
        if rest > 0 {
            self.evaluate_curve(now, rest, window.segments);
            window.grow_by_one_in(self.count, rest);
        }
    }

    fn evaluate_curve(&mut self, now: Time, acked: u32, window: u32) {
        self.acked += f64::from(acked);
        if self.last_evaluated.0 == window
            && now.since(self.last_evaluated.1) <= Duration::from_secs(1) / 32
        {
            return;
        }
        self.last_evaluated = (window, now);
        let segments = f64::from(window);
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                (self.acked, self.reno) = (f64::from(acked), segments);
                (self.k, self.origin) = if self.last_max <= segments {
                    (0.0, segments)
                } else {
                    (((self.last_max - segments) / C).cbrt(), self.last_max)
                };
                *self.epoch.insert(now)
            }
        };
        // The target is one round trip ahead, when the growth takes effect.
        let t = (now.since(epoch) + self.shortest.unwrap_or_default()).as_secs_f64() - self.k;
        let target = self.origin + C * t * t * t;
        self.count = if target > segments {
            segments / (target - segments)
        } else {
            100.0 * segments
        };
        if self.last_max == 0.0 {
            self.count = self.count.min(20.0);
        }
        // Reno with the same factor after a loss: 3 (1 - beta) / (1 + beta) segments per window.
        let per_segment = segments * (1.0 + BETA) / (3.0 * (1.0 - BETA));
        let steps = (self.acked / per_segment).floor();
        self.acked -= steps * per_segment;
        self.reno += steps;
        if self.reno > segments {
            self.count = self.count.min(segments / (self.reno - segments));
        }
        self.count = self.count.max(2.0);
    }
}

impl HyStart {
    fn begin_round(&mut self, now: Time, una: u64, next: u64) {
        if una > self.round_end {
            *self = HyStart {
                round_start: now,
                last_ack: now,
                round_end: next,
                ..HyStart::default()
            };
        }
    }

    fn on_rtt(&mut self, now: Time, rtt: Duration, shortest: Duration) {
        if now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = now;
            // The limit is half of the shortest round trip, since nothing is paced here. The kernel
            // adds at most half a millisecond for its own bursts, which is left out.
            self.found |= now.since(self.round_start) > shortest / 2;
        }
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        if self.samples < DELAY_SAMPLES {
            self.samples += 1;
        } else {
            let more = (shortest / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
            self.found |= self.shortest.is_some_and(|least| least > shortest + more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the windows after a loss at 100 segments, when all segments are acknowledged once
    /// per round trip of 100 ms.
    fn after_a_loss(rounds: u64) -> Vec<u32> {
        let mut cubic = Cubic {
            shortest: Some(Duration::from_millis(100)),
            ..Cubic::default()
        };
        let mut window = Window::new(100);
        window.threshold = cubic.on_loss(100);
        window.segments = window.threshold;
        let mut timeline = vec![window.segments];
        for round in 0..rounds {
            for ack in 0..u64::from(window.segments) {
                let now =
                    Time::from_millis(100 * round) + Duration::from_micros(ack * 100_000 / 200);
                cubic.grow(now, 1, &mut window);
            }
            timeline.push(window.segments);
        }
        timeline
    }

    #[test]
    fn the_curve_is_another() {
        let timeline = after_a_loss(60);
        assert_eq!(timeline[0], 70);
        // K = cbrt(30 / 0.4) = 4.2 s. The window reaches 100 there and stays within a few segments
        // of the formula before and after.
        for (round, window) in timeline.iter().enumerate().skip(2) {
            let t = (round as f64 + 0.5) / 10.0 - (30.0f64 / 0.4).cbrt();
            let expected = 100.0 + 0.4 * t * t * t;
            assert!(
                (f64::from(*window) - expected).abs() < 3.0,
                "round {round}: {window}, not {expected}"
            );
        }
    }

    #[test]
    fn a_second_loss_below_the_first_keeps_the_old_summit() {
        let mut cubic = Cubic::default();
        assert_eq!(cubic.on_loss(100), 70);
        assert_eq!(cubic.on_loss(80), 56);
        assert!((cubic.last_max - 80.0 * (1.0 + BETA) / 2.0).abs() < 1e-9);
        assert_eq!(cubic.on_loss(1), 2);
    }

    #[test]
    fn slow_start_runs_into_the_queue() {
        let mut window = Window::new(32);
        let mut cubic = Cubic::default();
        cubic.on_rtt(Time::ZERO, Duration::from_millis(50), 0, 100, &mut window);
        // Acknowledgements one millisecond apart: a train of half a round trip is long enough.
        for at in 1..40 {
            cubic.on_rtt(
                Time::from_millis(at),
                Duration::from_millis(50),
                at,
                100,
                &mut window,
            );
        }
        assert_eq!(window.threshold, 32);
        let mut window = Window::new(32);
        let mut cubic = Cubic {
            shortest: Some(Duration::from_millis(50)),
            ..Cubic::default()
        };
        for at in 0..10 {
            // The acknowledgements are far apart, but the delay has grown by more than an eighth.
            cubic.on_rtt(
                Time::from_millis(5 * at),
                Duration::from_millis(60),
                at,
                100,
                &mut window,
            );
        }
        assert_eq!(window.threshold, 32);
    }
}
