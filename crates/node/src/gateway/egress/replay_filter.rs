//! Orders that were carried out: who has read one on the way shall not have it carried out again,
//! word for word, when its answer is no longer kept. With another number it is another order, and
//! orders are not signed: that is not kept out here.

use crate::gateway::limits;
use siphasher::sip::SipHasher13;
use std::collections::{HashSet, VecDeque};
use std::hash::Hasher;

/// Requests that must not be made twice and were made, the last [`limits::UNSAFE_REMEMBERED`] of
/// them.
pub(super) struct ReplayFilter {
    key: [u64; 2],
    hashes: HashSet<u64>,
    /// The oldest first.
    order: VecDeque<u64>,
}

impl ReplayFilter {
    pub(super) fn new(key: [u64; 2]) -> ReplayFilter {
        ReplayFilter { key, hashes: HashSet::new(), order: VecDeque::new() }
    }

    pub(super) fn holds(&self, question: &[u8]) -> bool {
        self.hashes.contains(&self.hash(question))
    }

    pub(super) fn note(&mut self, question: &[u8]) {
        let hash = self.hash(question);
        if self.hashes.insert(hash) {
            self.order.push_back(hash);
        }
        if self.order.len() > limits::UNSAFE_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
    }

    /// Keyed: nobody makes another's request look like one that was made.
    fn hash(&self, question: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        hasher.write(question);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_fills_the_memory() {
        let mut replay_filter = ReplayFilter::new([1, 2]);
        let order = |number: usize| number.to_be_bytes();
        for number in 0..limits::UNSAFE_REMEMBERED + 10 {
            replay_filter.note(&order(number));
            replay_filter.note(&order(number));
        }
        assert_eq!(
            (replay_filter.hashes.len(), replay_filter.order.len()),
            (limits::UNSAFE_REMEMBERED, limits::UNSAFE_REMEMBERED)
        );
        assert!(!replay_filter.holds(&order(9)) && replay_filter.holds(&order(10)));
    }
}
