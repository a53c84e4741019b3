//! Which power suits the traffic: small shadow caches, one for each, that see a sample of the
//! objects.
//!
//! A sample is all requests of some objects (those whose hash ends in zeros), and a shadow has the
//! same share of the capacity: so it behaves as the whole cache does (Waldspurger et al., SHARDS,
//! FAST 2015; Cache Modeling and Optimization using Miniature Simulations, ATC 2017). All shadows
//! see the same requests, so that the difference between two is far less noisy than the hit ratio
//! of either.
//!
//! Where the traffic goes to and fro faster than the cache can follow (a sawtooth of requests),
//! whoever leads lags by the time that it is followed, and following loses against every power that
//! stays. So the cache's own hits on the sample are counted too: each time that it has lost
//! [`LOSS`] hits against one of the shadows, that one is taken, and [`CAUTION`] times the lead is
//! asked for from then on.
//!
//! What the shadows keep, and how they do with one or two cache lines a request:
//! [`super::shadows`].

use super::shadows::{POWER_INDEXES, POWERS, Sampled, Shadows};
use crate::hash::mix;
use crate::limits::{AGD_LEAST_SAMPLE_SHIFT, AGD_SHADOW_OBJECTS, AGD_SHADOWED_OBJECTS};

/// Sampled requests between two decisions. They wait until then, and go through the shadows in a
/// row, so that these are fetched into the processor's cache once.
const DECISION: usize = 512;
/// A lead below this share of the requests is no reason to change.
const DRIFT: f64 = 0.0005;
/// Hits that a power must have had more than the one in use, its drift deducted, in sums that start
/// anew where it falls behind.
const LEAD: f64 = 60.0;
/// What the cache may lose against one power before it is said to follow too eagerly, in hits of
/// the sample: two points of some [`MEMORY`] decisions. What is learnt late where traffic changes
/// now and then costs less.
const LOSS: f64 = 512.0;
/// And this share of all that was lost or won against it meanwhile: what stays on a sawtooth is
/// behind and ahead by turns, and is not wrong.
const LOST: f64 = 0.125;
/// What stays of losses at each decision: those of the last hundred count.
const MEMORY: f64 = 0.99;
/// By how much the lead asked for grows at such a loss, and at most.
const CAUTION: f64 = 8.0;
const MOST_LEAD: f64 = 128.0 * LEAD;
/// What stays of the lead asked for at each decision: half of it after some 350.
const TRUST: f64 = 0.998;

pub(super) struct Tuner {
    shadows: Shadows,
    /// Sampled since the last decision.
    waiting: Vec<Sampled>,
    size_exponent: f64,
    current: usize,
    capacity: u64,
    /// Objects whose hash ends in this many zero bits are sampled.
    shift: u32,
    /// The least that they may be sampled by: more where the shadows once stored too many.
    least_shift: u32,
    /// What a shadow that hits always would have scored.
    weight: f64,
    /// What the cache's own hits on the sample were worth.
    score: f64,
    /// By how many mean hits each power leads the one in use.
    leads: [f64; POWER_INDEXES],
    /// By how many it has been better than the cache itself, lately.
    losses: [f64; POWER_INDEXES],
    /// The same without signs: what it has been better or worse.
    swings: [f64; POWER_INDEXES],
    /// The lead that is asked for, from [`LEAD`] to [`MOST_LEAD`].
    asked: f64,
}

impl Tuner {
    pub fn new(start: usize, size_exponent: f64, capacity: u64) -> Self {
        Tuner {
            shadows: Shadows::new(capacity >> AGD_LEAST_SAMPLE_SHIFT),
            waiting: Vec::with_capacity(DECISION),
            size_exponent,
            current: start,
            capacity,
            shift: AGD_LEAST_SAMPLE_SHIFT,
            least_shift: AGD_LEAST_SAMPLE_SHIFT,
            weight: 0.0,
            score: 0.0,
            leads: [0.0; POWER_INDEXES],
            losses: [0.0; POWER_INDEXES],
            swings: [0.0; POWER_INDEXES],
            asked: LEAD,
        }
    }

