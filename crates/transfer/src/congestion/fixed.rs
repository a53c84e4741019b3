//! fixed: a constant window, for links of known capacity and for measurements without a control
//! loop (as `ndnd cat`).

use super::entry::{Entry, Parameter};
use super::{Answer, Congestion, CongestionControl};
use crate::limits::MAX_WINDOW;

pub(super) const ENTRY: Entry = Entry {
    name: "fixed",
    description: "a constant window",
    experimental: None,
    parameters: &[Parameter::number(
        "window",
        64.0,
        1.0,
        MAX_WINDOW as f64,
        "segments in flight",
    )],
    build: |given| Box::new(FixedWindow::new(given.number("window") as usize)),
};

/// A constant window.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow(usize);

impl FixedWindow {
    /// Creates a window of `segments` Interests; 0 counts as 1.
    pub fn new(segments: usize) -> Self {
        FixedWindow(segments.max(1))
    }
}

impl CongestionControl for FixedWindow {
    fn window(&self) -> usize {
        self.0
    }

    /// A configured window is kept full, so Interests do not wait for a burst.
    fn burst(&self) -> usize {
        1
    }

    fn on_answer(&mut self, _: &Answer) {}

    fn on_congestion(&mut self, _: &Congestion) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Signal;
    use larder_units::Time;

    #[test]
    fn it_moves() {
        let mut fixed = FixedWindow::new(0);
        let sign = Congestion {
            now: Time::from_secs(1),
            sent_at: Time::ZERO,
            signal: Signal::TimeOut,
        };
        assert!(!fixed.on_congestion(&sign));
        assert_eq!(fixed.window(), 1);
    }
}
