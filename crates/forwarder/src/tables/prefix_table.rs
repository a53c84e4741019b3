//! A table of name prefixes with longest-prefix match. The FIB and the strategy choice are such
//! tables.
//!
//! One index holds all prefixes by keyed hash. It is probed from the longest length in use to the
//! shortest. (So et al., "Named data networking on a router", ANCS 2013, start from the middle.
//! Lengths in use are few here, and a count per length skips the unused ones: they are not even
//! hashed.) A lookup is O(lengths in use).
//!
//! The table is made for sizes that no processor's cache holds. A filter tells from one line which
//! lengths may have a match (`prefix_filter.rs`). Each of these costs one line of the index, and
//! the match costs one line more, its row. A row holds the value and a name of up to
//! [`INLINE_BYTES`] bytes; longer names are on the heap. A batch prefetches all these lines
//! ([`PrefixTable::prefetch`]). A prefix takes 64 bytes, 11 to 21 of the index and 1 to 2 of the
//! filter.
//!
//! An insertion is O(1) and causes no long pause. Rows never move (`rows.rs`). The index consists
//! of [`PARTS`] parts, and each part grows by itself when it is full, without reading names. At 13
//! million prefixes a part of 8 MiB becomes one of 16 in up to 40 ms, which the system mostly
//! spends on clearing pages.

use crate::limits::{FILTERED_PREFIXES, PREFIX_COMPONENTS, PREFIXES_FILTERED_AT_ONCE};
use crate::tables::name_hash::{Lengths, NameHasher, Prefix};
use crate::tables::prefix_filter::{ANCHOR, PrefixFilter};
use crate::tables::rows::Rows;
use larder_packet::{Name, NameRef};
use larder_policy::{KeyedHashes, Slot, SlotIndex};

/// Values by name prefix. Prefixes have at most [`PREFIX_COMPONENTS`] components.
pub(crate) struct PrefixTable<T> {
    index: Index,
    /// Present if the table is large.
    filter: Option<PrefixFilter>,
    /// The filter that will take its place.
    coming: Option<Coming>,
    rows: Rows<Row<T>>,
    free: Vec<Slot>,
    /// The slot of the root. The root is a prefix of every name, so no lookup is needed.
    root: Option<Slot>,
    /// Prefixes in the table by their number of components.
    counts: [usize; PREFIX_COMPONENTS + 1],
    /// Those that are in use.
    lengths: Lengths,
}

/// Parts of the index, by low bits of the hash. More would be small beside a large page.
const PARTS: usize = 16;

/// The slot of each prefix, by its hash. The parts grow one by one, all within a hundredth of the
/// insertions, so a pause is a sixteenth of that of one large index.
#[derive(Default)]
struct Index {
    parts: [SlotIndex<KeyedHashes>; PARTS],
    len: usize,
}

impl Index {
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn part(&self, hash: u64) -> &SlotIndex<KeyedHashes> {
        &self.parts[hash as usize % PARTS]
    }

    fn insert(&mut self, hash: u64, slot: Slot) {
        self.parts[hash as usize % PARTS].insert(hash, slot);
        self.len += 1;
    }

    fn remove(&mut self, hash: u64, slot: Slot) {
        self.len -= usize::from(self.parts[hash as usize % PARTS].remove(hash, slot));
    }
}

/// A filter into which the rows go, some with each insertion.
struct Coming {
    filter: PrefixFilter,
    /// Rows that were passed. What comes to one of them later is added as it comes.
    passed: usize,
}

/// Bytes of a name that a row holds itself: with a value of four bytes it fills a cache line.
const INLINE_BYTES: usize = 56;

/// A prefix and its value, where its place is in use.
#[repr(align(64))]
enum Row<T> {
    Free,
    Short {
        length: u8,
        value: T,
        name: [u8; INLINE_BYTES],
    },
    Long {
        value: T,
        name: Box<[u8]>,
    },
}

