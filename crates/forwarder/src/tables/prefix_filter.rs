//! A Bloom filter over the prefixes of a large table. It tells from one cache line which prefixes
//! of a name the table may have.
//!
//! Putze, Sanders and Singler, Cache-, hash- and space-efficient Bloom filters, WEA 2007, section
//! 3: all bits of an entry are in one block, a cache line. Here an entry has one bit, and the first
//! [`ANCHOR`] components choose the line, so all prefixes of a name share it. A name costs one
//! line, where the index would cost one for each length in use. Shorter prefixes are few, and are
//! not in the filter.
//! * A line of 512 bits has 64 prefixes at most, on average: an eighth of the absent prefixes
//!   passes. If many prefixes begin alike, their line fills up, and there the filter lets
//!   everything pass.
//! * A removed prefix leaves its bit. Another filter replaces this one when twice as many prefixes
//!   were added as it had at first. Each insertion builds a small part of the new one. The old one
//!   remains complete in the meantime, because it gets all insertions too (`prefix_table.rs`).
//!
//! O(1). 1 to 2 bytes per prefix.

use crate::limits::FILTER_LINES_AT_ONCE;
use crate::tables::name_hash::Prefix;
use larder_policy::{grow, prefetch};

/// Components that choose the line: what names of one network or site have in common is less,
/// mostly.
pub(crate) const ANCHOR: usize = 3;

/// Prefixes a line for which it is made: as many again may come.
const PREFIXES_A_LINE: usize = 32;

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Line([u64; 8]);

pub(crate) struct PrefixFilter {
    /// A power of two of them, when all are there.
    lines: Vec<Line>,
    /// The number of lines when the filter is complete.
    length: usize,
    /// Since it was made.
    added: usize,
}

impl PrefixFilter {
    /// For this many prefixes and as many again. It has no lines yet ([`PrefixFilter::lengthen`]).
    pub(crate) fn for_prefixes(prefixes: usize) -> PrefixFilter {
        let length = (prefixes / PREFIXES_A_LINE).max(1).next_power_of_two();
        let mut lines = Vec::new();
        grow(&mut lines, length);
        PrefixFilter {
            lines,
            length,
            added: 0,
        }
    }

    /// Makes some of the lines that are missing; true where none are.
    pub(crate) fn lengthen(&mut self) -> bool {
        let is_whole = self.lines.len() == self.length;
        self.lines.resize(
            self.length.min(self.lines.len() + FILTER_LINES_AT_ONCE),
            Line::default(),
        );
        is_whole
    }

    /// Returns true if it has as many prefixes as it was made for.
    pub(crate) fn is_full(&self) -> bool {
        self.added >= 2 * PREFIXES_A_LINE * self.length
    }

    /// Adds a prefix of at least [`ANCHOR`] components; all lines are there.
    pub(crate) fn add(&mut self, anchor: u64, hash: u64) {
        let place = self.place(anchor);
        let (word, bit) = bit(hash);
        self.lines[place].0[word] |= bit;
        self.added += 1;
    }

    /// Returns the line of a name, if the name has [`ANCHOR`] components. These are its prefixes,
    /// of this length too.
    #[inline]
    pub(crate) fn line(&self, prefixes: &[Prefix]) -> Option<&Line> {
        Some(&self.lines[self.place(anchor(prefixes)?)])
    }

    /// Prefetches the line for [`PrefixFilter::line`].
    #[inline]
    pub(crate) fn prefetch(&self, prefixes: &[Prefix]) {
        if let Some(anchor) = anchor(prefixes) {
            prefetch(&self.lines, self.place(anchor));
        }
    }

    /// Returns the number of lines.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns the work that built it, in steps of a line or a prefix.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> usize {
        self.lines.len() + self.added
    }

    #[inline]
    fn place(&self, anchor: u64) -> usize {
        (anchor >> 32) as usize & (self.lines.len() - 1)
    }
}

impl Line {
    /// False where the prefix is not in the table.
    #[inline]
    pub(crate) fn may_have(&self, prefix: &Prefix) -> bool {
        let (word, bit) = bit(prefix.hash);
        usize::from(prefix.components) < ANCHOR || self.0[word] & bit != 0
    }
}

#[inline]
fn anchor(prefixes: &[Prefix]) -> Option<u64> {
    let of_length = |prefix: &&Prefix| usize::from(prefix.components) == ANCHOR;
    prefixes
        .iter()
        .take(ANCHOR + 1)
        .find(of_length)
        .map(|prefix| prefix.hash)
}

