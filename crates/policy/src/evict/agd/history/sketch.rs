//! A count–min sketch with fading counts.
//!
//! Cormode and Muthukrishnan, J. Algorithms 2005, with conservative update (Estan and Varghese,
//! SIGCOMM 2002): four counters of a byte, all in one line of 64 bytes, so that a lookup costs one
//! cache miss. The owner halves the counters, as in TinyLFU. The sketch doubles with the cache;
//! both halves then have the old counters, so estimates do not change.

use crate::hash::mix;
use crate::prefetch::{lengthen, prefetch};

/// Counters of agd's sketch for each stored object, a byte each. With 8, mix 1 GiB loses a point of
/// hit ratio.
const COUNTERS_PER_OBJECT: usize = 16;

/// Smallest sketch of agd: 4 KB.
const MIN_COUNTERS: usize = 1 << 12;

/// Largest sketch of agd: 1 GiB, for 64 million objects.
const MAX_COUNTERS: usize = 1 << 30;

const ROWS: usize = 4;
const QUARTER: usize = 16;
/// Counters in a line.
const LINE: usize = ROWS * QUARTER;

/// A line of the processor's cache. An object has one counter in each quarter of it.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([[u8; QUARTER]; ROWS]);

impl Line {
    const EMPTY: Line = Line([[0; QUARTER]; ROWS]);
}

pub struct Sketch {
    lines: Vec<Line>,
    /// Requests counted since the last halving.
    counted: usize,
}

impl Sketch {
    pub fn new() -> Self {
        Sketch {
            lines: vec![Line::EMPTY; MIN_COUNTERS / LINE],
            counted: 0,
        }
    }

    pub fn bytes(&self) -> usize {
        self.lines.capacity() * LINE
    }

    /// Returns true if the sketch has counted as many requests as it can distinguish.
    pub fn is_full(&self) -> bool {
        self.counted >= self.lines.len() * LINE
    }

    /// Makes room for a cache of `objects`.
    #[inline]
    pub fn grow(&mut self, objects: usize) {
        while self.lines.len() * LINE < (objects * COUNTERS_PER_OBJECT).min(MAX_COUNTERS) {
            let lines = self.lines.len();
            lengthen(&mut self.lines, 2 * lines, Line::EMPTY);
            self.lines.copy_within(..lines, lines);
        }
    }

    /// Counts a request. Returns the number of requests, including this one.
    pub fn count(&mut self, id: u64) -> u8 {
        self.counted += 1;
        let known = self.estimate(id).saturating_add(1);
        self.raise(id, known);
        known
    }

    /// Begins to load the counters of `id`, which will be used soon.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        prefetch(&self.lines, self.line(hash(id)));
    }

    /// Returns an upper bound of the number of requests for `id`, which is mostly exact.
    #[inline]
    pub fn estimate(&self, id: u64) -> u8 {
        let hash = hash(id);
        let Line(line) = &self.lines[self.line(hash)];
        let of = |row: usize| line[row][place(hash, row)];
        of(0).min(of(1)).min(of(2).min(of(3)))
    }

    /// Raises the count of `id` to at least `count`.
    #[inline]
    pub fn raise(&mut self, id: u64, count: u8) {
        let hash = hash(id);
        let line = self.line(hash);
        let Line(line) = &mut self.lines[line];
        for (row, counters) in line.iter_mut().enumerate() {
            let counter = &mut counters[place(hash, row)];
            *counter = (*counter).max(count);
        }
    }

    /// Halves every count and rounds down.
    pub fn halve(&mut self) {
        for counter in self
            .lines
            .iter_mut()
            .flat_map(|line| line.0.as_flattened_mut())
        {
            *counter /= 2;
        }
        self.counted = 0;
    }

    #[inline]
    fn line(&self, hash: u64) -> usize {
        hash as usize & (self.lines.len() - 1)
    }
}

/// Returns the index of the counter for a hash in quarter `row` of its line.
#[inline]
fn place(hash: u64, row: usize) -> usize {
    (hash >> (48 + 4 * row)) as usize % QUARTER
}

/// Hashes with other bits than the tables' own.
#[inline]
fn hash(id: u64) -> u64 {
    mix(id ^ 0x9e37_79b9_7f4a_7c15)
}
