//! The last hour of the statistics.

use crate::curve::Misses;
use larder_policy::observe::Totals;
use larder_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// The time between two marks, from which the statistics of a running node count.
const MARK_INTERVAL: Duration = Duration::from_secs(300);

/// The number of marks: an hour.
const MARKS: usize = 12;

/// The counts now, and at the marks of the last hour.
#[derive(Default)]
pub(super) struct Window {
    now: Time,
    totals: Totals,
    marks: VecDeque<Mark>,
}

struct Mark {
    at: Time,
    totals: Totals,
    /// The misses of each miniature cache.
    misses: Vec<Misses>,
}

/// The counts since the oldest mark.
pub(super) struct Since<'a> {
    pub at: Time,
    pub seconds: f64,
    pub totals: Totals,
    /// The misses at the mark.
    pub misses: &'a [Misses],
}

impl Window {
    /// Forgets all marks. The next one is then due.
    pub(super) fn restart(&mut self) {
        self.marks.clear();
    }

    /// Returns true before the first mark.
    pub(super) fn is_new(&self) -> bool {
        self.marks.is_empty()
    }

    /// Records the counts since the start of the cache.
    pub(super) fn count(&mut self, totals: Totals) {
        self.totals = totals;
    }

    /// Returns the observations lost since the start of the cache.
    pub(super) fn lost(&self) -> u64 {
        self.totals.lost
    }

    /// Returns true if a mark is due.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        self.now = now;
        self.marks
            .back()
            .is_none_or(|mark| now.since(mark.at) >= MARK_INTERVAL)
    }

    /// Records the misses of all caches.
    pub(super) fn mark(&mut self, at: Time, misses: Vec<Misses>) {
        if self.marks.len() == MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark {
            at,
            totals: self.totals,
            misses,
        });
    }

    pub(super) fn since(&self) -> Since<'_> {
        match self.marks.front() {
            None => Since {
                at: Time::ZERO,
                seconds: 0.0,
                totals: Totals::default(),
                misses: &[],
            },
            Some(mark) => Since {
                at: mark.at,
                seconds: self.now.since(mark.at).as_secs_f64(),
                totals: self.totals.since(&mark.totals),
                misses: &mark.misses,
            },
        }
    }
}
