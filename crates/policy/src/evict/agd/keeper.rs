//! One cache's worth of the policy with a fixed power: what is stored, in which order it leaves, and what is remembered of the rest.
//! The policy runs one for the cache, and small ones as its shadows.

use super::history::History;
use super::ranking::{Ranking, Stored, class_of};
use crate::Slot;
use crate::limits::{AGD_HALF_LIFE_TURNS, AGD_MIN_TURN};

pub(super) struct Keeper {
    pub ranking: Ranking,
    history: History,
    /// κ: how much size counts.
    size_exponent: f32,
    /// Requests since the counts were last halved.
    requests: usize,
    /// Halvings so far.
    era: u16,
}

impl Keeper {
    pub fn new(power: f64, size_exponent: f32) -> Self {
        Keeper { ranking: Ranking::new(power), history: History::new(), size_exponent, requests: 0, era: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.ranking.bytes() + self.history.bytes()
    }

    pub fn id(&self, slot: Slot) -> u64 {
        self.ranking.stored(slot).id
    }

    pub fn on_hit(&mut self, slot: Slot) {
        self.fade();
        let stored = self.ranking.stored(slot);
        let count = faded(stored, self.era) + 1.0;
        let class = class_of(log2(count) - self.weight(stored.size));
        self.ranking.touch(slot, count, self.era, class);
    }

    pub fn on_miss(&mut self, id: u64) {
        self.fade();
        self.history.count(id);
    }

    /// Is it worth more than what must leave for `short` bytes?
    pub fn accept(&mut self, id: u64, size: u64, short: u64) -> bool {
        if short == 0 {
            return true;
        }
        let class = class_of(log2(self.known(id)) - self.weight(size));
        let outlasts = self.ranking.outlasts(class, short);
        if !outlasts {
            self.ranking.refuse();
        }
        outlasts
    }

    pub fn on_insert(&mut self, slot: Slot, id: u64, size: u64) {
        let count = self.known(id);
        let class = class_of(log2(count) - self.weight(size));
        self.ranking.push(slot, Stored { id, size, count, era: self.era, class, ..Stored::default() });
        self.history.grow(self.ranking.len());
    }

    pub fn victim(&mut self) -> Option<Slot> {
        let slot = self.ranking.pop()?;
        let stored = self.ranking.stored(slot);
        // Saturates at 255: who was requested that often is let in again at once.
        self.history.raise(stored.id, faded(stored, self.era).round() as u8);
        if let Some(next) = self.ranking.first() {
            self.history.prefetch(self.ranking.stored(next).id);
        }
        Some(slot)
    }

    /// As [`crate::traits::Evict::prefetch`].
    #[inline]
    pub fn prefetch(&self, id: u64, slot: Option<Slot>) {
        match slot {
            Some(slot) => self.ranking.prefetch(slot),
            None => self.history.prefetch(id),
        }
    }

    /// Requests of an object that is not stored, this one included.
    fn known(&self, id: u64) -> f32 {
        f32::from(self.history.estimate(id).max(1))
    }

    fn weight(&self, size: u64) -> f32 {
        self.size_exponent * log2(size as f32)
    }

    /// Halves all counts once the cache was asked [`AGD_HALF_LIFE_TURNS`] times as often as it has objects, or the history is full.
    fn fade(&mut self) {
        self.requests += 1;
        let turn = self.ranking.len().max(AGD_MIN_TURN);
        if self.requests >= AGD_HALF_LIFE_TURNS * turn || self.history.is_full() {
            self.requests = 0;
            self.era = self.era.wrapping_add(1);
            self.history.halve();
        }
    }
}

/// The count as of `era`.
fn faded(stored: &Stored, era: u16) -> f32 {
    match era.wrapping_sub(stored.era) {
        0 => stored.count,
        eras => stored.count * (-f32::from(eras)).exp2(),
    }
}

/// log2 to 0.09: the exponent and the mantissa of a positive float as they stand. Classes are wider.
fn log2(value: f32) -> f32 {
    value.to_bits() as f32 / (1 << 23) as f32 - 127.0
}
