//! Which position may be kept: that of the last change that the host has settled.

use crate::ids::Id;
use crate::limits;
use crate::outbox::{Kept, Mark};
use larder_units::Time;
use std::collections::VecDeque;

/// The last change up to a position of the log, its sequence and its id.
type Position = (Mark, u64, Id);

/// Positions whose changes are not settled yet.
#[derive(Debug, Default)]
pub(super) struct Marks {
    last: Mark,
    settled: Mark,
    /// For each mark, the last position that had no later change, ascending.
    positions: VecDeque<Position>,
    kept: Option<(Mark, u64)>,
    kept_at: Option<Time>,
}

impl Marks {
    /// Returns the mark of a new change.
    pub(super) fn next_mark(&mut self) -> Mark {
        self.last.0 += 1;
        self.last
    }

    /// Notes that the log is applied up to this beat, with the changes so far.
    pub(super) fn applied(&mut self, sequence: u64, id: Id) {
        if self.positions.back().is_some_and(|(m, ..)| *m == self.last) {
            self.positions.pop_back();
        } else if self.positions.len() == limits::EXPECTED_ENTRIES {
            self.positions.pop_front();
        }
        self.positions.push_back((self.last, sequence, id));
    }

    /// Forgets positions of a log that is not followed any more.
    pub(super) fn clear(&mut self) {
        self.positions.clear();
        self.kept = None;
    }

    pub(super) fn settle(&mut self, mark: Mark) {
        self.settled = self.settled.max(mark.min(self.last));
        while self
            .positions
            .get(1)
            .is_some_and(|(next, ..)| *next <= self.settled)
        {
            self.positions.pop_front();
        }
    }

    /// Returns the position to keep, and the earliest time for it.
    pub(super) fn due(&self) -> Option<(Time, &Position)> {
        let position = self.positions.front()?;
        let (mark, sequence, _) = position;
        if *mark > self.settled || self.kept == Some((*mark, *sequence)) {
            return None;
        }
        let changed = self.kept.is_none_or(|(kept, _)| kept < *mark);
        let pause = if changed {
            limits::KEEP_INTERVAL
        } else {
            limits::KEEP_IDLE_INTERVAL
        };
        Some((self.kept_at.map_or(Time::ZERO, |at| at + pause), position))
    }

    /// Returns the position to keep at `now`, if any.
    pub(super) fn keep(&mut self, now: Time, identity: &str) -> Option<Kept> {
        let (at, (mark, sequence, id)) = self.due()?;
        if now < at {
            return None;
        }
        let kept = Kept {
            identity: identity.to_owned(),
            applied: *sequence,
            id: id.clone(),
        };
        self.kept = Some((*mark, *sequence));
        self.kept_at = Some(now);
        Some(kept)
    }
}
