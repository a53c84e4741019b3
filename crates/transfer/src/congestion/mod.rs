//! How many Interests may be in flight, and how fast they may follow each other: one small trait,
//! one file an algorithm, each by a name.
//!
//! The [`Fetcher`](crate::Fetcher) counts what is in flight, measures round trips and tells the
//! algorithm about answers and about signs of congestion; the algorithm answers with a window, a
//! rate or both. A sign carries the time at which the Interest in question was sent, so that an
//! algorithm reacts at most once a round trip: what was sent before the last reaction says nothing
//! new. When an Interest leaves by a rate is the business of the pacer ([`crate::Clock`]), not of
//! the algorithm.
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

use crate::limits;
use larder_packet::LpHeader;
use larder_units::Time;
use std::time::Duration;

/// A copy of an algorithm with its state: to go back to where a sign of congestion proves to have
/// been none.
pub trait Snapshot {
    /// The copy.
    fn snapshot(&self) -> Box<dyn CongestionControl>;
}

impl<T: CongestionControl + Clone + 'static> Snapshot for T {
    fn snapshot(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// A congestion control algorithm of a consumer.
pub trait CongestionControl: Snapshot + Send {
    /// Interests that may be in flight now, at least 1; `usize::MAX` where the rate alone limits
    /// them.
    fn window(&self) -> usize;

    /// Interests a second that may be sent now; `None` where the window alone limits them.
    fn rate(&self) -> Option<f64> {
        None
    }

    /// Interests that wait for each other to leave as one.
    fn burst(&self) -> usize {
        match self.rate() {
            // They are spread.
            Some(_) => 1,
            None => (self.window() / limits::BURST_SHARE).clamp(1, limits::BURST),
        }
    }

    /// A segment arrived.
    fn on_answer(&mut self, answer: &Answer);

    /// A sign of congestion; true where the algorithm reacted to it (and not to an earlier one of
    /// the same round trip).
    fn on_congestion(&mut self, congestion: &Congestion) -> bool;
}

/// One segment that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Now.
    pub now: Time,
    /// The measured round trip; `None` where the Interest was sent more than once (Karn).
    pub rtt: Option<Duration>,
    /// The smoothed round trip, once there is one.
    pub smoothed_rtt: Option<Duration>,
    /// True where the window, and not the end of the object or the reorder memory, held Interests
    /// back: only then may it grow.
    pub window_limited: bool,
    /// What the path grants, Interests a second, where it says.
    pub granted_rate: Option<u64>,
}

/// What the path says along with a Data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathFeedback {
    /// A queue is long (NDNLPv2 CongestionMark).
    pub marked: bool,
    /// What it grants, Interests a second (Larder's InterestRate).
    pub granted_rate: Option<u64>,
}

impl From<bool> for PathFeedback {
    /// A path that says no more than whether a queue is long.
    fn from(marked: bool) -> Self {
        PathFeedback { marked, granted_rate: None }
    }
}

impl From<&LpHeader> for PathFeedback {
    fn from(header: &LpHeader) -> Self {
        let marked = header.congestion_mark.is_some_and(|mark| mark > 0);
        PathFeedback { marked, granted_rate: header.interest_rate }
    }
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

/// Tells the first sign of a congestion event from those of the same round trip.
#[derive(Clone, Debug, Default)]
struct OncePerRoundTrip {
    reacted_at: Option<Time>,
}

impl OncePerRoundTrip {
    /// Whether the Interest was sent after the last reaction; that becomes the time of this sign
    /// then. A burst that this host's own forwarder refuses is sent and refused at one time: it is
    /// one event.
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
        Answer { now, rtt, smoothed_rtt: rtt, window_limited: true, granted_rate: None }
    }

    /// A Nack at `now` for what was sent `sent_millis` after the start.
    pub(super) fn congestion(now: Time, sent_millis: u64) -> Congestion {
        sign(now, sent_millis, Signal::Nack)
    }

    /// As [`congestion`], another sign.
    pub(super) fn sign(now: Time, sent_millis: u64, signal: Signal) -> Congestion {
        Congestion { now, sent_at: Time::from_millis(sent_millis), signal }
    }

    /// One round trip: a window of answers, spread over `rtt` milliseconds.
    pub(super) fn round(control: &mut dyn CongestionControl, now: &mut Time, rtt: u64) {
        let answers = control.window();
        for _ in 0..answers {
            *now += Duration::from_millis(rtt) / answers as u32;
            control.on_answer(&answer(*now, rtt));
        }
    }
}
