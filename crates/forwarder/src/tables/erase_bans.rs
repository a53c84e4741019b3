//! The erasures of a second tier that cannot visit all its records. Each record is checked when it
//! is read, or when it is written again. (See the marks of `larder-disk`; a mark holds a prefix.)
//!
//! The bans keep the position of the latest erasure of each prefix. Records of the prefix before
//! that position are erased. A prefix takes some 100 bytes, and there are at most [`ERASE_MARKS`]
//! of them. A record is compared with all marks that are younger than it.

use crate::limits::ERASE_MARKS;
use larder_packet::NameRef;
use std::collections::BTreeMap;

/// The erasures that a second tier's records may be subject to.
#[derive(Debug, Default)]
pub struct EraseBans {
    /// By the prefix's TLV-VALUE.
    prefixes: BTreeMap<Box<[u8]>, u64>,
    /// The position of the last mark.
    end: u64,
}

impl EraseBans {
    /// Adds an erasure; `mark` is the prefix's TLV-VALUE. Bytes that are no name count as the root:
    /// it is better to erase too much than too little.
    pub fn add(&mut self, position: u64, mark: &[u8]) {
        let prefix = NameRef::from_value(mark).unwrap_or_default();
        self.prefixes.insert(prefix.as_bytes().into(), position);
        self.end = self.end.max(position);
    }

    /// Returns true if the record of this name at `position` is erased; `name` is a TLV-VALUE.
    pub fn erased(&self, position: u64, name: &[u8]) -> bool {
        position < self.end
            && self
                .prefixes
                .iter()
                .any(|(prefix, at)| position < *at && name.starts_with(prefix))
    }

    /// Forgets the marks before a position. No record before it exists any more.
    pub fn retire(&mut self, before: u64) {
        self.prefixes.retain(|_, at| *at >= before);
    }

    /// Returns true if no other mark fits. The caller then has to erase everything instead.
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
            assert_eq!(
                marks.erased(position, &bytes(name)),
                erased,
                "{position} {name}"
            );
        }
        marks.retire(11);
        assert!(!marks.erased(9, &bytes("/a/b")) && marks.erased(19, &bytes("/c")));
        marks.add(30, b"\xff no name");
        assert!(marks.erased(29, &bytes("/x")) && !marks.erased(30, &bytes("/x")));
    }

    #[test]
    fn bans_take_ever_more_memory() {
        let mut bans = EraseBans::default();
        for number in 0..ERASE_MARKS {
            assert!(!bans.is_full(), "{number} fit");
            bans.add(number as u64, &bytes(&format!("/{number}")));
        }
        assert!(bans.is_full());
        bans.retire(1);
        assert!(!bans.is_full());
    }
}
