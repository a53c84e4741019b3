//! An index from ids to slots, for owners that store the ids beside the slots: 8 bytes a position,
//! one cache line per lookup, and a prefetch for lookups ([`SlotIndex::prefetch`]).
//!
//! Buckets of eight positions, each a line of the processor's cache. An entry that finds its bucket
//! full goes to the next one that is not (Knuth, TAOCP vol. 3, 6.4, open addressing with buckets).
//! A removal moves such entries back, so there are no tombstones, and lookups never become slower.
//! A position holds a slot and 32 bits of its id's hash, whose high bits select the home bucket. So
//! neither a search nor growth reads an id; the owner compares the whole id once, in memory that a
//! hit reads anyway. The eight positions are compared at once, because the processor cannot predict
//! at which position a search would end. Buckets are at most three quarters full: 11 to 21 bytes an
//! entry.
//!
//! It is no defence against chosen ids, see [`mix`], unless they are keyed hashes
//! ([`KeyedHashes`]).

use crate::Slot;
use crate::hash::mix;
use crate::prefetch::{grow, prefetch};
use std::marker::PhantomData;

/// Maps ids to slots. The owner knows the id of each slot.
#[derive(Clone, Debug)]
pub struct SlotIndex<I: Ids = AnyIds> {
    /// Their number is a power of two.
    buckets: Vec<Bucket>,
    len: usize,
    ids: PhantomData<I>,
}

/// The kind of ids in an index.
pub trait Ids {
    /// Returns a hash of the id whose high bits are uniform.
    fn hash(id: u64) -> u64;
}

/// Ids with any distribution: the numbers of a trace's objects.
#[derive(Clone, Copy, Debug)]
pub struct AnyIds;

impl Ids for AnyIds {
    #[inline]
    fn hash(id: u64) -> u64 {
        mix(id)
    }
}

/// Ids that are uniform hashes already, with a secret key.
#[derive(Clone, Copy, Debug)]
pub struct KeyedHashes;

impl Ids for KeyedHashes {
    #[inline]
    fn hash(id: u64) -> u64 {
        id
    }
}

/// Entries fill the positions from the beginning.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u32; PLACES],
    slots: [u32; PLACES],
}

const PLACES: usize = 8;

/// Marks an empty position. No slot has this number.
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

    /// Adds an entry. Returns false if the bucket is full.
    #[inline]
    fn push(&mut self, tag: u32, slot: u32) -> bool {
        let place = self.len();
        if place < PLACES {
            self.tags[place] = tag;
            self.slots[place] = slot;
        }
        place < PLACES
    }

    /// Removes the entry at `place`. The last one takes its position.
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
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Begins to load the memory that a lookup of `id` reads.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        // Without buckets the home is 0, and nothing is loaded.
        prefetch(&self.buckets, self.home(Self::tag(id)));
    }

    /// Returns the probable slot of `id`, as a hint for prefetches.
    #[inline]
    pub fn guess(&self, id: u64) -> Option<Slot> {
        self.find(id, |_| true)
    }

    /// Returns the slot of `id` for which `is` returns true.
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

    /// Adds `id` with a slot that it does not have yet. An id may have several slots;
    /// [`SlotIndex::find`] tries them all.
    #[inline]
    pub fn insert(&mut self, id: u64, slot: Slot) {
        if (self.len + 1) * 4 > self.buckets.len() * (3 * PLACES) {
            self.grow();
        }
        self.put(Self::tag(id), slot.raw());
        self.len += 1;
    }

    /// Removes the entry of `id` with `slot`. Returns false if there is none.
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

    /// Fills the gap in the bucket `gap`, which was full: an entry that had to pass this bucket
    /// moves back, if there is one, and leaves a gap itself.
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
            // The loop ends at the gap itself at the latest, because the gap is not full.
            if !was_full {
                return;
            }
        }
    }

    /// Removes all entries. The memory is kept.
    pub fn clear(&mut self) {
        self.buckets.fill(Bucket::NEW);
        self.len = 0;
    }

    /// Returns the bytes of heap.
    pub fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Entries in the order of their tags are in the order of their home buckets, so growth reads
    /// and writes both tables from end to end.
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
        // The product fits for up to 2^32 buckets.
        ((u64::from(tag) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.buckets.len() - 1)
    }
}

/// Returns a bit for each position that has `value`.
#[inline]
#[allow(unsafe_code)] // measured: FIFO's replay of Zipf 0.8 over 1e7 objects takes a fifth to a third less time than with a search place by place
fn equal(places: &[u32; PLACES], value: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        let [a, b, c, d, e, f, g, h] = places.map(u32::cast_signed);
        // SAFETY: the code accesses no memory by address, and SSE2 is part of x86-64.
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

/// Returns the indexes of the bits that are set, from the lowest.
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

    /// Compares with a map. Operations 0 and 1 insert and remove the n-th of `ids`.
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

        /// Many ids have one home bucket, or the one beside it. So buckets fill up, and further
        /// entries go to the next bucket, also from the last to the first.
        #[test]
        fn an_entry_is_lost_that_had_to_go_on(steps in proptest::collection::vec((0u8..2, 0usize..60), 0..500)) {
            let homes = [0, u64::MAX << 32, 0xefff_ffff << 32, 0x8000_0000 << 32, 1 << 32];
            let ids: Vec<u64> = (0..60).map(|nth| homes[nth as usize % 7 % 5] + nth).collect();
            compare::<KeyedHashes>(&ids, &steps)?;
        }
    }
}
