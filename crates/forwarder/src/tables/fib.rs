//! The Forwarding Information Base: next hops by name prefix.
//!
//! Millions of prefixes have few different sets of next hops. So each set is stored once, and a
//! prefix refers to it by number. This takes four bytes per prefix, and the sets in use stay in the
//! processor's caches even though the prefixes do not.

use crate::tables::name_hash::{Lengths, NameHasher, Prefix};
use crate::tables::prefix_table::PrefixTable;
use crate::tables::rib::NextHop;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use larder_packet::{Name, NameRef};
use std::hash::BuildHasher;

pub(crate) struct Fib {
    prefixes: PrefixTable<u32>,
    sets: Sets,
}

/// The number of a set of next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextHopSet(u32);

impl Fib {
    pub(crate) fn new() -> Self {
        Fib {
            prefixes: PrefixTable::new(),
            sets: Sets::default(),
        }
    }

    /// Returns the number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// See [`PrefixTable::lengths`].
    #[inline]
    pub(crate) fn lengths(&self) -> Lengths {
        self.prefixes.lengths()
    }

    /// Returns the hash of the longest prefix of `name`, and its next hops.
    /// `prefixes` are the prefixes of the name with the lengths of [`Fib::lengths`], or with more.
    #[inline]
    pub(crate) fn longest_match(
        &self,
        name: NameRef<'_>,
        prefixes: &[Prefix],
    ) -> Option<(u64, NextHopSet)> {
        let (hash, number) = self.prefixes.longest_match(name, prefixes)?;
        Some((hash, NextHopSet(*number)))
    }

    /// Returns the next hops of a set. The FIB has not changed since it was found.
    #[inline]
    pub(crate) fn next_hops(&self, set: NextHopSet) -> &[NextHop] {
        self.sets.get(set.0)
    }

    /// See [`PrefixTable::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self, prefixes: &[Prefix]) {
        self.prefixes.prefetch(prefixes);
    }

    /// See [`PrefixTable::prefetch_index`].
    #[inline]
    pub(crate) fn prefetch_index(&self, prefixes: &[Prefix]) {
        self.prefixes.prefetch_index(prefixes);
    }

    /// See [`PrefixTable::prefetch_rows`].
    #[inline]
    pub(crate) fn prefetch_rows(&self, prefixes: &[Prefix]) {
        self.prefixes.prefetch_rows(prefixes);
    }

    /// Returns every prefix with its next hops, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Name, &[NextHop])> {
        self.prefixes
            .iter()
            .map(|(name, number)| (name, self.sets.get(*number)))
    }

    /// Returns the next hops of exactly `prefix`.
    pub(crate) fn get(&self, hasher: &NameHasher, prefix: NameRef<'_>) -> Option<&[NextHop]> {
        self.prefixes
            .get(hasher, prefix)
            .map(|number| self.sets.get(*number))
    }

    /// Checks that every prefix has a set of next hops, and that every set counts its prefixes.
    /// O(prefixes); for tests.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self, hasher: &NameHasher) {
        self.prefixes.check_invariants(hasher);
        let mut counts = vec![0; self.sets.sets.len()];
        for number in self.prefixes.values() {
            counts[*number as usize] += 1;
        }
        for (set, count) in self.sets.sets.iter().zip(&counts) {
            assert_eq!(
                set.prefixes, *count,
                "a set counts the prefixes that refer to it"
            );
            assert_eq!(
                set.next_hops.is_empty(),
                *count == 0,
                "only a free set is empty"
            );
        }
        let used = counts.iter().filter(|count| **count > 0).count();
        assert_eq!(self.sets.index.len(), used, "the index has each set in use");
        assert_eq!(
            self.sets.free.len() + used,
            counts.len(),
            "a set is in use or free"
        );
    }

    /// Sets the next hops of exactly `prefix`. An empty list removes the prefix. The caller has
    /// checked the length of the prefix.
    pub(crate) fn set(&mut self, hasher: &NameHasher, prefix: NameRef<'_>, next_hops: &[NextHop]) {
        let before = match next_hops {
            [] => self.prefixes.remove(hasher, prefix),
            _ => self
                .prefixes
                .insert(hasher, prefix, self.sets.take(next_hops)),
        };
        if let Some(number) = before {
            self.sets.release(number);
        }
    }
}

/// The different sets of next hops, by number, with the number of prefixes of each.
#[derive(Default)]
struct Sets {
    sets: Vec<Set>,
    free: Vec<u32>,
    /// The forwarder itself numbers the faces, so an unkeyed hash is sufficient.
    index: HashTable<u32>,
}

struct Set {
    next_hops: Box<[NextHop]>,
    prefixes: usize,
}

fn hash(next_hops: &[NextHop]) -> u64 {
    FixedState::default().hash_one(next_hops)
}

