//! The positions of records: a table of keyed hashes to slots, and the engine that selects the kept
//! slots.

use hashbrown::HashTable;
use larder_policy::{Engine, Slot};
use larder_units::Time;

pub(crate) struct Index {
    pub engine: Engine,
    table: HashTable<Slot>,
    /// By slot; the engine knows which are in use.
    entries: Vec<Entry>,
    victims: Vec<Slot>,
    /// The evicted entries since this list was last emptied.
    pub left: Vec<Entry>,
}

/// One record. It takes 24 bytes, and 8 in the table and the policy's own memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub hash: u64,
    pub tag: u32,
    pub region: u32,
    pub offset: u32,
    pub length: u32,
}

impl Index {
    pub(crate) fn new(engine: Engine) -> Index {
        Index {
            engine,
            table: HashTable::new(),
            entries: Vec::new(),
            victims: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Returns all records whose key has this hash, in no order.
    pub(crate) fn of_key(&self, hash: u64) -> impl Iterator<Item = Slot> {
        self.table
            .iter_hash(hash)
            .copied()
            .filter(move |slot| self.entries[slot.index()].hash == hash)
    }

    pub(crate) fn find(&self, hash: u64, tag: u32) -> Option<Slot> {
        self.of_key(hash)
            .find(|slot| self.entries[slot.index()].tag == tag)
    }

    pub(crate) fn get(&self, slot: Slot) -> &Entry {
        &self.entries[slot.index()]
    }

    /// Returns the entry of a slot that may have been freed meanwhile.
    pub(crate) fn get_if_used(&self, slot: Slot) -> Option<&Entry> {
        self.engine.object(slot)?;
        self.entries.get(slot.index())
    }

    /// Records that the record was written to another position.
    pub(crate) fn relocate(&mut self, slot: Slot, region: u32, offset: u32) {
        let entry = &mut self.entries[slot.index()];
        (entry.region, entry.offset) = (region, offset);
    }

    /// Adds a record. Returns its slot and the number of evicted records; `None` if it can never
    /// fit.
    pub(crate) fn insert(&mut self, entry: Entry, now: Time) -> Option<(Slot, u64)> {
        let slot = self
            .engine
            .insert(entry.hash, u64::from(entry.length), now, &mut self.victims);
        let evicted = self.victims.len() as u64;
        while let Some(victim) = self.victims.pop() {
            // The new record may have the slot of a victim; the entries still hold the old records.
            self.left.push(self.entries[victim.index()]);
            self.unlink(victim);
        }
        let slot = slot?;
        if self.entries.len() <= slot.index() {
            self.entries.push(entry);
        }
        self.entries[slot.index()] = entry;
        let entries = &self.entries;
        self.table
            .insert_unique(entry.hash, slot, |slot| entries[slot.index()].hash);
        Some((slot, evicted))
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        self.engine.remove(slot);
        self.unlink(slot);
    }

    /// Removes all records whose key has this hash, and returns how many there were.
    pub(crate) fn remove_key(&mut self, hash: u64) -> u64 {
        let slots: Vec<Slot> = self.of_key(hash).collect();
        for slot in &slots {
            self.remove(*slot);
        }
        slots.len() as u64
    }

    pub(crate) fn clear(&mut self) {
        for slot in std::mem::take(&mut self.table) {
            self.engine.remove(slot);
        }
    }

    fn unlink(&mut self, slot: Slot) {
        if let Ok(entry) = self
            .table
            .find_entry(self.entries[slot.index()].hash, |other| *other == slot)
        {
            entry.remove();
        }
    }

    /// Returns all slots in use, with their entries, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Slot, &Entry)> {
        self.table
            .iter()
            .map(|slot| (*slot, &self.entries[slot.index()]))
    }

    /// Panics if table, entries and engine are inconsistent: see [`crate::Log::check_invariants`].
    pub(crate) fn check_invariants(&self) {
        self.engine.check_invariants();
        assert_eq!(
            self.table.len(),
            self.engine.len(),
            "the index has as many records as the engine"
        );
        for (slot, entry) in self.entries() {
            let (id, size) = self
                .engine
                .object(slot)
                .expect("the engine has every slot of the index");
            assert_eq!(
                (id, size.bytes()),
                (entry.hash, entry.length.into()),
                "{slot:?}: hash and length in the engine"
            );
            assert_eq!(
                self.find(entry.hash, entry.tag),
                Some(slot),
                "one record of a hash and tag, where it is found"
            );
        }
        assert!(self.left.is_empty(), "every evicted record has been noted");
    }

    pub(crate) fn state_bytes(&self) -> usize {
        self.engine.state_bytes()
            + self.entries.capacity() * size_of::<Entry>()
            + self.table.allocation_size()
    }
}
