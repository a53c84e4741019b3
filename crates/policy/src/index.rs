//! An index from ids to slots for those who have the ids beside the slots already: 8 bytes a place, one cache line a look, and a look that
//! can be announced ([`SlotIndex::prefetch`]).
//!
//! Open addressing with linear probing and backward shifts (Knuth, TAOCP vol. 3, 6.4, algorithm R): no tombstones, so it never slows down.
//! An entry holds a slot and 32 bits of its id's hash, whose high bits are its home: so neither a search nor growth reads an id,
//! and the owner compares the whole id once, in memory that a hit reads anyway. At most three quarters full: 11 to 21 bytes an entry.
//!
//! No defence against chosen ids, see [`mix`], unless they are hashes under a key ([`KeyedHashes`]).

use crate::Slot;
use crate::hash::mix;
use crate::prefetch::{grow, prefetch};
use std::marker::PhantomData;

/// Which slot an id has. The owner knows the id of each slot.
#[derive(Clone, Debug)]
pub struct SlotIndex<I: Ids = AnyIds> {
    /// The tag in the high half, the slot in the low one; a power of two of them.
    entries: Vec<u64>,
    len: usize,
    ids: PhantomData<I>,
}

/// What the ids of an index are.
pub trait Ids {
    /// A hash of the id, whose high bits are uniform.
    fn hash(id: u64) -> u64;
}

/// Ids that may be in any order: the numbers of a trace's objects.
#[derive(Clone, Copy, Debug)]
pub struct AnyIds;

impl Ids for AnyIds {
    #[inline]
    fn hash(id: u64) -> u64 {
        mix(id)
    }
}

/// Ids that are uniform hashes already, under a key that nobody outside knows.
#[derive(Clone, Copy, Debug)]
pub struct KeyedHashes;

impl Ids for KeyedHashes {
    #[inline]
    fn hash(id: u64) -> u64 {
        id
    }
}

/// No slot has this number.
const EMPTY: u64 = u64::MAX;

const MIN_ENTRIES: usize = 16;

impl<I: Ids> Default for SlotIndex<I> {
    fn default() -> Self {
        SlotIndex { entries: Vec::new(), len: 0, ids: PhantomData }
    }
}

impl<I: Ids> SlotIndex<I> {
    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Begins to load what a look for `id` will read.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        if !self.entries.is_empty() {
            prefetch(&self.entries, self.home(Self::tag(id)));
        }
    }

    /// A slot that is probably that of `id`: to be told what will be needed, not to be believed.
    #[inline]
    pub fn guess(&self, id: u64) -> Option<Slot> {
        self.find(id, |_| true)
    }

    /// The slot of `id`, which `is` recognises.
    #[inline]
    pub fn find(&self, id: u64, mut is: impl FnMut(Slot) -> bool) -> Option<Slot> {
        if self.entries.is_empty() {
            return None;
        }
        let tag = Self::tag(id);
        let mut place = self.home(tag);
        loop {
            match self.entries[place] {
                EMPTY => return None,
                entry if entry >> 32 == tag && is(slot(entry)) => return Some(slot(entry)),
                _ => place = self.after(place),
            }
        }
    }

    /// Adds `id` with a slot that it does not have yet. It may have others: [`SlotIndex::find`] offers them all.
    #[inline]
    pub fn insert(&mut self, id: u64, slot: Slot) {
        if (self.len + 1) * 4 > self.entries.len() * 3 {
            self.grow();
        }
        self.put(Self::tag(id) << 32 | u64::from(slot.raw()));
        self.len += 1;
    }

    /// Removes the entry of `id` with `slot`; false where there is none.
    #[inline]
    pub fn remove(&mut self, id: u64, slot: Slot) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let sought = Self::tag(id) << 32 | u64::from(slot.raw());
        let mut gap = self.home(sought >> 32);
        while self.entries[gap] != sought {
            if self.entries[gap] == EMPTY {
                return false;
            }
            gap = self.after(gap);
        }
        self.len -= 1;
        let mut place = gap;
        loop {
            place = self.after(place);
            let entry = self.entries[place];
            if entry == EMPTY {
                self.entries[gap] = EMPTY;
                return true;
            }
            // It may move to the gap unless its home lies behind the gap.
            let from_home = place.wrapping_sub(self.home(entry >> 32)) & (self.entries.len() - 1);
            if from_home >= (place.wrapping_sub(gap) & (self.entries.len() - 1)) {
                self.entries[gap] = entry;
                gap = place;
            }
        }
    }

    /// Removes all entries; their memory is kept for others.
    pub fn clear(&mut self) {
        self.entries.fill(EMPTY);
        self.len = 0;
    }

    /// Bytes of heap.
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u64>()
    }

    /// Tags in order have homes in order, so that growth passes both tables from end to end.
    fn grow(&mut self) {
        let length = (self.entries.len() * 2).max(MIN_ENTRIES);
        let mut entries = Vec::new();
        grow(&mut entries, length);
        entries.resize(length, EMPTY);
        let old = std::mem::replace(&mut self.entries, entries);
        old.into_iter().filter(|entry| *entry != EMPTY).for_each(|entry| self.put(entry));
    }

    #[inline]
    fn put(&mut self, entry: u64) {
        let mut place = self.home(entry >> 32);
        while self.entries[place] != EMPTY {
            place = self.after(place);
        }
        self.entries[place] = entry;
    }

    #[inline]
    fn tag(id: u64) -> u64 {
        I::hash(id) >> 32
    }

    #[inline]
    fn home(&self, tag: u64) -> usize {
        // Up to 2^32 places the product fits; beyond, all homes are in the lower half, and the probing finds the rest.
        (tag.wrapping_mul(self.entries.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.entries.len() - 1)
    }
}

#[inline]
fn slot(entry: u64) -> Slot {
    Slot::new(entry as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn an_entry_is_lost(steps in proptest::collection::vec((0u8..2, 0u64..60), 0..500)) {
            let (mut index, mut model) = (SlotIndex::<AnyIds>::default(), HashMap::<u64, u32>::new());
            let mut ids = Vec::new();
            for (operation, id) in steps {
                let slot = model.get(&id).copied();
                match (operation, slot) {
                    (0, None) => {
                        let slot = ids.len() as u32;
                        ids.push(id);
                        index.insert(id, Slot::new(slot));
                        model.insert(id, slot);
                    }
                    (1, Some(slot)) => {
                        prop_assert!(index.remove(id, Slot::new(slot)));
                        prop_assert!(!index.remove(id, Slot::new(slot)));
                        model.remove(&id);
                    }
                    _ => {}
                }
                prop_assert_eq!(index.len(), model.len());
                for id in 0..60 {
                    let found = index.find(id, |slot| ids[slot.index()] == id);
                    prop_assert_eq!(found.map(Slot::raw), model.get(&id).copied());
                }
            }
        }
    }
}
