//! bic: binary increase congestion control.
//!
//! Source: Xu, Harfoush, Rhee, "Binary increase congestion control (BIC) for fast long-distance
//! networks", INFOCOM 2004, section III. The algorithm searches for W_max, the window that was too
//! large. Each round trip moves W half the way to W_max, but by at most S_max segments (additive
//! increase) and at least S_min. Beyond W_max the steps double each round trip, up to S_max. A sign
//! of congestion takes β of the window. If it came below the last W_max, W_max is lowered further
//! (fast convergence). Small windows grow and shrink as Reno's.
//!
//! Deviations: the increase of a round trip is spread over its Data (as in Linux), and slow start
//! lasts until the first sign, without a limit. The window counts segments, not bytes. O(1).

use super::entry::{Entry, Parameter};
use super::{Answer, Congestion, CongestionControl, OncePerRoundTrip};
use crate::limits::{INITIAL_WINDOW, MAX_WINDOW, MIN_WINDOW};

/// The most segments per round trip (section III.F; the paper's evaluation).
const S_MAX: f64 = 32.0;
/// The least segments per round trip (the same).
const S_MIN: f64 = 0.01;
/// The window below which BIC is Reno (the same: low window).
const LOW_WINDOW: f64 = 14.0;

pub(super) const ENTRY: Entry = Entry {
    name: "bic",
    description: "binary search for the window (Xu et al. 2004)",
    experimental: None,
    parameters: &[Parameter::number(
        "beta",
        0.125,
        0.01,
        0.99,
        "share of the window that congestion takes",
    )],
    build: |given| Box::new(Bic::new(given.number("beta"))),
};

/// Binary increase congestion control.
#[derive(Clone, Debug)]
pub struct Bic {
    beta: f64,
    window: f64,
    /// W_max; infinite in slow start.
    too_large: f64,
    event: OncePerRoundTrip,
}

impl Bic {
    /// Creates a control in slow start; a sign of congestion takes the share `beta` of the window.
    pub fn new(beta: f64) -> Self {
        let event = OncePerRoundTrip::default();
        Bic {
            beta,
            window: INITIAL_WINDOW as f64,
            too_large: f64::INFINITY,
            event,
        }
    }

    /// Returns the segments to add in this round trip.
    fn increase(&self) -> f64 {
        match () {
            () if self.too_large.is_infinite() => self.window,
            () if self.window < LOW_WINDOW => 1.0,
            () if self.window < self.too_large => {
                ((self.too_large - self.window) / 2.0).clamp(S_MIN, S_MAX)
            }
            () => (self.window - self.too_large).clamp(1.0, S_MAX),
        }
    }

    /// Reduces the window by the share `beta`, independent of earlier reactions.
    pub(super) fn reduce(&mut self, beta: f64) {
        let beta = if self.window < LOW_WINDOW { 0.5 } else { beta };
        let was_lower = self.window < self.too_large && self.too_large.is_finite();
        self.too_large = if was_lower {
            self.window * (1.0 - beta / 2.0)
        } else {
            self.window
        };
        self.window = (self.window * (1.0 - beta)).max(MIN_WINDOW as f64);
    }
}

impl CongestionControl for Bic {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn on_answer(&mut self, answer: &Answer) {
        if answer.window_limited {
            self.window = (self.window + self.increase() / self.window).min(MAX_WINDOW as f64);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion) -> bool {
        let is_new = self.event.is_new(congestion);
        if is_new {
            self.reduce(self.beta);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{congestion, round};
    use larder_units::Time;

    #[test]
    fn the_search_is_not_binary() {
        let mut bic = Bic::new(0.125);
        let mut now = Time::ZERO;
        bic.window = 400.0;
        assert!(bic.on_congestion(&congestion(now, 0)));
        assert_eq!((bic.window, bic.too_large), (350.0, 400.0));
        // Half the way of 50, spread over the round: W' = (400 - W) / 2 per round trip.
        round(&mut bic, &mut now, 100);
        assert!((368.0..372.0).contains(&bic.window), "{}", bic.window);
        for _ in 0..8 {
            round(&mut bic, &mut now, 100);
        }
        assert!((398.0..400.0).contains(&bic.window), "{}", bic.window);
    }

    #[test]
    fn far_from_the_plateau_it_jumps_and_beyond_it_stays() {
        let mut bic = Bic::new(0.5);
        let mut now = Time::ZERO;
        bic.window = 1000.0;
        bic.on_congestion(&congestion(now, 0));
        round(&mut bic, &mut now, 100);
        assert!(
            (531.0..=532.0).contains(&bic.window),
            "additive by S_max: {}",
            bic.window
        );
        bic.window = 1000.0;
        let mut before = bic.window;
        for (least, most) in [(0.99, 1.01), (1.4, 6.0), (4.0, 14.0), (8.0, 32.5)] {
            round(&mut bic, &mut now, 100);
            assert!(
                (least..=most).contains(&(bic.window - before)),
                "{} after {before}",
                bic.window
            );
            before = bic.window;
        }
    }

    #[test]
    fn a_flow_that_was_pushed_back_does_not_make_room() {
        let mut bic = Bic::new(0.125);
        bic.window = 400.0;
        bic.on_congestion(&congestion(Time::from_secs(1), 500));
        bic.on_congestion(&congestion(Time::from_secs(2), 1500));
        assert_eq!(bic.too_large, 350.0 * (1.0 - 0.0625));
    }
}
