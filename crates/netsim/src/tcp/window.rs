//! The congestion window, and the state of its sender: what CUBIC, BBR and the sender share.

use crate::limits;

/// The congestion window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) segments: u32,
    /// Below the threshold, the window grows by the acknowledged segments.
    pub(super) threshold: u32,
    /// Acknowledged segments that count towards the next growth.
    pub(super) count: f64,
}

impl Window {
    pub(super) fn new(segments: u32) -> Self {
        Window {
            segments,
            threshold: u32::MAX,
            count: 0.0,
        }
    }

    pub(super) fn is_in_slow_start(&self) -> bool {
        self.segments < self.threshold
    }

    /// Grows up to the threshold; returns the rest of `acked`.
    pub(super) fn slow_start(&mut self, acked: u32) -> u32 {
        let taken = acked.min(self.threshold.saturating_sub(self.segments));
        self.segments += taken;
        acked - taken
    }

    /// Grows by one segment for each `count` acknowledged.
    pub(super) fn grow_by_one_in(&mut self, count: f64, acked: u32) {
        if self.count >= count {
            self.count = 0.0;
            self.segments += 1;
        }
        self.count += f64::from(acked);
        let steps = (self.count / count).floor();
        self.count -= steps * count;
        self.segments = self
            .segments
            .saturating_add(steps as u32)
            .min(limits::TCP_WINDOW);
    }
}

/// The state of the sender, with Linux' names. `Disorder` is part of `Open`, and `Cwr` ends at
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// Segments were lost, and are sent again.
    Recovery,
    /// After a timeout.
    Loss,
}

impl State {
    pub(super) fn is_recovering(self) -> bool {
        self != State::Open
    }
}
