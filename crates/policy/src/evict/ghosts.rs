//! Ghosts: ids and sizes of evicted objects, in the order of their eviction. Both their number and
//! the sum of their sizes are bounded.
//!
//! The ghosts are in a ring, the newest at its end, the oldest at its beginning. So both ends are
//! in memory that was used recently, and no links are needed. A ghost that is removed between them
//! leaves a hole, which is skipped once it is the oldest. When the ring is full, it doubles, or, if
//! half of it are holes, is compacted.
//!
//! Each ghost may carry a note of its policy. O(1) a call, amortised; 16 to 32 bytes a ghost, twice
//! as much with many holes, 11 to 21 of the index, and the note.

use crate::Slot;
use crate::index::SlotIndex;
use crate::limits::MAX_GHOSTS;
use crate::prefetch::{grow, prefetch};

pub(crate) struct Ghosts<N = ()> {
    /// Its length is a power of two. The ghost of number n is at n modulo the length.
    ring: Vec<Ghost<N>>,
    /// The number of the oldest ghost, which is no hole.
    first: u32,
    /// The number of entries from the oldest to the newest, with holes.
    length: usize,
    /// Maps ids to numbers.
    index: SlotIndex,
    /// The sum of the sizes.
    bytes: u64,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Ghost<N> {
    pub id: u64,
    pub size: u64,
    pub note: N,
}

/// The size of a hole; no object can have it.
const HOLE: u64 = u64::MAX;

/// Numbers wrap at 2^31, far above the number of live ghosts. All of them are slots that an index
/// can hold.
const LAST_NUMBER: u32 = u32::MAX >> 1;

const MIN_RING: usize = 16;

/// A ghost's entry in the index is prefetched this many ghosts before its turn.
const AHEAD: u32 = 2;

impl<N> Default for Ghosts<N> {
    fn default() -> Self {
        Ghosts {
            ring: Vec::new(),
            first: 0,
            length: 0,
            index: SlotIndex::default(),
            bytes: 0,
        }
    }
}

impl<N: Copy + Default> Ghosts<N> {
    /// Returns the sum of the sizes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds an evicted object as the newest ghost. Removes the oldest ghosts until the sizes sum to
    /// at most `limit`; an object that is larger alone is not remembered. The object has no ghost
    /// yet, unless its id was stored more than once, because a policy that stores an object removes
    /// its ghost.
    pub fn push(&mut self, ghost: Ghost<N>, limit: u64) {
        if ghost.size > limit {
            return;
        }
        self.trim(limit - ghost.size);
        if self.index.len() >= MAX_GHOSTS {
            self.pop_oldest();
        }
        if self.length == self.ring.len() {
            self.make_room();
        }
        let number = self.number(self.length as u32);
        let place = self.place(number);
        self.ring[place] = ghost;
        self.length += 1;
        self.index.insert(ghost.id, Slot::new(number));
        self.bytes += ghost.size;
    }

    /// Returns the ghost of `id`, if there is one.
    pub fn get(&self, id: u64) -> Option<Ghost<N>> {
        self.find(id).map(|number| self.ring[self.place(number)])
    }

    /// Removes and returns the ghost of `id`, if there is one.
    pub fn remove(&mut self, id: u64) -> Option<Ghost<N>> {
        let number = self.find(id)?;
        Some(self.take(number))
    }

    /// Returns the oldest ghost.
    pub fn oldest(&self) -> Option<Ghost<N>> {
        (self.length > 0).then(|| self.ring[self.place(self.first)])
    }

    /// Removes the oldest ghost. Returns false if there is none.
    pub fn pop_oldest(&mut self) -> bool {
        if self.length == 0 {
            return false;
        }
        self.take(self.first);
        if self.length > AHEAD as usize {
            self.index
                .prefetch(self.ring[self.place(self.number(AHEAD))].id);
        }
        true
    }

    /// Removes the oldest ghosts until the sizes sum to at most `bytes`.
    pub fn trim(&mut self, bytes: u64) {
        while self.bytes > bytes && self.pop_oldest() {}
    }

    /// Begins to load the index entry of `id`, which will be looked up soon.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        self.index.prefetch(id);
    }

    /// Begins to load the ghost that is probably that of `id`, some requests after `prefetch`.
    #[inline]
    pub fn prefetch_further(&self, id: u64) {
        if let Some(number) = self.index.guess(id) {
            prefetch(&self.ring, self.place(number.raw()));
        }
    }

