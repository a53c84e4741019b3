//! An LRU cache of ids and sizes, in which an admission policy tests a parameter. O(1) a request;
//! 40 bytes an object.

use crate::Slot;
use crate::hash::mix;
use crate::limits::MAX_OBJECTS;
use crate::list::{Links, List};
use hashbrown::HashTable;

/// An LRU cache of ids and sizes.
#[derive(Clone, Default)]
pub(super) struct Shadow {
    index: HashTable<Slot>,
    /// By the slots of this cache, which differ from the engine's.
    held: Vec<Held>,
    free: Vec<Slot>,
    links: Links,
    stack: List,
    used: u64,
    /// Hits so far; the owner resets the number.
    pub hits: u64,
}

#[derive(Clone, Copy)]
struct Held {
    id: u64,
    size: u64,
}

impl Shadow {
    pub fn hit(&mut self, id: u64) -> bool {
        let found = self.find(id);
        if let Some(slot) = found {
            self.stack.move_to_head(&mut self.links, slot);
            self.hits += 1;
        }
        found.is_some()
    }

    /// Stores an object that was not found, unless it is larger than `capacity`.
    pub fn insert(&mut self, id: u64, size: u64, capacity: u64) {
        self.shrink(capacity - size);
        if self.index.len() == MAX_OBJECTS {
            self.evict();
        }
        let new = Held { id, size };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.held[slot.index()] = new;
                slot
            }
            None => {
                self.held.push(new);
                Slot::new((self.held.len() - 1) as u32)
            }
        };
        self.used += size;
        self.stack.push_head(&mut self.links, slot);
        let held = &self.held;
        self.index
            .insert_unique(mix(id), slot, |slot| mix(held[slot.index()].id));
    }

    pub fn shrink(&mut self, capacity: u64) {
        while self.used > capacity {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let Some(slot) = self.stack.pop_tail(&mut self.links) else {
            debug_assert!(false, "{} bytes without an object", self.used);
            return;
        };
        let Held { id, size } = self.held[slot.index()];
        self.used -= size;
        if let Ok(entry) = self.index.find_entry(mix(id), |known| *known == slot) {
            entry.remove();
        }
        self.free.push(slot);
    }

    /// Returns the slot of the object, if it is stored. This does not count as a hit.
    pub fn find(&self, id: u64) -> Option<Slot> {
        self.index
            .find(mix(id), |slot| self.held[slot.index()].id == id)
            .copied()
    }

    /// Returns the stored objects, the next victim first, with the size in bytes.
    pub fn oldest_first(&self) -> impl Iterator<Item = (Slot, u64)> {
        let (mut stack, mut links) = (self.stack.clone(), self.links.clone());
        std::iter::from_fn(move || stack.pop_tail(&mut links))
            .map(|slot| (slot, self.held[slot.index()].size))
    }

    /// Returns the bytes stored.
    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn bytes(&self) -> usize {
        self.index.allocation_size()
            + self.held.capacity() * size_of::<Held>()
            + self.free.capacity() * size_of::<Slot>()
            + self.links.bytes()
    }
}