impl<T> Row<T> {
    fn new(bytes: &[u8], value: T) -> Row<T> {
        match bytes.len() {
            length @ 0..=INLINE_BYTES => {
                let mut name = [0; INLINE_BYTES];
                name[..length].copy_from_slice(bytes);
                Row::Short {
                    length: length as u8,
                    value,
                    name,
                }
            }
            _ => Row::Long {
                value,
                name: bytes.into(),
            },
        }
    }

    #[inline]
    fn get(&self) -> Option<(&[u8], &T)> {
        match self {
            Row::Free => None,
            Row::Short {
                length,
                value,
                name,
            } => Some((&name[..usize::from(*length)], value)),
            Row::Long { value, name } => Some((name, value)),
        }
    }

    fn value_mut(&mut self) -> Option<&mut T> {
        match self {
            Row::Free => None,
            Row::Short { value, .. } | Row::Long { value, .. } => Some(value),
        }
    }

    #[inline]
    fn is(&self, bytes: &[u8]) -> bool {
        self.get().is_some_and(|(name, _)| name == bytes)
    }
}

impl<T> PrefixTable<T> {
    pub(crate) fn new() -> Self {
        PrefixTable {
            index: Index::default(),
            filter: None,
            coming: None,
            rows: Rows::new(),
            free: Vec::new(),
            root: None,
            counts: [0; PREFIX_COMPONENTS + 1],
            lengths: Lengths::default(),
        }
    }

    /// Number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the lengths for which a lookup needs prefixes of the name: those in the table, and
    /// the filter's.
    #[inline]
    pub(crate) fn lengths(&self) -> Lengths {
        let mut lengths = self.lengths;
        if self.filter.is_some() {
            lengths.insert(ANCHOR);
        }
        lengths
    }

    /// The value of the longest prefix of `name` in the table, and that prefix's hash; `prefixes`
    /// are the name's of [`PrefixTable::lengths`], or of more.
    #[inline]
    pub(crate) fn longest_match(
        &self,
        name: NameRef<'_>,
        prefixes: &[Prefix],
    ) -> Option<(u64, &T)> {
        let (slot, hash) = self.longest_slot(name, prefixes)?;
        self.rows.get(slot).get().map(|(_, value)| (hash, value))
    }

    /// Like [`PrefixTable::longest_match`], with a mutable value.
    pub(crate) fn longest_match_mut(
        &mut self,
        name: NameRef<'_>,
        prefixes: &[Prefix],
    ) -> Option<&mut T> {
        let (slot, _) = self.longest_slot(name, prefixes)?;
        self.rows.get_mut(slot).value_mut()
    }

    #[inline]
    fn longest_slot(&self, name: NameRef<'_>, prefixes: &[Prefix]) -> Option<(Slot, u64)> {
        if self.lengths == Lengths::default() {
            return Some((self.root?, prefixes.first()?.hash));
        }
        let bytes = name.as_bytes();
        let find =
            |Prefix { end, hash, .. }: &Prefix| Some((self.find(*hash, &bytes[..*end])?, *hash));
        let found = self.candidates(prefixes).find_map(find);
        found.or_else(|| Some((self.root?, prefixes.first()?.hash)))
    }

    /// The prefixes that may be in the table, from the longest on, without the root.
    #[inline]
    fn candidates<'a>(&'a self, prefixes: &'a [Prefix]) -> impl Iterator<Item = &'a Prefix> {
        let line = self
            .filter
            .as_ref()
            .and_then(|filter| filter.line(prefixes));
        let of_length_in_use = prefixes
            .iter()
            .rev()
            .filter(|prefix| self.lengths.contains(usize::from(prefix.components)));
        of_length_in_use.filter(move |prefix| line.is_none_or(|line| line.may_have(prefix)))
    }

    #[inline]
    fn find(&self, hash: u64, name: &[u8]) -> Option<Slot> {
        self.index
            .part(hash)
            .find(hash, |slot| self.rows.get(slot).is(name))
    }

