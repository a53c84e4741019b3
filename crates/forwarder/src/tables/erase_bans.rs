//! What `cs/erase` means for a second tier that cannot look at all that it holds: each record is
//! judged when it is read, or written again (see `larder-disk`'s marks, which prefixes are the
//! content of).
//!
//! For each prefix the position of its latest erasure is kept; what stands before that is gone.
//! Some 100 bytes a prefix, at most [`ERASE_MARKS`] of them, and a record is compared with all that
//! are younger than it.

use crate::limits::ERASE_MARKS;
use larder_packet::NameRef;
use std::collections::BTreeMap;

/// The erasures that a second tier's records may be subject to.
#[derive(Debug, Default)]
pub struct EraseBans {
    /// By the prefix's TLV-VALUE.
    prefixes: BTreeMap<Box<[u8]>, u64>,
    /// No mark stands behind this.
    end: u64,
}

impl EraseBans {
    /// Adds an erasure; `mark` is the prefix's TLV-VALUE. What is no name counts as the root:
    /// better too much is gone than too little.
    pub fn add(&mut self, position: u64, mark: &[u8]) {
        let prefix = NameRef::from_value(mark).unwrap_or_default();
        self.prefixes.insert(prefix.as_bytes().into(), position);
        self.end = self.end.max(position);
    }

    /// Whether the record of this name at `position` is gone; `name` is a TLV-VALUE.
    pub fn erased(&self, position: u64, name: &[u8]) -> bool {
        position < self.end && self.prefixes.iter().any(|(prefix, at)| position < *at && name.starts_with(prefix))
    }

    /// No record stands before this any more.
    pub fn retire(&mut self, before: u64) {
        self.prefixes.retain(|_, at| *at >= before);
    }

    /// There are as many as there may be: who has another should rather erase everything.
    pub fn is_full(&self) -> bool {
        self.prefixes.len() >= ERASE_MARKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::Name;

    fn bytes(name: &str) -> Vec<u8> {
        name.parse::<Name>().unwrap().as_bytes().to_vec()
    }

    #[test]
    fn an_erasure_misses_what_it_names_or_takes_what_came_after() {
        let mut marks = EraseBans::default();
        marks.add(10, &bytes("/a/b"));
        marks.add(20, &bytes("/c"));
        for (position, name, erased) in [
            (9, "/a/b", true),
            (9, "/a/b/c", true),
            (10, "/a/b/c", false),
            (9, "/a/bc", false),
            (9, "/a", false),
            (19, "/c/d", true),
            (20, "/c/d", false),
        ] {
            assert_eq!(marks.erased(position, &bytes(name)), erased, "{position} {name}");
        }
        marks.retire(11);
        assert!(!marks.erased(9, &bytes("/a/b")) && marks.erased(19, &bytes("/c")));
        marks.add(30, b"\xff no name");
        assert!(marks.erased(29, &bytes("/x")) && !marks.erased(30, &bytes("/x")));
    }
}
