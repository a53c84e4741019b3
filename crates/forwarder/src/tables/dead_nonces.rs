//! Nonces of Interests that are no longer pending. They show that an Interest loops back late.
//!
//! NFD keeps a queue with an adaptive length. Here a table of buckets holds 52 bits of a keyed hash
//! of name and nonce, with the time. A bucket is a cache line, with the latest nonce first: a
//! lookup and the replacement of the oldest nonce need one line, which a batch can prefetch. The
//! table doubles with the load, up to [`DEAD_NONCES`] places. O(1); 8 bytes per nonce. At the
//! limit, one Interest in 2^35 is wrongly recognised as a loop, and its consumer gets a Nack.

use crate::limits::{DEAD_NONCE_AGE, DEAD_NONCES};
use larder_policy::prefetch;
use larder_units::Time;

pub(crate) struct DeadNonces {
    /// A power of two of them.
    buckets: Vec<Bucket>,
    /// The latest time, in ticks.
    tick: u64,
    /// Nonces since the table grew or a nonce's age passed.
    inserted: usize,
    since: u64,
    /// The position at which the removal of old nonces continues.
    swept: usize,
}

/// The hash in the high bits, the tick in the low ones, the latest first; 0 where there is none.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket([u64; 8]);

const EMPTY: Bucket = Bucket([0; 8]);
const TICK_BITS: u32 = 12;
const TICK_MASK: u64 = (1 << TICK_BITS) - 1;
/// Ticks in the age of a nonce.
const AGE: u64 = 8;
const FEWEST_BUCKETS: usize = 16;
const MOST_BUCKETS: usize = DEAD_NONCES / 8;

