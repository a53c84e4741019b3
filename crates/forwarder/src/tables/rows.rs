//! The rows of a prefix table, in chunks. Only rows of the first chunk ever move. A table of
//! millions of rows that moved as one when it is full would delay packets meanwhile.
//!
//! A chunk is [`CHUNK`] rows, 64 MiB of the FIB's, on large pages but for its ends; the first grows
//! by doubling up to [`DOUBLED`] rows, for most tables are small. A look-up reads one line more
//! than in a vector, of the chunks' addresses, which stay in the processor's first cache: a hundred
//! chunks take 2.4 KB.

use larder_policy::{Slot, grow, prefetch};

/// Rows in a chunk. In chunks of 16 MiB, an eighth of the FIB's rows was on small pages.
const CHUNK: usize = 1 << 20;

/// Rows of the first chunk beyond which it becomes a whole one: these move together for the last
/// time.
const DOUBLED: usize = 1 << 18;

/// Rows by slot.
pub(crate) struct Rows<R> {
    chunks: Vec<Vec<R>>,
}

impl<R> Rows<R> {
    pub(crate) fn new() -> Self {
        Rows { chunks: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks
            .last()
            .map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &R {
        &self.chunks[slot.index() / CHUNK][slot.index() % CHUNK]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut R {
        &mut self.chunks[slot.index() / CHUNK][slot.index() % CHUNK]
    }

    /// The row will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self, slot: Slot) {
        if let Some(chunk) = self.chunks.get(slot.index() / CHUNK) {
            prefetch(chunk, slot.index() % CHUNK);
        }
    }

    /// Adds a row: its slot.
    pub(crate) fn push(&mut self, row: R) -> Slot {
        let slot = Slot::new(self.len() as u32);
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::new());
        }
        let is_first = self.chunks.len() == 1;
        if let Some(last) = self.chunks.last_mut() {
            if last.len() == last.capacity() {
                let length = if is_first && last.len() < DOUBLED {
                    (2 * last.len()).max(4)
                } else {
                    CHUNK
                };
                grow(last, length);
            }
            last.push(row);
        }
        slot
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &R> {
        self.chunks.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut R> {
        self.chunks.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a row is lost at the end of a chunk, or rows move when a chunk is full, while
    /// packets wait.
    #[test]
    fn rows_move_when_they_are_many() {
        let mut rows = Rows::new();
        let mut places = Vec::new();
        for number in 0..2 * CHUNK + 5 {
            assert_eq!((rows.len(), rows.push(number).index()), (number, number));
            if number >= DOUBLED && number.is_multiple_of(CHUNK / 4) {
                places.push((
                    number,
                    std::ptr::from_ref(rows.get(Slot::new(number as u32))),
                ));
            }
        }
        assert!(places.len() > 3, "nothing was tried");
        for (number, place) in places {
            assert_eq!(
                std::ptr::from_ref(rows.get(Slot::new(number as u32))),
                place,
                "row {number} has moved"
            );
        }
        *rows.get_mut(Slot::new(CHUNK as u32)) = 0;
        for row in rows.iter_mut() {
            *row += 1;
        }
        let expected = (1..=2 * CHUNK + 5).map(|row| if row == CHUNK + 1 { 1 } else { row });
        assert!(rows.iter().copied().eq(expected));
    }
}
