//! What a trace will ask for, for policies that no cache can run: the bounds that others are
//! measured by.

use crate::hash::mix;
use crate::limits::MAX_FUTURE_REQUESTS;
use hashbrown::HashTable;
use std::fmt;

/// Every request of a trace, and when each one's object is requested again. 20 bytes a request.
///
/// An engine that foresees takes its n-th request to be the n-th of the trace; what comes after the
/// end finds nothing foreseen.
#[derive(Debug, Default)]
pub struct Future {
    ids: Vec<u64>,
    sizes: Vec<u64>,
    /// The place of the next request of the same object, or [`Future::NEVER`].
    next: Vec<u32>,
}

impl Future {
    /// The object is not requested again.
    pub(crate) const NEVER: u32 = u32::MAX - 1;

    /// Requests of the trace.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// The trace has no request.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Bytes of heap.
    pub fn bytes(&self) -> usize {
        self.ids.capacity() * 8 + self.sizes.capacity() * 8 + self.next.capacity() * 4
    }

    /// The next request of the object that the engine's request `seq` (from 1) asks for: also a
    /// `seq`, from 1, or [`Future::NEVER`].
    #[inline]
    pub(crate) fn next(&self, seq: u64) -> u32 {
        let next = seq.checked_sub(1).and_then(|place| self.next.get(place as usize));
        next.map_or(Future::NEVER, |next| *next)
    }

    /// Up to `len` requests, the engine's request `seq` the first: their ids and sizes in bytes.
    pub(crate) fn window(&self, seq: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let start = usize::try_from(seq.saturating_sub(1)).unwrap_or(usize::MAX).min(self.len());
        let end = start + usize::try_from(len).unwrap_or(usize::MAX).min(self.len() - start);
        self.ids[start..end].iter().copied().zip(self.sizes[start..end].iter().copied())
    }
}

/// Makes a [`Future`] from the requests of a trace, one after another. Beside it: 8 bytes and a
/// table's slack for each object.
///
/// ```
/// let mut trace = larder_policy::FutureBuilder::default();
/// for (id, size) in [(7, 60), (8, 60), (7, 60)] {
///     trace.push(id, size).unwrap();
/// }
/// assert_eq!(trace.build().len(), 3);
/// ```
#[derive(Default)]
pub struct FutureBuilder {
    future: Future,
    /// The place of each object's last request.
    last: HashTable<u32>,
}

impl FutureBuilder {
    /// One more request, for the object `id` of `size` bytes.
    ///
    /// # Errors
    /// [`FutureTooLong`] at [`MAX_FUTURE_REQUESTS`].
    pub fn push(&mut self, id: u64, size: u64) -> Result<(), FutureTooLong> {
        let Future { ids, sizes, next } = &mut self.future;
        if ids.len() >= MAX_FUTURE_REQUESTS {
            return Err(FutureTooLong);
        }
        let place = ids.len() as u32;
        ids.push(id);
        sizes.push(size);
        next.push(Future::NEVER);
        let same = |last: &u32| ids[*last as usize] == id;
        match self.last.find_mut(mix(id), same) {
            Some(last) => {
                next[*last as usize] = place + 1;
                *last = place;
            }
            None => {
                self.last.insert_unique(mix(id), place, |last| mix(ids[*last as usize]));
            }
        }
        Ok(())
    }

    /// The future that was told.
    pub fn build(mut self) -> Future {
        let Future { ids, sizes, next } = &mut self.future;
        ids.shrink_to_fit();
        sizes.shrink_to_fit();
        next.shrink_to_fit();
        self.future
    }
}

/// A trace that is too long to be foreseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutureTooLong;

impl fmt::Display for FutureTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {MAX_FUTURE_REQUESTS} requests cannot be held in memory to be foreseen")
    }
}

impl std::error::Error for FutureTooLong {}

#[cfg(test)]
mod tests {
    use super::*;

    fn future(ids: &[u64]) -> Future {
        let mut trace = FutureBuilder::default();
        ids.iter().for_each(|id| trace.push(*id, id * 10).unwrap());
        trace.build()
    }

    #[test]
    fn the_next_request_is_of_another_object() {
        let future = future(&[7, 8, 7, 7, 9, 8]);
        let next: Vec<u32> = (0..=7).map(|seq| future.next(seq)).collect();
        const NEVER: u32 = Future::NEVER;
        assert_eq!(next, [NEVER, 3, 6, 4, NEVER, NEVER, NEVER, NEVER]);
    }

    #[test]
    fn a_window_past_the_end() {
        let future = future(&[7, 8, 9]);
        let window = |seq, len| future.window(seq, len).map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(window(1, 2), [7, 8]);
        assert_eq!(window(2, u64::MAX), [8, 9]);
        assert_eq!(window(4, 1), []);
        assert_eq!(window(u64::MAX, u64::MAX), []);
        assert_eq!(future.window(3, 1).next(), Some((9, 90)));
    }
}
