//! How often objects that are not stored were requested: a count–min sketch that fades.
//!
//! Cormode and Muthukrishnan, J. Algorithms 2005, with conservative update (Estan and Varghese, SIGCOMM 2002): four counters of a byte, all in one line of 64 bytes,
//! so that a look costs one cache miss. Halved by the owner, as in TinyLFU. It doubles with the cache: the copy answers as the original did.

use crate::hash::mix;
use crate::limits::{AGD_COUNTERS_AN_OBJECT, AGD_MAX_COUNTERS, AGD_MIN_COUNTERS};
use crate::prefetch::prefetch;

const LINE: usize = 64;
const ROWS: usize = 4;

/// A line of the processor's cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; LINE]);

pub(super) struct History {
    lines: Vec<Line>,
    /// Requests counted since the last halving.
    counted: usize,
}

impl History {
    pub fn new() -> Self {
        History { lines: vec![Line([0; LINE]); AGD_MIN_COUNTERS / LINE], counted: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.lines.capacity() * LINE
    }

    /// As many requests were counted as the table can tell apart.
    pub fn is_full(&self) -> bool {
        self.counted >= self.lines.len() * LINE
    }

    /// Makes room beside a cache of `objects`.
    pub fn grow(&mut self, objects: usize) {
        while self.lines.len() * LINE < (objects * AGD_COUNTERS_AN_OBJECT).min(AGD_MAX_COUNTERS) {
            self.lines.extend_from_within(..);
        }
    }

    /// Counts a request.
    pub fn count(&mut self, id: u64) {
        let (line, places) = self.places(id);
        let Line(line) = &mut self.lines[line];
        let known = places.iter().map(|place| line[*place]).fold(u8::MAX, u8::min).saturating_add(1);
        for place in places {
            line[place] = line[place].max(known);
        }
        self.counted += 1;
    }

    /// `id` will be counted or looked for soon.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        prefetch(&self.lines, self.line(hash(id)));
    }

    /// At most this often, and rarely less, was `id` requested.
    pub fn estimate(&self, id: u64) -> u8 {
        let (line, places) = self.places(id);
        places.map(|place| self.lines[line].0[place]).into_iter().min().unwrap_or(0)
    }

    /// `id` was requested at least `count` times.
    pub fn raise(&mut self, id: u64, count: u8) {
        let (line, places) = self.places(id);
        for place in places {
            let counter = &mut self.lines[line].0[place];
            *counter = (*counter).max(count);
        }
    }

    /// Halves every count; one half is nothing.
    pub fn halve(&mut self) {
        for counter in self.lines.iter_mut().flat_map(|line| &mut line.0) {
            *counter /= 2;
        }
        self.counted = 0;
    }

    /// One line for an object, and in each quarter of it one counter.
    fn places(&self, id: u64) -> (usize, [usize; ROWS]) {
        let hash = hash(id);
        let quarter = LINE / ROWS;
        (self.line(hash), std::array::from_fn(|row| row * quarter + (hash >> (48 + 4 * row)) as usize % quarter))
    }

    fn line(&self, hash: u64) -> usize {
        hash as usize & (self.lines.len() - 1)
    }
}

/// Of other bits than the tables' own.
fn hash(id: u64) -> u64 {
    mix(id ^ 0x9e37_79b9_7f4a_7c15)
}
