//! Which prefixes a large table may have: a Bloom filter that tells from one cache line for which
//! of a name's prefixes to look.
//!
//! Putze, Sanders and Singler, Cache-, hash- and space-efficient Bloom filters, WEA 2007, section
//! 3: all bits of an entry in one block, a cache line. Here one bit an entry, and the line is
//! chosen by the first [`ANCHOR`] components, so that all prefixes of a name share it: a name is
//! asked for in one line, where its index would take one for each length in use. Shorter prefixes
//! are few, and are not in it.
//! * 64 prefixes a line of 512 bits at most, on average: an eighth of what is not there passes.
//!   Where many prefixes begin alike their line fills up, and the filter lets all pass there, as
//!   though it were not.
//! * What is removed leaves its bit; another filter takes its place when twice as many were added
//!   as stood in it at first. That one is made a little with each insertion, and nobody is asked
//!   less well meanwhile: the old one has all that comes (`prefix_table.rs`).
//!
//! O(1). 1 to 2 bytes a prefix.

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
        PrefixFilter { lines, length, added: 0 }
    }

    /// Makes some of the lines that are missing; true where none are.
    pub(crate) fn lengthen(&mut self) -> bool {
        let is_whole = self.lines.len() == self.length;
        self.lines.resize(self.length.min(self.lines.len() + FILTER_LINES_AT_ONCE), Line::default());
        is_whole
    }

    /// Whether it has as many prefixes as it is good for.
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

    /// The line of a name, where it has [`ANCHOR`] components; these are its prefixes, of this
    /// length too.
    #[inline]
    pub(crate) fn line(&self, prefixes: &[Prefix]) -> Option<&Line> {
        Some(&self.lines[self.place(anchor(prefixes)?)])
    }

    /// [`PrefixFilter::line`] will be asked for soon.
    #[inline]
    pub(crate) fn prefetch(&self, prefixes: &[Prefix]) {
        if let Some(anchor) = anchor(prefixes) {
            prefetch(&self.lines, self.place(anchor));
        }
    }

    /// How many lines there are.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// What was done to make it: a line or a prefix a step.
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
    prefixes.iter().take(ANCHOR + 1).find(of_length).map(|prefix| prefix.hash)
}

/// By the low bits of the hash: the index has the high ones, and the lowest four choose its part.
#[inline]
fn bit(hash: u64) -> (usize, u64) {
    ((hash >> 6) as usize % 8, 1 << (hash % 64))
}
