//! How often objects that are not stored were requested.
//!
//! A sketch if every hit is worth the same, a table if hits are worth bytes. Both have 16 to 32
//! bytes an object of the cache. The table knows better what was never requested before, which is
//! most of what a small cache is offered where size says nothing; the sketch has more object hits
//! on some loops (`docs/agd.md`, *Bytes*).

mod sketch;
mod table;

use sketch::Sketch;
use table::Table;

pub(super) enum History {
    Sketch(Sketch),
    Table(Table),
}

/// The same for either kind.
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

    /// Returns true if so many requests were counted that the counts must be halved.
    #[inline]
    pub fn is_full(&self) -> bool {
        either!(self, history => history.is_full())
    }

    /// Counts a request: how many there were, this one included.
    pub fn count(&mut self, id: u64) -> u8 {
        either!(self, history => history.count(id))
    }

    /// `id` will be counted or looked for soon.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        either!(self, history => history.prefetch(id));
    }

    /// Returns how often `id` was requested, as far as that is known.
    #[inline]
    pub fn estimate(&self, id: u64) -> u8 {
        either!(self, history => history.estimate(id))
    }

    /// `id` was requested at least `count` times.
    #[inline]
    pub fn raise(&mut self, id: u64, count: u8) {
        either!(self, history => history.raise(id, count));
    }

    /// `id` is one of `objects` that are stored now. If it `replaces` itself, its count stays here:
    /// probably its next miss, too, comes while it is stored.
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

    /// Halves every count; one half is nothing.
    pub fn halve(&mut self) {
        either!(self, history => history.halve());
    }
}