    pub fn bytes(&self) -> usize {
        self.shadows.bytes() + self.waiting.capacity() * size_of::<Sampled>()
    }

    pub fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.least_shift = AGD_LEAST_SAMPLE_SHIFT;
        self.restart();
    }

    /// A request for an object of `class`, which the cache had or not, while `stored` objects are
    /// in it; the power to go to, if it is another.
    #[inline]
    pub fn request(
        &mut self,
        id: u64,
        size: u64,
        class: u8,
        hit: bool,
        stored: usize,
    ) -> Option<f64> {
        if !is_sampled(id, self.shift) {
            return None;
        }
        self.sample(id, size, class, hit, stored)
    }

    /// Apart, so that the others pay for a hash and no more.
    #[inline(never)]
    fn sample(&mut self, id: u64, size: u64, class: u8, hit: bool, stored: usize) -> Option<f64> {
        let crowded = self.shadows.len() + DECISION > AGD_SHADOWED_OBJECTS;
        if crowded || stored >> self.shift > 2 * AGD_SHADOW_OBJECTS {
            self.shift += 1;
            self.least_shift = if crowded {
                self.shift
            } else {
                self.least_shift
            };
            self.thin();
            return None;
        }
        // Traffic of larger objects: a handful of them would decide by chance.
        if stored >> self.shift < AGD_SHADOW_OBJECTS / 4 && self.shift > self.least_shift {
            self.shift -= 1;
            self.restart();
            return None;
        }
        let worth = self.worth(size);
        self.weight += worth;
        self.score += if hit { worth } else { 0.0 };
        self.waiting.push(Sampled {
            id,
            size,
            worth,
            class,
        });
        if self.waiting.len() < DECISION {
            None
        } else {
            self.decide()
        }
    }

    /// What a hit on `size` bytes is worth.
    fn worth(&self, size: u64) -> f64 {
        if self.size_exponent == 1.0 {
            1.0
        } else {
            (size as f64).powf(1.0 - self.size_exponent)
        }
    }

    /// A cumulative sum test (Page, Biometrika 1954): small leads must last, large ones decide at
    /// once. Unless following has lost.
    fn decide(&mut self) -> Option<f64> {
        let scores = self.shadows.scores_of(&self.waiting);
        let reference = scores[self.current] + DRIFT * self.weight;
        let mean = self.weight / DECISION as f64;
        for (power_index, score) in scores.into_iter().enumerate() {
            self.leads[power_index] =
                (self.leads[power_index] + (score - reference) / mean).max(0.0);
            let lost = (score - self.score) / mean;
            self.losses[power_index] = self.losses[power_index] * MEMORY + lost;
            self.swings[power_index] = self.swings[power_index] * MEMORY + lost.abs();
        }
        self.waiting.clear();
        self.weight = 0.0;
        self.score = 0.0;
        self.asked = (self.asked * TRUST).max(LEAD);
        let (best, loss) = most(&self.losses);
        if loss > LOSS.max(LOST * self.swings[best]) {
            self.asked = (self.asked * CAUTION).min(MOST_LEAD);
            self.losses = [0.0; POWER_INDEXES];
            return self.change_to(best);
        }
        let (best, lead) = most(&self.leads);
        if lead > self.asked {
            self.change_to(best)
        } else {
            None
        }
    }

    /// The power of the rung `power_index`, if it is another.
    fn change_to(&mut self, power_index: usize) -> Option<f64> {
        if power_index == self.current {
            return None;
        }
        self.current = power_index;
        self.leads = [0.0; POWER_INDEXES];
        Some(POWERS[power_index])
    }

    /// Half the sample: a cache that fills does so again and again, and would else learn nothing
    /// until it is full. What has been counted stays.
    fn thin(&mut self) {
        let shift = self.shift;
        self.shadows
            .thin(self.capacity >> shift, |id| is_sampled(id, shift));
        self.waiting.clear();
        self.weight = 0.0;
        self.score = 0.0;
    }

    /// Empty shadows.
    fn restart(&mut self) {
        self.shadows.restart(self.capacity >> self.shift);
        self.waiting.clear();
        self.weight = 0.0;
        self.score = 0.0;
        self.leads = [0.0; POWER_INDEXES];
        self.losses = [0.0; POWER_INDEXES];
        self.swings = [0.0; POWER_INDEXES];
    }
}