    /// Names with these prefixes will be looked up soon: begins to load the filter's line.
    #[inline]
    pub(crate) fn prefetch(&self, prefixes: &[Prefix]) {
        if let Some(filter) = &self.filter {
            filter.prefetch(prefixes);
        }
    }

    /// Prefetches the lines of the index, when the filter's line is in the processor's cache.
    #[inline]
    pub(crate) fn prefetch_index(&self, prefixes: &[Prefix]) {
        for prefix in self.candidates(prefixes) {
            self.index.part(prefix.hash).prefetch(prefix.hash);
        }
    }

    /// Prefetches the rows, when the lines of the index are in the processor's cache.
    #[inline]
    pub(crate) fn prefetch_rows(&self, prefixes: &[Prefix]) {
        let guessed = self
            .candidates(prefixes)
            .filter_map(|prefix| self.index.part(prefix.hash).guess(prefix.hash));
        for slot in guessed {
            self.rows.prefetch(slot);
        }
    }

    /// Every prefix with its value, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Name, &T)> {
        // Every row was inserted from a valid name.
        let named = |bytes| {
            NameRef::from_value(bytes)
                .map(|name| name.to_name())
                .unwrap_or_default()
        };
        self.rows
            .iter()
            .filter_map(Row::get)
            .map(move |(bytes, value)| (named(bytes), value))
    }

    /// Every value, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.rows
            .iter()
            .filter_map(|row| row.get().map(|(_, value)| value))
    }

    /// Every value, in no order, to change it.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.iter_mut().filter_map(Row::value_mut)
    }

    /// The value of exactly `prefix`.
    pub(crate) fn get(&self, hasher: &NameHasher, prefix: NameRef<'_>) -> Option<&T> {
        let name = prefix.as_bytes();
        let slot = self.find(hasher.hash(name), name)?;
        self.rows.get(slot).get().map(|(_, value)| value)
    }

    /// Sets the value of exactly `prefix`; returns the one that it had. The caller has checked its
    /// length.
    pub(crate) fn insert(
        &mut self,
        hasher: &NameHasher,
        prefix: NameRef<'_>,
        value: T,
    ) -> Option<T> {
        let name = prefix.as_bytes();
        let hash = hasher.hash(name);
        if let Some(old) = self
            .find(hash, name)
            .and_then(|slot| self.rows.get_mut(slot).value_mut())
        {
            return Some(std::mem::replace(old, value));
        }
        let length = prefix.component_count();
        self.counts[length] += 1;
        self.lengths.insert(length);
        let slot = self.free.pop().unwrap_or_else(|| self.rows.push(Row::Free));
        *self.rows.get_mut(slot) = Row::new(name, value);
        self.index.insert(hash, slot);
        if length == 0 {
            self.root = Some(slot);
        }
        self.filter_row(hasher, slot, prefix, hash);
        None
    }

    /// Adds a prefix that has come to the filters, and makes some of the one that takes the other's
    /// place.
    fn filter_row(&mut self, hasher: &NameHasher, slot: Slot, prefix: NameRef<'_>, hash: u64) {
        let is_due = match &mut self.filter {
            Some(filter) => {
                add_to(filter, hasher, prefix, hash);
                filter.is_full()
            }
            None => self.index.len() >= FILTERED_PREFIXES,
        };
        if is_due && self.coming.is_none() {
            // All rows are passed: in a table that has shrunk there must be as many changes before
            // it happens again.
            let filter = PrefixFilter::for_prefixes(self.index.len().max(self.rows.len() / 2));
            self.coming = Some(Coming { filter, passed: 0 });
        }
        let Some(Coming { filter, passed }) = &mut self.coming else {
            return;
        };
        if !filter.lengthen() {
            return;
        }
        if slot.index() < *passed {
            add_to(filter, hasher, prefix, hash);
        }
        let end = self.rows.len().min(*passed + PREFIXES_FILTERED_AT_ONCE);
        let rows = (*passed..end).map(|row| self.rows.get(Slot::new(row as u32)));
        for (bytes, _) in rows.filter_map(Row::get) {
            if let Ok(prefix) = NameRef::from_value(bytes) {
                add_to(filter, hasher, prefix, hasher.hash(bytes));
            }
        }
        *passed = end;
        if end == self.rows.len() {
            self.filter = self.coming.take().map(|coming| coming.filter);
        }
    }

    /// Removes exactly `prefix`; returns its value.
    pub(crate) fn remove(&mut self, hasher: &NameHasher, prefix: NameRef<'_>) -> Option<T> {
        let name = prefix.as_bytes();
        let hash = hasher.hash(name);
        let slot = self.find(hash, name)?;
        self.index.remove(hash, slot);
        self.free.push(slot);
        let length = prefix.component_count();
        self.counts[length] -= 1;
        if self.counts[length] == 0 {
            self.lengths.remove(length);
        }
        if length == 0 {
            self.root = None;
        }
        match std::mem::replace(self.rows.get_mut(slot), Row::Free) {
            Row::Free => None,
            Row::Short { value, .. } | Row::Long { value, .. } => Some(value),
        }
    }

    /// Checks that the index finds every row, and that the counts are those of the rows. O(rows);
    /// for tests.
    ///
    /// # Panics
    /// If they are not.
    pub(crate) fn check_invariants(&self, hasher: &NameHasher) {
        let mut counts = [0; PREFIX_COMPONENTS + 1];
        for (bytes, _) in self.rows.iter().filter_map(Row::get) {
            assert!(
                self.find(hasher.hash(bytes), bytes).is_some(),
                "the index has each prefix"
            );
            let name = NameRef::from_value(bytes).unwrap_or_default();
            counts[name.component_count()] += 1;
        }
        assert_eq!(
            self.counts, counts,
            "prefixes are counted by their components"
        );
        assert_eq!(
            self.len(),
            counts.iter().sum::<usize>(),
            "the index has no prefix but these"
        );
        assert_eq!(
            self.len() + self.free.len(),
            self.rows.len(),
            "a row is in use or free"
        );
        for (components, count) in counts.iter().enumerate().skip(1) {
            assert_eq!(
                self.lengths.contains(components),
                *count > 0,
                "a length in use is looked up"
            );
        }
        assert_eq!(
            self.root.is_some(),
            counts[0] > 0,
            "the root is known if it is in the table"
        );
    }
}

