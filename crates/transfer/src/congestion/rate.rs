//! rate: additive increase, multiplicative decrease of a rate, by Nacks.
//!
//! Source: the consumer of Kato, Osada, Yamamoto, Ohzahata, "Impacts of system clock granularity on
//! performance of NDN rate-based congestion control", Int. J. Advances in Telecommunications
//! 11(3&4), 2018, section III.A. Each Data adds one Interest per second, up to `most`. Each Nack
//! halves the rate, down to one per second. There are three reactions to Nacks:
//!
//! * `halve`: the paper's. Ten Nacks of one burst leave a thousandth of the rate.
//! * `step`: one Interest per second less (the form of stateful forwarding's own author in ndnSIM).
//! * `once`: half, once per congestion event. Nacks for Interests that were sent before the last
//!   reaction belong to the same event. Marks and timeouts are events too. Experimental: this is
//!   the paper's reference \[12\], Kato and Bandai, CCNC 2017, whose text it was not checked
//!   against.
//!
//! With the first two, only Nacks count, as in the paper; a path that loses packets without a Nack
//! needs `once`. There is no window: the fetcher's window limits what is in flight. The rate counts
//! Interests, not bytes. O(1).

use super::entry::{Entry, Parameter};
use super::{Answer, Congestion, CongestionControl, OncePerRoundTrip, Signal};

/// The least rate in Interests per second (section III.A).
const LEAST: f64 = 1.0;

pub(super) const ENTRY: Entry = Entry {
    name: "rate",
    description: "a rate that Data raise and Nacks lower (Kato et al. 2018)",
    experimental: None,
    parameters: &[
        Parameter::number("start", 200.0, LEAST, 1e9, "initial Interests per second"),
        Parameter::number(
            "most",
            1e6,
            LEAST,
            1e9,
            "maximum of Interests per second: the link's",
        ),
        Parameter::number(
            "increase",
            1.0,
            0.0,
            1e6,
            "Interests per second that each Data adds",
        ),
        Parameter::choice(
            "nack",
            &["once", "halve", "step"],
            "what a Nack does; once is experimental, not checked against the text of its paper",
        ),
    ],
    build: |given| {
        let on_nack =
            [NackReaction::Once, NackReaction::Halve, NackReaction::Step][given.choice("nack")];
        Box::new(RateControl::new(
            given.number("start"),
            given.number("most"),
            given.number("increase"),
            on_nack,
        ))
    },
};

/// The effect of a Nack on the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NackReaction {
    /// Halves the rate.
    Halve,
    /// Subtracts one Interest per second.
    Step,
    /// Halves the rate once per congestion event. Marks and timeouts are such events too.
    Once,
}

/// Rate control by Nacks.
#[derive(Clone, Debug)]
pub struct RateControl {
    rate: f64,
    most: f64,
    increase: f64,
    on_nack: NackReaction,
    event: OncePerRoundTrip,
}

impl RateControl {
    /// Creates a control with `start` Interests per second; each Data adds `increase`, up to
    /// `most`.
    pub fn new(start: f64, most: f64, increase: f64, on_nack: NackReaction) -> Self {
        RateControl {
            rate: start.min(most),
            most,
            increase,
            on_nack,
            event: OncePerRoundTrip::default(),
        }
    }
}

impl CongestionControl for RateControl {
    fn window(&self) -> usize {
        usize::MAX
    }

    fn rate(&self) -> Option<f64> {
        Some(self.rate)
    }

    fn on_answer(&mut self, _: &Answer) {
        self.rate = (self.rate + self.increase).min(self.most);
    }

    fn on_congestion(&mut self, congestion: &Congestion) -> bool {
        let lower = match self.on_nack {
            NackReaction::Once if self.event.is_new(congestion) => self.rate / 2.0,
            NackReaction::Halve if congestion.signal == Signal::Nack => self.rate / 2.0,
            NackReaction::Step if congestion.signal == Signal::Nack => self.rate - 1.0,
            _ => return false,
        };
        self.rate = lower.max(LEAST);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{answer, congestion, sign};
    use larder_units::Time;

    #[test]
    fn a_burst_of_nacks_does_what_another_reaction_would() {
        for (on_nack, left) in [
            (NackReaction::Halve, 1.0),
            (NackReaction::Step, 990.0),
            (NackReaction::Once, 500.0),
        ] {
            let mut rate = RateControl::new(1000.0, 1000.0, 1.0, on_nack);
            for _ in 0..10 {
                rate.on_congestion(&congestion(Time::from_secs(1), 999));
            }
            assert_eq!(rate.rate(), Some(left), "{on_nack:?}");
            rate.on_answer(&answer(Time::from_secs(1), 1));
            assert_eq!(rate.rate(), Some(left + 1.0));
        }
    }

    #[test]
    fn a_burst_that_is_refused_at_once_is_many_events() {
        let mut rate = RateControl::new(1000.0, 1000.0, 1.0, NackReaction::Once);
        for _ in 0..10 {
            rate.on_congestion(&congestion(Time::from_secs(1), 1000));
        }
        assert_eq!(rate.rate(), Some(500.0));
    }

    #[test]
    fn losses_without_nacks_do_not_count_or_count_in_the_paper() {
        for (on_nack, left) in [(NackReaction::Halve, 1000.0), (NackReaction::Once, 500.0)] {
            let mut rate = RateControl::new(1000.0, 1000.0, 1.0, on_nack);
            rate.on_congestion(&sign(Time::from_secs(1), 999, Signal::TimeOut));
            assert_eq!(rate.rate(), Some(left));
        }
    }

    #[test]
    fn the_rate_passes_the_link() {
        let mut rate = RateControl::new(5000.0, 1000.0, 1.0, NackReaction::Halve);
        rate.on_answer(&answer(Time::ZERO, 1));
        assert_eq!(rate.rate(), Some(1000.0));
    }
}
