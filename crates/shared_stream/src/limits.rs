//! The bounds of a shared stream, with their reasons.

/// Bytes of each of the two rings, a power of two: 64 Data of 8000 bytes, with their names and
/// signatures, fit. So the answers to an ordinary window wait for nobody. Both rings fit a
/// processor's second cache.
pub const RING_BYTES: usize = 512 << 10;

/// Bytes of the page with the indices.
pub(crate) const INDICES_BYTES: usize = 4096;

/// Bytes of memory that a stream takes, from its creation on.
pub const STREAM_BYTES: usize = INDICES_BYTES + 2 * RING_BYTES;

/// Looks at the ring in one read. More than one, because bytes that come meanwhile would otherwise
/// cost a turn of the reader's loop. Bounded, because a peer that adds a few bytes at a time could
/// make one read long.
pub(crate) const LOOKS_PER_READ: usize = 3;
