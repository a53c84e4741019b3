//! The ids of the last applied entries.

use crate::ids::Id;
use crate::limits;
use std::collections::VecDeque;

/// The ids of the entries up to the last applied one, at most [`limits::RECENT_IDS`].
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The sequence of the first id.
    first: u64,
    ids: VecDeque<Id>,
}

impl Recent {
    /// Forgets all ids, and begins with this one.
    pub(super) fn reset(&mut self, sequence: u64, id: Option<Id>) {
        self.ids.clear();
        self.first = sequence + u64::from(id.is_none());
        self.ids.extend(id);
    }

    /// Adds the id of the next entry.
    pub(super) fn push(&mut self, id: Id) {
        if self.ids.len() == limits::RECENT_IDS {
            self.ids.pop_front();
            self.first += 1;
        }
        self.ids.push_back(id);
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&Id> {
        let index = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.ids.get(index)
    }

    /// Returns the oldest sequence and its id.
    pub(super) fn oldest(&self) -> Option<(u64, Id)> {
        Some((self.first, self.ids.front()?.clone()))
    }
}
