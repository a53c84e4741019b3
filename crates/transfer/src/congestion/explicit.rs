//! explicit: the rate that the path grants.
//!
//! Source: the consumers of Mahdian et al., "MIRCC: Multipath-aware ICN rate-based congestion
//! control", ICN 2016, and of Rozhnova and Fdida, "An extended hop-by-hop Interest shaping
//! mechanism for content-centric networking", GLOBECOM 2014. Experimental: it was not checked
//! against the texts of these papers. Each router states a rate, and the least of them arrives with
//! the Data. The consumer sends at this rate. The routers choose how to compute it (here: the
//! forwarder's strategies `stateful` with `report~fair`, and `hobhis` with `report~share`).
//!
//! Deviations: at a sign of congestion the rate halves, at most once per round trip, until the next
//! Data states a rate. If the path states no rate, each Data raises it by one Interest per second,
//! as in `rate`. The rate counts Interests, not bytes. O(1).

use super::entry::{Entry, Parameter};
use super::{Answer, Congestion, CongestionControl, OncePerRoundTrip};

/// The least rate in Interests per second. A consumer that sends nothing would receive no new rate.
const LEAST: f64 = 1.0;

pub(super) const ENTRY: Entry = Entry {
    name: "explicit",
    description: "the rate that the path grants (as MIRCC and extended HoBHIS)",
    experimental: Some("not checked against the texts of the papers"),
    parameters: &[
        Parameter::number(
            "start",
            200.0,
            LEAST,
            1e9,
            "initial Interests per second, until the path states a rate",
        ),
        Parameter::number("most", 1e6, LEAST, 1e9, "maximum of Interests per second"),
    ],
    build: |given| Box::new(Explicit::new(given.number("start"), given.number("most"))),
};

/// Explicit rate control.
#[derive(Clone, Debug)]
pub struct Explicit {
    rate: f64,
    most: f64,
    event: OncePerRoundTrip,
}

impl Explicit {
    /// Creates a control with `start` Interests per second until the path states a rate, and never
    /// more than `most`, which is at least one.
    pub fn new(start: f64, most: f64) -> Self {
        let most = most.max(LEAST);
        Explicit {
            rate: start.min(most),
            most,
            event: OncePerRoundTrip::default(),
        }
    }
}

impl CongestionControl for Explicit {
    fn window(&self) -> usize {
        usize::MAX
    }

    fn rate(&self) -> Option<f64> {
        Some(self.rate)
    }

    fn on_answer(&mut self, answer: &Answer) {
        let rate = answer
            .granted_rate
            .map_or(self.rate + 1.0, |granted| granted as f64);
        self.rate = rate.clamp(LEAST, self.most);
    }

    fn on_congestion(&mut self, congestion: &Congestion) -> bool {
        let is_new = self.event.is_new(congestion);
        if is_new {
            self.rate = (self.rate / 2.0).max(LEAST);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{answer, congestion};
    use larder_units::Time;

    #[test]
    fn another_rate_than_the_granted_one() {
        let mut explicit = Explicit::new(200.0, 1000.0);
        let granted = |rate| Answer {
            granted_rate: Some(rate),
            ..answer(Time::ZERO, 1)
        };
        for (rate, expected) in [(700, 700.0), (5000, 1000.0), (0, 1.0), (300, 300.0)] {
            explicit.on_answer(&granted(rate));
            assert_eq!(explicit.rate(), Some(expected));
        }
        explicit.on_congestion(&congestion(Time::from_secs(1), 500));
        explicit.on_congestion(&congestion(Time::from_secs(1), 600));
        assert_eq!(explicit.rate(), Some(150.0));
        explicit.on_answer(&answer(Time::from_secs(1), 1));
        assert_eq!(explicit.rate(), Some(151.0), "a path that states no rate");
    }
}
