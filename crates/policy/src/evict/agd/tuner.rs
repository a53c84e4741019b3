//! Chooses the order that suits the traffic, a power or the learnt one: one small shadow cache for
//! each gets a sample of the objects.
//!
//! A sample is all requests of some objects (those whose hash ends in zeros), and a shadow has the
//! same share of the capacity, so it behaves as the whole cache does (Waldspurger et al., SHARDS,
//! FAST 2015; Cache Modeling and Optimization using Miniature Simulations, ATC 2017). All shadows
//! get the same requests, so the difference between two is far less noisy than the hit ratio of
//! either.
//!
//! If the traffic alternates faster than the cache adapts (a sawtooth of requests), the current
//! leader is always outdated, and any fixed power does better. So the cache's own hits on the
//! sample are counted too. Whenever the cache has lost [`LOSS`] hits against one of the shadows, it
//! takes that power, and multiplies the required lead by [`CAUTION`].
//!
//! [`super::shadows`] describes the state of the shadows, and how a request reads only one or two
//! cache lines.

use super::frequency::{SizeWeight, Standing};
use super::learned::LearnedShadow;
use super::shadows::{POWER_INDEXES, POWERS, Sampled, Shadows};
use crate::hash::mix;
use larder_units::Stream;

/// While it fills for the first time, agd samples at most one object in 2^this for its shadows.
/// With 4, CloudPhysics, whose trace is short, has 3 points less, and Twitter 512 KiB .2.
const FIRST_SAMPLE_SHIFT: u32 = 3;

/// A full cache with few objects samples at most one object in 2^this.
const LEAST_SAMPLE_SHIFT: u32 = 2;

/// The orders: the powers, then the learnt one.
const ORDERS: usize = POWER_INDEXES + 1;
/// The index of the learnt order.
const LEARNED: usize = POWER_INDEXES;

/// The learnt order is not taken before this many requests: it has too little to learn from, and
/// CloudPhysics' short trace loses 4 points. From then on, it is taken for the first time if
/// it leads all others at all. Small leads need long to reach [`LEAD`].
const LEARNED_FROM: u64 = 1 << 16;

/// Objects that a shadow of agd should have; a quarter to twice as many are allowed. The sample
/// shrinks as the cache grows, and grows if the cache shrinks. With half as many, mix 1 GiB and
/// Twitter 5 MiB end on a power beside the best, .003 and .002 below; with twice as many the
/// shadows leave the second-level cache.
const SHADOW_OBJECTS: usize = 2048;

/// Objects that agd's shadows store together, at most: 34 MB, and 4 MB of index. In a cache whose
/// power keeps few large objects, the shadows of other powers keep many small ones in the same
/// room. With fewer of the large ones in the sample, chance would decide about them.
const MAX_SHADOWED_OBJECTS: usize = 1 << 18;

/// Sampled requests between two decisions. They are collected, and then pass through the shadows in
/// a row, so that the processor loads these once.
const DECISION: usize = 512;
/// A lead below this share of the requests does not count.
const DRIFT: f64 = 0.0005;
/// The hits by which a power must lead the one in use, less its drift. The sum restarts whenever
/// the power falls behind.
const LEAD: f64 = 20.0;
/// The hits of the sample that the cache may lose against one power before it must change more
/// cautiously: two points of about [`MEMORY`] decisions. Slow adaptation to occasional changes
/// costs less.
const LOSS: f64 = 512.0;
/// The loss must also be this share of all hits that were lost or won against that power meanwhile.
/// A power that is right for a sawtooth loses and wins by turns.
const LOST: f64 = 0.125;
/// The factor of the losses at each decision: about the last hundred decisions count.
const MEMORY: f64 = 0.99;
/// The required lead after such a loss: at least this, otherwise a multiple of the last one, up to
/// a maximum.
const CAUTIOUS_LEAD: f64 = 480.0;
const CAUTION: f64 = 8.0;
const MOST_LEAD: f64 = 7680.0;
/// The factor of the required lead at each decision: it halves after about 350.
const TRUST: f64 = 0.998;

