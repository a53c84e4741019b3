//! An index from ids to slots for those who have the ids beside the slots already: 8 bytes a place,
//! one cache line a look, and a look that can be announced ([`SlotIndex::prefetch`]).
//!
//! Buckets of eight places, each a line of the processor's cache; what finds its bucket full goes
//! to the next one that is not (Knuth, TAOCP vol. 3, 6.4, open addressing with buckets). A removal
//! takes back what had to go on, so there are no tombstones, and it never slows down. A place holds
//! a slot and 32 bits of its id's hash, whose high bits are its home: so neither a search nor
//! growth reads an id, and the owner compares the whole id once, in memory that a hit reads anyway.
//! The eight are compared at once: a search place by place ends where the processor cannot
//! foretell. At most three quarters full: 11 to 21 bytes an entry.
//!
//! No defence against chosen ids, see [`mix`], unless they are hashes under a key
//! ([`KeyedHashes`]).

use crate::Slot;
use crate::hash::mix;
use crate::prefetch::{grow, prefetch};
use std::marker::PhantomData;

/// Which slot an id has. The owner knows the id of each slot.
#[derive(Clone, Debug)]
pub struct SlotIndex<I: Ids = AnyIds> {
    /// A power of two of them.
    buckets: Vec<Bucket>,
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

/// Places whose entries stand at the beginning.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u32; PLACES],
    slots: [u32; PLACES],
}

const PLACES: usize = 8;

/// No slot has this number.
const EMPTY: u32 = u32::MAX;

const MIN_BUCKETS: usize = 2;

impl Bucket {
    const NEW: Bucket = Bucket {
        tags: [0; PLACES],
        slots: [EMPTY; PLACES],
    };

    #[inline]
    fn len(&self) -> usize {
        (equal(&self.slots, EMPTY) | 1 << PLACES).trailing_zeros() as usize
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.slots[PLACES - 1] != EMPTY
    }

    /// Adds an entry, if there is a place.
    #[inline]
    fn push(&mut self, tag: u32, slot: u32) -> bool {
        let place = self.len();
        if place < PLACES {
            self.tags[place] = tag;
            self.slots[place] = slot;
        }
        place < PLACES
    }

    /// Takes the entry at `place` out; the last one takes its place.
    #[inline]
    fn take(&mut self, place: usize) -> (u32, u32) {
        let last = self.len() - 1;
        let entry = (self.tags[place], self.slots[place]);
        self.tags[place] = self.tags[last];
        self.slots[place] = self.slots[last];
        self.slots[last] = EMPTY;
        entry
    }
}

impl<I: Ids> Default for SlotIndex<I> {
    fn default() -> Self {
        SlotIndex {
            buckets: Vec::new(),
            len: 0,
            ids: PhantomData,
        }
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
        // Of no buckets the home is 0, and nothing is there to be loaded.
        prefetch(&self.buckets, self.home(Self::tag(id)));
    }

    /// A slot that is probably that of `id`: to be told what will be needed, not to be believed.
    #[inline]
    pub fn guess(&self, id: u64) -> Option<Slot> {
        self.find(id, |_| true)
    }

