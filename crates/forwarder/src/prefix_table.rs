//! A table of name prefixes with longest-prefix match: the FIB and the strategy choice are two of these.
//!
//! One hash table over all prefixes, probed from the longest length in use to the shortest (So et al., "Named data networking on a
//! router", ANCS 2013, start from the middle; lengths in use are few here, and a count a length skips the empty ones). O(lengths in use)
//! a look-up, one entry of name + value + 8 bytes.

use crate::limits::PREFIX_COMPONENTS;
use crate::name_hash::{NameHasher, Prefix};
use hashbrown::HashTable;
use larder_packet::{Name, NameRef};

/// Values by name prefix. Prefixes have at most [`PREFIX_COMPONENTS`] components.
pub(crate) struct PrefixTable<T> {
    table: HashTable<Row<T>>,
    /// Prefixes in the table by their number of components.
    lengths: [usize; PREFIX_COMPONENTS + 1],
    /// The greatest length in use.
    longest: usize,
}

struct Row<T> {
    hash: u64,
    name: Box<[u8]>,
    value: T,
}

impl<T> PrefixTable<T> {
    pub(crate) fn new() -> Self {
        PrefixTable { table: HashTable::new(), lengths: [0; PREFIX_COMPONENTS + 1], longest: 0 }
    }

    /// Number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The greatest number of components of a prefix in the table.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// The value of the longest prefix of `name` in the table, and that prefix's hash; `prefixes` are the name's from the root on.
    pub(crate) fn longest_match(&self, name: NameRef<'_>, prefixes: &[Prefix]) -> Option<(u64, &T)> {
        let bytes = name.as_bytes();
        let most = self.longest.min(prefixes.len().checked_sub(1)?);
        (0..=most).rev().filter(|length| self.lengths[*length] > 0).find_map(|length| {
            let Prefix { end, hash } = prefixes[length];
            self.table.find(hash, |row| *row.name == bytes[..end]).map(|row| (hash, &row.value))
        })
    }

    /// As [`PrefixTable::longest_match`], to change it.
    pub(crate) fn longest_match_mut(&mut self, name: NameRef<'_>, prefixes: &[Prefix]) -> Option<&mut T> {
        let bytes = name.as_bytes();
        let most = self.longest.min(prefixes.len().checked_sub(1)?);
        let mut lengths = (0..=most).rev().filter(|length| self.lengths[*length] > 0);
        let same = |row: &Row<T>, end: usize| *row.name == bytes[..end];
        let Prefix { end, hash } = lengths.find_map(|length| {
            let prefix = prefixes[length];
            self.table.find(prefix.hash, |row| same(row, prefix.end)).map(|_| prefix)
        })?;
        self.table.find_mut(hash, |row| same(row, end)).map(|row| &mut row.value)
    }

    /// Every prefix with its value, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Name, &T)> {
        // What is in the table was a name when it came.
        let name = |row: &Row<T>| NameRef::from_value(&row.name).map(|name| name.to_name()).unwrap_or_default();
        self.table.iter().map(move |row| (name(row), &row.value))
    }

    /// Sets the value of exactly `prefix`. The caller has checked its length.
    pub(crate) fn insert(&mut self, hasher: &NameHasher, prefix: NameRef<'_>, value: T) {
        let name = prefix.as_bytes();
        let hash = hasher.hash(name);
        match self.table.find_mut(hash, |row| *row.name == *name) {
            Some(row) => row.value = value,
            None => {
                let length = prefix.component_count();
                self.lengths[length] += 1;
                self.longest = self.longest.max(length);
                self.table.insert_unique(hash, Row { hash, name: name.into(), value }, |row| row.hash);
            }
        }
    }

    /// Whether exactly `prefix` has a value.
    pub(crate) fn contains(&self, hasher: &NameHasher, prefix: NameRef<'_>) -> bool {
        let name = prefix.as_bytes();
        self.table.find(hasher.hash(name), |row| *row.name == *name).is_some()
    }

    /// Removes exactly `prefix`.
    pub(crate) fn remove(&mut self, hasher: &NameHasher, prefix: NameRef<'_>) {
        let name = prefix.as_bytes();
        if let Ok(row) = self.table.find_entry(hasher.hash(name), |row| *row.name == *name) {
            row.remove();
            self.lengths[prefix.component_count()] -= 1;
            self.longest = self.lengths.iter().rposition(|count| *count > 0).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn name(components: &[u8]) -> Name {
        let mut name = Name::root();
        for component in components {
            name.push_generic(&[b'a' + component]);
        }
        name
    }

    proptest! {
        #[test]
        fn longest_match_is_the_longest(
            steps in prop::collection::vec((any::<bool>(), prop::collection::vec(0u8..3, 0..5)), 1..40),
            asked in prop::collection::vec(0u8..3, 0..7),
        ) {
            let hasher = NameHasher::new([3, 4]);
            let mut table = PrefixTable::new();
            let mut model = BTreeMap::new();
            for (i, (insert, components)) in steps.into_iter().enumerate() {
                let prefix = name(&components);
                if insert {
                    table.insert(&hasher, prefix.as_name(), i);
                    model.insert(components, i);
                } else {
                    table.remove(&hasher, prefix.as_name());
                    model.remove(&components);
                }
            }
            prop_assert_eq!(table.len(), model.len());
            prop_assert_eq!(table.longest(), model.keys().map(Vec::len).max().unwrap_or(0));
            let expected = (0..=asked.len()).rev().find_map(|n| model.get(&asked[..n]));
            let asked = name(&asked);
            let mut prefixes = Vec::new();
            hasher.prefixes(asked.as_name(), table.longest(), &mut prefixes);
            prop_assert_eq!(table.longest_match(asked.as_name(), &prefixes).map(|(_, value)| value), expected);
            prop_assert_eq!(table.longest_match_mut(asked.as_name(), &prefixes).map(|value| &*value), expected);
        }
    }
}
