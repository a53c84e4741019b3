//! Stored names in an order in which all names under a prefix are neighbours.
//!
//! Interests with CanBePrefix request any Data under a prefix. A map in canonical order answers
//! that, but each step through it reads another name somewhere in memory. Here the key of a B-tree
//! consists of the hashes of a name's prefixes: 16 bits for each of the first [`LEVELS`]
//! components, then the hash of the whole name. Names that share a prefix share these bits. Other
//! names may share them too, so the owner compares the names that it gets. Below that level a range
//! also holds the siblings of the prefix, which costs Interests under such deep prefixes more
//! steps. The keys are in the tree's nodes, so no name is read on the way. O(log n), 32 bytes per
//! key in nodes that are about two thirds full, and 4 per slot.
//!
//! To compute a key costs as much as everything else in the storage of a Data, and most names leave
//! a busy store before an Interest requests one of their prefixes. So a stored name waits, and an
//! Interest for a prefix enters the latest waiting names ([`NameTree::enter`]), a bounded number.
//! Names that still wait are not found, which is a miss of the cache. Each later lookup enters two
//! others, so if prefixes are requested now and then, all names are found.

use crate::tables::name_hash::{Lengths, NameHasher, Prefix};
use larder_packet::NameRef;
use larder_policy::Slot;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};

const LEVELS: usize = 12;
const LEVELS_A_WORD: usize = 4;
/// Words of 16-bit levels, then the hash.
pub(crate) type Key = [u64; LEVELS / LEVELS_A_WORD + 1];
const HASH: usize = LEVELS / LEVELS_A_WORD;
const HASHED: Lengths = Lengths::up_to(LEVELS);

#[derive(Default)]
pub(crate) struct NameTree {
    tree: BTreeMap<Key, Slot>,
    /// Names that are in no tree yet, the latest last, but that a name which leaves is replaced by
    /// the last.
    waiting: Vec<Slot>,
    /// By slot: its place among the waiting names, or [`ENTERED`].
    places: Vec<u32>,
    /// The prefixes of the name that was last hashed.
    prefixes: Vec<Prefix>,
}

/// The place of a slot that is in the tree, or of none.
const ENTERED: u32 = u32::MAX;

impl NameTree {
    /// The name of this slot was stored.
    #[inline]
    pub(crate) fn add(&mut self, slot: Slot) {
        if self.places.len() <= slot.index() {
            self.places.resize(slot.index() + 1, ENTERED);
        }
        self.places[slot.index()] = self.waiting.len() as u32;
        self.waiting.push(slot);
    }

    /// The slot's name, whose whole hash is `hash`, is not stored any more.
    #[inline]
    pub(crate) fn remove(&mut self, hasher: &NameHasher, name: NameRef<'_>, hash: u64, slot: Slot) {
        match std::mem::replace(&mut self.places[slot.index()], ENTERED) {
            ENTERED => {
                let key = self.key(hasher, name, hash);
                if self.tree.get(&key) == Some(&slot) {
                    self.tree.remove(&key);
                }
            }
            place => {
                self.waiting.swap_remove(place as usize);
                if let Some(moved) = self.waiting.get(place as usize) {
                    self.places[moved.index()] = place;
                }
            }
        }
    }

    /// Enters up to `most` of the names that wait; `named` tells the name of a slot, and its hash.
    pub(crate) fn enter<'a>(
        &mut self,
        hasher: &NameHasher,
        most: usize,
        named: impl Fn(Slot) -> Option<(NameRef<'a>, u64)>,
    ) {
        for _ in 0..most.min(self.waiting.len()) {
            let Some(slot) = self.waiting.pop() else {
                return;
            };
            self.places[slot.index()] = ENTERED;
            if let Some((name, hash)) = named(slot) {
                let key = self.key(hasher, name, hash);
                self.tree.insert(key, slot);
            }
        }
    }

    /// Returns the entered slots that may be under `prefix`: all that are, and perhaps others.
    pub(crate) fn near(
        &mut self,
        hasher: &NameHasher,
        prefix: NameRef<'_>,
    ) -> impl Iterator<Item = Slot> {
        hasher.prefixes(prefix, HASHED, &mut self.prefixes);
        self.tree
            .range(range(&self.prefixes))
            .map(|(_, slot)| *slot)
    }

