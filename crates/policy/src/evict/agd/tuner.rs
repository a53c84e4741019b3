//! Which power suits the traffic: small shadow caches, one for each, that see a sample of the objects.
//!
//! A sample is all requests of some objects (those whose hash ends in zeros), and a shadow has the same share of the capacity: so it behaves
//! as the whole cache does (Waldspurger et al., SHARDS, FAST 2015; Cache Modeling and Optimization using Miniature Simulations, ATC 2017).
//! All shadows see the same requests, so that the difference between two is far less noisy than the hit ratio of either.
//!
//! Where the traffic goes to and fro faster than the cache can follow (a sawtooth of requests), whoever leads lags by the time that it is followed, and
//! following loses against every power that stays. So the cache's own hits on the sample are counted too: each time that it has lost [`LOSS`] hits against one of the
//! shadows, that one is taken, and [`CAUTION`] times the lead is asked for from then on.
//!
//! A shadow is an order of eviction and nothing else: an object's class is what the cache has just found, since how often it was asked for does not depend on
//! the power, and what any shadow stores stands once, in one index.

use super::ranking::{Ranking, Stored};
use crate::Slot;
use crate::hash::mix;
use crate::index::SlotIndex;
use crate::limits::{AGD_LEAST_SAMPLE_SHIFT, AGD_SHADOW_OBJECTS};

/// Sampled requests that wait for one another: each shadow takes them in a row, while its lists are in the processor's cache. A divisor of [`DECISION`], so
/// that nothing else changes.
const BATCH: usize = 64;
/// Sampled requests between two decisions.
const DECISION: u32 = 512;
/// A lead below this share of the requests is no reason to change.
const DRIFT: f64 = 0.0005;
/// Hits that a power must have had more than the one in use, its drift deducted, in sums that start anew where it falls behind.
const LEAD: f64 = 60.0;
/// What the cache may lose against one power before it is said to follow too eagerly, in hits of the sample: two points of some [`MEMORY`] decisions. What is learnt late
/// where traffic changes now and then costs less.
const LOSS: f64 = 512.0;
/// What stays of losses at each decision: those of the last hundred count.
const MEMORY: f64 = 0.99;
/// By how much the lead asked for grows at such a loss, and at most.
const CAUTION: f64 = 8.0;
const MOST_LEAD: f64 = 128.0 * LEAD;
/// What stays of the lead asked for at each decision: half of it after some 350.
const TRUST: f64 = 0.998;

pub(super) struct Tuner {
    shadows: Vec<Shadow>,
    /// What is in any shadow.
    index: SlotIndex,
    objects: Vec<Object>,
    free: Vec<Slot>,
    waiting: Vec<Sampled>,
    powers: &'static [f64],
    size_exponent: f64,
    current: usize,
    capacity: u64,
    /// Objects whose hash ends in this many zero bits are sampled.
    shift: u32,
    sampled: u32,
    /// What a shadow that hits always would have scored.
    weight: f64,
    /// What the cache's own hits on the sample were worth.
    score: f64,
    /// The lead that is asked for, from [`LEAD`] to [`MOST_LEAD`].
    asked: f64,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
    /// A bit for each shadow that stores it, and [`WAITS`].
    holders: u8,
}

/// Is held by a request that waits.
const WAITS: u8 = 1 << 7;

/// A request that waits for the shadows.
#[derive(Clone, Copy)]
struct Sampled {
    slot: Slot,
    size: u64,
    worth: f64,
    class: u8,
}

struct Shadow {
    ranking: Ranking,
    used: u64,
    /// What its hits were worth since the last decision.
    score: f64,
    /// By how many mean hits it leads the power in use.
    lead: f64,
    /// By how many it has been better than the cache itself, lately.
    loss: f64,
}

impl Tuner {
    /// For at most seven `powers`.
    pub fn new(powers: &'static [f64], start: usize, size_exponent: f64, capacity: u64) -> Self {
        let mut tuner = Tuner {
            shadows: Vec::new(),
            index: SlotIndex::default(),
            objects: Vec::new(),
            free: Vec::new(),
            waiting: Vec::with_capacity(BATCH),
            powers,
            size_exponent,
            current: start,
            capacity,
            shift: AGD_LEAST_SAMPLE_SHIFT,
            sampled: 0,
            weight: 0.0,
            score: 0.0,
            asked: LEAD,
        };
        tuner.restart();
        tuner
    }

