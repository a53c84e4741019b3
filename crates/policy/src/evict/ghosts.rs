//! Ghosts: ids and sizes of objects that left, in the order in which they left, bounded by the sum of their sizes and by number.
//!
//! Each may carry a note of its policy. O(1) a call, no allocation once the list has had its longest; 24 bytes a ghost with its links, 11 to
//! 21 of the index, and the note.

use crate::Slot;
use crate::index::SlotIndex;
use crate::limits::MAX_GHOSTS;
use crate::list::{Links, List};
use crate::prefetch::prefetch;

#[derive(Default)]
pub(crate) struct Ghosts<N = ()> {
    /// By place; the places of ghosts that are gone are in `free`.
    ghosts: Vec<Ghost<N>>,
    free: Vec<Slot>,
    links: Links,
    order: List,
    index: SlotIndex,
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
        self.index.insert(id, place);
        self.bytes += size;
    }

    /// The ghost of `id`, if there is one.
    pub fn get(&self, id: u64) -> Option<Ghost<N>> {
        self.place(id).map(|place| self.ghosts[place.index()])
    }

    /// Takes the ghost of `id` out, if there is one.
    pub fn remove(&mut self, id: u64) -> Option<Ghost<N>> {
        let place = self.place(id)?;
        Some(self.take(id, place))
    }

    fn place(&self, id: u64) -> Option<Slot> {
        self.index.find(id, |place| self.ghosts[place.index()].id == id)
    }

    fn take(&mut self, id: u64, place: Slot) -> Ghost<N> {
        self.index.remove(id, place);
        self.order.unlink(&mut self.links, place);
        self.free.push(place);
        let ghost = self.ghosts[place.index()];
        self.bytes -= ghost.size;
        ghost
    }

    /// Who left first of those remembered.
    pub fn oldest(&self) -> Option<Ghost<N>> {
        self.order.tail().map(|place| self.ghosts[place.index()])
    }

    /// Takes the oldest out; false where there is none.
    pub fn pop_oldest(&mut self) -> bool {
        let Some(oldest) = self.order.tail() else { return false };
        self.take(self.ghosts[oldest.index()].id, oldest);
        if let Some(next) = self.order.approach(&self.links, &self.ghosts) {
            self.index.prefetch(self.ghosts[next.index()].id);
        }
        true
    }

    /// Takes the oldest out until at most `bytes` are remembered.
    pub fn trim(&mut self, bytes: u64) {
        while self.bytes > bytes && self.pop_oldest() {}
    }

    /// `id` will be looked for soon.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        self.index.prefetch(id);
    }

    /// As `prefetch`, some requests later: loads the ghost that is probably that of `id`.
    #[inline]
    pub fn prefetch_further(&self, id: u64) {
        if let Some(place) = self.index.guess(id) {
            prefetch(&self.ghosts, place.index());
            self.links.prefetch(place);
        }
    }

    pub fn state_bytes(&self) -> usize {
        self.ghosts.capacity() * size_of::<Ghost<N>>()
            + self.free.capacity() * size_of::<Slot>()
            + self.links.bytes()
            + self.index.bytes()
    }
}
