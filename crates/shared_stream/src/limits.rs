//! The bounds of a shared stream, with their reasons.

/// Bytes of each of the two rings, a power of two. As much as a Unix socket holds by default (208
/// KiB), so queues are as long as over a socket. Both rings fit a processor's second cache.
pub const RING_BYTES: usize = 256 << 10;

/// Bytes of the page with the indices.
pub(crate) const INDICES_BYTES: usize = 4096;

/// Bytes of memory that a stream takes when both rings have been used to their ends.
pub const STREAM_BYTES: usize = INDICES_BYTES + 2 * RING_BYTES;

/// Waits after which the bell's pipe is emptied. Each wait leaves at most one byte there, and the
/// smallest pipe holds a page. Tests empty it often.
pub(crate) const WAITS_PER_DRAIN: u32 = if cfg!(test) { 3 } else { 1024 };
