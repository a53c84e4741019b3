//! Doubly linked lists over a vector of links by slot: O(1) everywhere, 8 bytes a slot, no
//! allocation a request.
//!
//! Several [`List`]s may share one [`Links`], as long as a slot is in at most one of them (the
//! segments of S4LRU, the queues of S3-FIFO).

use crate::Slot;
use crate::prefetch::{lengthen, prefetch};

const END: u32 = u32::MAX;

/// The owner of the links of a list's slots.
pub(crate) trait Linked {
    fn link(&self, slot: u32) -> &Link;
    fn link_mut(&mut self, slot: u32) -> &mut Link;
    /// Adds links for `slot`, if it has none.
    fn reach(&mut self, slot: Slot);
}

/// The links of every slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(Vec<Link>);

/// The neighbours of a slot in its list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The neighbour towards the head.
    newer: u32,
    /// The neighbour towards the tail.
    older: u32,
}

impl Default for Link {
    fn default() -> Self {
        Link {
            newer: END,
            older: END,
        }
    }
}

impl Linked for Links {
    #[inline]
    fn link(&self, slot: u32) -> &Link {
        &self.0[slot as usize]
    }

    #[inline]
    fn link_mut(&mut self, slot: u32) -> &mut Link {
        &mut self.0[slot as usize]
    }

    #[inline]
    fn reach(&mut self, slot: Slot) {
        if slot.index() >= self.0.len() {
            self.grow(slot);
        }
    }
}

impl Links {
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Link>()
    }

    /// Adds links for `slot`.
    #[cold]
    fn grow(&mut self, slot: Slot) {
        lengthen(&mut self.0, slot.index() + 1, Link::default());
    }

    /// Begins to load the links of `slot`, which will be moved or unlinked soon.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        prefetch(&self.0, slot.index());
    }

    /// Begins to load the links of its neighbours, once `prefetch` has loaded those of the slot.
    #[inline]
    pub fn prefetch_neighbours(&self, slot: Slot) {
        if let Some(link) = self.0.get(slot.index()) {
            prefetch(&self.0, link.newer as usize);
            prefetch(&self.0, link.older as usize);
        }
    }
}

/// One list: the head is the newest, the tail the oldest.
#[derive(Clone, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        List {
            head: END,
            tail: END,
        }
    }
}

impl List {
    /// Links `slot`, which is in no list, as the newest.
    #[inline]
    pub fn push_head<L: Linked>(&mut self, links: &mut L, slot: Slot) {
        links.reach(slot);
        *links.link_mut(slot.raw()) = Link {
            newer: END,
            older: self.head,
        };
        match self.head {
            END => self.tail = slot.raw(),
            head => links.link_mut(head).newer = slot.raw(),
        }
        self.head = slot.raw();
    }

    /// Links `slot`, which is in no list, as the oldest.
    #[inline]
    pub fn push_tail<L: Linked>(&mut self, links: &mut L, slot: Slot) {
        links.reach(slot);
        *links.link_mut(slot.raw()) = Link {
            newer: self.tail,
            older: END,
        };
        match self.tail {
            END => self.head = slot.raw(),
            tail => links.link_mut(tail).older = slot.raw(),
        }
        self.tail = slot.raw();
    }

    /// Unlinks `slot`, which is in this list.
    #[inline]
    pub fn unlink<L: Linked>(&mut self, links: &mut L, slot: Slot) {
        let Link { newer, older } = *links.link(slot.raw());
        match newer {
            END => self.head = older,
            newer => links.link_mut(newer).older = older,
        }
        match older {
            END => self.tail = newer,
            older => links.link_mut(older).newer = newer,
        }
    }

    /// Makes `slot`, which is in this list, the newest.
    #[inline]
    pub fn move_to_head<L: Linked>(&mut self, links: &mut L, slot: Slot) {
        if self.head != slot.raw() {
            self.unlink(links, slot);
            self.push_head(links, slot);
        }
    }

    /// Unlinks and returns the oldest slot.
    pub fn pop_tail(&mut self, links: &mut Links) -> Option<Slot> {
        let tail = self.tail()?;
        self.unlink(links, tail);
        if let Some(next) = self.tail() {
            links.prefetch_neighbours(next);
        }
        Some(tail)
    }

    /// Returns the oldest slot.
    pub fn tail(&self) -> Option<Slot> {
        (self.tail != END).then(|| Slot::new(self.tail))
    }

    /// Returns the oldest slot, which is about to leave. Prefetches the entry in `table` of the
    /// slot after it, so that the next call finds it loaded.
    #[inline]
    pub fn approach<T>(&self, links: &Links, table: &[T]) -> Option<Slot> {
        let tail = self.tail()?;
        if let Some(next) = self.newer(links, tail) {
            prefetch(table, next.index());
            links.prefetch(next);
        }
        Some(tail)
    }

    /// Counts the slots of the list, in O(n). For tests.
    pub fn count<L: Linked>(&self, links: &L) -> usize {
        std::iter::successors(self.tail(), |slot| self.newer(links, *slot)).count()
    }

    /// Returns the next newer slot after `slot`, which is in this list.
    pub fn newer<L: Linked>(&self, links: &L, slot: Slot) -> Option<Slot> {
        let newer = links.link(slot.raw()).newer;
        (newer != END).then(|| Slot::new(newer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn a_link_points_to_the_wrong_neighbour(steps in proptest::collection::vec((0u8..5, 0u32..12), 0..200)) {
            let (mut links, mut list, mut model) = (Links::default(), List::default(), VecDeque::<u32>::new());
            for (operation, raw) in steps {
                let slot = Slot::new(raw);
                match (operation, model.contains(&raw)) {
                    (0, false) => { list.push_head(&mut links, slot); model.push_front(raw); }
                    (1, true) => { list.unlink(&mut links, slot); model.retain(|s| *s != raw); }
                    (2, true) => { list.move_to_head(&mut links, slot); model.retain(|s| *s != raw); model.push_front(raw); }
                    (4, false) => { list.push_tail(&mut links, slot); model.push_back(raw); }
                    (3, _) => prop_assert_eq!(list.pop_tail(&mut links).map(Slot::raw), model.pop_back()),
                    _ => {}
                }
                let mut walked = Vec::new();
                let mut next = list.tail();
                while let Some(slot) = next {
                    walked.push(slot.raw());
                    next = list.newer(&links, slot);
                }
                prop_assert_eq!(walked, model.iter().rev().copied().collect::<Vec<_>>());
            }
        }
    }
}
