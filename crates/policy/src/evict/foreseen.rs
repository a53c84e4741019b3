//! Victims that `peek` has chosen and that have not left yet.
//!
//! If a choice changes the policy's state (a hand moves, a sample is drawn), the policy cannot
//! choose twice. So it chooses at the first call, and keeps the choice here. `victim` takes it from
//! here, and an object that is requested meanwhile is removed again. The choice stays over further
//! misses, so that a newcomer that was refused for its victim does not make every further look
//! ahead longer.
//!
//! O(1) everywhere; no memory until the first look ahead, then 9 bytes a slot.

use crate::Slot;
use crate::list::{Links, List};

#[derive(Default)]
pub(crate) struct Foreseen {
    links: Links,
    queue: List,
    /// True for slots in the queue.
    members: Vec<bool>,
    len: usize,
}

impl Foreseen {
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn contains(&self, slot: Slot) -> bool {
        self.len > 0 && self.members.get(slot.index()).is_some_and(|member| *member)
    }

    /// Returns the slot that was chosen after `after`, or first.
    pub fn next(&self, after: Option<Slot>) -> Option<Slot> {
        after.map_or(self.queue.tail(), |slot| {
            self.queue.newer(&self.links, slot)
        })
    }

    /// Adds `slot` after all others.
    pub fn push(&mut self, slot: Slot) {
        if slot.index() >= self.members.len() {
            self.members.resize(slot.index() + 1, false);
        }
        self.members[slot.index()] = true;
        self.queue.push_head(&mut self.links, slot);
        self.len += 1;
    }

    /// Removes and returns the first chosen slot, which leaves now.
    #[inline]
    pub fn pop(&mut self) -> Option<Slot> {
        let slot = self.queue.tail()?;
        self.take(slot);
        Some(slot)
    }

    /// Removes `slot`. Returns true if it was chosen.
    #[inline]
    pub fn take(&mut self, slot: Slot) -> bool {
        let chosen = self.contains(slot);
        if chosen {
            self.members[slot.index()] = false;
            self.queue.unlink(&mut self.links, slot);
            self.len -= 1;
        }
        chosen
    }

    pub fn bytes(&self) -> usize {
        self.links.bytes() + self.members.capacity()
    }
}
