//! BBR, version 1.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00, and Linux' tcp_bbr.c, from which all
//! constants come.
//!
//! * The model is the greatest delivery rate of ten round trips and the least round trip of ten
//!   seconds. The sender paces at the rate, with at most twice the product of both in flight.
//!   Single losses do not change the model.
//! * Startup doubles the rate each round trip (gain 2/ln 2) until it grows by less than a quarter
//!   in three round trips. Drain then empties the queue that startup has built.
//! * After that, the sender probes in cycles of eight round trips: one at 5/4 of the rate, one at
//!   3/4, six at the rate.
//! * After ten seconds without a shorter round trip, it keeps 4 segments in flight for 200 ms, to
//!   measure the path without its own queue.
//! * After a loss it sends, for one round trip, as much as is delivered, and then continues as
//!   before. Aggregated acknowledgements get room beyond the product.
//!
//! Deviations: there is no long-term rate for policers (it would begin at losses of a fifth); the
//! maximum is exact where the kernel keeps three samples; a delayed acknowledgement may renew the
//! least round trip. The window counts segments, whatever their bytes. O(1) per acknowledgement
//! except for the filter's few entries; 300 bytes per connection.
//!
//! `larder-transfer`'s BBR paces Interests and processes single Data. This one has cumulative
//! acknowledgements and a scoreboard.

