//! Congestion control: how many Interests may be in flight, and at which rate they may leave. There
//! is one small trait, and one file per algorithm, each with a name.
//!
//! The [`Fetcher`](crate::Fetcher) counts Interests in flight, measures round trips, and reports
//! answers and signs of congestion to the algorithm. The algorithm responds with a window, a rate
//! or both. A sign carries the time at which its Interest was sent, so that an algorithm reacts at
//! most once per round trip: an Interest sent before the last reaction gives no new information.
//! The pacer ([`crate::Clock`]) decides when an Interest leaves by a rate.
//!
//! ```
//! use larder_transfer::CongestionSpec;
//!
//! let spec: CongestionSpec = "aimd(decrease=0.7)".parse().unwrap();
//! assert_eq!(spec.build().window(), 10);
//! let error = "cubik".parse::<CongestionSpec>().unwrap_err();
//! assert!(error.to_string().contains("did you mean `cubic`"));
//! ```

mod aimd;
mod bbr;
mod bic;
mod cubic;
mod entry;
mod explicit;
mod fixed;
mod icp;
mod pcon;
mod rate;
mod spec;

pub use aimd::Aimd;
pub use bbr::Bbr;
pub use bic::Bic;
pub use cubic::Cubic;
pub use explicit::Explicit;
pub use fixed::FixedWindow;
pub use icp::Icp;
pub use pcon::Pcon;
pub use rate::{NackReaction, RateControl};
pub use spec::{CongestionSpec, CongestionSpecError, congestion_controls};

use larder_packet::LpHeader;
use larder_units::Time;
use std::time::Duration;

/// The most Interests that wait for each other to leave together. Their Data then arrive together,
/// for a fraction of the wake-ups and system calls at every node. TCP's receivers acknowledge every
/// second segment for the same reason (RFC 9293, 3.8.6.3).
const BURST_INTERESTS: usize = 4;

/// The inverse of the share of the window that a burst may leave open: with a quarter, three
/// quarters are always in flight.
const BURST_SHARE: usize = 4;

/// A copy of an algorithm with its state, for a return to it when a sign of congestion proves
/// wrong.
pub trait Snapshot {
    /// Returns the copy.
    fn snapshot(&self) -> Box<dyn CongestionControl>;
}

impl<T: CongestionControl + Clone + 'static> Snapshot for T {
    fn snapshot(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// A congestion control algorithm of a consumer.
pub trait CongestionControl: Snapshot + Send {
    /// Returns the number of Interests that may be in flight now, at least 1; `usize::MAX` if only
    /// the rate limits them.
    fn window(&self) -> usize;

    /// Returns the Interests per second that may be sent now; `None` if only the window limits
    /// them.
    fn rate(&self) -> Option<f64> {
        None
    }

    /// Returns the number of Interests that wait for each other to leave together.
    fn burst(&self) -> usize {
        match self.rate() {
            // A rate spreads them.
            Some(_) => 1,
            None => (self.window() / BURST_SHARE).clamp(1, BURST_INTERESTS),
        }
    }

    /// Handles a segment that arrived.
    fn on_answer(&mut self, answer: &Answer);

    /// Handles a sign of congestion. Returns true if the algorithm reacted to it, and false if it
    /// had reacted in the same round trip.
    fn on_congestion(&mut self, congestion: &Congestion) -> bool;
}

/// One segment that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The present time.
    pub now: Time,
    /// The measured round trip; `None` if the Interest was sent more than once (Karn).
    pub rtt: Option<Duration>,
    /// The smoothed round trip, once there is one.
    pub smoothed_rtt: Option<Duration>,
    /// True if the window held Interests back, and not the end of the object or the reorder memory.
    /// The window may grow only then.
    pub window_limited: bool,
    /// The rate that the path grants in Interests per second, if it states one.
    pub granted_rate: Option<u64>,
}

/// The state of the path as a Data reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathFeedback {
    /// True if a queue is long (NDNLPv2 CongestionMark).
    pub marked: bool,
    /// The granted rate in Interests per second (Larder's InterestRate).
    pub granted_rate: Option<u64>,
}

impl From<bool> for PathFeedback {
    /// Returns the feedback of a path that reports only congestion marks.
    fn from(marked: bool) -> Self {
        PathFeedback {
            marked,
            granted_rate: None,
        }
    }
}

impl From<&LpHeader> for PathFeedback {
    fn from(header: &LpHeader) -> Self {
        let marked = header.congestion_mark.is_some_and(|mark| mark > 0);
        PathFeedback {
            marked,
            granted_rate: header.interest_rate,
        }
    }
}

/// The kind of a sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The retransmission timeout of an Interest expired.
    TimeOut,
    /// A Data carried a congestion mark (NDNLPv2 CongestionMark).
    Mark,
    /// A Nack with reason Congestion.
    Nack,
}

/// A sign of congestion.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// The present time.
    pub now: Time,
    /// The time at which the Interest was sent.
    pub sent_at: Time,
    /// The kind of the sign.
    pub signal: Signal,
}

/// Distinguishes the first sign of a congestion event from the others of the same round trip.
#[derive(Clone, Debug, Default)]
struct OncePerRoundTrip {
    reacted_at: Option<Time>,
}

impl OncePerRoundTrip {
    /// Returns true if the Interest was sent after the last reaction, and records this sign as the
    /// last reaction. A burst that this host's own forwarder refuses is sent and refused at one
    /// time, and counts as one event.
    fn is_new(&mut self, congestion: &Congestion) -> bool {
        let is_new = self.reacted_at.is_none_or(|at| congestion.sent_at > at);
        if is_new {
            self.reacted_at = Some(congestion.now);
        }
        is_new
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// An answer at `now`, after `rtt` milliseconds.
    pub(super) fn answer(now: Time, rtt: u64) -> Answer {
        let rtt = Some(Duration::from_millis(rtt));
        Answer {
            now,
            rtt,
            smoothed_rtt: rtt,
            window_limited: true,
            granted_rate: None,
        }
    }

    /// A Nack at `now` for an Interest that was sent `sent_millis` after the start.
    pub(super) fn congestion(now: Time, sent_millis: u64) -> Congestion {
        sign(now, sent_millis, Signal::Nack)
    }

    /// Another sign at `now` for an Interest that was sent `sent_millis` after the start.
    pub(super) fn sign(now: Time, sent_millis: u64, signal: Signal) -> Congestion {
        Congestion {
            now,
            sent_at: Time::from_millis(sent_millis),
            signal,
        }
    }

    /// Simulates one round trip: a window of answers, spread over `rtt` milliseconds.
    pub(super) fn round(control: &mut dyn CongestionControl, now: &mut Time, rtt: u64) {
        let answers = control.window();
        for _ in 0..answers {
            *now += Duration::from_millis(rtt) / answers as u32;
            control.on_answer(&answer(*now, rtt));
        }
    }
}