    pub fn bytes(&self) -> usize {
        let shared = self.index.bytes()
            + self.objects.capacity() * size_of::<Object>()
            + self.free.capacity() * size_of::<Slot>()
            + self.waiting.capacity() * size_of::<Sampled>();
        shared + self.shadows.iter().map(|shadow| size_of::<Shadow>() + shadow.ranking.bytes()).sum::<usize>()
    }

    pub fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.restart();
    }

    /// A request for an object of `class`, which the cache had or not, while `stored` objects are in it; the power to go to, if it is another.
    #[inline]
    pub fn request(&mut self, id: u64, size: u64, class: u8, hit: bool, stored: usize) -> Option<f64> {
        if mix(id) << (64 - self.shift) != 0 {
            return None;
        }
        self.sample(id, size, class, hit, stored)
    }

    /// Apart, so that the others pay for a hash and no more.
    #[inline(never)]
    fn sample(&mut self, id: u64, size: u64, class: u8, hit: bool, stored: usize) -> Option<f64> {
        if stored >> self.shift > 2 * AGD_SHADOW_OBJECTS {
            self.shift += 1;
            self.restart();
            return None;
        }
        // Traffic of larger objects: a handful of them would decide by chance.
        if stored >> self.shift < AGD_SHADOW_OBJECTS / 4 && self.shift > AGD_LEAST_SAMPLE_SHIFT {
            self.shift -= 1;
            self.restart();
            return None;
        }
        let worth = self.worth(size);
        self.score += if hit { worth } else { 0.0 };
        let known = self.index.find(id, |slot| self.objects[slot.index()].id == id);
        let slot = known.unwrap_or_else(|| self.remember(id, size));
        let object = &mut self.objects[slot.index()];
        object.holders |= WAITS;
        // Its size as stored: the books of those who have it need that.
        self.waiting.push(Sampled { slot, size: object.size, worth, class });
        if self.waiting.len() < BATCH { None } else { self.simulate() }
    }

    /// What a hit on `size` bytes is worth.
    fn worth(&self, size: u64) -> f64 {
        if self.size_exponent == 1.0 { 1.0 } else { (size as f64).powf(1.0 - self.size_exponent) }
    }

    /// The requests that wait, through one shadow after another.
    fn simulate(&mut self) -> Option<f64> {
        let waiting = std::mem::take(&mut self.waiting);
        for number in 0..self.shadows.len() {
            let ranking = &self.shadows[number].ranking;
            waiting.iter().for_each(|request| ranking.prefetch(request.slot));
            for request in &waiting {
                self.request_in(number, request);
            }
        }
        for request in &waiting {
            self.weight += request.worth;
            self.drop_holder(request.slot, WAITS);
        }
        self.sampled += waiting.len() as u32;
        self.waiting = waiting;
        self.waiting.clear();
        if self.sampled < DECISION { None } else { self.decide() }
    }

    /// A request through the shadow `number`.
    #[inline]
    fn request_in(&mut self, number: usize, request: &Sampled) {
        let Sampled { slot, size, worth, class } = *request;
        let shadow = &mut self.shadows[number];
        // Where all lifetimes are the same, one list holds all.
        let class = if shadow.ranking.power() == 0.0 { 0 } else { class };
        if self.objects[slot.index()].holders & 1 << number != 0 {
            shadow.ranking.touch(slot, |_| class);
            shadow.score += worth;
            return;
        }
        let capacity = self.capacity >> self.shift;
        if size > capacity {
            return;
        }
        let short = shadow.used.saturating_add(size).saturating_sub(capacity);
        if short > 0 && !shadow.ranking.accept(class, short) {
            return;
        }
        while self.shadows[number].used > capacity - size {
            let Some(victim) = self.shadows[number].ranking.pop() else { break };
            self.shadows[number].used -= self.objects[victim.index()].size;
            self.drop_holder(victim, 1 << number);
        }
        let shadow = &mut self.shadows[number];
        shadow.ranking.push(slot, Stored { size, class, ..Stored::default() });
        shadow.used += size;
        self.objects[slot.index()].holders |= 1 << number;
    }

    fn remember(&mut self, id: u64, size: u64) -> Slot {
        let object = Object { id, size, holders: 0 };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.objects.push(object);
            Slot::new((self.objects.len() - 1) as u32)
        });
        self.objects[slot.index()] = object;
        self.index.insert(id, slot);
        slot
    }

    /// `holder` has `slot` no longer, and where it was the last, nobody does.
    fn drop_holder(&mut self, slot: Slot, holder: u8) {
        let object = &mut self.objects[slot.index()];
        let had = object.holders & holder != 0;
        object.holders &= !holder;
        if had && object.holders == 0 {
            self.index.remove(object.id, slot);
            self.free.push(slot);
        }
    }

    /// A cumulative sum test (Page, Biometrika 1954): small leads must last, large ones decide at once. Unless following has lost.
    fn decide(&mut self) -> Option<f64> {
        let reference = self.shadows[self.current].score + DRIFT * self.weight;
        let mean = self.weight / f64::from(self.sampled);
        for shadow in &mut self.shadows {
            shadow.lead = (shadow.lead + (shadow.score - reference) / mean).max(0.0);
            shadow.loss = shadow.loss * MEMORY + (shadow.score - self.score) / mean;
            shadow.score = 0.0;
        }
        self.sampled = 0;
        self.weight = 0.0;
        self.score = 0.0;
        self.asked = (self.asked * TRUST).max(LEAD);
        let (best, loss) = self.most(|shadow| shadow.loss)?;
        if loss > LOSS {
            self.asked = (self.asked * CAUTION).min(MOST_LEAD);
            self.shadows.iter_mut().for_each(|shadow| shadow.loss = 0.0);
            return self.change_to(best);
        }
        let (best, lead) = self.most(|shadow| shadow.lead)?;
        if lead > self.asked { self.change_to(best) } else { None }
    }

    /// The shadow with the most of something, and how much it has.
    fn most(&self, of: impl Fn(&Shadow) -> f64) -> Option<(usize, f64)> {
        self.shadows.iter().map(of).enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The power of the rung `rung`, if it is another.
    fn change_to(&mut self, rung: usize) -> Option<f64> {
        if rung == self.current {
            return None;
        }
        self.current = rung;
        self.shadows.iter_mut().for_each(|shadow| shadow.lead = 0.0);
        Some(self.powers[rung])
    }

    /// Empty shadows.
    fn restart(&mut self) {
        self.shadows = self.powers.iter().map(|power| Shadow::new(*power)).collect();
        self.index = SlotIndex::default();
        self.objects.clear();
        self.free.clear();
        self.waiting.clear();
        self.sampled = 0;
        self.weight = 0.0;
        self.score = 0.0;
    }
}

