//! CUBIC (RFC 9438) with HyStart++ slow start (RFC 9406), counted in segments.
//!
//! * After a reduction the window follows W(t) = C·(t − K)³ + W_max: quickly back towards the
//!   window that was too large, slowly around it, then quickly beyond it. In a network with short
//!   round trips the Reno-friendly estimate grows faster and is used.
//! * A sign of congestion multiplies the window by 0.7, at most once per round trip. Fast
//!   convergence lowers W_max when new flows arrive.
//! * Slow start ends when the round trip grows within a round (HyStart++), and not only on loss,
//!   because milliseconds suffice to fill the queue of a producer or a forwarder.
//!
//! Deviations. Every loss is found by a timeout (NDN has no duplicate acknowledgements). A timeout
//! therefore reduces by 0.7 like a mark, and falls to the smallest window only if a second one
//! follows without any answer in between (RFC 9438 section 4.7 has one segment at the first).
//! HyStart++'s smallest delay threshold is 1 ms and not 4 ms, because round trips between
//! applications of one machine are a tenth of a millisecond. Rounds end by time (one smoothed RTT
//! after their start), since answers in NDN may come in any order.
//!
//! Complexity: a few multiplications per answer, and one cube root per reduction.

use super::entry::Entry;
use super::{Answer, Congestion, CongestionControl, OncePerRoundTrip, Signal};
use crate::limits::{INITIAL_WINDOW, MAX_WINDOW, MIN_WINDOW};
use larder_units::Time;
use std::time::Duration;

/// RFC 9438 section 4.6: multiplicative decrease.
const BETA: f64 = 0.7;
/// RFC 9438 section 5: the aggressiveness of the cubic, in segments per cubic second.
const C: f64 = 0.4;
/// RFC 9438 section 4.3: the additive increase of the Reno-friendly estimate. It is as fair as
/// Reno's 1 with a decrease by 0.5.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// RFC 9406 section 4.3: delay thresholds (the smaller one is 4 ms there; see the deviations
/// above), samples per round, growth and rounds of the conservative phase.
const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(1);
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const SAMPLES_A_ROUND: u32 = 8;
const CONSERVATIVE_DIVISOR: f64 = 4.0;
const CONSERVATIVE_ROUNDS: u32 = 5;

pub(super) const ENTRY: Entry = Entry {
    name: "cubic",
    description: "CUBIC with HyStart++ (RFC 9438, RFC 9406)",
    experimental: None,
    parameters: &[],
    build: |_| Box::new(Cubic::new()),
};

/// CUBIC with HyStart++.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: f64,
    slow_start_threshold: f64,
    slow_start: SlowStart,
    epoch: Option<Epoch>,
    /// W_max of RFC 9438.
    window_before_reduction: f64,
    event: OncePerRoundTrip,
    /// True if a segment arrived since the last reduction. If not, a further timeout falls to the
    /// smallest window.
    answered_since: bool,
}

/// An epoch of congestion avoidance: from a reduction (or the end of slow start) to the next.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// K: seconds until the cubic is back at W_max.
    to_plateau: f64,
    plateau: f64,
    /// W_est: the window that Reno would have.
    reno: f64,
}

impl Default for Cubic {
    fn default() -> Self {
        Cubic::new()
    }
}

impl Cubic {
    /// Creates a control in slow start with [`INITIAL_WINDOW`] segments.
    pub fn new() -> Self {
        Cubic {
            window: INITIAL_WINDOW as f64,
            slow_start_threshold: f64::INFINITY,
            slow_start: SlowStart::default(),
            epoch: None,
            window_before_reduction: 0.0,
            event: OncePerRoundTrip::default(),
            answered_since: true,
        }
    }

    fn avoid_congestion(&mut self, answer: &Answer) {
        let window = self.window;
        let last_plateau = self.window_before_reduction;
        let epoch = self
            .epoch
            .get_or_insert_with(|| Epoch::begin(answer.now, window, last_plateau));
        let rtt = answer.smoothed_rtt.unwrap_or_default().as_secs_f64();
        let elapsed = answer.now.since(epoch.start).as_secs_f64();
        // Section 4.3: above the window of the last reduction, the estimate grows as Reno does, by
        // one segment per round trip.
        let alpha = if epoch.reno >= last_plateau {
            1.0
        } else {
            ALPHA
        };
        epoch.reno += alpha / window;
        if epoch.cubic(elapsed) < epoch.reno {
            self.window = window.max(epoch.reno);
        } else {
            // Sections 4.4 and 4.5: the target is the cubic's value in one round trip, at most half
            // a window away per round trip.
            let target = epoch.cubic(elapsed + rtt).clamp(window, 1.5 * window);
            self.window += (target - window) / window;
        }
        self.window = self.window.min(MAX_WINDOW as f64);
    }
}