/// An order of eviction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Choice {
    Power(f64),
    Learned,
}

pub(super) struct Tuner {
    shadows: Shadows,
    /// `None` if only the powers are compared.
    learned: Option<LearnedShadow>,
    /// All requests so far, by the sample.
    requests: u64,
    /// Whether the learnt order was taken once.
    has_learned: bool,
    /// Sampled requests since the last decision.
    waiting: Vec<Sampled>,
    size_weight: SizeWeight,
    current: usize,
    capacity: u64,
    /// An object is sampled if its hash ends in this many zero bits.
    shift: u32,
    /// The least shift. It is higher if the shadows once stored too many objects.
    least_shift: u32,
    /// Whether the shadows once stored too many objects, since the last change of the capacity.
    was_crowded: bool,
    /// The score of a shadow that always hits.
    weight: f64,
    /// The worth of the cache's own hits on the sample.
    score: f64,
    /// The lead of each power over the one in use, in mean hits.
    leads: [f64; ORDERS],
    /// The recent lead of each power over the cache itself.
    losses: [f64; ORDERS],
    /// The same sum without signs.
    swings: [f64; ORDERS],
    /// The required lead, from [`LEAD`] to [`MOST_LEAD`].
    asked: f64,
}

impl Tuner {
    /// With `stream`, the learnt order is one of those that are compared.
    pub fn new(
        start: usize,
        size_weight: SizeWeight,
        capacity: u64,
        stream: Option<Stream>,
    ) -> Self {
        let first_shift = size_weight.sample_shift(FIRST_SAMPLE_SHIFT);
        let shadow_capacity = capacity >> first_shift;
        Tuner {
            shadows: Shadows::new(shadow_capacity),
            has_learned: false,
            learned: stream.map(|stream| LearnedShadow::new(shadow_capacity, stream)),
            requests: 0,
            waiting: Vec::with_capacity(DECISION),
            size_weight,
            current: start,
            capacity,
            shift: first_shift,
            least_shift: first_shift,
            was_crowded: false,
            weight: 0.0,
            score: 0.0,
            leads: [0.0; ORDERS],
            losses: [0.0; ORDERS],
            swings: [0.0; ORDERS],
            asked: LEAD,
        }
    }

    pub fn bytes(&self) -> usize {
        self.shadows.bytes()
            + self.learned.as_ref().map_or(0, LearnedShadow::bytes)
            + self.waiting.capacity() * size_of::<Sampled>()
    }

