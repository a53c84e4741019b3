//! The shared memory: a page of indices, then the two rings. All unsafe code of this crate is here.
//!
//! ```text
//!  0     128    256    384    512 ...   4096            4096 + RING_BYTES
//!  written read  reader writer (the same    ring 0:         ring 1:
//!  of ring 0    waits  waits   of ring 1)   from creator    to creator
//! ```
//!
//! The process at the other end may be hostile and write anything at any time. So no reference to
//! the bytes of a ring exists: bytes are copied, by raw pointers, from and to memory of this
//! process. Indices are atomic.
//!
//! Bytes are copied by `copy_nonoverlapping`, which is not atomic. Between two ends that keep to
//! the indices there is no race: an end writes only bytes that the other one has released. If the
//! other process writes bytes that this one copies, Rust's memory model has no answer, as for all
//! memory that another process writes. The copy is a call of `memcpy` all the same: its result is
//! some bytes, in memory of this process, and all code that follows reads only those. Atomic words
//! would be formally defined there. A copy of 8100 bytes takes 163 ns by `memcpy`, 272 by words of
//! 8 bytes (eight at a time) and 311 (one by one); an exchange has four of them, in 2.9 us.

#![allow(unsafe_code, reason = "memory that is shared with another process")]

use crate::limits::{INDICES_BYTES, RING_BYTES, STREAM_BYTES};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// The distance of two indices: two cache lines, because processors fetch lines in pairs.
const INDEX_BYTES: usize = 128;

/// One of the rings: 0 is written by the creator, 1 by the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring(pub(crate) usize);

/// The indices and flags of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Index {
    /// The number of bytes that were written, modulo 2^32.
    Written,
    /// The number of bytes that were read, modulo 2^32.
    Read,
    /// 1 while the reader waits for bytes.
    ReaderWaits,
    /// 1 while the writer waits for room.
    WriterWaits,
}

/// The mapped memory of one stream.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
}

// SAFETY: the memory belongs to no thread. Indices are atomic. A ring's bytes are accessed through
// the one end that owns this mapping, by `&mut` of its `SharedStream`.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the memory of a stream.
    ///
    /// # Errors
    /// It has another length, or it may shrink, which would end this process by SIGBUS; or the
    /// system refuses the mapping.
    pub(crate) fn new(memory: BorrowedFd<'_>) -> io::Result<Mapping> {
        let needed = SealFlags::SHRINK | SealFlags::GROW;
        if !fcntl_get_seals(memory)?.contains(needed)
            || fstat(memory)?.st_size != STREAM_BYTES as i64
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory is not that of a stream",
            ));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                STREAM_BYTES,
                access,
                MapFlags::SHARED,
                memory,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start })
    }

    pub(crate) fn index(&self, ring: Ring, index: Index) -> &AtomicU32 {
        let at = ((ring.0 & 1) * 4 + index as usize) * INDEX_BYTES;
        // SAFETY: at most 7 * 128, so within the first page, and aligned; the memory is mapped as
        // long as `self` lives. Both processes access it by atomic operations only; if the other
        // one does not, this one reads some value of 32 bits.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Copies `bytes` to the ring from position `at` (modulo the ring's size).
    pub(crate) fn copy_in(&mut self, ring: Ring, at: u32, bytes: &[u8]) {
        let (first, second) = bytes.split_at(bytes.len().min(until_end(at)));
        assert!(second.len() <= RING_BYTES, "more than the ring holds");
        // SAFETY: `first` ends at the latest at the ring's end, and `second` begins at its start
        // and is no longer than the ring. `bytes` is memory of this process alone.
        unsafe {
            std::ptr::copy_nonoverlapping(first.as_ptr(), self.byte(ring, at), first.len());
            std::ptr::copy_nonoverlapping(second.as_ptr(), self.byte(ring, 0), second.len());
        }
    }

    /// Fills `bytes` from the ring, from position `at` (modulo the ring's size).
    pub(crate) fn copy_out(&self, ring: Ring, at: u32, bytes: &mut [u8]) {
        let (first, second) = bytes.split_at_mut(bytes.len().min(until_end(at)));
        assert!(second.len() <= RING_BYTES, "more than the ring holds");
        // SAFETY: as in `copy_in`. If the other process writes there meanwhile, some bytes of
        // either value are copied.
        unsafe {
            std::ptr::copy_nonoverlapping(self.byte(ring, at), first.as_mut_ptr(), first.len());
            std::ptr::copy_nonoverlapping(self.byte(ring, 0), second.as_mut_ptr(), second.len());
        }
    }

    fn byte(&self, ring: Ring, at: u32) -> *mut u8 {
        let offset = INDICES_BYTES + (ring.0 & 1) * RING_BYTES + at as usize % RING_BYTES;
        // SAFETY: below `STREAM_BYTES`, so within the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` has mapped it, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), STREAM_BYTES) };
    }
}

/// Returns the bytes from a position to the end of its ring.
fn until_end(at: u32) -> usize {
    RING_BYTES - at as usize % RING_BYTES
}
