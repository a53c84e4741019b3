//! The stored objects in no order, to draw samples from. O(1) a call; 8 bytes an object.

use crate::Slot;
use crate::prefetch::prefetch;
use larder_units::Stream;

/// Loads under way: what a core has room for, more or less.
const AT_ONCE: usize = 32;

#[derive(Default)]
pub(crate) struct Pool {
    slots: Vec<Slot>,
    /// Where each slot stands in `slots`, by slot.
    places: Vec<u32>,
}

impl Pool {
    pub fn insert(&mut self, slot: Slot) {
        if slot.index() >= self.places.len() {
            self.places.resize(slot.index() + 1, 0);
        }
        self.places[slot.index()] = self.slots.len() as u32;
        self.slots.push(slot);
    }

    pub fn remove(&mut self, slot: Slot) {
        let place = self.places[slot.index()];
        self.slots.swap_remove(place as usize);
        if let Some(moved) = self.slots.get(place as usize) {
            self.places[moved.index()] = place;
        }
    }

    /// Calls `see` with `count` slots drawn with replacement, or with each slot once where there are no more than that. `see` will read the
    /// slot's place in `table`, which is loaded for as many as can be under way at once.
    pub fn sample<T>(&self, count: usize, stream: &mut Stream, table: &[T], mut see: impl FnMut(Slot)) {
        if self.slots.len() <= count {
            self.slots.iter().for_each(|slot| see(*slot));
        } else {
            for start in (0..count).step_by(AT_ONCE) {
                let mut places = [0; AT_ONCE];
                let places = &mut places[..AT_ONCE.min(count - start)];
                for place in &mut *places {
                    *place = stream.below(self.slots.len() as u64) as usize;
                    prefetch(&self.slots, *place);
                }
                places.iter().for_each(|place| prefetch(table, self.slots[*place].index()));
                places.iter().for_each(|place| see(self.slots[*place]));
            }
        }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.places.capacity() * size_of::<u32>()
    }
}