impl Epoch {
    fn begin(now: Time, window: f64, last_plateau: f64) -> Epoch {
        let plateau = last_plateau.max(window);
        Epoch {
            start: now,
            to_plateau: ((plateau - window) / C).cbrt(),
            plateau,
            reno: window,
        }
    }

    /// Returns W_cubic at `elapsed` seconds after the start of the epoch (RFC 9438, figure 1).
    fn cubic(&self, elapsed: f64) -> f64 {
        C * (elapsed - self.to_plateau).powi(3) + self.plateau
    }
}

impl CongestionControl for Cubic {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn on_answer(&mut self, answer: &Answer) {
        self.answered_since = true;
        if !answer.window_limited {
            return;
        }
        if self.window < self.slow_start_threshold {
            self.window = (self.window + self.slow_start.growth(answer)).min(MAX_WINDOW as f64);
            if self.slow_start.ended() {
                self.slow_start_threshold = self.window;
            }
        } else {
            self.avoid_congestion(answer);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion) -> bool {
        if !self.event.is_new(congestion) {
            return false;
        }
        // Section 4.7 (fast convergence): a loss below the last plateau means that another flow
        // needs room.
        self.window_before_reduction = if self.window < self.window_before_reduction {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        let persistent = congestion.signal == Signal::TimeOut && !self.answered_since;
        self.slow_start_threshold = (self.window * BETA).max(MIN_WINDOW as f64);
        self.window = if persistent {
            MIN_WINDOW as f64
        } else {
            self.slow_start_threshold
        };
        self.slow_start = SlowStart::default();
        self.epoch = None;
        self.answered_since = false;
        true
    }
}

/// HyStart++ (RFC 9406): finds the end of slow start by the smallest round trip of each round.
#[derive(Clone, Debug)]
struct SlowStart {
    round_ends: Option<Time>,
    samples: u32,
    min_this_round: Duration,
    min_last_round: Option<Duration>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Standard,
    /// Conservative slow start: a quarter of the growth, until the delay proves spurious or the
    /// rounds are over.
    Conservative {
        rounds: u32,
        baseline: Duration,
    },
    Over,
}

impl Default for SlowStart {
    fn default() -> Self {
        SlowStart {
            round_ends: None,
            samples: 0,
            min_this_round: Duration::MAX,
            min_last_round: None,
            phase: Phase::Standard,
        }
    }
}

impl SlowStart {
    fn ended(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Returns the segments to add to the window for this answer.
    fn growth(&mut self, answer: &Answer) -> f64 {
        if self.round_ends.is_none_or(|end| answer.now >= end) {
            self.next_round(answer);
        }
        if let Some(rtt) = answer.rtt {
            self.samples += 1;
            self.min_this_round = self.min_this_round.min(rtt);
            if self.samples >= SAMPLES_A_ROUND {
                self.judge();
            }
        }
        match self.phase {
            Phase::Standard => 1.0,
            Phase::Conservative { .. } => 1.0 / CONSERVATIVE_DIVISOR,
            Phase::Over => 0.0,
        }
    }

    fn next_round(&mut self, answer: &Answer) {
        if self.samples > 0 {
            self.min_last_round = Some(self.min_this_round);
        }
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            *rounds += 1;
            if *rounds >= CONSERVATIVE_ROUNDS {
                self.phase = Phase::Over;
            }
        }
        self.samples = 0;
        self.min_this_round = Duration::MAX;
        self.round_ends = Some(answer.now + answer.smoothed_rtt.unwrap_or_default());
    }

