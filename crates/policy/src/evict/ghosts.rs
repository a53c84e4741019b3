//! Ghosts: ids and sizes of objects that left, in the order in which they left, bounded by the sum of their sizes and by number.
//!
//! Each may carry a note of its policy. O(1) a call, no allocation once the list has had its longest; 24 bytes a ghost with its links, 5 to 9 of
//! the index, and the note.

use crate::Slot;
use crate::hash::mix;
use crate::limits::MAX_GHOSTS;
use crate::list::{Links, List};
use hashbrown::HashTable;

#[derive(Default)]
pub(crate) struct Ghosts<N = ()> {
    /// By place; the places of ghosts that are gone are in `free`.
    ghosts: Vec<Ghost<N>>,
    free: Vec<Slot>,
    links: Links,
    order: List,
    index: HashTable<Slot>,
    /// The sizes of all together.
    bytes: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Ghost<N> {
    pub id: u64,
    pub size: u64,
    pub note: N,
}

impl<N: Copy> Ghosts<N> {
    /// The sizes of all together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An object left; it is the newest ghost. The oldest go until the sizes of all sum to `limit` at most; what is larger alone is not remembered.
    pub fn push(&mut self, ghost: Ghost<N>, limit: u64) {
        let Ghost { id, size, .. } = ghost;
        self.remove(id);
        if size > limit {
            return;
        }
        self.trim(limit - size);
        if self.index.len() >= MAX_GHOSTS {
            self.pop_oldest();
        }
        let place = match self.free.pop() {
            Some(place) => {
                self.ghosts[place.index()] = ghost;
                place
            }
            None => {
                self.ghosts.push(ghost);
                Slot::new((self.ghosts.len() - 1) as u32)
            }
        };
        self.order.push_head(&mut self.links, place);
        let ghosts = &self.ghosts;
        self.index.insert_unique(mix(id), place, |place| mix(ghosts[place.index()].id));
        self.bytes += size;
    }

    /// The ghost of `id`, if there is one.
    pub fn get(&self, id: u64) -> Option<Ghost<N>> {
        let place = self.index.find(mix(id), |place| self.ghosts[place.index()].id == id)?;
        Some(self.ghosts[place.index()])
    }

    /// Takes the ghost of `id` out, if there is one.
    pub fn remove(&mut self, id: u64) -> Option<Ghost<N>> {
        let ghosts = &self.ghosts;
        let found = self.index.find_entry(mix(id), |place| ghosts[place.index()].id == id).ok()?;
        let (place, _) = found.remove();
        self.order.unlink(&mut self.links, place);
        self.free.push(place);
        let ghost = self.ghosts[place.index()];
        self.bytes -= ghost.size;
        Some(ghost)
    }

    /// Who left first of those remembered.
    pub fn oldest(&self) -> Option<Ghost<N>> {
        self.order.tail().map(|place| self.ghosts[place.index()])
    }

    /// Takes the oldest out; false where there is none.
    pub fn pop_oldest(&mut self) -> bool {
        let oldest = self.order.tail().map(|place| self.ghosts[place.index()].id);
        oldest.is_some_and(|id| self.remove(id).is_some())
    }

    /// Takes the oldest out until at most `bytes` are remembered.
    pub fn trim(&mut self, bytes: u64) {
        while self.bytes > bytes && self.pop_oldest() {}
    }

    pub fn state_bytes(&self) -> usize {
        self.ghosts.capacity() * size_of::<Ghost<N>>()
            + self.free.capacity() * size_of::<Slot>()
            + self.links.bytes()
            + self.index.allocation_size()
    }
}
