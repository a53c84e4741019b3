//! icp: the Interest Control Protocol.
//!
//! Source: Carofiglio, Gallo, Muscariello, "ICP: Design and evaluation of an Interest control
//! protocol for content-centric networking", INFOCOM 2012 workshops, section III. Experimental: it
//! was not checked against the text of the paper. W ← W + η/W per Data. If an Interest is not
//! answered within τ, W ← β W, at most once per τ. τ = R_min + δ (R_max − R_min) over the recent
//! round trips: delay is a sign of congestion before queues drop.
//!
//! Deviations: an answer after more than τ is noticed when it arrives, not when a timer would
//! expire, and a missing answer is noticed by the fetcher's timeout. Marks and Nacks are signs too.
//! R_min and R_max are those of the last 20 round trips (20 samples in the paper: less than a
//! window, in which a queue hardly moves). τ is at least 2 ms above R_min, a delay that a host can
//! cause without a queue. The window counts segments, not bytes. O(1), 20 pairs.

use super::entry::{Entry, Parameter};
use super::{Answer, Congestion, CongestionControl, OncePerRoundTrip, Signal};
use crate::limits::{INITIAL_WINDOW, MAX_WINDOW, MIN_WINDOW};
use larder_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// The number of round trips for R_min and R_max.
const HISTORY: usize = 20;
/// The least margin of τ over R_min. A host's scheduler can delay a round trip by this much without
/// a queue.
const LEAST_MARGIN: Duration = Duration::from_millis(2);

pub(super) const ENTRY: Entry = Entry {
    name: "icp",
    description: "delay-based additive increase, multiplicative decrease (Carofiglio et al. 2012)",
    experimental: Some("not checked against the text of the paper"),
    parameters: &[
        Parameter::number("eta", 1.0, 0.01, 100.0, "segments per round trip"),
        Parameter::number("beta", 0.5, 0.01, 0.99, "the window's factor at congestion"),
        Parameter::number(
            "delta",
            0.5,
            0.01,
            1.0,
            "position of the timeout between the least and the greatest round trip",
        ),
    ],
    build: |given| {
        Box::new(Icp::new(
            given.number("eta"),
            given.number("beta"),
            given.number("delta"),
        ))
    },
};

/// The Interest Control Protocol.
#[derive(Clone, Debug)]
pub struct Icp {
    eta: f64,
    beta: f64,
    delta: f64,
    window: f64,
    in_slow_start: bool,
    /// The least and the greatest round trip of each recent round.
    rounds: VecDeque<(Duration, Duration)>,
    round_ends: Time,
    event: OncePerRoundTrip,
}

impl Icp {
    /// Creates a control that grows by `eta` segments per round trip and shrinks to the share
    /// `beta` of the window; `delta` places τ between the least and the greatest round trip.
    pub fn new(eta: f64, beta: f64, delta: f64) -> Self {
        Icp {
            eta,
            beta,
            delta,
            window: INITIAL_WINDOW as f64,
            in_slow_start: true,
            rounds: VecDeque::with_capacity(HISTORY),
            round_ends: Time::ZERO,
            event: OncePerRoundTrip::default(),
        }
    }

    /// Returns τ, once there is a history.
    fn tau(&self) -> Option<Duration> {
        let least = self.rounds.iter().map(|(least, _)| *least).min()?;
        let greatest = self.rounds.iter().map(|(_, greatest)| *greatest).max()?;
        Some(least + (greatest - least).mul_f64(self.delta).max(LEAST_MARGIN))
    }

    fn remember(&mut self, now: Time, rtt: Duration) {
        match self.rounds.back_mut().filter(|_| now < self.round_ends) {
            Some((least, greatest)) => {
                (*least, *greatest) = ((*least).min(rtt), (*greatest).max(rtt))
            }
            None => {
                if self.rounds.len() == HISTORY {
                    self.rounds.pop_front();
                }
                self.rounds.push_back((rtt, rtt));
                self.round_ends = now + rtt;
            }
        }
    }
}

impl CongestionControl for Icp {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn on_answer(&mut self, answer: &Answer) {
        let late = answer
            .rtt
            .zip(self.tau())
            .is_some_and(|(rtt, tau)| rtt > tau);
        if let Some(rtt) = answer.rtt {
            self.remember(answer.now, rtt);
            let sent_at =
                Time::from_nanos(answer.now.nanos().saturating_sub(rtt.as_nanos() as u64));
            if late {
                self.on_congestion(&Congestion {
                    now: answer.now,
                    sent_at,
                    signal: Signal::TimeOut,
                });
                return;
            }
        }
        if answer.window_limited {
            let more = if self.in_slow_start {
                1.0
            } else {
                self.eta / self.window
            };
            self.window = (self.window + more).min(MAX_WINDOW as f64);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion) -> bool {
        let is_new = self.event.is_new(congestion);
        if is_new {
            self.window = (self.window * self.beta).max(MIN_WINDOW as f64);
            self.in_slow_start = false;
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{answer, congestion, round};

    #[test]
    fn a_queue_grows_to_its_end_before_the_window_falls() {
        let (mut icp, mut now) = (Icp::new(1.0, 0.5, 0.5), Time::ZERO);
        icp.on_congestion(&congestion(now, 0));
        round(&mut icp, &mut now, 100);
        assert_eq!(icp.tau(), Some(Duration::from_millis(102)));
        round(&mut icp, &mut now, 100);
        let before = icp.window;
        // The queue adds 40 ms, which is late once. τ is then half-way, and 115 ms is early enough.
        now += Duration::from_millis(1);
        icp.on_answer(&answer(now, 140));
        icp.on_answer(&answer(now, 140));
        assert_eq!(icp.window, before / 2.0);
        assert_eq!(icp.tau(), Some(Duration::from_millis(120)));
        icp.on_answer(&answer(now + Duration::from_millis(200), 115));
        assert!(icp.window > before / 2.0);
    }

    #[test]
    fn one_slow_answer_is_remembered_for_ever() {
        let (mut icp, mut now) = (Icp::new(1.0, 0.5, 0.5), Time::ZERO);
        icp.on_answer(&answer(now, 1000));
        now += Duration::from_secs(2);
        for _ in 0..=HISTORY {
            round(&mut icp, &mut now, 100);
        }
        assert_eq!(icp.tau(), Some(Duration::from_millis(102)));
    }
}
