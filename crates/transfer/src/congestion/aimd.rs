//! aimd: additive increase, multiplicative decrease, as in TCP Reno.
//!
//! Source: `ndncatchunks`' AIMD pipeline and RFC 5681 section 3.1, in segments. Slow start adds one
//! segment per Data until the first sign of congestion. After it, the window grows by `increase`
//! segments per round trip: W ← W + increase / W per Data. A sign of congestion (timeout, mark or
//! Nack) multiplies W by `decrease`, at most once per round trip (ndncatchunks: conservative window
//! adaptation).
//!
//! Deviation: a timeout does not return to slow start, since NDN has no other sign of loss. The
//! window counts segments, not bytes. O(1).

use super::entry::{Entry, Parameter};
use super::{Answer, Congestion, CongestionControl, OncePerRoundTrip};
use crate::limits::{INITIAL_WINDOW, MAX_WINDOW, MIN_WINDOW};

pub(super) const ENTRY: Entry = Entry {
    name: "aimd",
    description: "additive increase, multiplicative decrease, as TCP Reno and ndncatchunks",
    experimental: None,
    parameters: &[
        Parameter::number("increase", 1.0, 0.01, 100.0, "segments per round trip"),
        Parameter::number(
            "decrease",
            0.5,
            0.01,
            0.99,
            "the window's factor at congestion",
        ),
    ],
    build: |given| {
        Box::new(Aimd::new(
            given.number("increase"),
            given.number("decrease"),
        ))
    },
};

/// Additive increase, multiplicative decrease.
#[derive(Clone, Debug)]
pub struct Aimd {
    increase: f64,
    decrease: f64,
    window: f64,
    slow_start_threshold: f64,
    event: OncePerRoundTrip,
}

impl Aimd {
    /// Creates a control that grows by `increase` segments per round trip and shrinks to the share
    /// `decrease` (below 1) of the window.
    pub fn new(increase: f64, decrease: f64) -> Self {
        let event = OncePerRoundTrip::default();
        Aimd {
            increase,
            decrease,
            window: INITIAL_WINDOW as f64,
            slow_start_threshold: f64::INFINITY,
            event,
        }
    }
}

impl CongestionControl for Aimd {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn on_answer(&mut self, answer: &Answer) {
        if answer.window_limited {
            let is_slow_start = self.window < self.slow_start_threshold;
            let more = if is_slow_start {
                1.0
            } else {
                self.increase / self.window
            };
            self.window = (self.window + more).min(MAX_WINDOW as f64);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion) -> bool {
        if !self.event.is_new(congestion) {
            return false;
        }
        self.window = (self.window * self.decrease).max(MIN_WINDOW as f64);
        self.slow_start_threshold = self.window;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{congestion, round};
    use larder_units::Time;

    #[test]
    fn the_sawtooth_has_other_slopes() {
        let mut aimd = Aimd::new(1.0, 0.5);
        let mut now = Time::ZERO;
        for expected in [20, 40, 80] {
            round(&mut aimd, &mut now, 100);
            assert_eq!(aimd.window(), expected);
        }
        assert!(aimd.on_congestion(&congestion(now, 0)));
        assert!(
            !aimd.on_congestion(&congestion(now, 0)),
            "of the same event"
        );
        assert_eq!(aimd.window(), 40);
        for _ in 0..10 {
            round(&mut aimd, &mut now, 100);
        }
        // 40 answers add a little less than 1/40 each.
        assert!((49.5..=50.0).contains(&aimd.window), "{}", aimd.window);
    }

    #[test]
    fn the_window_closes() {
        let mut aimd = Aimd::new(1.0, 0.01);
        for second in 0..20 {
            aimd.on_congestion(&congestion(Time::from_secs(second), second * 1000));
        }
        assert_eq!(aimd.window(), MIN_WINDOW);
    }
}
