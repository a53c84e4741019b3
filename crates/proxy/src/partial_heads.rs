//! The memory of heads of HTTP/1 requests that are not complete. hyper holds each, up to
//! `header_size`, for as long as its client takes for it. When all of them together are too much,
//! only small ones may go on: whoever sends a large head slowly loses the connection.

use super::limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The incomplete heads of one server.
#[derive(Default)]
pub(super) struct PartialHeads {
    bytes: AtomicUsize,
    refused: AtomicU64,
}

impl PartialHeads {
    /// Returns the number of heads that found no room.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// The incomplete head of one connection.
#[derive(Default)]
pub(super) struct PartialHead {
    all: Arc<PartialHeads>,
    bytes: usize,
}

impl PartialHead {
    pub(super) fn new(all: &Arc<PartialHeads>) -> PartialHead {
        PartialHead { all: Arc::clone(all), bytes: 0 }
    }

    /// Adds bytes of the head. Returns false if there is no room for them.
    pub(super) fn add(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let all = self.all.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let has_room = self.bytes <= limits::SMALL_HEAD_BYTES || all <= limits::PARTIAL_HEADS_BYTES;
        if !has_room {
            self.all.refused.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// The head is complete.
    pub(super) fn end(&mut self) {
        if self.bytes > 0 {
            self.all.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
            self.bytes = 0;
        }
    }
}

impl Drop for PartialHead {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: small heads are refused, or room is lost.
    #[test]
    fn large_heads_take_the_room_of_small_ones() {
        let all = Arc::new(PartialHeads::default());
        let mut large = PartialHead::new(&all);
        assert!(large.add(limits::PARTIAL_HEADS_BYTES));
        let mut small = PartialHead::new(&all);
        assert!(small.add(limits::SMALL_HEAD_BYTES) && !small.add(1));
        drop(large);
        assert!(small.add(1));
        small.end();
        assert_eq!((all.bytes.load(Ordering::Relaxed), all.refused()), (0, 1));
    }
}
