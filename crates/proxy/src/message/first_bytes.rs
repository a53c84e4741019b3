//! The data of a body, of which HTTP/3 takes some bytes at a time.

use bytes::{Buf, Bytes};

/// Data whose first bytes can be taken without a copy, and before it is known whether they leave:
/// only then they are advanced.
pub(crate) trait FirstBytes: Buf {
    /// Returns the first bytes, at most so many.
    #[cfg_attr(
        not(feature = "http3"),
        allow(dead_code, reason = "only HTTP/3 takes them")
    )]
    fn first_bytes(&self, most: usize) -> Bytes;
}

impl FirstBytes for Bytes {
    fn first_bytes(&self, most: usize) -> Bytes {
        self.slice(..most.min(self.len()))
    }
}
