//! Request counts of objects that are not stored: a count for each of the objects that were missed
//! or evicted last.
//!
//! Set-associative, like a processor's cache: a line of 64 bytes has 16 entries, newest first, and
//! a new entry displaces the oldest of its line. An entry is four bytes: 25 bits of the object's
//! hash, so that one lookup in two million finds another object's count, and 7 bits of count. A
//! lookup costs one cache miss. The owner halves the counts, as in TinyLFU. The table doubles with
//! the cache; both copies of a line then have the old entries.

use crate::hash::mix;
use crate::prefetch::{lengthen, prefetch};

/// Objects that agd's table remembers for each stored object, four bytes each. With 8, local mix
/// and cdn .1 % lose .2 to .4 points of the byte hits.
const ENTRIES_PER_OBJECT: usize = 4;

/// Entries of agd's smallest table: 4 KB.
const MIN_ENTRIES: usize = 1 << 10;

/// Entries of agd's largest table: 1 GiB, for 64 million objects.
const MAX_ENTRIES: usize = 1 << 28;

/// agd halves its counts after this many misses for each entry of its table. Without this, *equal*
/// 1 % and mix with the longer locality .1 % lose .2 points of the byte hits.
const MISSES_PER_ENTRY: usize = 4;

/// Entries in a line.
const LINE: usize = 16;
/// The largest count: the low bits of an entry.
const MAX_COUNT: u32 = 127;

/// A line of the processor's cache. An entry is the object's tag and, in the bits below, its count,
/// which is 0 if the entry is empty.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u32; LINE]);

impl Line {
    const EMPTY: Line = Line([0; LINE]);

    /// Returns the index of the object with `tag`.
    #[inline]
    fn find(&self, tag: u32) -> Option<usize> {
        // The count is 1 to 127. An empty entry, 0, wraps to the largest number.
        self.first(|entry| (entry ^ tag).wrapping_sub(1) < MAX_COUNT)
    }

    /// Returns the index of the first entry for which `is` returns true. It tests all of them
    /// without a branch, so that the compiler vectorises the loop.
    #[inline]
    fn first(&self, is: impl Fn(u32) -> bool) -> Option<usize> {
        let found = self.0.iter().enumerate().fold(0_u32, |found, (at, entry)| {
            found | u32::from(is(*entry)) << at
        });
        (found != 0).then(|| found.trailing_zeros() as usize)
    }

    /// Makes the object with `tag` the newest, and sets its count to the result of `change`, at
    /// most [`MAX_COUNT`].
    #[inline]
    fn renew(&mut self, tag: u32, change: impl FnOnce(u32) -> u32) -> u32 {
        let found = self.find(tag);
        let count = change(found.map_or(0, |at| self.0[at] ^ tag)).min(MAX_COUNT);
        let at = found
            .or_else(|| self.first(|entry| entry & MAX_COUNT == 0))
            .unwrap_or(LINE - 1);
        self.0.copy_within(..at, 1);
        self.0[0] = tag | count;
        count
    }
}

pub(super) struct History {
    lines: Vec<Line>,
    /// Requests counted since the last halving.
    counted: usize,
}

impl History {
    pub fn new() -> Self {
        History {
            lines: vec![Line::EMPTY; MIN_ENTRIES / LINE],
            counted: 0,
        }
    }

    pub fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }

    /// Returns true if enough requests were counted that the counts are old.
    pub fn is_full(&self) -> bool {
        self.counted >= MISSES_PER_ENTRY * self.lines.len() * LINE
    }

    /// Reports that `id` is stored, as one of `objects`. If it `replaces` itself, its count stays
    /// here, because its next miss probably comes while it is stored, too.
    #[inline]
    pub fn on_insert(&mut self, id: u64, objects: usize, replaces: bool) {
        if !replaces {
            self.forget(id);
        }
        self.grow(objects);
    }

    /// Makes room for a cache of `objects`.
    #[inline]
    fn grow(&mut self, objects: usize) {
        while self.lines.len() * LINE < (objects * ENTRIES_PER_OBJECT).min(MAX_ENTRIES) {
            let lines = self.lines.len();
            lengthen(&mut self.lines, 2 * lines, Line::EMPTY);
            self.lines.copy_within(..lines, lines);
        }
    }

    /// Counts a request. Returns the number of requests, including this one.
    pub fn count(&mut self, id: u64) -> u8 {
        self.counted += 1;
        let (line, tag) = self.place(id);
        self.lines[line].renew(tag, |known| known + 1) as u8
    }

    /// Begins to load the line of `id`, which will be used soon.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        prefetch(&self.lines, self.place(id).0);
    }

    /// Returns the number of requests for `id`, or 0 if it is forgotten.
    #[inline]
    pub fn estimate(&self, id: u64) -> u8 {
        let (line, tag) = self.place(id);
        let line = &self.lines[line];
        line.find(tag).map_or(0, |at| (line.0[at] ^ tag) as u8)
    }

    /// Raises the count of `id` to at least `count`.
    #[inline]
    pub fn raise(&mut self, id: u64, count: u8) {
        if count > 0 {
            let (line, tag) = self.place(id);
            self.lines[line].renew(tag, |known| known.max(count.into()));
        }
    }

    /// Clears the entry of `id`, because its count is kept elsewhere now.
    #[inline]
    fn forget(&mut self, id: u64) {
        let (line, tag) = self.place(id);
        let line = &mut self.lines[line];
        if let Some(at) = line.find(tag) {
            line.0[at] = 0;
        }
    }

    /// Halves every count and rounds down.
    pub fn halve(&mut self) {
        for entry in self.lines.iter_mut().flat_map(|line| &mut line.0) {
            *entry = (*entry & !MAX_COUNT) | ((*entry & MAX_COUNT) / 2);
        }
        self.counted = 0;
    }

    /// Returns the line of an object, and its tag there.
    #[inline]
    fn place(&self, id: u64) -> (usize, u32) {
        // Other bits than those that index the cache's own tables.
        let hash = mix(id ^ 0x9e37_79b9_7f4a_7c15);
        (
            hash as usize & (self.lines.len() - 1),
            (hash >> 32) as u32 & !MAX_COUNT,
        )
    }
}
