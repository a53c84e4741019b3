//! The slots that are in use, while most are not: after a cache became smaller, or its objects
//! larger.

use crate::Slot;

/// The slots are listed while less than one in this many is in use.
const SPARSE: usize = 4;

/// So many slots are never too many.
const FEW_SLOTS: usize = 256;

/// Returns true if so few slots are in use that a draw of any slot finds hardly an object.
pub(super) fn is_sparse(len: usize, slots: usize) -> bool {
    slots > FEW_SLOTS && len < slots / SPARSE
}

/// Returns true if so many slots are in use that a list is dear. Above the bound of
/// [`is_sparse`], so that the list does not come and go.
pub(super) fn is_dense(len: usize, slots: usize) -> bool {
    len > slots / 2
}

/// A list of slots, from which one is removed in constant time.
pub(super) struct Occupied {
    slots: Vec<Slot>,
    /// The place in the list, by slot.
    places: Vec<u32>,
}

impl Occupied {
    pub fn new(slots: impl Iterator<Item = Slot>) -> Self {
        let mut occupied = Occupied {
            slots: Vec::new(),
            places: Vec::new(),
        };
        slots.for_each(|slot| occupied.insert(slot));
        occupied
    }

    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.places.capacity() * size_of::<u32>()
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub fn insert(&mut self, slot: Slot) {
        if slot.index() >= self.places.len() {
            self.places.resize(slot.index() + 1, 0);
        }
        self.places[slot.index()] = self.slots.len() as u32;
        self.slots.push(slot);
    }

    /// Removes a slot of the list.
    pub fn remove(&mut self, slot: Slot) {
        let place = self.places[slot.index()];
        self.slots.swap_remove(place as usize);
        if let Some(moved) = self.slots.get(place as usize) {
            self.places[moved.index()] = place;
        }
    }
}
