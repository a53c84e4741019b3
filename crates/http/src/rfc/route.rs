//! The shard of a request: the part of the cache that has its key.

use crate::rfc::key::Key;

/// Finds the shards of requests. It is the same for all shards of a cache.
#[derive(Clone, Debug)]
pub struct Router {
    hash_key: [u8; 16],
    shards: u16,
}

/// The key of a request, its hash, and the shard that has it. A host computes it before it locks
/// the shard.
#[derive(Clone, Debug)]
pub struct Route<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) hash: u64,
    shard: u16,
}

impl Router {
    pub(crate) fn new(hash_key: [u8; 16], shards: u16) -> Router {
        Router { hash_key, shards }
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        usize::from(self.shards)
    }

    /// Returns the route of a request for `target` (path and query) at `authority`.
    pub fn route<'a>(&self, scheme: &'a str, authority: &'a str, target: &'a str) -> Route<'a> {
        self.of_key(Key::new(scheme, authority, target))
    }

    pub(crate) fn of_key<'a>(&self, key: Key<'a>) -> Route<'a> {
        let hash = key.hash(&self.hash_key);
        Route {
            key,
            hash,
            shard: self.shard(hash),
        }
    }

    /// Returns the shard of a key's hash. Its upper and its lower bits are those that a shard's
    /// table uses, so the shard depends on bits between them.
    pub(crate) fn shard(&self, hash: u64) -> u16 {
        let middle = (hash >> 32) & 0xffff;
        // Below the number of shards, which is 16 bits.
        ((middle * u64::from(self.shards)) >> 16) as u16
    }
}

impl Route<'_> {
    /// Returns the number of the shard.
    pub fn shard(&self) -> usize {
        usize::from(self.shard)
    }

    /// Returns the key of the responses to this request in a [`SecondTier`](crate::SecondTier).
    pub fn tier_key(&self) -> Box<[u8]> {
        self.key.to_bytes()
    }
}
