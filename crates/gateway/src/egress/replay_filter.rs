//! Unsafe requests that were executed. A node on the path that has read one cannot have it executed
//! again word for word after its answer was dropped. The same request with another number is
//! another request; without signatures, this filter does not detect it.

use crate::limits;
use siphasher::sip::SipHasher13;
use std::collections::{HashSet, VecDeque};
use std::hash::Hasher;

/// The last [`limits::UNSAFE_REMEMBERED`] unsafe requests.
pub(super) struct ReplayFilter {
    key: [u64; 2],
    hashes: HashSet<u64>,
    /// Hashes, the oldest first.
    order: VecDeque<u64>,
}

impl ReplayFilter {
    pub(super) fn new(key: [u64; 2]) -> ReplayFilter {
        ReplayFilter {
            key,
            hashes: HashSet::new(),
            order: VecDeque::new(),
        }
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

    /// The hash is keyed, so that no one can make another request look like an executed one.
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
