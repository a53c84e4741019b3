//! pcon: the consumer of Practical Congestion Control.
//!
//! Source: Schneider, Yi, Zhang, Zhang, "A practical congestion control scheme for named data
//! networking", ICN 2016, section 3.4, and ndnSIM's `ndn-consumer-pcon`. Routers detect a queue
//! that stays long (CoDel) and mark Data. A consumer adapts a BIC window, once per round trip for
//! all marks and Nacks. As in ndnSIM, signs are ignored for half a round trip more after a
//! reaction, because those Data passed the queue while it drained.
//!
//! Deviations: a mark takes BIC's β (0.125), while ndnSIM takes half, as Reno does. A timeout takes
//! half. The routers' own reaction to marks (other next hops) is not part of this. The window
//! counts segments, not bytes. O(1).

use super::bic::Bic;
use super::entry::{Entry, Parameter};
use super::{Answer, Congestion, CongestionControl, Signal};
use larder_units::Time;
use std::time::Duration;

pub(super) const ENTRY: Entry = Entry {
    name: "pcon",
    description: "BIC on congestion marks and Nacks (Schneider et al. 2016)",
    experimental: None,
    parameters: &[
        Parameter::number(
            "beta",
            0.125,
            0.01,
            0.99,
            "share of the window that a mark takes",
        ),
        Parameter::number(
            "suppress",
            0.5,
            0.0,
            10.0,
            "further round trips after a reaction in which signs are ignored",
        ),
    ],
    build: |given| Box::new(Pcon::new(given.number("beta"), given.number("suppress"))),
};

/// PCON's consumer.
#[derive(Clone, Debug)]
pub struct Pcon {
    window: Bic,
    beta: f64,
    suppress: f64,
    smoothed_rtt: f64,
    /// Signs for Interests sent before this time are ignored.
    deaf_until: Option<Time>,
}

impl Pcon {
    /// Creates a control. A mark takes the share `beta` of the window; then signs are ignored for
    /// one round trip plus the share `suppress` of one.
    pub fn new(beta: f64, suppress: f64) -> Self {
        Pcon {
            window: Bic::new(beta),
            beta,
            suppress,
            smoothed_rtt: 0.0,
            deaf_until: None,
        }
    }
}

impl CongestionControl for Pcon {
    fn window(&self) -> usize {
        self.window.window()
    }

    fn on_answer(&mut self, answer: &Answer) {
        self.smoothed_rtt = answer.smoothed_rtt.unwrap_or_default().as_secs_f64();
        self.window.on_answer(answer);
    }

    fn on_congestion(&mut self, congestion: &Congestion) -> bool {
        if self
            .deaf_until
            .is_some_and(|until| congestion.sent_at <= until)
        {
            return false;
        }
        let beta = if congestion.signal == Signal::TimeOut {
            self.beta.max(0.5)
        } else {
            self.beta
        };
        self.window.reduce(beta);
        self.deaf_until =
            Some(congestion.now + Duration::from_secs_f64(self.suppress * self.smoothed_rtt));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{congestion, round};

    #[test]
    fn marks_of_the_queue_that_drains_count_again() {
        let (mut pcon, mut now) = (Pcon::new(0.125, 0.5), Time::ZERO);
        for _ in 0..4 {
            round(&mut pcon, &mut now, 100);
        }
        let before = pcon.window();
        let millis = now.nanos() / 1_000_000;
        assert!(pcon.on_congestion(&congestion(now, millis - 100)));
        assert_eq!(pcon.window(), before * 7 / 8);
        assert!(
            !pcon.on_congestion(&congestion(now, millis - 1)),
            "sent before"
        );
        assert!(
            !pcon.on_congestion(&congestion(now, millis + 49)),
            "sent while it drained"
        );
        assert!(pcon.on_congestion(&congestion(now, millis + 51)));
    }
}
