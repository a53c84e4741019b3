//! bbr: a model of the path and not of its losses: bottleneck rate × least round trip.
//!
//! Source: Cardwell et al., "BBR: Congestion-based congestion control", ACM Queue 14(5), 2016,
//! version 1. The bottleneck rate is the greatest rate of the last ten round trips, and the path's
//! delay is the least round trip of the last ten seconds. Interests are paced at the rate, and at
//! most two products of both are in flight. Startup sends 2.89 times the rate until the rate stops
//! growing; then the queue is drained. After that, one round trip in eight at 1.25 probes for a
//! higher rate, and the next one at 0.75 drains the queue. After ten seconds without a new least
//! round trip, only four segments are in flight for a while, to measure it again.
//!
//! Deviations ("BBR-like"): the rate of a round is its Data over its time, because Data arrive in
//! any order. Losses only matter in startup, which a Nack or timeout ends. A cache on the path
//! shortens the round trips of some Data. The least round trip is then that of the cache, and the
//! window may be too small for the other Data (BBR-CD, MILCOM 2021, solves this; it is missing
//! here). The window counts segments, not bytes. O(1) per Data.

use super::entry::Entry;
use super::{Answer, Congestion, CongestionControl};
use crate::limits::{INITIAL_WINDOW, MAX_WINDOW};
use larder_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// 2/ln 2: the least gain that doubles the rate in a round trip.
const STARTUP_GAIN: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const WINDOW_GAIN: f64 = 2.0;
/// The number of round trips over which the maximum of the rate is taken.
const RATE_ROUNDS: usize = 10;
/// Startup ends after this many rounds in which the rate grew by less than a quarter.
const FULL_ROUNDS: u32 = 3;
const LEAST_RTT_AGE: Duration = Duration::from_secs(10);
const PROBE_RTT: Duration = Duration::from_millis(200);
/// Segments in flight during the measurement of the least round trip.
const PROBE_WINDOW: f64 = 4.0;
/// The least length of a round. The rate of a shorter one would depend on the machine, not on the
/// path.
const LEAST_ROUND: Duration = Duration::from_millis(1);

pub(super) const ENTRY: Entry = Entry {
    name: "bbr",
    description: "paces at the measured rate of the bottleneck (Cardwell et al. 2016)",
    experimental: None,
    parameters: &[],
    build: |_| Box::new(Bbr::new()),
};

/// BBR-like control.
#[derive(Clone, Debug, Default)]
pub struct Bbr {
    phase: Phase,
    /// Data per second of the last rounds, newest last.
    rates: VecDeque<f64>,
    /// The start of the round, and the number of Data since.
    round: Option<(Time, u64)>,
    /// The least round trip, and the time of its measurement.
    least_rtt: Option<(Duration, Time)>,
    /// The last rate that showed growth in startup, and the rounds since.
    full: (f64, u32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Startup,
    Drain,
    /// The index into [`CYCLE`].
    Probe(usize),
    /// The end of the time with few segments in flight.
    LeastRtt(Time),
}

impl Bbr {
    /// Creates a control without a model of the path.
    pub fn new() -> Self {
        Bbr::default()
    }

