//! The stored variants by key and selecting values (RFC 9111 §4.1). A key may have a thousand, and
//! a request finds its own without a walk over the others.

use crate::store::policy_engine::EntryId;
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The entries that have a selector.
pub(crate) struct VariantIndex {
    table: HashTable<Variant>,
    /// The secret of the hash, because requests choose the values.
    secret: [u8; 16],
}

struct Variant {
    hash: u64,
    id: EntryId,
}

impl VariantIndex {
    pub(crate) fn new(secret: &[u8; 16]) -> VariantIndex {
        VariantIndex {
            table: HashTable::new(),
            secret: *secret,
        }
    }

    /// Adds an entry, by the hash of its key and the bytes of its selector.
    pub(crate) fn add(&mut self, key: u64, selector: &[u8], id: EntryId) {
        if !selector.is_empty() {
            let hash = self.hash(key, selector);
            self.table
                .insert_unique(hash, Variant { hash, id }, |variant| variant.hash);
        }
    }

    pub(crate) fn remove(&mut self, key: u64, selector: &[u8], id: EntryId) {
        if !selector.is_empty()
            && let Ok(entry) = self
                .table
                .find_entry(self.hash(key, selector), |variant| variant.id == id)
        {
            entry.remove();
        }
    }

    /// Returns the entry with this key and selector. `is_one` compares them with an entry's.
    pub(crate) fn find(
        &self,
        key: u64,
        selector: &[u8],
        is_one: impl Fn(EntryId) -> bool,
    ) -> Option<EntryId> {
        let hash = self.hash(key, selector);
        self.table
            .find(hash, |variant| variant.hash == hash && is_one(variant.id))
            .map(|variant| variant.id)
    }

    /// Returns the number of entries, for checks.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    fn hash(&self, key: u64, selector: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        hasher.write_u64(key);
        hasher.write(selector);
        hasher.finish()
    }
}
