//! Request counts of objects that are not stored.
//!
//! A sketch if every hit is worth the same, a table if hits are worth bytes. Both take 16 to 32
//! bytes per stored object. The table is better at recognising objects that were never requested
//! before; these are most of the newcomers of a small cache if size does not matter. The sketch has
//! more object hits on some loops (`docs/agd.md`, *Bytes*).

mod sketch;
mod table;

use sketch::Sketch;
use table::Table;

pub(super) enum History {
    Sketch(Sketch),
    Table(Table),
}

/// Calls the same method on either kind.
macro_rules! either {
    ($history:ident, $kind:ident => $value:expr) => {
        match $history {
            History::Sketch($kind) => $value,
            History::Table($kind) => $value,
        }
    };
}

impl History {
    pub fn sketch() -> Self {
        History::Sketch(Sketch::new())
    }

    pub fn table() -> Self {
        History::Table(Table::new())
    }

    pub fn bytes(&self) -> usize {
        either!(self, history => history.bytes())
    }

    /// Returns true if the counts must be halved, because enough requests were counted.
    #[inline]
    pub fn is_full(&self) -> bool {
        either!(self, history => history.is_full())
    }

    /// Counts a request. Returns the number of requests, including this one.
    pub fn count(&mut self, id: u64) -> u8 {
        either!(self, history => history.count(id))
    }

    /// Begins to load the counts of `id`, which will be used soon.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        either!(self, history => history.prefetch(id));
    }

    /// Returns the known number of requests for `id`.
    #[inline]
    pub fn estimate(&self, id: u64) -> u8 {
        either!(self, history => history.estimate(id))
    }

    /// Raises the count of `id` to at least `count`.
    #[inline]
    pub fn raise(&mut self, id: u64, count: u8) {
        either!(self, history => history.raise(id, count));
    }

    /// Reports that `id` is stored, as one of `objects`. If it `replaces` itself, its count stays
    /// here, because its next miss probably comes while it is stored, too.
    #[inline]
    pub fn on_insert(&mut self, id: u64, objects: usize, replaces: bool) {
        match self {
            History::Sketch(sketch) => sketch.grow(objects),
            History::Table(table) => {
                if !replaces {
                    table.forget(id);
                }
                table.grow(objects);
            }
        }
    }

    /// Halves every count and rounds down.
    pub fn halve(&mut self) {
        either!(self, history => history.halve());
    }
}