use super::rate::Sample;
use super::window::{State, Window};
use larder_units::{Stream, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// 2/ln 2 and its inverse, as the kernel rounds them.
const HIGH_GAIN: f64 = 2.885;
const DRAIN_GAIN: f64 = 1.0 / 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const CWND_GAIN: f64 = 2.0;
const RATE_ROUNDS: u64 = 10;
const SHORTEST_FOR: Duration = Duration::from_secs(10);
const PROBE_RTT_FOR: Duration = Duration::from_millis(200);
const LEAST_WINDOW: u32 = 4;
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// The kernel paces one percent below the rate, so that queues drain.
const MARGIN: f64 = 0.99;
/// The rounds of each half of the aggregation filter, and the longest aggregation that gets room.
const EXTRA_ROUNDS: u32 = 5;
const EXTRA_FOR: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

#[derive(Clone, Debug)]
pub(super) struct Bbr {
    segment_bytes: f64,
    initial_window: u32,
    stream: Stream,
    mode: Mode,
    /// Rounds with their rates in segments per second, in falling order of the rates.
    rates: VecDeque<(u64, f64)>,
    shortest: Option<(Time, Duration)>,
    round: u64,
    round_ends_at: u64,
    round_began: bool,
    pacing_gain: f64,
    cwnd_gain: f64,
    /// Bytes per second.
    pacing_rate: f64,
    has_seen_rtt: bool,
    full_rate: f64,
    full_rounds: u32,
    is_full: bool,
    cycle: usize,
    cycle_began: Time,
    probe_rtt_done_at: Option<Time>,
    probe_rtt_round_done: bool,
    restarts_from_idle: bool,
    before: State,
    prior_window: u32,
    conserves: bool,
    extra: Extra,
}

/// Segments delivered beyond the rate: the maximum of the last five to ten rounds.
#[derive(Clone, Debug, Default)]
struct Extra {
    since: Time,
    acked: f64,
    most: [f64; 2],
    rounds: u32,
    half: usize,
}

impl Bbr {
    pub(super) fn new(segment_bytes: u32, initial_window: u32, stream: Stream) -> Self {
        let segment_bytes = f64::from(segment_bytes);
        Bbr {
            segment_bytes,
            initial_window,
            stream,
            mode: Mode::Startup,
            rates: VecDeque::new(),
            shortest: None,
            round: 0,
            round_ends_at: 0,
            round_began: false,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            // Assumes a round trip of 1 ms until the first sample.
            pacing_rate: HIGH_GAIN * f64::from(initial_window) * segment_bytes * 1e3,
            has_seen_rtt: false,
            full_rate: 0.0,
            full_rounds: 0,
            is_full: false,
            cycle: 0,
            cycle_began: Time::ZERO,
            probe_rtt_done_at: None,
            probe_rtt_round_done: false,
            restarts_from_idle: false,
            before: State::Open,
            prior_window: 0,
            conserves: false,
            extra: Extra::default(),
        }
    }

    /// The pacing rate in bytes per second.
    pub(super) fn pacing_rate(&self) -> f64 {
        self.pacing_rate
    }

    /// Returns true while it sends little, to measure the path without its own queue.
    pub(super) fn is_probing_rtt(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    /// The number of segments that may leave at once: those of a millisecond, as the kernel sizes
    /// its packets; 1 below 1.2 Mb/s, and at least 2 above.
    pub(super) fn burst(&self) -> u32 {
        let least = if self.pacing_rate < 150_000.0 { 1 } else { 2 };
        let bytes = (self.pacing_rate / 1024.0).min(65_535.0);
        ((bytes / self.segment_bytes) as u32).max(least)
    }

    /// Saves the window at the start of a recovery.
    pub(super) fn save_window(&mut self, window: u32) {
        self.prior_window = if self.before.is_recovering() || self.mode == Mode::ProbeRtt {
            self.prior_window.max(window)
        } else {
            window
        };
    }

    pub(super) fn on_timeout(&mut self) {
        (self.before, self.full_rate, self.round_began) = (State::Loss, 0.0, true);
    }

    /// Handles the first transmission after an idle time.
    pub(super) fn on_idle(&mut self, now: Time) {
        self.restarts_from_idle = true;
        self.extra.since = now;
        self.extra.acked = 0.0;
        if self.mode == Mode::ProbeBandwidth {
            self.set_pacing_rate(1.0);
        }
    }

    /// Handles an acknowledgement.
    pub(super) fn on_ack(&mut self, now: Time, sample: &Sample, ack: Ack, window: &mut Window) {
        if !self.has_seen_rtt
            && let Some(rtt) = ack.mean_rtt
        {
            // The round trip of the handshake.
            (self.has_seen_rtt, self.shortest) = (true, Some((now, rtt)));
            let window = f64::from(self.initial_window) * self.segment_bytes;
            self.pacing_rate = HIGH_GAIN * MARGIN * window / rtt.as_secs_f64().max(1e-6);
        }
        self.update_rate(sample, ack.delivered);
        self.update_extra(now, sample);
        self.update_cycle(now, sample);
        self.check_full(sample);
        self.check_drain(now, ack.in_flight);
        self.update_shortest(now, sample, ack, window);
        self.set_gains();
        self.set_pacing_rate(self.pacing_gain);
        self.set_window(sample, ack, window);
    }

    // ---- The model ----

    /// The greatest rate, in segments per second.
    fn rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    fn update_rate(&mut self, sample: &Sample, delivered: u64) {
        self.round_began = false;
        let Some((segments, span)) = sample.rate else {
            return;
        };
        if sample.prior_delivered >= self.round_ends_at {
            self.round_ends_at = delivered;
            self.round += 1;
            self.round_began = true;
            self.conserves = false;
        }
        let rate = segments as f64 / span.as_secs_f64();
        if sample.is_app_limited && rate < self.rate() {
            return;
        }
        while self.rates.back().is_some_and(|(_, back)| *back <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((self.round, rate));
        while self
            .rates
            .front()
            .is_some_and(|(round, _)| round + RATE_ROUNDS <= self.round)
            && self.rates.len() > 1
        {
            self.rates.pop_front();
        }
    }

    fn update_extra(&mut self, now: Time, sample: &Sample) {
        if sample.delivered == 0 || sample.rate.is_none() {
            return;
        }
        if self.round_began {
            self.extra.rounds += 1;
            if self.extra.rounds >= EXTRA_ROUNDS {
                self.extra.rounds = 0;
                self.extra.half = 1 - self.extra.half;
                self.extra.most[self.extra.half] = 0.0;
            }
        }
        let expected = self.rate() * now.since(self.extra.since).as_secs_f64();
        if self.extra.acked <= expected {
            (self.extra.since, self.extra.acked) = (now, 0.0);
        }
        self.extra.acked += f64::from(sample.delivered);
        let expected = self.rate() * now.since(self.extra.since).as_secs_f64();
        let more = (self.extra.acked - expected)
            .min(self.rate() * EXTRA_FOR)
            .max(0.0);
        let most = &mut self.extra.most[self.extra.half];
        *most = most.max(more);
    }

    fn update_shortest(&mut self, now: Time, sample: &Sample, ack: Ack, window: &mut Window) {
        let expired = self
            .shortest
            .is_some_and(|(since, _)| now > since + SHORTEST_FOR);
        if let Some(rtt) = sample.rtt
            && (expired || self.shortest.is_none_or(|(_, shortest)| rtt < shortest))
        {
            self.shortest = Some((now, rtt));
        }
        if expired && !self.restarts_from_idle && self.mode != Mode::ProbeRtt {
            self.save_window(window.segments);
            (self.mode, self.probe_rtt_done_at) = (Mode::ProbeRtt, None);
        }
        if self.mode == Mode::ProbeRtt {
            match self.probe_rtt_done_at {
                None if ack.in_flight <= LEAST_WINDOW => {
                    self.probe_rtt_done_at = Some(now + PROBE_RTT_FOR);
                    self.probe_rtt_round_done = false;
                    self.round_ends_at = ack.delivered;
                }
                None => {}
                Some(done_at) => {
                    self.probe_rtt_round_done |= self.round_began;
                    if self.probe_rtt_round_done && now > done_at {
                        self.leave_probe_rtt(now, window);
                    }
                }
            }
        }
        if sample.delivered > 0 {
            self.restarts_from_idle = false;
        }
    }

    fn leave_probe_rtt(&mut self, now: Time, window: &mut Window) {
        if let Some((since, _)) = &mut self.shortest {
            *since = now;
        }
        window.segments = window.segments.max(self.prior_window);
        if self.is_full {
            self.probe_bandwidth(now)
        } else {
            self.mode = Mode::Startup
        }
    }

    // ---- The modes ----

    fn check_full(&mut self, sample: &Sample) {
        if self.is_full || !self.round_began || sample.is_app_limited {
            return;
        }
        if self.rate() >= self.full_rate * FULL_GROWTH {
            (self.full_rate, self.full_rounds) = (self.rate(), 0);
            return;
        }
        self.full_rounds += 1;
        self.is_full = self.full_rounds >= FULL_ROUNDS;
    }

    fn check_drain(&mut self, now: Time, in_flight: u32) {
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && in_flight <= self.in_flight_at(1.0) {
            self.probe_bandwidth(now);
        }
    }

    fn probe_bandwidth(&mut self, now: Time) {
        self.mode = Mode::ProbeBandwidth;
        // Starts in any phase but the second, so that flows do not probe together.
        self.cycle = (8 - self.stream.below(7) as usize) % 8;
        self.cycle_began = now;
    }

    fn update_cycle(&mut self, now: Time, sample: &Sample) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let is_long = self
            .shortest
            .is_some_and(|(_, shortest)| now.since(self.cycle_began) > shortest);
        let gain = CYCLE[self.cycle];
        let is_over = if gain > 1.0 {
            is_long && (sample.lost > 0 || sample.prior_in_flight >= self.in_flight_at(gain))
        } else if gain < 1.0 {
            is_long || sample.prior_in_flight <= self.in_flight_at(1.0)
        } else {
            is_long
        };
        if is_over {
            (self.cycle, self.cycle_began) = ((self.cycle + 1) % 8, now);
        }
    }

    fn set_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.cycle], CWND_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }

    // ---- What follows from it ----

    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = self.rate() * self.segment_bytes * gain * MARGIN;
        if rate > 0.0 && (self.is_full || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// The product of rate, round trip and gain in segments, with room for bursts of the sender and
    /// the receiver.
    fn in_flight_at(&self, gain: f64) -> u32 {
        self.quantized(self.product(gain))
    }

    fn product(&self, gain: f64) -> f64 {
        match self.shortest {
            None => f64::from(self.initial_window),
            Some((_, shortest)) => (self.rate() * shortest.as_secs_f64() * gain).ceil(),
        }
    }

    fn quantized(&self, segments: f64) -> u32 {
        let segments = (segments.min(1e9) as u32 + 3 * self.burst()).next_multiple_of(2);
        if self.mode == Mode::ProbeBandwidth && self.cycle == 0 {
            segments + 2
        } else {
            segments
        }
    }

    fn set_window(&mut self, sample: &Sample, ack: Ack, window: &mut Window) {
        if sample.delivered > 0 && !self.recover(sample, ack, window) {
            let extra = if self.is_full {
                self.extra.most[0].max(self.extra.most[1])
            } else {
                0.0
            };
            let target = self.quantized(self.product(self.cwnd_gain) + extra);
            if self.is_full {
                window.segments = (window.segments + sample.delivered).min(target);
            } else if window.segments < target || ack.delivered < u64::from(self.initial_window) {
                window.segments += sample.delivered;
            }
            window.segments = window.segments.max(LEAST_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            window.segments = window.segments.min(LEAST_WINDOW);
        }
    }

    /// Adjusts the window for a recovery. Returns true if nothing else applies to it.
    fn recover(&mut self, sample: &Sample, ack: Ack, window: &mut Window) -> bool {
        let conserved = ack.in_flight + sample.delivered;
        if sample.lost > 0 {
            window.segments = window.segments.saturating_sub(sample.lost).max(1);
        }
        if ack.state == State::Recovery && self.before != State::Recovery {
            self.conserves = true;
            self.round_ends_at = ack.delivered;
            window.segments = conserved;
        } else if self.before.is_recovering() && !ack.state.is_recovering() {
            window.segments = window.segments.max(self.prior_window);
            self.conserves = false;
        }
        self.before = ack.state;
        if self.conserves {
            window.segments = window.segments.max(conserved);
        }
        self.conserves
    }
}

/// The state after an acknowledgement, beside its sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    /// Segments in flight after it.
    pub(super) in_flight: u32,
    /// Segments delivered so far, including this acknowledgement.
    pub(super) delivered: u64,
    pub(super) state: State,
    pub(super) mean_rtt: Option<Duration>,
}
