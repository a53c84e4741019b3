//! The purges of a cache, which all its shards share, and the positions of requests among them.
//!
//! A request for the origin records the position of the last purge. Before its response is stored,
//! it is compared with the later purges. Purges take the lock, and stores after a purge; a hit does
//! not.
//!
//! A purge of more than one key is recorded first, then it is carried out in the shards and in the
//! second tier, one after another. Until the tier has it, a response from the tier has the position
//! before it ([`Purges::of_tier`]).

use crate::store::purge_table::{Position, PurgeTable, PurgeVerdict, Purged};
use crate::store::stored::Stored;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The purges of a cache. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Purges(Arc<Shared>);

#[derive(Default)]
struct Shared {
    noted: Mutex<Noted>,
    /// The position of the last purge.
    last: AtomicU64,
}

#[derive(Default)]
struct Noted {
    table: PurgeTable,
    /// The purges that the second tier may not have yet.
    open: Vec<Position>,
}

impl Purges {
    /// Returns the position of a request that is sent now.
    pub(crate) fn now(&self) -> Position {
        Position(self.0.last.load(Ordering::Acquire))
    }

    /// Returns the position of a response that the second tier returns now.
    pub(crate) fn of_tier(&self) -> Position {
        let noted = self.lock();
        let before = noted.open.iter().min().map(|open| Position(open.0 - 1));
        before.unwrap_or_else(|| self.now())
    }

    /// Records the purge of one key, which its shard carries out at once.
    pub(crate) fn note_key(&self, key: &[u8], soft: bool) {
        self.note(&mut self.lock(), Purged::Key(key), soft);
    }

    /// Records a purge of more than one key. [`Purges::close`] ends it.
    pub(crate) fn open(&self, what: Purged<'_>, soft: bool) -> Position {
        let mut noted = self.lock();
        let position = self.note(&mut noted, what, soft);
        noted.open.push(position);
        position
    }

    /// Records that the second tier has the purge.
    pub(crate) fn close(&self, position: Position) {
        self.lock().open.retain(|open| *open != position);
    }

    /// Returns the effect that the purges since its position have on a response.
    pub(crate) fn verdict(&self, stored: &Stored) -> PurgeVerdict {
        if stored.asked_at == self.now() {
            return PurgeVerdict::Kept;
        }
        self.lock()
            .table
            .verdict(stored.asked_at.0, &stored.key, |look| stored.each_tag(look))
    }

    fn note(&self, noted: &mut Noted, what: Purged<'_>, soft: bool) -> Position {
        let position = Position(self.now().0 + 1);
        noted.table.note(position.0, what, soft);
        self.0.last.store(position.0, Ordering::Release);
        position
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
