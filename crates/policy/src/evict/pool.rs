//! The stored objects in no order, to draw samples from. O(1) a call; 8 bytes an object.

use crate::Slot;
use larder_units::Stream;

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

    /// Calls `see` with `count` slots drawn with replacement, or with each slot once where there are no more than that.
    pub fn sample(&self, count: usize, stream: &mut Stream, mut see: impl FnMut(Slot)) {
        if self.slots.len() <= count {
            self.slots.iter().for_each(|slot| see(*slot));
        } else {
            (0..count).for_each(|_| see(self.slots[stream.below(self.slots.len() as u64) as usize]));
        }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.places.capacity() * size_of::<u32>()
    }
}