/// By the low bits of the hash: the index has the high ones, and the lowest four choose its part.
#[inline]
fn bit(hash: u64) -> (usize, u64) {
    ((hash >> 6) as usize % 8, 1 << (hash % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::name_hash::{Lengths, NameHasher};
    use larder_packet::Name;

    const PREFIXES: usize = 1 << 14;

    fn prefixes(hasher: &NameHasher, components: &[usize]) -> Vec<Prefix> {
        let mut name = Name::root();
        for component in components {
            _ = name.push_generic(&component.to_be_bytes());
        }
        let mut prefixes = Vec::new();
        hasher.prefixes(name.as_name(), Lengths::up_to(8), &mut prefixes);
        prefixes
    }

    /// Failure: the filter says of a prefix that it is absent although it was added; or it is too
    /// small, or prefixes crowd in some of its bits, and most absent ones pass.
    #[test]
    fn a_filter_is_wrong_or_useless() {
        let hasher = NameHasher::new([5, 6]);
        let mut filter = PrefixFilter::for_prefixes(PREFIXES);
        let mut insertions = 1;
        while !filter.lengthen() {
            insertions += 1;
        }
        assert_eq!(
            (filter.lines(), filter.length),
            (PREFIXES / PREFIXES_A_LINE, PREFIXES / PREFIXES_A_LINE)
        );
        assert_eq!(
            insertions,
            1 + filter.lines() / FILTER_LINES_AT_ONCE,
            "a page at a time"
        );
        // Each site has a prefix of the anchor's length, and one below.
        let site = |number: usize| prefixes(&hasher, &[number % 3, number % 50, number]);
        let below = |number: usize, below: usize| {
            prefixes(&hasher, &[number % 3, number % 50, number, below])
        };
        for number in 0..PREFIXES {
            assert!(!filter.is_full(), "prefix {number}");
            let [site, below] = [site(number), below(number, 0)];
            let anchor = site[ANCHOR].hash;
            assert_eq!(below[ANCHOR].hash, anchor);
            filter.add(anchor, anchor);
            filter.add(anchor, below[ANCHOR + 1].hash);
        }
        assert!(
            filter.is_full(),
            "as many again have come as it was made for"
        );
        let passes = |prefixes: &[Prefix]| {
            filter
                .line(prefixes)
                .unwrap()
                .may_have(prefixes.last().unwrap())
        };
        assert!((0..PREFIXES).all(|number| passes(&site(number)) && passes(&below(number, 0))));
        let share = |passed: usize| passed as f64 / PREFIXES as f64;
        // 64 bits of 512 on average. The lines of more prefixes let more pass.
        let others = share(
            (PREFIXES..2 * PREFIXES)
                .filter(|number| passes(&site(*number)))
                .count(),
        );
        assert!(
            (0.09..0.14).contains(&others),
            "{others} of the absent sites pass"
        );
        let siblings = share(
            (0..PREFIXES)
                .filter(|number| passes(&below(*number, 1)))
                .count(),
        );
        assert!(
            (0.09..0.15).contains(&siblings),
            "{siblings} of the absent prefixes of a site pass"
        );
    }

    /// Failure: a prefix above the anchor, which is never in the filter, is taken for absent; or a
    /// name without an anchor has a line.
    #[test]
    fn a_prefix_above_the_anchor_is_absent() {
        let hasher = NameHasher::new([5, 6]);
        let mut filter = PrefixFilter::for_prefixes(PREFIXES);
        while !filter.lengthen() {}
        let all = prefixes(&hasher, &[1, 2, 3, 4]);
        let line = filter.line(&all).unwrap();
        let may_have: Vec<bool> = all.iter().map(|prefix| line.may_have(prefix)).collect();
        assert_eq!(may_have, [true, true, true, false, false]);
        assert!(filter.line(&all[..ANCHOR]).is_none());
        assert!(
            filter.line(&[all[0], all[ANCHOR]]).is_some(),
            "where no other length is in use"
        );
    }

    /// Failure: a filter for few prefixes has no line.
    #[test]
    fn a_small_filter_has_no_line() {
        for (prefixes, lines) in [
            (0, 1),
            (1, 1),
            (PREFIXES_A_LINE, 1),
            (3 * PREFIXES_A_LINE, 4),
        ] {
            let mut filter = PrefixFilter::for_prefixes(prefixes);
            while !filter.lengthen() {}
            assert_eq!(filter.lines(), lines, "{prefixes} prefixes");
        }
    }
}
