//! Records that have left the index and are still on the disk, where a restart would find them.
//!
//! If a key's new value is stored, it is after the old one, and a restart uses the new one. If it
//! is not stored (the disk is too slow, the policy refuses it), a tombstone must remove the old
//! one. Otherwise a restart would serve a value that was replaced long ago. A tombstone for every
//! value that is not stored would fill the log; so it is written only for the keys in this table.
//! Overwritten records are removed from the table when it would grow.
//!
//! The caller holds the log's lock, and others wait for it. So the table is in [`PARTS`] by hash,
//! each of which is swept, and grows, by itself: an insertion visits a thousandth of the table,
//! 10,000 records of ten million.
//!
//! It takes 16 bytes a record, and one byte of the hash table. It has fewer records than the disk.

use hashbrown::HashTable;

pub(crate) struct Superseded {
    parts: Box<[Part]>,
}

#[derive(Default)]
struct Part {
    table: HashTable<Record>,
    sweep_at: usize,
}

struct Record {
    hash: u64,
    tag: u32,
    /// The sequence number of its region, in 32 bits.
    sequence: u32,
}

const PARTS: usize = 1024;

/// Smaller parts are not worth a sweep.
const SWEPT: usize = 16;

impl Default for Superseded {
    fn default() -> Self {
        Superseded {
            parts: (0..PARTS).map(|_| Part::default()).collect(),
        }
    }
}

impl Superseded {
    /// Remembers that a record of the region with this sequence number has left the index; the
    /// records of regions before `oldest` are no longer on the disk.
    pub(crate) fn tombstone(&mut self, hash: u64, tag: u32, sequence: u64, oldest: u64) {
        self.take(hash, tag);
        let Part { table, sweep_at } = self.part(hash);
        if table.len() >= *sweep_at {
            table.retain(|record| u64::from(record.sequence) >= oldest);
            *sweep_at = SWEPT.max(table.len() * 2);
        }
        let record = Record {
            hash,
            tag,
            sequence: u32::try_from(sequence).unwrap_or(u32::MAX),
        };
        table.insert_unique(hash, record, |record| record.hash);
    }

    /// Returns true if there may be a record of the key with this hash and tag, and forgets it.
    pub(crate) fn take(&mut self, hash: u64, tag: u32) -> bool {
        let found = self
            .part(hash)
            .table
            .find_entry(hash, |record| (record.hash, record.tag) == (hash, tag));
        found.map(|entry| entry.remove()).is_ok()
    }

    /// Returns true if a record of the key with this hash and tag has left the index and may be on
    /// the disk.
    pub(crate) fn holds(&self, hash: u64, tag: u32) -> bool {
        self.parts[part_of(hash)]
            .table
            .find(hash, |record| (record.hash, record.tag) == (hash, tag))
            .is_some()
    }

    /// Panics if a record is not where a lookup expects it: see [`crate::Log::check_invariants`].
    pub(crate) fn check_invariants(&self) {
        for (at, part) in self
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| !part.table.is_empty())
        {
            for record in &part.table {
                assert!(
                    part_of(record.hash) == at && self.holds(record.hash, record.tag),
                    "a superseded record is found"
                );
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Superseded::default();
    }

    pub(crate) fn state_bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|part| size_of::<Part>() + part.table.allocation_size())
            .sum()
    }

    fn part(&mut self, hash: u64) -> &mut Part {
        &mut self.parts[part_of(hash)]
    }
}

/// Returns the index of a hash's part, from bits that do not affect the position in a part.
fn part_of(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: entries of records that were overwritten long ago fill the memory.
    #[test]
    fn what_is_overwritten_is_forgotten() {
        let mut superseded = Superseded::default();
        for at in 0..100_000u64 {
            superseded.tombstone(hash(at), 0, at / 100, (at / 100).saturating_sub(8));
            // Most keys have no further put.
            assert!(
                at < 500 || at % 10 > 0 || superseded.take(hash(at - 500), 0),
                "still on the disk"
            );
        }
        assert!(
            superseded
                .parts
                .iter()
                .all(|part| part.table.len() <= SWEPT)
        );
        assert!(
            superseded.state_bytes() < 1_000_000,
            "{}",
            superseded.state_bytes()
        );
    }

    /// Failure: everything waits while one insertion sweeps a table of millions.
    #[test]
    fn one_note_passes_all_that_has_departed() {
        let mut superseded = Superseded::default();
        let mut most = 0;
        for at in 0..1_000_000u64 {
            // The allowed work: a sweep or a larger table visits the records of its part.
            most = most.max(superseded.part(hash(at)).table.len());
            superseded.tombstone(hash(at), 0, at / 100_000, (at / 100_000).saturating_sub(5));
        }
        let all: usize = superseded.parts.iter().map(|part| part.table.len()).sum();
        assert!(all > 500_000, "nothing was tried: {all}");
        assert!(
            most < 4 * 1_000_000 / PARTS,
            "a note may pass {most} records"
        );
    }

    /// Returns a number that is spread as a keyed hash is.
    fn hash(at: u64) -> u64 {
        at.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