    pub fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.least_shift = self.size_weight.sample_shift(FIRST_SAMPLE_SHIFT);
        self.was_crowded = false;
        self.restart();
    }

    /// Reports that the cache is full. If it stores few objects, more of them are sampled.
    #[inline]
    pub fn on_full(&mut self) {
        if !self.was_crowded && self.learned.is_some() {
            self.least_shift = self.size_weight.sample_shift(LEAST_SAMPLE_SHIFT);
        }
    }

    /// Reports a request for an object, a hit or a miss, while `stored` objects are in the cache.
    /// Returns the new order if it changes.
    #[inline]
    pub fn request(
        &mut self,
        (id, size): (u64, u64),
        standing: Standing,
        hit: bool,
        stored: usize,
    ) -> Option<Choice> {
        if !is_sampled(id, self.shift) {
            return None;
        }
        self.sample((id, size), standing, hit, stored)
    }

    /// A function of its own, so that other objects only pay for a hash.
    #[inline(never)]
    fn sample(
        &mut self,
        (id, size): (u64, u64),
        standing: Standing,
        hit: bool,
        stored: usize,
    ) -> Option<Choice> {
        self.requests += 1 << self.shift;
        let shadowed = self.shadows.len() + self.learned.as_ref().map_or(0, LearnedShadow::len);
        // The next decision stores its requests in both tables.
        let crowded = shadowed + 2 * DECISION > MAX_SHADOWED_OBJECTS;
        if crowded || stored >> self.shift > 2 * SHADOW_OBJECTS {
            self.shift += 1;
            if crowded {
                (self.least_shift, self.was_crowded) = (self.shift, true);
            }
            self.thin();
            return None;
        }
        // The objects have become larger. With a handful of them in a shadow, chance would decide.
        if stored >> self.shift < SHADOW_OBJECTS / 4 && self.shift > self.least_shift {
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
            standing,
        });
        if self.waiting.len() < DECISION {
            None
        } else {
            self.decide()
        }
    }

    /// Returns the worth of a hit on `size` bytes, for all objects that the one stands for.
    fn worth(&self, size: u64) -> f64 {
        let SizeWeight { exponent, scale } = self.size_weight;
        let objects = scale.weight(size);
        if exponent == 1.0 {
            objects
        } else {
            objects * (scale.size(size) as f64).powf(1.0 - exponent)
        }
    }

    /// A cumulative sum test (Page, Biometrika 1954): small leads must last, large ones decide at
    /// once. Losses of the cache itself decide first.
    fn decide(&mut self) -> Option<Choice> {
        let mut scores = [0.0; ORDERS];
        scores[..POWER_INDEXES].copy_from_slice(&self.shadows.scores_of(&self.waiting));
        if let Some(learned) = &mut self.learned {
            scores[LEARNED] = learned.score_of(&self.waiting);
        }
        let reference = scores[self.current] + DRIFT * self.weight;
        let mean = self.weight / DECISION as f64;
        for (order, score) in scores.into_iter().enumerate() {
            self.leads[order] = (self.leads[order] + (score - reference) / mean).max(0.0);
            let lost = (score - self.score) / mean;
            self.losses[order] = self.losses[order] * MEMORY + lost;
            self.swings[order] = self.swings[order] * MEMORY + lost.abs();
        }
        if self.requests < self.learned_from() {
            (self.leads[LEARNED], self.losses[LEARNED]) = (0.0, 0.0);
        }
        self.waiting.clear();
        self.weight = 0.0;
        self.score = 0.0;
        self.asked = (self.asked * TRUST).max(LEAD);
        let (best, loss) = most(&self.losses);
        if loss > LOSS.max(LOST * self.swings[best]) {
            self.asked = (self.asked * CAUTION).clamp(CAUTIOUS_LEAD, MOST_LEAD);
            self.losses = [0.0; ORDERS];
            return self.change_to(best);
        }
        let (best, lead) = most(&self.leads);
        let asked = if best == LEARNED && self.prefers_learned() {
            0.0
        } else {
            self.asked
        };
        if lead > asked {
            self.change_to(best)
        } else {
            None
        }
    }

    /// Returns true if the learnt order is taken at any lead.
    fn prefers_learned(&self) -> bool {
        !self.has_learned && self.requests >= self.learned_from()
    }

    fn learned_from(&self) -> u64 {
        self.size_weight.scale.requests(LEARNED_FROM)
    }

    /// Returns the order with this index, if it is another.
    fn change_to(&mut self, order: usize) -> Option<Choice> {
        if order == self.current {
            return None;
        }
        self.has_learned |= order == LEARNED;
        self.current = order;
        self.leads = [0.0; ORDERS];
        Some(match POWERS.get(order) {
            Some(power) => Choice::Power(*power),
            None => Choice::Learned,
        })
    }

    /// Halves the sample. A cache that fills does so again and again, and would otherwise learn
    /// nothing until it is full. The counts stay.
    fn thin(&mut self) {
        let shift = self.shift;
        let is_sampled = |id| is_sampled(id, shift);
        self.shadows.thin(self.capacity >> shift, is_sampled);
        if let Some(learned) = &mut self.learned {
            learned.thin(self.capacity >> shift, is_sampled);
        }
        self.waiting.clear();
        self.weight = 0.0;
        self.score = 0.0;
    }

    /// Restarts with empty shadows.
    fn restart(&mut self) {
        self.shadows.restart(self.capacity >> self.shift);
        if let Some(learned) = &mut self.learned {
            learned.restart(self.capacity >> self.shift);
        }
        self.waiting.clear();
        self.weight = 0.0;
        self.score = 0.0;
        self.leads = [0.0; ORDERS];
        self.losses = [0.0; ORDERS];
        self.swings = [0.0; ORDERS];
    }
}