/// A share of 1/2^`shift` of all ids.
#[inline]
fn is_sampled(id: u64, shift: u32) -> bool {
    mix(id) << (64 - shift) == 0
}

/// The rung with the most, and how much it has.
fn most(of: &[f64; POWER_INDEXES]) -> (usize, f64) {
    of.iter()
        .copied()
        .enumerate()
        .fold((0, of[0]), |most, power_index| {
            if power_index.1 >= most.1 {
                power_index
            } else {
                most
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_large_objects_are_sampled_as_many_small_ones_were() {
        let mut tuner = Tuner::new(0, 1.0, 1 << 30);
        let mut shift_beside = |objects: usize| {
            for id in 0..200_000 {
                _ = tuner.request(id, 1000, 140, false, objects);
            }
            tuner.shift
        };
        assert_eq!(shift_beside(1_000_000), 8, "3,906 objects a shadow");
        assert_eq!(
            shift_beside(200_000),
            8,
            "781 are enough, and a restart is dear"
        );
        assert_eq!(shift_beside(100_000), 7);
        assert_eq!(shift_beside(100), AGD_LEAST_SAMPLE_SHIFT);
    }

    /// Failure: a cache with a thousand large objects has shadows that keep every small object that
    /// ever came.
    #[test]
    fn shadows_take_more_memory_than_stated() {
        let mut tuner = Tuner::new(0, 1.0, 1 << 40);
        let mut most = 0;
        for id in (0..10 * AGD_SHADOWED_OBJECTS as u64).chain(0..100) {
            tuner.request(id, 1, 160, false, 1000);
            most = most.max(tuner.shadows.len());
        }
        assert!(
            most <= AGD_SHADOWED_OBJECTS && most > AGD_SHADOWED_OBJECTS / 2,
            "{most}"
        );
        assert_eq!(
            tuner.shift,
            AGD_LEAST_SAMPLE_SHIFT + 1,
            "and does not come and go"
        );
    }

    #[test]
    fn whoever_loses_by_following_follows_on() {
        let mut tuner = Tuner::new(4, 1.0, 8 << AGD_LEAST_SAMPLE_SHIFT);
        let sampled = (0..).filter(|id| mix(*id).is_multiple_of(1 << AGD_LEAST_SAMPLE_SHIFT));
        let few: Vec<u64> = sampled.take(4).collect();
        // The shadows have all of them, the cache has none: 508 hits lost at the first decision,
        // 512 at the next.
        let mut decide = |hit: bool| {
            let requests = few.iter().cycle().take(DECISION);
            for id in requests {
                _ = tuner.request(*id, 1, 160, hit, 0);
            }
            tuner.asked
        };
        assert_eq!([false, false].map(&mut decide), [LEAD, CAUTION * LEAD]);
        let trusted = [true; 400].map(&mut decide);
        assert!(
            trusted[0] < CAUTION * LEAD && trusted[1] < trusted[0],
            "it fades"
        );
        assert!(
            trusted[399] < CAUTION * LEAD / 2.0 && trusted[399] > LEAD,
            "{}",
            trusted[399]
        );
        for _ in 0..100 {
            _ = decide(false);
        }
        assert!(decide(false) <= MOST_LEAD);
    }
}