impl Sets {
    #[inline]
    fn get(&self, number: u32) -> &[NextHop] {
        &self.sets[number as usize].next_hops
    }

    /// Returns the number of the set, and counts one more prefix that refers to it.
    fn take(&mut self, next_hops: &[NextHop]) -> u32 {
        let hash_of_set = hash(next_hops);
        if let Some(number) = self
            .index
            .find(hash_of_set, |number| *self.get(*number) == *next_hops)
            .copied()
        {
            self.sets[number as usize].prefixes += 1;
            return number;
        }
        let set = Set {
            next_hops: next_hops.into(),
            prefixes: 1,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.sets[number as usize] = set;
                number
            }
            None => {
                self.sets.push(set);
                (self.sets.len() - 1) as u32
            }
        };
        let sets = &self.sets;
        self.index.insert_unique(hash_of_set, number, |number| {
            hash(&sets[*number as usize].next_hops)
        });
        number
    }

    /// Counts one prefix less that refers to the set, and frees the set after the last one.
    fn release(&mut self, number: u32) {
        let set = &mut self.sets[number as usize];
        set.prefixes -= 1;
        if set.prefixes > 0 {
            return;
        }
        let next_hops = std::mem::take(&mut set.next_hops);
        if let Ok(found) = self
            .index
            .find_entry(hash(&next_hops), |other| *other == number)
        {
            found.remove();
        }
        self.free.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::FaceId;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn prefixes_have_their_own_next_hops_and_no_set_is_kept_for_nobody(
            steps in prop::collection::vec((0u8..8, prop::collection::vec(0u64..3, 0..3)), 1..60),
        ) {
            let hasher = NameHasher::new([5, 6]);
            let mut fib = Fib::new();
            let mut model = BTreeMap::new();
            for (prefix, faces) in steps {
                let mut name = Name::root();
                name.push_generic(&[prefix]);
                let next_hops: Vec<NextHop> = faces.iter().map(|face| NextHop { face: FaceId(*face), cost: 1 }).collect();
                fib.set(&hasher, name.as_name(), &next_hops);
                if next_hops.is_empty() { drop(model.remove(&name)) } else { drop(model.insert(name, next_hops)) }
                fib.check_invariants(&hasher);
            }
            let all: BTreeMap<Name, Vec<NextHop>> = fib.iter().map(|(name, hops)| (name, hops.to_vec())).collect();
            prop_assert_eq!((&all, fib.len()), (&model, model.len()));
            let mut prefixes = Vec::new();
            for prefix in 0..8 {
                let mut name = Name::root();
                name.push_generic(&[prefix]);
                let expected = model.get(&name).map(Vec::as_slice);
                prop_assert_eq!(fib.get(&hasher, name.as_name()), expected);
                let hash = hasher.hash(name.as_bytes());
                name.push_generic(b"longer");
                hasher.prefixes(name.as_name(), fib.lengths(), &mut prefixes);
                let found = fib.longest_match(name.as_name(), &prefixes);
                let found = found.map(|(hash, set)| (hash, fib.next_hops(set)));
                prop_assert_eq!(found, expected.map(|next_hops| (hash, next_hops)));
            }
            let different: BTreeSet<Vec<u64>> = model.values().map(|hops| hops.iter().map(|hop| hop.face.0).collect()).collect();
            prop_assert_eq!(fib.sets.index.len(), different.len());
            prop_assert_eq!(fib.sets.sets.len() - fib.sets.free.len(), different.len());
        }
    }

    /// Failure: the check that property tests, simulations and fuzz targets rely on accepts a
    /// broken table.
    #[test]
    fn a_broken_fib_passes_its_check() {
        let hasher = NameHasher::new([5, 6]);
        let hops = |face| {
            [NextHop {
                face: FaceId(face),
                cost: 1,
            }]
        };
        let breakages: [fn(&mut Fib); 4] = [
            |fib| fib.sets.sets[0].prefixes += 1,
            |fib| fib.sets.sets[0].next_hops = Box::new([]),
            |fib| fib.sets.index.clear(),
            |fib| fib.sets.free.clear(),
        ];
        for (number, breakage) in breakages.into_iter().enumerate() {
            let mut fib = Fib::new();
            let names: [Name; 2] = ["/a".parse().unwrap(), "/b".parse().unwrap()];
            for (name, face) in names.iter().zip(1..) {
                fib.set(&hasher, name.as_name(), &hops(face));
            }
            fib.set(&hasher, names[1].as_name(), &[]);
            fib.check_invariants(&hasher);
            breakage(&mut fib);
            let check = std::panic::AssertUnwindSafe(|| fib.check_invariants(&hasher));
            assert!(
                std::panic::catch_unwind(check).is_err(),
                "breakage {number}"
            );
        }
    }
}
