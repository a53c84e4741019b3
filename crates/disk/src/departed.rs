//! Records that the index has let go and that are still on the disk: a restart would find them.
//!
//! Where a key's new value is stored, it stands behind the old one and no restart minds that. Where it is not stored (the disk is too slow, the policy
//! refuses it), the old one must be removed by a note, or a restart serves what was replaced long ago. A note for every value that is not stored would
//! fill the log with them; so it is written for keys that stand here. What was overwritten since is forgotten when the table would grow.
//!
//! 16 bytes a record, and a byte of the table's own; fewer than there are records on the disk.

use hashbrown::HashTable;

#[derive(Default)]
pub(crate) struct Departed {
    table: HashTable<Record>,
    sweep_at: usize,
}

struct Record {
    hash: u64,
    tag: u32,
    /// Of its region; they have 32 bits.
    sequence: u32,
}

/// Smaller tables are not worth a sweep.
const SWEPT: usize = 1024;

impl Departed {
    /// A record of the region with this sequence number has been let go; those of regions before `oldest` are on the disk no more.
    pub(crate) fn note(&mut self, hash: u64, tag: u32, sequence: u64, oldest: u64) {
        if self.table.len() >= self.sweep_at {
            self.table.retain(|record| u64::from(record.sequence) >= oldest);
            self.sweep_at = SWEPT.max(self.table.len() * 2);
        }
        self.take(hash, tag);
        let record = Record { hash, tag, sequence: sequence as u32 };
        self.table.insert_unique(hash, record, |record| record.hash);
    }

    /// Whether there may be one of the key with this hash and tag; it is forgotten here.
    pub(crate) fn take(&mut self, hash: u64, tag: u32) -> bool {
        let found = self.table.find_entry(hash, |record| (record.hash, record.tag) == (hash, tag));
        found.map(|entry| entry.remove()).is_ok()
    }

    pub(crate) fn clear(&mut self) {
        *self = Departed::default();
    }

    pub(crate) fn state_bytes(&self) -> usize {
        self.table.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fear: what was overwritten long ago fills the memory.
    #[test]
    fn what_is_overwritten_is_forgotten() {
        let mut departed = Departed::default();
        for at in 0..100_000u64 {
            departed.note(at, 0, at / 100, (at / 100).saturating_sub(8));
            assert!(at < 500 || departed.take(at - 500, 0), "still on the disk");
        }
        assert!(departed.table.len() <= 2 * SWEPT && departed.state_bytes() < 100_000, "{}", departed.table.len());
    }
}
