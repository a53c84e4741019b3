//! Nonces of Interests that are no longer pending, so that one that loops back late is recognised.
//!
//! NFD keeps a queue with an adaptive length; here two generations of keyed 64-bit hashes of name and nonce are kept, and the older one is
//! dropped when the younger is full or old enough. O(1), at most two times [`DEAD_NONCES`] hashes. A collision (2^-47 at the limit) costs
//! one Interest a Nack.

use crate::limits::{DEAD_NONCE_AGE, DEAD_NONCES};
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use larder_units::Time;

pub(crate) struct DeadNonces {
    young: HashSet<u64, FixedState>,
    old: HashSet<u64, FixedState>,
    turned: Time,
}

fn key(name_hash: u64, nonce: u32) -> u64 {
    // The name's hash is keyed and uniform; the multiplier spreads the nonce over all 64 bits.
    name_hash ^ (u64::from(nonce) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl DeadNonces {
    pub(crate) fn new() -> Self {
        let empty = || HashSet::with_hasher(FixedState::default());
        DeadNonces { young: empty(), old: empty(), turned: Time::ZERO }
    }

    pub(crate) fn insert(&mut self, now: Time, name_hash: u64, nonce: u32) {
        self.turn(now);
        self.young.insert(key(name_hash, nonce));
    }

    pub(crate) fn contains(&mut self, now: Time, name_hash: u64, nonce: u32) -> bool {
        self.turn(now);
        let key = key(name_hash, nonce);
        self.young.contains(&key) || self.old.contains(&key)
    }

    fn turn(&mut self, now: Time) {
        let age = now.since(self.turned);
        if self.young.len() >= DEAD_NONCES || age >= DEAD_NONCE_AGE {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
            if age >= 2 * DEAD_NONCE_AGE {
                self.old.clear();
            }
            self.turned = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_nonce_is_remembered_for_a_while_and_not_for_ever() {
        let mut dead = DeadNonces::new();
        let start = Time::from_secs(100);
        dead.insert(start, 7, 1);
        assert!(dead.contains(start + (DEAD_NONCE_AGE - Duration::from_millis(1)), 7, 1));
        assert!(!dead.contains(start, 7, 2));
        assert!(!dead.contains(start, 8, 1));
        assert!(!dead.contains(start + 3 * DEAD_NONCE_AGE, 7, 1));
    }

    #[test]
    fn a_flood_of_nonces_stays_within_two_generations() {
        let mut dead = DeadNonces::new();
        for i in 0..5 * DEAD_NONCES as u64 {
            dead.insert(Time::ZERO, i.wrapping_mul(0x2545_f491_4f6c_dd1d), 1);
        }
        assert!(dead.young.len() + dead.old.len() <= 2 * DEAD_NONCES);
    }
}