    /// Like [`NameTree::near`], from the key after this one, and with the keys.
    pub(crate) fn near_behind(
        &mut self,
        hasher: &NameHasher,
        prefix: NameRef<'_>,
        behind: Option<Key>,
    ) -> impl Iterator<Item = (Key, Slot)> {
        hasher.prefixes(prefix, HASHED, &mut self.prefixes);
        let (first, last) = range(&self.prefixes).into_inner();
        let first = behind.map_or(Bound::Included(first), Bound::Excluded);
        self.tree
            .range((first, Bound::Included(last)))
            .map(|(key, slot)| (*key, *slot))
    }

    /// Like [`NameTree::near`], with all waiting names. It needs no `&mut self`, and allocates.
    pub(crate) fn under(
        &self,
        hasher: &NameHasher,
        prefix: NameRef<'_>,
    ) -> impl Iterator<Item = Slot> {
        let mut prefixes = Vec::new();
        hasher.prefixes(prefix, HASHED, &mut prefixes);
        self.tree
            .range(range(&prefixes))
            .map(|(_, slot)| *slot)
            .chain(self.waiting.iter().copied())
    }

    /// Returns true if all names are in the tree.
    pub(crate) fn is_whole(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Checks that the tree and the list of waiting names have only stored slots, and none of them
    /// twice. O(names); for tests.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self, is_stored: impl Fn(Slot) -> bool) {
        for (place, slot) in self.waiting.iter().enumerate() {
            assert_eq!(
                self.places[slot.index()] as usize,
                place,
                "a waiting name knows its place"
            );
            assert!(is_stored(*slot), "a waiting name is stored");
        }
        let waiting = self
            .places
            .iter()
            .filter(|place| **place != ENTERED)
            .count();
        assert_eq!(waiting, self.waiting.len(), "a name waits once");
        for slot in self.tree.values() {
            assert_eq!(
                self.places[slot.index()],
                ENTERED,
                "a name in the tree does not wait"
            );
            assert!(is_stored(*slot), "a name in the tree is stored");
        }
    }

    pub(crate) fn clear(&mut self) {
        self.tree.clear();
        self.waiting.clear();
        self.places.clear();
    }

    fn key(&mut self, hasher: &NameHasher, name: NameRef<'_>, hash: u64) -> Key {
        hasher.prefixes(name, HASHED, &mut self.prefixes);
        let mut key = *range(&self.prefixes).start();
        key[HASH] = hash;
        key
    }
}

