//! The requests of a whole trace, for policies that know the future. No cache can run such a
//! policy; it bounds what the others can reach.

use crate::hash::mix;
use crate::limits::MAX_FUTURE_REQUESTS;
use hashbrown::HashTable;
use std::fmt;

/// All requests of a trace, and for each one the next request of the same object. 20 bytes a
/// request.
///
/// The engine's n-th request is the n-th of the trace. For requests after the end of the trace, no
/// object is requested again.
#[derive(Debug, Default)]
pub struct Future {
    ids: Vec<u64>,
    sizes: Vec<u64>,
    /// The number, from 1, of the next request of the same object, or [`Future::NEVER`].
    next: Vec<u32>,
}

impl Future {
    /// Returned by [`Future::next`] for an object that is not requested again.
    pub const NEVER: u32 = u32::MAX - 1;

    /// Returns the number of requests of the trace.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if the trace has no request.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the bytes of heap that it takes.
    pub fn bytes(&self) -> usize {
        self.ids.capacity() * 8 + self.sizes.capacity() * 8 + self.next.capacity() * 4
    }

    /// Returns the number of the next request for the object of request `seq`, or
    /// [`Future::NEVER`]. Both numbers count from 1, as [`crate::Request::seq`] does.
    #[inline]
    pub fn next(&self, seq: u64) -> u32 {
        let next = seq
            .checked_sub(1)
            .and_then(|place| self.next.get(place as usize));
        next.map_or(Future::NEVER, |next| *next)
    }

    /// Returns the ids and sizes in bytes of up to `len` requests, from request `seq` on, which
    /// counts from 1.
    pub fn window(&self, seq: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let start = usize::try_from(seq.saturating_sub(1))
            .unwrap_or(usize::MAX)
            .min(self.len());
        let end = start
            + usize::try_from(len)
                .unwrap_or(usize::MAX)
                .min(self.len() - start);
        self.ids[start..end]
            .iter()
            .copied()
            .zip(self.sizes[start..end].iter().copied())
    }
}

/// Builds a [`Future`] from the requests of a trace, one after another. Meanwhile it takes 8 bytes
/// and a table's slack for each object in addition.
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
    /// The index of each object's last request.
    last: HashTable<u32>,
}

impl FutureBuilder {
    /// Appends a request for the object `id` of `size` bytes.
    ///
    /// # Errors
    /// [`FutureTooLong`] if the trace has [`MAX_FUTURE_REQUESTS`] requests.
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
                self.last
                    .insert_unique(mix(id), place, |last| mix(ids[*last as usize]));
            }
        }
        Ok(())
    }

    /// Returns the future of the requests so far.
    pub fn build(mut self) -> Future {
        let Future { ids, sizes, next } = &mut self.future;
        ids.shrink_to_fit();
        sizes.shrink_to_fit();
        next.shrink_to_fit();
        self.future
    }
}

/// A trace with more requests than [`MAX_FUTURE_REQUESTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutureTooLong;

impl fmt::Display for FutureTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "more than {MAX_FUTURE_REQUESTS} requests cannot be held in memory to be foreseen"
        )
    }
}

impl std::error::Error for FutureTooLong {}

#[cfg(test)]
mod tests {
    use super::*;

    fn future(ids: &[u64]) -> Future {
        let mut trace = FutureBuilder::default();
        for id in ids {
            trace.push(*id, id * 10).unwrap();
        }
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
        let window = |seq, len| {
            future
                .window(seq, len)
                .map(|(id, _)| id)
                .collect::<Vec<_>>()
        };
        assert_eq!(window(1, 2), [7, 8]);
        assert_eq!(window(2, u64::MAX), [8, 9]);
        assert_eq!(window(4, 1), []);
        assert_eq!(window(u64::MAX, u64::MAX), []);
        assert_eq!(future.window(3, 1).next(), Some((9, 90)));
    }
}