    /// The slot of `id`, which `is` recognises.
    #[inline]
    pub fn find(&self, id: u64, mut is: impl FnMut(Slot) -> bool) -> Option<Slot> {
        let tag = Self::tag(id);
        let mut at = self.home(tag);
        loop {
            let bucket = self.buckets.get(at)?;
            for place in bits(equal(&bucket.tags, tag)) {
                let slot = bucket.slots[place];
                if slot != EMPTY && is(Slot::new(slot)) {
                    return Some(Slot::new(slot));
                }
            }
            if !bucket.is_full() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Adds `id` with a slot that it does not have yet. It may have others: [`SlotIndex::find`]
    /// offers them all.
    #[inline]
    pub fn insert(&mut self, id: u64, slot: Slot) {
        if (self.len + 1) * 4 > self.buckets.len() * (3 * PLACES) {
            self.grow();
        }
        self.put(Self::tag(id), slot.raw());
        self.len += 1;
    }

    /// Removes the entry of `id` with `slot`; false where there is none.
    #[inline]
    pub fn remove(&mut self, id: u64, slot: Slot) -> bool {
        let tag = Self::tag(id);
        let mut at = self.home(tag);
        loop {
            let Some(bucket) = self.buckets.get_mut(at) else {
                return false;
            };
            let was_full = bucket.is_full();
            let found = equal(&bucket.slots, slot.raw()) & equal(&bucket.tags, tag);
            if found != 0 {
                bucket.take(found.trailing_zeros() as usize);
                self.len -= 1;
                if was_full {
                    self.take_back(at);
                }
                return true;
            }
            if !was_full {
                return false;
            }
            at = self.after(at);
        }
    }

    /// The bucket `gap` was full and is not any more: an entry that had to pass it comes back, if
    /// there is one, and leaves a gap itself.
    #[cold]
    fn take_back(&mut self, mut gap: usize) {
        let mut at = gap;
        loop {
            at = self.after(at);
            let bucket = &self.buckets[at];
            let was_full = bucket.is_full();
            let distance = at.wrapping_sub(gap) & (self.buckets.len() - 1);
            let passed_gap = |place: &usize| {
                let from_home =
                    at.wrapping_sub(self.home(bucket.tags[*place])) & (self.buckets.len() - 1);
                bucket.slots[*place] != EMPTY && from_home >= distance
            };
            if let Some(place) = (0..PLACES).find(passed_gap) {
                let (tag, slot) = self.buckets[at].take(place);
                self.buckets[gap].push(tag, slot);
                gap = at;
            }
            // So is the gap itself not, where all others are.
            if !was_full {
                return;
            }
        }
    }

    /// Removes all entries; their memory is kept for others.
    pub fn clear(&mut self) {
        self.buckets.fill(Bucket::NEW);
        self.len = 0;
    }

    /// Bytes of heap.
    pub fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Tags in order have homes in order, so that growth passes both tables from end to end.
    #[cold]
    fn grow(&mut self) {
        let length = (self.buckets.len() * 2).max(MIN_BUCKETS);
        let mut buckets = Vec::new();
        grow(&mut buckets, length);
        buckets.resize(length, Bucket::NEW);
        for old in std::mem::replace(&mut self.buckets, buckets) {
            let entries = old.tags.into_iter().zip(old.slots);
            for (tag, slot) in entries.filter(|(_, slot)| *slot != EMPTY) {
                self.put(tag, slot);
            }
        }
    }

    #[inline]
    fn put(&mut self, tag: u32, slot: u32) {
        let mut at = self.home(tag);
        while !self.buckets[at].push(tag, slot) {
            at = self.after(at);
        }
    }

    #[inline]
    fn tag(id: u64) -> u32 {
        (I::hash(id) >> 32) as u32
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        // Up to 2^32 buckets the product fits.
        ((u64::from(tag) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.buckets.len() - 1)
    }
}

/// A bit for each place that has `value`.
#[inline]
#[allow(unsafe_code)] // measured: FIFO's replay of Zipf 0.8 over 1e7 objects takes a fifth to a third less time than with a search place by place
fn equal(places: &[u32; PLACES], value: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        let [a, b, c, d, e, f, g, h] = places.map(u32::cast_signed);
        // SAFETY: no address is touched, and SSE2 is part of x86-64.
        unsafe {
            let value = _mm_set1_epi32(value.cast_signed());
            let low = _mm_cmpeq_epi32(_mm_set_epi32(d, c, b, a), value);
            let high = _mm_cmpeq_epi32(_mm_set_epi32(h, g, f, e), value);
            let words = _mm_packs_epi32(low, high);
            (_mm_movemask_epi8(_mm_packs_epi16(words, words)) & 0xff) as u32
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    (0..PLACES).fold(0, |equal, place| {
        equal | u32::from(places[place] == value) << place
    })
}

/// The numbers of the bits that are set, from the lowest.
#[inline]
fn bits(mut word: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Beside a map: operations 0 and 1 insert and remove the n-th of `ids`.
    fn compare<I: Ids>(ids: &[u64], steps: &[(u8, usize)]) -> Result<(), TestCaseError> {
        let (mut index, mut model) = (SlotIndex::<I>::default(), HashMap::<u64, u32>::new());
        let mut stored = Vec::new();
        for (operation, nth) in steps {
            let id = ids[nth % ids.len()];
            match (operation, model.get(&id).copied()) {
                (0, None) => {
                    let slot = stored.len() as u32;
                    stored.push(id);
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
            for id in ids {
                let found = index.find(*id, |slot| stored[slot.index()] == *id);
                prop_assert_eq!(found.map(Slot::raw), model.get(id).copied());
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn an_entry_is_lost(steps in proptest::collection::vec((0u8..2, 0usize..60), 0..500)) {
            compare::<AnyIds>(&(0..60).collect::<Vec<_>>(), &steps)?;
        }

        /// Many have one home, or the one beside it, so that buckets fill and what finds them full
        /// goes on, from the last to the first too.
        #[test]
        fn an_entry_is_lost_that_had_to_go_on(steps in proptest::collection::vec((0u8..2, 0usize..60), 0..500)) {
            let homes = [0, u64::MAX << 32, 0xefff_ffff << 32, 0x8000_0000 << 32, 1 << 32];
            let ids: Vec<u64> = (0..60).map(|nth| homes[nth as usize % 7 % 5] + nth).collect();
            compare::<KeyedHashes>(&ids, &steps)?;
        }
    }
}