    fn judge(&mut self) {
        match self.phase {
            Phase::Standard => {
                let Some(last) = self.min_last_round else {
                    return;
                };
                let threshold =
                    (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
                if self.min_this_round >= last + threshold {
                    self.phase = Phase::Conservative {
                        rounds: 0,
                        baseline: self.min_this_round,
                    };
                }
            }
            Phase::Conservative { baseline, .. } if self.min_this_round < baseline => {
                self.phase = Phase::Standard
            }
            Phase::Conservative { .. } | Phase::Over => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn answer(now: Time, rtt: Duration) -> Answer {
        Answer {
            now,
            rtt: Some(rtt),
            smoothed_rtt: Some(rtt),
            window_limited: true,
            granted_rate: None,
        }
    }

    fn congestion(now: Time, sent_at: Time, signal: Signal) -> Congestion {
        Congestion {
            now,
            sent_at,
            signal,
        }
    }

    /// Simulates one round trip: a window of answers, spread over `rtt`.
    fn round(cubic: &mut Cubic, now: &mut Time, rtt: Duration) {
        let answers = cubic.window();
        for _ in 0..answers {
            *now += rtt / answers as u32;
            cubic.on_answer(&answer(*now, rtt));
        }
    }

    #[test]
    fn slow_start_doubles_a_round() {
        let (mut cubic, mut now) = (Cubic::new(), Time::ZERO);
        for expected in [20, 40, 80, 160] {
            round(&mut cubic, &mut now, 50 * MS);
            assert_eq!(cubic.window(), expected);
        }
    }

    #[test]
    fn growing_delay_ends_slow_start_without_loss() {
        let (mut cubic, mut now) = (Cubic::new(), Time::ZERO);
        // A queue that serves 100 segments per round trip of 10 ms and delays the rest.
        for _ in 0..20 {
            let rtt = 10 * MS * (cubic.window().max(100) as u32) / 100;
            round(&mut cubic, &mut now, rtt);
        }
        assert!((100..600).contains(&cubic.window()), "{}", cubic.window());
    }

    #[test]
    fn one_reaction_a_round_trip() {
        let (mut cubic, mut now) = (Cubic::new(), Time::ZERO);
        for _ in 0..4 {
            round(&mut cubic, &mut now, 50 * MS);
        }
        let sent_at = now;
        now += 50 * MS;
        assert!(cubic.on_congestion(&congestion(now, sent_at, Signal::Mark)));
        assert_eq!(cubic.window(), 112);
        for signal in [Signal::TimeOut, Signal::Mark, Signal::Nack] {
            assert!(
                !cubic.on_congestion(&congestion(now + 40 * MS, sent_at, signal)),
                "sent before the reaction"
            );
        }
        assert_eq!(cubic.window(), 112);
        assert!(cubic.on_congestion(&congestion(now + 60 * MS, now + 10 * MS, Signal::Mark)));
        assert_eq!(cubic.window(), 78);
    }

    #[test]
    fn silence_falls_to_the_smallest_window() {
        let mut cubic = Cubic::new();
        let at = Time::from_secs;
        cubic.on_congestion(&congestion(at(1), at(0), Signal::TimeOut));
        assert_eq!(cubic.window(), 7);
        cubic.on_congestion(&congestion(at(3), at(2), Signal::TimeOut));
        assert_eq!(cubic.window(), MIN_WINDOW);
        for n in 4..100 {
            cubic.on_congestion(&congestion(at(n + 1), at(n), Signal::TimeOut));
        }
        assert_eq!(cubic.window(), MIN_WINDOW);
    }

    #[test]
    fn window_returns_to_its_plateau_after_k_seconds() {
        // RTT 100 ms and W_max 1000: K = cbrt(1000 × 0.3 / 0.4) = 9.09 s, when the Reno estimate is
        // far below the plateau.
        let (mut cubic, mut now) = (Cubic::new(), Time::from_secs(10));
        cubic.window = 1000.0;
        cubic.on_congestion(&congestion(now, Time::from_secs(9), Signal::Mark));
        assert_eq!(cubic.window(), 700);
        let reduced_at = now;
        while now.since(reduced_at) < Duration::from_secs(9) {
            round(&mut cubic, &mut now, 100 * MS);
        }
        assert!((990..=1005).contains(&cubic.window()), "{}", cubic.window());
        while now.since(reduced_at) < Duration::from_secs(14) {
            round(&mut cubic, &mut now, 100 * MS);
        }
        // 1000 + 0.4 × 4.9³ = 1047.
        assert!(
            (1035..=1065).contains(&cubic.window()),
            "{}",
            cubic.window()
        );
    }

    #[test]
    fn an_idle_flow_does_not_grow() {
        let mut cubic = Cubic::new();
        for n in 0..1000 {
            let answer = Answer {
                window_limited: false,
                ..answer(Time::from_millis(n), MS)
            };
            cubic.on_answer(&answer);
        }
        assert_eq!(cubic.window(), INITIAL_WINDOW);
    }

    #[test]
    fn window_never_passes_the_limit() {
        let (mut cubic, mut now) = (Cubic::new(), Time::ZERO);
        for _ in 0..40 {
            round(&mut cubic, &mut now, 20 * MS);
        }
        assert_eq!(cubic.window(), MAX_WINDOW);
    }
}
