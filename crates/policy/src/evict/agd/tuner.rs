//! Which power suits the traffic: small shadow caches, one for each, that see a sample of the objects.
//!
//! A sample is all requests of some objects (those whose hash ends in zeros), and a shadow has the same share of the capacity: so it behaves
//! as the whole cache does (Waldspurger et al., SHARDS, FAST 2015; Cache Modeling and Optimization using Miniature Simulations, ATC 2017).
//! All shadows see the same requests, so that the difference between two is far less noisy than the hit ratio of either.

use super::keeper::Keeper;
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
    powers: &'static [f64],
    size_exponent: f32,
    current: usize,
    capacity: u64,
    /// Objects whose hash ends in this many zero bits are sampled.
    shift: u32,
    sampled: u32,
    /// What a shadow that hits always would have scored.
    weight: f64,
}

struct Shadow {
    keeper: Keeper,
    index: SlotIndex,
    sizes: Vec<u64>,
    free: Vec<Slot>,
    used: u64,
    /// What its hits were worth since the last decision.
    score: f64,
    /// By how many mean hits it leads the power in use.
    lead: f64,
}

impl Tuner {
    pub fn new(powers: &'static [f64], start: usize, size_exponent: f32, capacity: u64) -> Self {
        let mut tuner = Tuner {
            shadows: Vec::new(),
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
        let one = |s: &Shadow| {
            s.keeper.bytes()
                + s.index.bytes()
                + s.sizes.capacity() * size_of::<u64>()
                + s.free.capacity() * size_of::<Slot>()
        };
        self.shadows.iter().map(one).sum()
    }

    pub fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.restart();
    }

    /// A request, while `objects` are stored; the power to go to, if it is another.
    #[inline]
    pub fn request(&mut self, id: u64, size: u64, objects: usize) -> Option<f64> {
        if mix(id) << (64 - self.shift) != 0 {
            return None;
        }
        self.sample(id, size, objects)
    }

    fn sample(&mut self, id: u64, size: u64, objects: usize) -> Option<f64> {
        if objects >> self.shift > 2 * AGD_SHADOW_OBJECTS {
            self.shift += 1;
            self.restart();
            return None;
        }
        // Traffic of larger objects: a handful of them would decide by chance.
        if objects >> self.shift < AGD_SHADOW_OBJECTS / 4 && self.shift > AGD_LEAST_SAMPLE_SHIFT {
            self.shift -= 1;
            self.restart();
            return None;
        }
        let worth = (size as f64).powf(1.0 - f64::from(self.size_exponent));
        let share = self.capacity >> self.shift;
        for shadow in &mut self.shadows {
            if shadow.request(id, size, share) {
                shadow.score += worth;
            }
        }
        self.weight += worth;
        self.sampled += 1;
        if self.sampled < DECISION { None } else { self.decide() }
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
        self.shadows = self.powers.iter().map(|power| Shadow::new(*power, self.size_exponent)).collect();
        self.sampled = 0;
        self.weight = 0.0;
    }
}

impl Shadow {
    fn new(power: f64, size_exponent: f32) -> Self {
        Shadow {
            keeper: Keeper::new(power, size_exponent),
            index: SlotIndex::default(),
            sizes: Vec::new(),
            free: Vec::new(),
            used: 0,
            score: 0.0,
            lead: 0.0,
        }
    }

    /// One request through a whole little cache; true at a hit.
    fn request(&mut self, id: u64, size: u64, capacity: u64) -> bool {
        if let Some(slot) = self.index.find(id, |slot| self.keeper.id(slot) == id) {
            self.keeper.on_hit(slot);
            return true;
        }
        self.keeper.on_miss(id);
        let short = self.used.saturating_add(size).saturating_sub(capacity);
        if size > capacity || !self.keeper.accept(id, size, short) {
            return false;
        }
        while self.used > capacity - size {
            let Some(victim) = self.keeper.victim() else { break };
            self.forget(victim);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.sizes.push(0);
            Slot::new((self.sizes.len() - 1) as u32)
        });
        self.sizes[slot.index()] = size;
        self.used += size;
        self.keeper.on_insert(slot, id, size);
        self.index.insert(id, slot);
        false
    }

    fn forget(&mut self, slot: Slot) {
        self.index.remove(self.keeper.id(slot), slot);
        self.used -= self.sizes[slot.index()];
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_large_objects_are_sampled_as_many_small_ones_were() {
        let mut tuner = Tuner::new(&[1.0, 2.0], 0, 1.0, 1 << 30);
        let mut shift_beside = |objects: usize| {
            (0..200_000).for_each(|id| _ = tuner.request(id, 1000, objects));
            tuner.shift
        };
        assert_eq!(shift_beside(1_000_000), 9, "1,953 objects a shadow");
        assert_eq!(shift_beside(200_000), 9, "390 are enough, and a restart is dear");
        assert_eq!(shift_beside(100_000), 8);
        assert_eq!(shift_beside(100), AGD_LEAST_SAMPLE_SHIFT);
    }
}