    pub fn state_bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Ghost<N>>() + self.index.bytes()
    }

    fn find(&self, id: u64) -> Option<u32> {
        self.index
            .find(id, |number| self.ring[self.place(number.raw())].id == id)
            .map(Slot::raw)
    }

    /// Turns the ghost of this number into a hole, and skips the holes at the beginning.
    fn take(&mut self, number: u32) -> Ghost<N> {
        let place = self.place(number);
        let ghost = self.ring[place];
        self.ring[place].size = HOLE;
        self.index.remove(ghost.id, Slot::new(number));
        self.bytes -= ghost.size;
        while self.length > 0 && self.ring[self.place(self.first)].size == HOLE {
            self.first = self.number(1);
            self.length -= 1;
        }
        ghost
    }

    /// Returns the number of the ghost that is this much newer than the oldest.
    #[inline]
    fn number(&self, newer: u32) -> u32 {
        (self.first + newer) & LAST_NUMBER
    }

    #[inline]
    fn place(&self, number: u32) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    /// Doubles or compacts the ring, which is full.
    #[cold]
    fn make_room(&mut self) {
        if self.index.len() * 2 > self.ring.len() || self.ring.is_empty() {
            self.double();
        } else {
            self.close_holes();
        }
    }

    fn double(&mut self) {
        let length = (2 * self.ring.len()).max(MIN_RING);
        let mut ring = Vec::new();
        grow(&mut ring, length);
        ring.resize(length, Ghost::default());
        for number in (0..self.length as u32).map(|newer| self.number(newer)) {
            ring[number as usize & (length - 1)] = self.ring[self.place(number)];
        }
        self.ring = ring;
    }

    fn close_holes(&mut self) {
        self.index.clear();
        let mut kept = 0;
        for newer in 0..self.length as u32 {
            let ghost = self.ring[self.place(self.number(newer))];
            if ghost.size != HOLE {
                let number = self.number(kept);
                let place = self.place(number);
                self.ring[place] = ghost;
                self.index.insert(ghost.id, Slot::new(number));
                kept += 1;
            }
        }
        self.length = kept as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Compares with a queue that is searched from its beginning. The numbers wrap during the
        /// test.
        #[test]
        fn a_ghost_is_forgotten_or_comes_twice(
            steps in proptest::collection::vec((0u8..4, 0u64..200, 1u64..20), 0..2000),
            limit in 1u64..3000,
        ) {
            let mut ghosts = Ghosts { first: LAST_NUMBER - 100, ..Ghosts::<u64>::default() };
            let mut model = VecDeque::<(u64, u64)>::new();
            let trim = |model: &mut VecDeque<(u64, u64)>, to: u64| {
                while model.iter().map(|(_, size)| size).sum::<u64>() > to {
                    model.pop_front();
                }
            };
            for (operation, id, size) in steps {
                let place = model.iter().position(|(other, _)| *other == id);
                match (operation, place) {
                    (0 | 1, None) if size <= limit => {
                        ghosts.push(Ghost { id, size, note: id + 7 }, limit);
                        trim(&mut model, limit - size);
                        model.push_back((id, size));
                    }
                    (2, place) => {
                        let expected = place.and_then(|place| model.remove(place));
                        prop_assert_eq!(ghosts.remove(id).map(|ghost| (ghost.id, ghost.size)), expected);
                    }
                    (3, _) if size == 1 => prop_assert_eq!(ghosts.pop_oldest(), model.pop_front().is_some()),
                    _ => {}
                }
                let known = |ghost: Ghost<u64>| (ghost.id, ghost.size, ghost.note);
                let expected = |(id, size): &(u64, u64)| (*id, *size, *id + 7);
                prop_assert_eq!(ghosts.oldest().map(known), model.front().map(expected));
                prop_assert_eq!(ghosts.bytes(), model.iter().map(|(_, size)| size).sum::<u64>());
                let found = model.iter().find(|(other, _)| *other == id).map(expected);
                prop_assert_eq!(ghosts.get(id).map(known), found);
                prop_assert_eq!(ghosts.index.len(), model.len());
            }
        }
    }

    /// Failure: the oldest ghost stays, all others are removed, and the ring grows without end.
    #[test]
    fn holes_fill_the_memory() {
        let mut ghosts = Ghosts::<()>::default();
        ghosts.push(
            Ghost {
                id: 0,
                size: 1,
                note: (),
            },
            1000,
        );
        for id in 1..100_000 {
            ghosts.push(
                Ghost {
                    id,
                    size: 1,
                    note: (),
                },
                1000,
            );
            assert!(id < 100 || ghosts.remove(id - 50).is_some());
        }
        assert!(
            ghosts.ring.len() <= 512 && ghosts.oldest().is_some_and(|ghost| ghost.id == 0),
            "{}",
            ghosts.ring.len()
        );
    }

    #[test]
    fn what_is_larger_than_all_is_remembered() {
        let mut ghosts = Ghosts::<()>::default();
        ghosts.push(
            Ghost {
                id: 1,
                size: 3,
                note: (),
            },
            5,
        );
        ghosts.push(
            Ghost {
                id: 2,
                size: 6,
                note: (),
            },
            5,
        );
        assert_eq!(
            (
                ghosts.bytes(),
                ghosts.get(1).is_some(),
                ghosts.get(2).is_some()
            ),
            (3, true, false)
        );
    }
}
