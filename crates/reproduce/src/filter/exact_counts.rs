//! Exact counts of requests, for the policies of these experiments.

use std::collections::VecDeque;

/// The greatest window of requests: ten times that of the largest cell here.
pub(super) const MOST_REQUESTS: u64 = 1 << 30;

/// Exact counts of requests by id. The ids are places in a catalogue, and so are small.
#[derive(Default)]
pub(super) struct ExactCounts(Vec<u32>);

impl ExactCounts {
    pub(super) fn of(&self, id: u64) -> u32 {
        self.0.get(id as usize).copied().unwrap_or_default()
    }

    /// Returns the count of this id, to change it.
    pub(super) fn entry(&mut self, id: u64) -> &mut u32 {
        let place = id as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, 0);
        }
        &mut self.0[place]
    }

    pub(super) fn halve(&mut self) {
        for count in &mut self.0 {
            *count /= 2;
        }
    }
}

/// Exact counts of the last requests.
pub(super) struct LastRequests {
    window: usize,
    /// The requests, oldest first.
    ids: VecDeque<u64>,
    counts: ExactCounts,
}

impl LastRequests {
    pub(super) fn new(window: usize) -> LastRequests {
        LastRequests {
            window,
            ids: VecDeque::new(),
            counts: ExactCounts::default(),
        }
    }

    /// Adds a request. The oldest one leaves if there are more than the window's.
    pub(super) fn push(&mut self, id: u64) {
        *self.counts.entry(id) += 1;
        self.ids.push_back(id);
        if self.ids.len() > self.window
            && let Some(oldest) = self.ids.pop_front()
        {
            *self.counts.entry(oldest) -= 1;
        }
    }

    pub(super) fn count(&self, id: u64) -> u32 {
        self.counts.of(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_outlives_the_window() {
        let mut last = LastRequests::new(3);
        for id in [1, 1, 2] {
            last.push(id);
        }
        assert_eq!([1, 2, 3].map(|id| last.count(id)), [2, 1, 0]);
        for id in [3, 3] {
            last.push(id);
        }
        assert_eq!([1, 2, 3].map(|id| last.count(id)), [0, 1, 2]);
    }
}
