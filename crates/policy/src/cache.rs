//! The cache as an admission policy sees it, when it is asked.

use crate::engine::Object;
use crate::traits::Evict;
use crate::{Path, Slot};

/// What an admission policy may know of the cache.
pub struct Cache<'a> {
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    pub(crate) objects: &'a [Object],
    pub(crate) len: usize,
    pub(crate) eviction: &'a mut dyn Evict,
    pub(crate) last: Option<Slot>,
    pub(crate) path: Option<&'a Path>,
}

/// An object that would have to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its id.
    pub id: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl Cache<'_> {
    /// Bytes that may be stored.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes stored.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Objects stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The path that the answer took, where the engine's owner knows it.
    pub fn path(&self) -> Option<&Path> {
        self.path
    }

    /// Returns the object that would leave next; called again, the one after it. None leaves.
    pub fn next_victim(&mut self) -> Option<Victim> {
        let slot = self.eviction.peek(self.last)?;
        self.last = Some(slot);
        let Object { id, size } = self.objects[slot.index()];
        Some(Victim { id, size })
    }
}
