//! Disjoint ranges of a stream's bytes: those that a receiver has beyond a gap, and those that a
//! sender knows to be received.

use std::collections::BTreeMap;

/// Ranges `[start, end)`, merged if they touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range, and calls `new` for each part of it that is new. O(log n) for each range that
    /// it touches.
    pub(super) fn insert(&mut self, start: u64, end: u64, mut new: impl FnMut(u64, u64)) {
        if start >= end {
            return;
        }
        let before = self
            .0
            .range(..=start)
            .next_back()
            .filter(|(_, end)| **end >= start);
        let first = before.map_or(start, |(start, _)| *start);
        let (mut low, mut high, mut covered) = (start, end, start);
        while let Some((&from, &to)) = self.0.range(first..=end).next() {
            if from > covered {
                new(covered, from);
            }
            covered = covered.max(to);
            (low, high) = (low.min(from), high.max(to));
            self.0.remove(&from);
        }
        if covered < end {
            new(covered, end);
        }
        self.0.insert(low, high);
    }

    /// Removes all ranges below an edge that no range crosses.
    pub(super) fn remove_below(&mut self, edge: u64) {
        while let Some(first) = self.0.first_entry()
            && *first.get() <= edge
        {
            first.remove();
        }
    }

    /// Returns the range that contains this byte.
    pub(super) fn around(&self, at: u64) -> Option<(u64, u64)> {
        self.0
            .range(..=at)
            .next_back()
            .filter(|(_, end)| **end > at)
            .map(|(start, end)| (*start, *end))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;

    #[test]
    fn a_byte_is_new_twice_or_never() {
        let mut stream = Streams::new(7).stream("ranges");
        for _ in 0..200 {
            let (mut ranges, mut naive) = (Ranges::default(), [false; 64]);
            for _ in 0..20 {
                let start = stream.below(64);
                let end = (start + stream.below(12)).min(64);
                let mut fresh = Vec::new();
                ranges.insert(start, end, |a, b| fresh.extend(a..b));
                let expected: Vec<u64> = (start..end).filter(|at| !naive[*at as usize]).collect();
                assert_eq!(fresh, expected);
                for at in start..end {
                    naive[at as usize] = true;
                }
            }
            for at in 0..64 {
                assert_eq!(ranges.around(at).is_some(), naive[at as usize]);
            }
            ranges.remove_below(64);
            assert!(ranges.is_empty());
        }
    }
}
