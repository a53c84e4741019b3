//! Which power suits the traffic: small shadow caches, one for each, that see a sample of the objects.
//!
//! A sample is all requests of some objects (those whose hash ends in zeros), and a shadow has the same share of the capacity: so it behaves
//! as the whole cache does (Waldspurger et al., SHARDS, FAST 2015; Cache Modeling and Optimization using Miniature Simulations, ATC 2017).
//! All shadows see the same requests, so that the difference between two is far less noisy than the hit ratio of either.
//!
//! A shadow is an order of eviction and nothing else: an object's class is what the cache has just found, since how often it was asked for does not depend on
//! the power, and what any shadow stores stands once, in one index.

use super::ranking::{Ranking, Stored};
use crate::Slot;
use crate::hash::mix;
use crate::index::SlotIndex;
use crate::limits::{AGD_LEAST_SAMPLE_SHIFT, AGD_SHADOW_OBJECTS};

/// Sampled requests between two decisions.
const DECISION: u32 = 512;
/// A lead below this share of the requests is no reason to change.
const DRIFT: f64 = 0.0005;
/// Hits that a power must have had more than the one in use, its drift deducted, in sums that start anew where it falls behind.
const LEAD: f64 = 60.0;

pub(super) struct Tuner {
    shadows: Vec<Shadow>,
    /// What is in any shadow.
    index: SlotIndex,
    objects: Vec<Object>,
    free: Vec<Slot>,
    powers: &'static [f64],
    size_exponent: f64,
    current: usize,
    capacity: u64,
    /// Objects whose hash ends in this many zero bits are sampled.
    shift: u32,
    sampled: u32,
    /// What a shadow that hits always would have scored.
    weight: f64,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
    /// A bit for each shadow that stores it.
    holders: u8,
}

struct Shadow {
    ranking: Ranking,
    used: u64,
    /// What its hits were worth since the last decision.
    score: f64,
    /// By how many mean hits it leads the power in use.
    lead: f64,
}

impl Tuner {
    /// For at most eight `powers`.
    pub fn new(powers: &'static [f64], start: usize, size_exponent: f64, capacity: u64) -> Self {
        let mut tuner = Tuner {
            shadows: Vec::new(),
            index: SlotIndex::default(),
            objects: Vec::new(),
            free: Vec::new(),
            powers,
            size_exponent,
            current: start,
            capacity,
            shift: AGD_LEAST_SAMPLE_SHIFT,
            sampled: 0,
            weight: 0.0,
        };
        tuner.restart();
        tuner
    }

    pub fn bytes(&self) -> usize {
        let shared = self.index.bytes()
            + self.objects.capacity() * size_of::<Object>()
            + self.free.capacity() * size_of::<Slot>();
        shared + self.shadows.iter().map(|shadow| size_of::<Shadow>() + shadow.ranking.bytes()).sum::<usize>()
    }

    pub fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.restart();
    }

    /// A request for an object of `class`, while `stored` objects are in the cache; the power to go to, if it is another.
    #[inline]
    pub fn request(&mut self, id: u64, size: u64, class: u8, stored: usize) -> Option<f64> {
        if mix(id) << (64 - self.shift) != 0 {
            return None;
        }
        self.sample(id, size, class, stored)
    }

    /// Apart, so that the others pay for a hash and no more.
    #[inline(never)]
    fn sample(&mut self, id: u64, size: u64, class: u8, stored: usize) -> Option<f64> {
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
        let worth = (size as f64).powf(1.0 - self.size_exponent);
        self.simulate(id, size, class, worth);
        self.weight += worth;
        self.sampled += 1;
        if self.sampled < DECISION { None } else { self.decide() }
    }

    /// A request through every shadow.
    fn simulate(&mut self, id: u64, size: u64, class: u8, worth: f64) {
        let known = self.index.find(id, |slot| self.objects[slot.index()].id == id);
        let slot = known.unwrap_or_else(|| self.remember(id, size));
        // Its size as stored: the books of those who have it need that.
        let Object { size, holders, .. } = self.objects[slot.index()];
        for number in 0..self.shadows.len() {
            if holders & 1 << number == 0 {
                self.miss(number, slot, size, class);
            } else {
                let shadow = &mut self.shadows[number];
                shadow.ranking.touch(slot, |_| class);
                shadow.score += worth;
            }
        }
        self.forget_if_unheld(slot);
    }

    /// A request for `slot`, which the shadow `number` does not have.
    fn miss(&mut self, number: usize, slot: Slot, size: u64, class: u8) {
        let capacity = self.capacity >> self.shift;
        if size > capacity {
            return;
        }
        let short = self.shadows[number].used.saturating_add(size).saturating_sub(capacity);
        if short > 0 && !self.shadows[number].ranking.accept(class, short) {
            return;
        }
        while self.shadows[number].used > capacity - size {
            let Some(victim) = self.shadows[number].ranking.pop() else { break };
            let object = &mut self.objects[victim.index()];
            object.holders &= !(1 << number);
            self.shadows[number].used -= object.size;
            self.forget_if_unheld(victim);
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

    fn forget_if_unheld(&mut self, slot: Slot) {
        let Object { id, holders, .. } = self.objects[slot.index()];
        if holders == 0 {
            self.index.remove(id, slot);
            self.free.push(slot);
        }
    }

    /// A cumulative sum test (Page, Biometrika 1954): small leads must last, large ones decide at once.
    fn decide(&mut self) -> Option<f64> {
        let reference = self.shadows[self.current].score + DRIFT * self.weight;
        let mean = self.weight / f64::from(self.sampled);
        for shadow in &mut self.shadows {
            shadow.lead = (shadow.lead + (shadow.score - reference) / mean).max(0.0);
            shadow.score = 0.0;
        }
        self.sampled = 0;
        self.weight = 0.0;
        let leads = self.shadows.iter().map(|shadow| shadow.lead);
        let (best, lead) = leads.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (lead > LEAD).then(|| {
            self.current = best;
            self.shadows.iter_mut().for_each(|shadow| shadow.lead = 0.0);
            self.powers[best]
        })
    }

    /// Empty shadows.
    fn restart(&mut self) {
        self.shadows = self.powers.iter().map(|power| Shadow::new(*power)).collect();
        self.index = SlotIndex::default();
        self.objects.clear();
        self.free.clear();
        self.sampled = 0;
        self.weight = 0.0;
    }
}

impl Shadow {
    fn new(power: f64) -> Self {
        Shadow { ranking: Ranking::new(power), used: 0, score: 0.0, lead: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_large_objects_are_sampled_as_many_small_ones_were() {
        let mut tuner = Tuner::new(&[1.0, 2.0], 0, 1.0, 1 << 30);
        let mut shift_beside = |objects: usize| {
            (0..200_000).for_each(|id| _ = tuner.request(id, 1000, 140, objects));
            tuner.shift
        };
        assert_eq!(shift_beside(1_000_000), 8, "3,906 objects a shadow");
        assert_eq!(shift_beside(200_000), 8, "781 are enough, and a restart is dear");
        assert_eq!(shift_beside(100_000), 7);
        assert_eq!(shift_beside(100), AGD_LEAST_SAMPLE_SHIFT);
    }
}