/// Returns true for a share of 1/2^`shift` of all ids.
#[inline]
fn is_sampled(id: u64, shift: u32) -> bool {
    mix(id).trailing_zeros() >= shift
}

/// Returns the index of the largest value, and the value.
fn most(of: &[f64; ORDERS]) -> (usize, f64) {
    of.iter().copied().enumerate().fold(
        (0, of[0]),
        |most, order| {
            if order.1 >= most.1 { order } else { most }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;

    const WHOLE: SizeWeight = SizeWeight {
        exponent: 1.0,
        scale: Scale::FULL,
    };

    fn class(class: u8) -> Standing {
        Standing {
            class,
            ..Standing::default()
        }
    }

    #[test]
    fn few_large_objects_are_sampled_as_many_small_ones_were() {
        let mut tuner = Tuner::new(0, WHOLE, 1 << 30, None);
        let mut shift_beside = |objects: usize| {
            for id in 0..200_000 {
                _ = tuner.request((id, 1000), class(140), false, objects);
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
        assert_eq!(shift_beside(100), FIRST_SAMPLE_SHIFT);
    }

    /// Failure: a cache with a thousand large objects has shadows that keep every small object of
    /// the past.
    #[test]
    fn shadows_take_more_memory_than_stated() {
        let stream = larder_units::Streams::new(1).stream("shadows");
        // With the learnt order, a full cache samples twice as many objects, each in two tables.
        let ids = || (0..10 * MAX_SHADOWED_OBJECTS as u64).chain(0..100);
        for (stream, expected) in [(None, vec![3, 4]), (Some(stream), vec![3, 2, 3, 4, 5])] {
            let mut tuner = Tuner::new(0, WHOLE, 1 << 40, stream);
            let (mut most, mut shifts) = (0, vec![FIRST_SAMPLE_SHIFT]);
            for id in ids() {
                tuner.request((id, 1), class(160), false, 1000);
                tuner.on_full();
                let learned = tuner.learned.as_ref().map_or(0, LearnedShadow::len);
                most = most.max(tuner.shadows.len() + learned);
                if shifts.last() != Some(&tuner.shift) {
                    shifts.push(tuner.shift);
                }
            }
            assert!(
                most <= MAX_SHADOWED_OBJECTS && most > MAX_SHADOWED_OBJECTS / 2,
                "{most}"
            );
            assert_eq!(shifts, expected, "the sample comes and goes");
        }
    }

    #[test]
    fn whoever_loses_by_following_follows_on() {
        let mut tuner = Tuner::new(4, WHOLE, 8 << FIRST_SAMPLE_SHIFT, None);
        let sampled = (0..).filter(|id| mix(*id).is_multiple_of(1 << FIRST_SAMPLE_SHIFT));
        let few: Vec<u64> = sampled.take(4).collect();
        // The shadows have all of them, the cache none: 508 hits are lost at the first decision,
        // 512 at the next.
        let mut decide = |hit: bool| {
            let requests = few.iter().cycle().take(DECISION);
            for id in requests {
                _ = tuner.request((*id, 1), class(160), hit, 0);
            }
            tuner.asked
        };
        assert_eq!([false, false].map(&mut decide), [LEAD, CAUTIOUS_LEAD]);
        let trusted = [true; 400].map(&mut decide);
        assert!(
            trusted[0] < CAUTIOUS_LEAD && trusted[1] < trusted[0],
            "it fades"
        );
        assert!(
            trusted[399] < CAUTIOUS_LEAD / 2.0 && trusted[399] > LEAD,
            "{}",
            trusted[399]
        );
        for _ in 0..100 {
            _ = decide(false);
        }
        assert!(decide(false) <= MOST_LEAD);
    }
}