fn key(name_hash: u64, nonce: u32) -> u64 {
    // The name's hash is keyed and uniform; the multiplier spreads the nonce over all 64 bits.
    name_hash ^ (u64::from(nonce) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl DeadNonces {
    pub(crate) fn new() -> Self {
        DeadNonces {
            buckets: vec![EMPTY; FEWEST_BUCKETS],
            tick: 0,
            inserted: 0,
            since: 0,
            swept: 0,
        }
    }

    pub(crate) fn insert(&mut self, now: Time, name_hash: u64, nonce: u32) {
        self.pass(now);
        self.inserted += 1;
        if self.inserted > self.buckets.len() * 4 && self.buckets.len() < MOST_BUCKETS {
            self.grow();
        }
        let key = key(name_hash, nonce);
        let place = self.place(key);
        let bucket = &mut self.buckets[place].0;
        let [a, b, c, d, e, f, g, _] = *bucket;
        *bucket = [entry(key, self.tick), a, b, c, d, e, f, g];
    }

    pub(crate) fn contains(&mut self, now: Time, name_hash: u64, nonce: u32) -> bool {
        self.pass(now);
        let key = key(name_hash, nonce);
        let bucket = &self.buckets[self.place(key)].0;
        // All eight without a branch: nearly never is one the same.
        let is_same = |found: &u64| (found ^ key) >> TICK_BITS == 0;
        if !bucket.iter().fold(false, |any, found| any | is_same(found)) {
            return false;
        }
        bucket
            .iter()
            .any(|found| is_same(found) && *found != 0 && age(*found, self.tick) <= AGE)
    }

    /// Prefetches the nonce's bucket.
    #[inline]
    pub(crate) fn prefetch(&self, name_hash: u64, nonce: u32) {
        prefetch(&self.buckets, self.place(key(name_hash, nonce)));
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        // The highest bits: they are in the entry, so that a grown table is filled from the old
        // one.
        (((key >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    /// Old nonces go before their ticks come round again.
    #[inline]
    fn pass(&mut self, now: Time) {
        let tick = now.nanos() / (DEAD_NONCE_AGE.as_nanos() as u64 / AGE);
        if tick > self.tick {
            self.pass_to(tick);
        }
    }

    #[cold]
    fn pass_to(&mut self, tick: u64) {
        let passed = tick - self.tick;
        self.tick = tick;
        if passed > AGE {
            self.buckets.fill(EMPTY);
        } else {
            // All of them in a quarter of the ticks that there are.
            for _ in 0..passed as usize * ((self.buckets.len() * 4) >> TICK_BITS).max(1) {
                self.swept = (self.swept + 1) % self.buckets.len();
                for entry in &mut self.buckets[self.swept].0 {
                    if age(*entry, tick) > AGE {
                        *entry = 0;
                    }
                }
            }
        }
        if tick - self.since > AGE {
            (self.inserted, self.since) = (0, tick);
        }
    }

    fn grow(&mut self) {
        let larger = vec![EMPTY; self.buckets.len() * 2];
        let old = std::mem::replace(&mut self.buckets, larger);
        for entry in old
            .iter()
            .flat_map(|bucket| bucket.0)
            .filter(|entry| *entry != 0)
        {
            let place = self.place(entry);
            if let Some(free) = self.buckets[place].0.iter_mut().find(|place| **place == 0) {
                *free = entry;
            }
        }
    }
}

#[inline]
fn entry(key: u64, tick: u64) -> u64 {
    // 0 says that there is none: the 52 bits of the key are hardly ever 0, and then it is
    // forgotten.
    (key & !TICK_MASK) | (tick & TICK_MASK)
}

#[inline]
fn age(entry: u64, tick: u64) -> u64 {
    tick.wrapping_sub(entry) & TICK_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Uniform, as keyed hashes are.
    fn hash(i: u64) -> u64 {
        i.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    #[test]
    fn a_nonce_is_remembered_for_a_while_and_not_for_ever() {
        let mut dead = DeadNonces::new();
        let start = Time::from_secs(100);
        dead.insert(start, hash(7), 1);
        assert!(dead.contains(
            start + (DEAD_NONCE_AGE - Duration::from_millis(1)),
            hash(7),
            1
        ));
        assert!(!dead.contains(start, hash(7), 2));
        assert!(!dead.contains(start, hash(8), 1));
        assert!(!dead.contains(start + 2 * DEAD_NONCE_AGE, hash(7), 1));
    }

    #[test]
    fn an_old_nonce_comes_back_when_the_ticks_come_round() {
        let mut dead = DeadNonces::new();
        let mut now = Time::from_secs(100);
        dead.insert(now, hash(7), 1);
        for second in 0..7200 {
            now += Duration::from_secs(1);
            dead.insert(now, hash(second), 2);
            assert!(
                second < 4 || !dead.contains(now, hash(7), 1),
                "after {second} s"
            );
        }
    }

    #[test]
    fn a_growing_table_forgets() {
        let mut dead = DeadNonces::new();
        for i in 0..DEAD_NONCES as u64 / 4 {
            dead.insert(Time::ZERO, hash(i), 1);
            let recent = i.saturating_sub(100);
            assert!(
                dead.contains(Time::ZERO, hash(recent), 1),
                "{recent} at {i}"
            );
        }
    }

    #[test]
    fn a_flood_of_nonces_takes_ever_more() {
        let mut dead = DeadNonces::new();
        for i in 0..5 * DEAD_NONCES as u64 {
            dead.insert(Time::ZERO, hash(i), 1);
        }
        assert_eq!(dead.buckets.len(), MOST_BUCKETS);
    }

    fn tick() -> Duration {
        DEAD_NONCE_AGE / AGE as u32
    }

    /// Failure: a busy table has too few places, so nonces displace each other too early, or more
    /// than the load needs.
    #[test]
    fn the_places_do_not_follow_the_load() {
        let mut dead = DeadNonces::new();
        for load in 1..10_000u64 {
            dead.insert(Time::ZERO, hash(load), 1);
            let expected = load
                .div_ceil(4)
                .next_power_of_two()
                .max(FEWEST_BUCKETS as u64);
            assert_eq!(dead.buckets.len() as u64, expected, "{load} nonces");
        }
        // As many nonces in a longer time are a smaller load.
        let mut dead = DeadNonces::new();
        for number in 0..2000 {
            dead.insert(Time::ZERO + tick() * number, hash(u64::from(number)), 1);
        }
        assert_eq!(dead.buckets.len(), FEWEST_BUCKETS);
        // But those of one age count together.
        let starts = [Time::ZERO, Time::from_secs(3000)];
        for (start, later) in starts
            .into_iter()
            .flat_map(|start| [1, AGE as u32 / 2, AGE as u32].map(|at| (start, at)))
        {
            let mut dead = DeadNonces::new();
            for number in 0..40 {
                dead.insert(start, hash(number), 1);
            }
            for number in 40..80 {
                dead.insert(start + tick() * later, hash(number), 1);
            }
            assert_eq!(
                dead.buckets.len(),
                2 * FEWEST_BUCKETS,
                "{later} ticks later"
            );
        }
    }

    /// Failure: the sweep of old nonces takes those whose age has not passed, or a nonce is
    /// remembered after its age.
    #[test]
    fn a_sweep_takes_a_nonce_before_its_age_or_leaves_it() {
        for ticks_at_once in 1..=AGE as u32 {
            let (mut dead, start) = (DeadNonces::new(), Time::from_secs(3000));
            for number in 0..40 {
                dead.insert(start, hash(number), 1);
            }
            for ticks in (0..40).step_by(ticks_at_once as usize) {
                let now = start + tick() * ticks;
                for number in 0..40 {
                    let is_young = u64::from(ticks) <= AGE;
                    assert_eq!(
                        dead.contains(now, hash(number), 1),
                        is_young,
                        "after {ticks} ticks"
                    );
                }
            }
        }
        // A clock that steps back changes nothing.
        let mut dead = DeadNonces::new();
        dead.insert(Time::from_secs(100), hash(1), 1);
        assert!(dead.contains(Time::from_secs(50), hash(1), 1));
    }

    /// Failure: in a large table, not every place is swept before its nonce's tick comes round.
    #[test]
    fn an_old_nonce_of_a_large_table_comes_back() {
        let nonces = 4 * (MOST_BUCKETS as u64 / 2) + 1;
        for ticks_at_once in [1, AGE as usize] {
            let mut dead = DeadNonces::new();
            for number in 0..nonces {
                dead.insert(Time::ZERO, hash(number), 1);
            }
            assert_eq!(dead.buckets.len(), MOST_BUCKETS);
            let ticks = (0..1 << TICK_BITS).step_by(ticks_at_once);
            for ticks in ticks {
                _ = dead.contains(Time::ZERO + tick() * ticks, 0, 0);
            }
            let now = Time::ZERO + tick() * (1 << TICK_BITS);
            let back = (0..nonces)
                .filter(|number| dead.contains(now, hash(*number), 1))
                .count();
            assert_eq!(back, 0, "of {nonces}");
        }
    }
}