    /// Returns the rate of the bottleneck in Data per second; 0 before the end of the first round.
    fn bottleneck(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the bandwidth-delay product in segments.
    fn product(&self) -> f64 {
        self.least_rtt
            .map_or(0.0, |(rtt, _)| rtt.as_secs_f64() * self.bottleneck())
    }

    fn end_round(&mut self, now: Time, began: Time, count: u64) {
        let rate = count as f64 / now.since(began).as_secs_f64();
        if self.rates.len() == RATE_ROUNDS {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
        let is_full = self.phase == Phase::Startup && self.is_full();
        self.phase = match self.phase {
            Phase::Startup if is_full => Phase::Drain,
            Phase::Startup => Phase::Startup,
            Phase::Drain => Phase::Probe(2),
            Phase::Probe(at) => Phase::Probe((at + 1) % CYCLE.len()),
            Phase::LeastRtt(until) if now >= until => Phase::Probe(2),
            Phase::LeastRtt(until) => Phase::LeastRtt(until),
        };
    }

    fn is_full(&mut self) -> bool {
        let rate = self.bottleneck();
        self.full = if rate >= self.full.0 * 1.25 {
            (rate, 0)
        } else {
            (self.full.0, self.full.1 + 1)
        };
        self.full.1 >= FULL_ROUNDS
    }

    fn on_rtt(&mut self, now: Time, rtt: Duration) {
        match self.least_rtt {
            Some((least, seen)) if rtt > least && now.since(seen) <= LEAST_RTT_AGE => {}
            Some((least, _)) if rtt > least && self.phase != Phase::Startup => {
                self.least_rtt = Some((rtt, now));
                self.phase = Phase::LeastRtt(now + PROBE_RTT + rtt);
            }
            _ => self.least_rtt = Some((rtt, now)),
        }
    }
}

impl CongestionControl for Bbr {
    fn window(&self) -> usize {
        let window = match self.phase {
            _ if self.rates.is_empty() => INITIAL_WINDOW as f64,
            Phase::LeastRtt(_) => PROBE_WINDOW,
            Phase::Startup => STARTUP_GAIN * self.product(),
            _ => WINDOW_GAIN * self.product(),
        };
        window.clamp(PROBE_WINDOW, MAX_WINDOW as f64) as usize
    }

    fn rate(&self) -> Option<f64> {
        let gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            Phase::Probe(at) => CYCLE[at],
            Phase::LeastRtt(_) => 1.0,
        };
        // Before the end of the first round, only its window limits the transfer.
        Some(gain * self.bottleneck()).filter(|rate| *rate >= 1.0)
    }

    fn on_answer(&mut self, answer: &Answer) {
        if let Some(rtt) = answer.rtt {
            self.on_rtt(answer.now, rtt);
        }
        let least = self
            .least_rtt
            .map_or(LEAST_ROUND, |(rtt, _)| rtt.max(LEAST_ROUND));
        let (began, count) = self.round.unwrap_or((answer.now, 0));
        // The first answer begins the first round and does not count in it.
        self.round = Some((began, if self.round.is_some() { count + 1 } else { 0 }));
        if self
            .round
            .is_some_and(|(began, count)| count > 0 && answer.now.since(began) >= least)
        {
            self.end_round(answer.now, began, count + 1);
            self.round = Some((answer.now, 0));
        }
    }

    fn on_congestion(&mut self, _: &Congestion) -> bool {
        let starting = self.phase == Phase::Startup && !self.rates.is_empty();
        if starting {
            self.phase = Phase::Drain;
        }
        starting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{answer, congestion};

    /// Simulates answers every `every` ms, each after `rtt` ms, for `millis`.
    fn feed(bbr: &mut Bbr, now: &mut Time, millis: u64, every: u64, rtt: u64) {
        for _ in 0..millis / every {
            *now += Duration::from_millis(every);
            bbr.on_answer(&answer(*now, rtt));
        }
    }

    #[test]
    fn startup_never_ends_or_drains_nothing() {
        let (mut bbr, mut now) = (Bbr::new(), Time::ZERO);
        assert_eq!((bbr.window(), bbr.rate()), (INITIAL_WINDOW, None));
        feed(&mut bbr, &mut now, 300, 2, 100);
        assert_eq!(bbr.phase, Phase::Startup);
        assert!(
            (bbr.rate().unwrap() - 2.885 * 500.0).abs() < 30.0,
            "{:?}",
            bbr.rate()
        );
        feed(&mut bbr, &mut now, 300, 2, 100);
        assert!(
            matches!(bbr.phase, Phase::Drain | Phase::Probe(_)),
            "{:?}",
            bbr.phase
        );
        feed(&mut bbr, &mut now, 300, 2, 100);
        // Two products: 500 per second × 100 ms × 2.
        assert!((95..=105).contains(&bbr.window()), "{}", bbr.window());
    }

    #[test]
    fn a_cycle_gains_what_it_gives() {
        assert_eq!(CYCLE.iter().sum::<f64>(), 8.0);
        let (mut bbr, mut now) = (Bbr::new(), Time::ZERO);
        bbr.phase = Phase::Probe(7);
        let mut gains = Vec::new();
        for _ in 0..8 {
            feed(&mut bbr, &mut now, 105, 1, 100);
            gains.push(bbr.rate().unwrap() / bbr.bottleneck());
        }
        assert!(gains.contains(&1.25) && gains.contains(&0.75), "{gains:?}");
    }

    #[test]
    fn a_path_that_grew_longer_is_not_noticed() {
        let (mut bbr, mut now) = (Bbr::new(), Time::ZERO);
        feed(&mut bbr, &mut now, 1000, 1, 50);
        feed(&mut bbr, &mut now, 10_010, 1, 90);
        assert!(matches!(bbr.phase, Phase::LeastRtt(_)), "{:?}", bbr.phase);
        assert_eq!(bbr.window(), 4);
        feed(&mut bbr, &mut now, 500, 1, 90);
        assert!(matches!(bbr.phase, Phase::Probe(_)), "{:?}", bbr.phase);
        assert!((170..=190).contains(&bbr.window()), "{}", bbr.window());
    }

    #[test]
    fn a_nack_in_startup_is_ignored() {
        let (mut bbr, mut now) = (Bbr::new(), Time::ZERO);
        feed(&mut bbr, &mut now, 250, 1, 100);
        assert!(bbr.on_congestion(&congestion(now, 0)));
        assert_eq!(bbr.phase, Phase::Drain);
        assert!(!bbr.on_congestion(&congestion(now, 0)), "only startup");
    }
}