fn add_to(filter: &mut PrefixFilter, hasher: &NameHasher, prefix: NameRef<'_>, hash: u64) {
    if let Some(end) = prefix.prefix_ends().nth(ANCHOR - 1) {
        filter.add(hasher.hash(&prefix.as_bytes()[..end]), hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FILTER_LINES_AT_ONCE;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Components long enough that names of three fit into a row and longer ones do not.
    fn name(components: &[u8]) -> Name {
        let mut name = Name::root();
        for component in components {
            name.push_generic(&[b'a' + component; 16]);
        }
        name
    }

    #[test]
    fn a_row_of_the_fib_that_takes_two_lines() {
        assert_eq!(size_of::<Row<u32>>(), 64);
    }

    #[test]
    fn a_name_that_collides_in_the_index_is_taken_for_another() {
        let hasher = NameHasher::new([3, 4]);
        let mut table = PrefixTable::new();
        let numbered = |number: u32| {
            let mut name = Name::root();
            name.push_generic(&number.to_be_bytes());
            name
        };
        for number in 0..1000 {
            _ = table.insert(&hasher, numbered(number).as_name(), number);
        }
        for number in 0..1000 {
            // As though the names had the same hash.
            let other = numbered(1000 + number);
            let hash = hasher.hash(other.as_bytes());
            table.index.insert(hash, Slot::new(number));
            assert!(table.index.part(hash).guess(hash).is_some());
            assert_eq!(table.get(&hasher, other.as_name()), None);
            assert_eq!(
                table.get(&hasher, numbered(number).as_name()),
                Some(&number)
            );
        }
    }

    #[test]
    fn a_large_table_misses_what_it_has() {
        let hasher = NameHasher::new([3, 4]);
        let mut table = PrefixTable::new();
        // Under few names of two components, and some under one of three: their line of the filter
        // fills up.
        let numbered = |number: usize| {
            let mut name = Name::root();
            let components = [
                number % 7,
                number % 5,
                number * (number / 4 % 2),
                number,
                number % 11,
            ];
            for component in &components[..2 + number % 4] {
                _ = name.push_generic(&component.to_be_bytes());
            }
            name
        };
        let mut model = BTreeMap::new();
        let mut prefixes = Vec::new();
        let mut check = |table: &PrefixTable<usize>, model: &BTreeMap<Name, usize>, step: usize| {
            for name in (0..3 * FILTERED_PREFIXES).step_by(step).map(numbered) {
                let mut longer = name.clone();
                longer.push_generic(b"more");
                hasher.prefixes(longer.as_name(), table.lengths(), &mut prefixes);
                let expected = (0..=5)
                    .rev()
                    .find_map(|n| model.get(&longer.as_name().prefix(n).to_name()));
                assert_eq!(
                    table
                        .longest_match(longer.as_name(), &prefixes)
                        .map(|(_, value)| value),
                    expected
                );
            }
        };
        for number in 0..3 * FILTERED_PREFIXES {
            let name = numbered(number);
            assert_eq!(
                table.insert(&hasher, name.as_name(), number),
                model.insert(name, number)
            );
            if table.len() == FILTERED_PREFIXES + 1 {
                check(&table, &model, 97);
            }
        }
        assert!(
            table.filter.is_some() && table.coming.is_none(),
            "nothing was tried"
        );
        check(&table, &model, 31);
        let lines =
            |table: &PrefixTable<usize>| table.filter.as_ref().map_or(0, PrefixFilter::lines);
        let before = lines(&table);
        for first in [0, 1] {
            for name in (first..3 * FILTERED_PREFIXES).step_by(2).map(numbered) {
                assert_eq!(table.remove(&hasher, name.as_name()), model.remove(&name));
            }
            for _ in 0..12 {
                // Of four and five components, which no other has.
                for name in (3 * FILTERED_PREFIXES + 2..4 * FILTERED_PREFIXES)
                    .step_by(4)
                    .map(numbered)
                {
                    assert_eq!(table.insert(&hasher, name.as_name(), 1), None);
                    assert_eq!(table.remove(&hasher, name.as_name()), Some(1));
                }
            }
            check(&table, &model, 31);
            let lines = lines(&table);
            assert!(
                lines <= 2 * before,
                "what comes and goes makes it grow: {before} lines, {lines}"
            );
            assert!(
                lines >= before,
                "a table that has shrunk passes all its rows too often: {before} lines, {lines}"
            );
        }
    }

    /// Failure: the insertion that fills a filter makes the next filter, and packets wait for a
    /// second.
    #[test]
    fn one_insertion_pays_for_the_whole_table() {
        let hasher = NameHasher::new([3, 4]);
        let mut table = PrefixTable::new();
        let numbered = |number: usize| {
            let mut name = Name::root();
            for component in &[number / 50, number, 1, 2] {
                _ = name.push_generic(&component.to_be_bytes());
            }
            name
        };
        let most = FILTER_LINES_AT_ONCE + PREFIXES_FILTERED_AT_ONCE + 1;
        let (mut filters, mut prefixes) = (0, Vec::new());
        for number in 0..5 * FILTERED_PREFIXES {
            let before = table.coming.as_ref().map(|coming| coming.filter.steps());
            let (is_coming, old) = (
                before.is_some(),
                table.filter.as_ref().map_or(0, PrefixFilter::steps),
            );
            let name = numbered(number);
            table.insert(&hasher, name.as_name(), number);
            // Every seventh leaves, and its row is another's soon: one that was passed, or one that
            // was not.
            if number % 7 == 0 {
                table.remove(&hasher, numbered(number / 2).as_name());
            }
            let after = table.coming.as_ref().map(|coming| coming.filter.steps());
            let now = table.filter.as_ref().map_or(0, PrefixFilter::steps);
            filters += usize::from(is_coming && after.is_none());
            if filters == 1 && is_coming && after.is_none() {
                let bytes = 64 * table.filter.as_ref().map_or(0, PrefixFilter::lines);
                assert_eq!(
                    bytes,
                    2 * FILTERED_PREFIXES,
                    "the first filter takes two bytes a prefix"
                );
            }
            let steps = match (before, after) {
                (Some(before), None) => now - before,
                (before, after) => after.unwrap_or(0) - before.unwrap_or(0) + now - old,
            };
            assert!(steps <= most + 1, "prefix {number} took {steps} steps");
            // Half a filter is no filter.
            if number % 20_000 == 0 || is_coming && after.is_none() {
                for number in (0..=number).step_by(61) {
                    let name = numbered(number);
                    hasher.prefixes(name.as_name(), table.lengths(), &mut prefixes);
                    let expected = table.get(&hasher, name.as_name());
                    assert_eq!(
                        table
                            .longest_match(name.as_name(), &prefixes)
                            .map(|(_, value)| value),
                        expected
                    );
                }
            }
        }
        assert!(filters >= 3, "nothing was tried: {filters}");
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
                table.check_invariants(&hasher);
                let prefix = name(&components);
                if insert {
                    prop_assert_eq!(table.insert(&hasher, prefix.as_name(), i), model.insert(components, i));
                } else {
                    prop_assert_eq!(table.remove(&hasher, prefix.as_name()), model.remove(&components));
                }
            }
            prop_assert_eq!(table.len(), model.len());
            let in_use = |length| model.keys().any(|components| components.len() == length);
            prop_assert!((1..6).all(|length| table.lengths().contains(length) == in_use(length)));
            let all: BTreeMap<Name, usize> = table.iter().map(|(name, value)| (name, *value)).collect();
            prop_assert_eq!(all, model.iter().map(|(components, value)| (name(components), *value)).collect());
            let expected = (0..=asked.len()).rev().find_map(|n| model.get(&asked[..n]));
            let asked = name(&asked);
            prop_assert_eq!(table.get(&hasher, asked.as_name()), model.iter().find(|(c, _)| name(c) == asked).map(|(_, v)| v));
            let mut prefixes = Vec::new();
            hasher.prefixes(asked.as_name(), table.lengths(), &mut prefixes);
            table.prefetch(&prefixes);
            table.prefetch_index(&prefixes);
            table.prefetch_rows(&prefixes);
            prop_assert_eq!(table.longest_match(asked.as_name(), &prefixes).map(|(_, value)| value), expected);
            prop_assert_eq!(table.longest_match_mut(asked.as_name(), &prefixes).map(|value| &*value), expected);
        }
    }

    /// Failure: the check that property tests, simulations and fuzz targets rely on accepts a
    /// broken table.
    #[test]
    fn a_broken_table_passes_its_check() {
        let hasher = NameHasher::new([3, 4]);
        let breakages: [fn(&mut PrefixTable<u32>); 7] = [
            |table| table.index = Index::default(),
            |table| table.index.len += 1,
            |table| table.counts[1] += 1,
            |table| table.free.clear(),
            |table| table.lengths.remove(1),
            |table| table.lengths.insert(3),
            |table| table.root = None,
        ];
        for (number, breakage) in breakages.into_iter().enumerate() {
            let mut table = PrefixTable::new();
            for components in [&[][..], &[1], &[1, 2]] {
                table.insert(&hasher, name(components).as_name(), 1);
            }
            table.remove(&hasher, name(&[1, 2]).as_name());
            table.check_invariants(&hasher);
            breakage(&mut table);
            let check = std::panic::AssertUnwindSafe(|| table.check_invariants(&hasher));
            assert!(
                std::panic::catch_unwind(check).is_err(),
                "breakage {number}"
            );
        }
    }
}