/// The keys of all names that begin with the last of these prefixes.
fn range(prefixes: &[Prefix]) -> RangeInclusive<Key> {
    let (mut first, mut last) = ([0; HASH + 1], [u64::MAX; HASH + 1]);
    for (level, prefix) in prefixes[1..].iter().enumerate() {
        let (word, shift) = (
            level / LEVELS_A_WORD,
            16 * (LEVELS_A_WORD - 1 - level % LEVELS_A_WORD),
        );
        let bits = prefix.hash & 0xffff;
        first[word] |= bits << shift;
        last[word] ^= (bits ^ 0xffff) << shift;
    }
    first..=last
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::Name;
    use proptest::prelude::*;

    fn name(components: &[u8]) -> Name {
        let mut name = Name::root();
        for component in components {
            name.push_generic(&[*component]);
        }
        name
    }

    proptest! {
        #[test]
        fn nothing_under_a_prefix_is_missing_and_what_is_removed_is_gone(
            stored in prop::collection::btree_set(prop::collection::vec(0u8..3, 1..16), 1..40),
            removed in prop::collection::vec(0u8..4, 40),
            entered in 0usize..50,
            asked in prop::collection::vec(0u8..3, 0..16),
        ) {
            let hasher = NameHasher::new([7, 8]);
            let mut tree = NameTree::default();
            let names: Vec<Name> = stored.iter().map(|components| name(components)).collect();
            let hash = |name: &Name| hasher.hash(name.as_bytes());
            let named = |slot: Slot| Some((names[slot.index()].as_name(), hash(&names[slot.index()])));
            let remove = |tree: &mut NameTree, when: u8| {
                for (i, name) in names.iter().enumerate().filter(|(i, _)| removed[*i] == when) {
                    tree.remove(&hasher, name.as_name(), hash(name), Slot::new(i as u32));
                }
            };
            for i in 0..names.len() { tree.add(Slot::new(i as u32)); }
            // Some leave while they wait, some afterwards, and half of the others stay.
            remove(&mut tree, 0);
            tree.enter(&hasher, entered, named);
            remove(&mut tree, 1);
            let prefix = name(&asked);
            let is_under = |slot: &Slot| names[slot.index()].as_name().starts_with(prefix.as_name());
            let mut found: Vec<usize> = tree.under(&hasher, prefix.as_name()).filter(is_under).map(Slot::index).collect();
            tree.enter(&hasher, 50, named);
            prop_assert!(tree.waiting.is_empty());
            let mut near: Vec<usize> = tree.near(&hasher, prefix.as_name()).filter(is_under).map(Slot::index).collect();
            found.sort();
            near.sort();
            prop_assert_eq!(&found, &near);
            let expected = names.iter().enumerate().filter(|(i, n)| removed[*i] > 1 && n.as_name().starts_with(prefix.as_name()));
            prop_assert_eq!(found, expected.map(|(i, _)| i).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_look_under_a_prefix_passes_its_neighbours() {
        let hasher = NameHasher::new([7, 8]);
        let mut tree = NameTree::default();
        let names: Vec<Name> = (0..2000)
            .map(|i| format!("/a/{}/{i}", i % 100).parse().unwrap())
            .collect();
        for i in 0..2000 {
            tree.add(Slot::new(i));
        }
        let named = |slot: Slot| {
            Some((
                names[slot.index()].as_name(),
                hasher.hash(names[slot.index()].as_bytes()),
            ))
        };
        tree.enter(&hasher, 2000, named);
        let prefix: Name = "/a/7".parse().unwrap();
        assert!((20..60).contains(&tree.near(&hasher, prefix.as_name()).count()));
    }

    #[test]
    fn one_who_asks_for_a_prefix_pays_for_all_that_was_stored() {
        let hasher = NameHasher::new([7, 8]);
        let mut tree = NameTree::default();
        let names: Vec<Name> = (0..100)
            .map(|i| format!("/a/{i}").parse().unwrap())
            .collect();
        for i in 0..100 {
            tree.add(Slot::new(i));
        }
        let named = |slot: Slot| {
            Some((
                names[slot.index()].as_name(),
                hasher.hash(names[slot.index()].as_bytes()),
            ))
        };
        let prefix: Name = "/a".parse().unwrap();
        for entered in [30, 60, 90, 100] {
            tree.enter(&hasher, 30, named);
            let near: Vec<usize> = tree
                .near(&hasher, prefix.as_name())
                .map(Slot::index)
                .collect();
            assert_eq!((near.len(), tree.is_whole()), (entered, entered == 100));
            assert!(
                near.iter().all(|slot| *slot >= 100 - entered),
                "the latest first"
            );
        }
        tree.add(Slot::new(100));
        tree.clear();
        assert!(tree.is_whole() && tree.under(&hasher, Name::root().as_name()).next().is_none());
    }

    /// Failure: the check that property tests, simulations and fuzz targets rely on accepts a
    /// broken tree.
    #[test]
    fn a_broken_tree_passes_its_check() {
        let hasher = NameHasher::new([7, 8]);
        let breakages: [fn(&mut NameTree); 5] = [
            |tree| tree.waiting.swap(0, 1),
            |tree| _ = tree.waiting.pop(),
            |tree| tree.places[3] = 0,
            |tree| tree.waiting[0] = Slot::new(9),
            |tree| tree.tree.values_mut().for_each(|slot| *slot = Slot::new(9)),
        ];
        let names: Vec<Name> = (0..4).map(|component| name(&[component])).collect();
        for (number, breakage) in breakages.into_iter().enumerate() {
            let mut tree = NameTree::default();
            for slot in 0..4 {
                tree.add(Slot::new(slot));
            }
            // Slot 9 is known, and not stored.
            tree.places.resize(10, ENTERED);
            let named = |slot: Slot| {
                Some((
                    names[slot.index()].as_name(),
                    hasher.hash(names[slot.index()].as_bytes()),
                ))
            };
            tree.enter(&hasher, 1, named);
            tree.check_invariants(|slot| slot.index() < 4);
            breakage(&mut tree);
            let check =
                std::panic::AssertUnwindSafe(|| tree.check_invariants(|slot| slot.index() < 4));
            assert!(
                std::panic::catch_unwind(check).is_err(),
                "breakage {number}"
            );
        }
    }
}
