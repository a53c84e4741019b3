//! How many Interests may be in flight: one small trait, one file an algorithm.
//!
//! The [`Fetcher`](crate::Fetcher) counts what is in flight, measures round trips and tells the algorithm about answers and about signs of
//! congestion; the algorithm answers with a window. A sign carries the time at which the Interest in question was sent, so that an algorithm
//! reacts at most once a round trip: what was sent before the last reaction says nothing new.

use larder_units::Time;
use std::time::Duration;

/// One segment that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Now.
    pub now: Time,
    /// The measured round trip; `None` where the Interest was sent more than once (Karn).
    pub rtt: Option<Duration>,
    /// The smoothed round trip, once there is one.
    pub smoothed_rtt: Option<Duration>,
    /// True where the window, and not the end of the object or the reorder memory, held Interests back: only then may it grow.
    pub window_limited: bool,
}

/// What hints at congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The retransmission time-out of an Interest passed.
    TimeOut,
    /// A Data carried a congestion mark (NDNLPv2 CongestionMark).
    Mark,
    /// A Nack with reason Congestion.
    Nack,
}

/// A sign of congestion.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// Now.
    pub now: Time,
    /// When the Interest concerned was sent.
    pub sent_at: Time,
    /// What was seen.
    pub signal: Signal,
}

/// A congestion control algorithm of a consumer.
pub trait CongestionControl: Send {
    /// Interests that may be in flight now, at least 1.
    fn window(&self) -> usize;

    /// A segment arrived.
    fn on_answer(&mut self, answer: &Answer);

    /// A sign of congestion; true where the algorithm reacted to it (and not to an earlier one of the same round trip).
    fn on_congestion(&mut self, congestion: &Congestion) -> bool;
}

/// A window that never changes: for links whose capacity is known, and for measurements without a control loop (as `ndnd cat`).
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow(usize);

impl FixedWindow {
    /// A window of `segments` Interests; 0 counts as 1.
    pub fn new(segments: usize) -> Self {
        FixedWindow(segments.max(1))
    }
}

impl CongestionControl for FixedWindow {
    fn window(&self) -> usize {
        self.0
    }

    fn on_answer(&mut self, _: &Answer) {}

    fn on_congestion(&mut self, _: &Congestion) -> bool {
        false
    }
}
