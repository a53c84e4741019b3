//! Exact counts of the last requests, for the policies of these experiments.

use std::collections::{HashMap, VecDeque};

/// The greatest window of requests: ten times that of the largest cell here.
pub(super) const MOST_REQUESTS: u64 = 1 << 30;

/// Exact counts of the last requests.
pub(super) struct LastRequests {
    window: usize,
    /// The requests, oldest first.
    ids: VecDeque<u64>,
    counts: HashMap<u64, u32>,
}

impl LastRequests {
    pub(super) fn new(window: usize) -> LastRequests {
        LastRequests { window, ids: VecDeque::new(), counts: HashMap::new() }
    }

    /// Adds a request. The oldest one leaves if there are more than the window's.
    pub(super) fn push(&mut self, id: u64) {
        *self.counts.entry(id).or_default() += 1;
        self.ids.push_back(id);
        if self.ids.len() > self.window
            && let Some(oldest) = self.ids.pop_front()
            && let Some(count) = self.counts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&oldest);
            }
        }
    }

    pub(super) fn count(&self, id: u64) -> u32 {
        self.counts.get(&id).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_outlives_the_window() {
        let mut last = LastRequests::new(3);
        [1, 1, 2].into_iter().for_each(|id| last.push(id));
        assert_eq!([1, 2, 3].map(|id| last.count(id)), [2, 1, 0]);
        [3, 3].into_iter().for_each(|id| last.push(id));
        assert_eq!([1, 2, 3].map(|id| last.count(id)), [0, 1, 2]);
    }
}
