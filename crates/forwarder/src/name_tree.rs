//! Stored names in an order in which all that is under a prefix stands together.
//!
//! Interests with CanBePrefix ask for any Data under a prefix. A map in the names' own order answers that, and each step through it reads
//! another name somewhere in memory. Here a B-tree is ordered by what the hashes of a name's prefixes give: 16 bits for each of the first
//! [`LEVELS`] components, then the hash of the whole name. Names that share a prefix share these bits; other names may, so that the owner
//! compares what he is given. Below the level a range holds the siblings of the prefix too, which costs Interests under such deep prefixes more
//! steps. The keys stand in the tree's nodes: no name is read on the way. O(log n), 32 bytes a key in nodes about two thirds full.

use crate::name_hash::{NameHasher, Prefix};
use larder_packet::NameRef;
use larder_policy::Slot;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const LEVELS: usize = 12;
const LEVELS_A_WORD: usize = 4;
/// Words of 16-bit levels, then the hash.
type Key = [u64; LEVELS / LEVELS_A_WORD + 1];
const HASH: usize = LEVELS / LEVELS_A_WORD;

#[derive(Default)]
pub(crate) struct NameTree {
    tree: BTreeMap<Key, Slot>,
    /// Of the name that was last hashed.
    prefixes: Vec<Prefix>,
}

impl NameTree {
    /// Adds a name, whose whole hash is `hash`.
    pub(crate) fn insert(&mut self, hasher: &NameHasher, name: NameRef<'_>, hash: u64, slot: Slot) {
        let key = self.key(hasher, name, hash);
        self.tree.insert(key, slot);
    }

    /// Takes the name out again.
    pub(crate) fn remove(&mut self, hasher: &NameHasher, name: NameRef<'_>, hash: u64, slot: Slot) {
        let key = self.key(hasher, name, hash);
        if self.tree.get(&key) == Some(&slot) {
            self.tree.remove(&key);
        }
    }

    /// What may be under `prefix`: all that is, and perhaps some that is not.
    pub(crate) fn near(&mut self, hasher: &NameHasher, prefix: NameRef<'_>) -> impl Iterator<Item = Slot> {
        hasher.prefixes(prefix, LEVELS, &mut self.prefixes);
        self.tree.range(range(&self.prefixes)).map(|(_, slot)| *slot)
    }

    /// As [`NameTree::near`], for who may not change anything and does not mind an allocation.
    pub(crate) fn under(&self, hasher: &NameHasher, prefix: NameRef<'_>) -> impl Iterator<Item = Slot> {
        let mut prefixes = Vec::new();
        hasher.prefixes(prefix, LEVELS, &mut prefixes);
        self.tree.range(range(&prefixes)).map(|(_, slot)| *slot)
    }

    pub(crate) fn clear(&mut self) {
        self.tree.clear();
    }

    fn key(&mut self, hasher: &NameHasher, name: NameRef<'_>, hash: u64) -> Key {
        hasher.prefixes(name, LEVELS, &mut self.prefixes);
        let mut key = *range(&self.prefixes).start();
        key[HASH] = hash;
        key
    }
}

/// The keys of all names that begin with the last of these prefixes.
fn range(prefixes: &[Prefix]) -> RangeInclusive<Key> {
    let (mut first, mut last) = ([0; HASH + 1], [u64::MAX; HASH + 1]);
    for (level, prefix) in prefixes[1..].iter().enumerate() {
        let (word, shift) = (level / LEVELS_A_WORD, 16 * (LEVELS_A_WORD - 1 - level % LEVELS_A_WORD));
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
            removed in prop::collection::vec(any::<bool>(), 40),
            asked in prop::collection::vec(0u8..3, 0..16),
        ) {
            let hasher = NameHasher::new([7, 8]);
            let mut tree = NameTree::default();
            let names: Vec<Name> = stored.iter().map(|components| name(components)).collect();
            let hash = |name: &Name| hasher.hash(name.as_bytes());
            for (i, name) in names.iter().enumerate() {
                tree.insert(&hasher, name.as_name(), hash(name), Slot::new(i as u32));
            }
            for (i, name) in names.iter().enumerate().filter(|(i, _)| removed[*i]) {
                tree.remove(&hasher, name.as_name(), hash(name), Slot::new(i as u32));
            }
            let prefix = name(&asked);
            let is_under = |slot: &Slot| names[slot.index()].as_name().starts_with(prefix.as_name());
            let mut found: Vec<usize> = tree.under(&hasher, prefix.as_name()).filter(is_under).map(Slot::index).collect();
            let near: Vec<usize> = tree.near(&hasher, prefix.as_name()).filter(is_under).map(Slot::index).collect();
            prop_assert_eq!(&found, &near);
            found.sort();
            let expected = names.iter().enumerate().filter(|(i, n)| !removed[*i] && n.as_name().starts_with(prefix.as_name()));
            prop_assert_eq!(found, expected.map(|(i, _)| i).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_look_under_a_prefix_passes_its_neighbours() {
        let hasher = NameHasher::new([7, 8]);
        let mut tree = NameTree::default();
        for i in 0..2000u32 {
            let name: Name = format!("/a/{}/{i}", i % 100).parse().unwrap();
            tree.insert(&hasher, name.as_name(), hasher.hash(name.as_bytes()), Slot::new(i));
        }
        let prefix: Name = "/a/7".parse().unwrap();
        assert!((20..60).contains(&tree.near(&hasher, prefix.as_name()).count()));
    }
}