impl Shadow {
    fn new(power: f64) -> Self {
        Shadow { ranking: Ranking::new(power), used: 0, score: 0.0, lead: 0.0, loss: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_large_objects_are_sampled_as_many_small_ones_were() {
        let mut tuner = Tuner::new(&[1.0, 2.0], 0, 1.0, 1 << 30);
        let mut shift_beside = |objects: usize| {
            (0..200_000).for_each(|id| _ = tuner.request(id, 1000, 140, false, objects));
            tuner.shift
        };
        assert_eq!(shift_beside(1_000_000), 8, "3,906 objects a shadow");
        assert_eq!(shift_beside(200_000), 8, "781 are enough, and a restart is dear");
        assert_eq!(shift_beside(100_000), 7);
        assert_eq!(shift_beside(100), AGD_LEAST_SAMPLE_SHIFT);
    }

    #[test]
    fn whoever_loses_by_following_follows_on() {
        let mut tuner = Tuner::new(&[0.0, 2.0], 1, 1.0, 8 << AGD_LEAST_SAMPLE_SHIFT);
        let sampled = (0..).filter(|id| mix(*id).is_multiple_of(1 << AGD_LEAST_SAMPLE_SHIFT));
        let few: Vec<u64> = sampled.take(4).collect();
        // The shadows have all of them, the cache has none: 508 hits lost at the first decision, 512 at the next.
        let mut decide = |hit: bool| {
            let requests = few.iter().cycle().take(DECISION as usize);
            requests.for_each(|id| _ = tuner.request(*id, 1, 160, hit, 0));
            tuner.asked
        };
        assert_eq!([false, false].map(&mut decide), [LEAD, CAUTION * LEAD]);
        let trusted = [true; 400].map(&mut decide);
        assert!(trusted[0] < CAUTION * LEAD && trusted[1] < trusted[0], "it fades");
        assert!(trusted[399] < CAUTION * LEAD / 2.0 && trusted[399] > LEAD, "{}", trusted[399]);
        (0..100).for_each(|_| _ = decide(false));
        assert!(decide(false) <= MOST_LEAD);
    }
}
