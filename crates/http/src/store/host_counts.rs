//! The number of stored responses of each host in a shard. With it, a purge by prefix does not walk
//! over a store that has no response of the prefix's host.

use hashbrown::HashMap;
use siphasher::sip::SipHasher13;

/// The number of entries of each host.
pub(crate) struct HostCounts {
    /// By the hash of scheme and authority.
    entries: HashMap<u64, u32>,
    secret: [u8; 16],
}

impl HostCounts {
    pub(crate) fn new(secret: &[u8; 16]) -> HostCounts {
        HostCounts {
            entries: HashMap::new(),
            secret: *secret,
        }
    }

    pub(crate) fn add(&mut self, key: &[u8]) {
        *self.entries.entry(self.hash(key)).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        let hash = self.hash(key);
        let Some(entries) = self.entries.get_mut(&hash) else {
            debug_assert!(false, "an entry is removed that was not added");
            return;
        };
        *entries -= 1;
        if *entries == 0 {
            self.entries.remove(&hash);
        }
    }

    /// Returns true if there may be an entry of the host that a prefix of keys has.
    pub(crate) fn has_host_of(&self, prefix: &[u8]) -> bool {
        self.entries.contains_key(&self.hash(prefix))
    }

    /// Returns the number of entries, for checks.
    pub(crate) fn len(&self) -> usize {
        self.entries.values().map(|entries| *entries as usize).sum()
    }

    fn hash(&self, key: &[u8]) -> u64 {
        SipHasher13::new_with_key(&self.secret).hash(host(key))
    }
}

/// Returns scope and authority of a key, with the space after them.
pub(crate) fn host(key: &[u8]) -> &[u8] {
    let spaces = key.iter().enumerate().filter(|(_, byte)| **byte == b' ');
    let end = spaces.map(|(at, _)| at + 1).nth(1).unwrap_or(key.len());
    &key[..end]
}
