//! The binary's allocator. The node's caches and connections consist of many small blocks, which
//! one thread allocates and another frees. With the system's allocator, a miss of the HTTP cache
//! takes a tenth more time, and the memory of large bodies stays with the process.

#![allow(unsafe_code, reason = "an allocator is unsafe, and mimalloc's options have no safe way to them")]

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_int;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// mimalloc, which calls the aligned functions only for alignments that `malloc` does not
/// guarantee. The `mimalloc` crate calls them for every request. They take longer, and allocate
/// more than requested if a size above a KiB is not a power of two.
struct Allocator;

/// Returns true if `malloc` guarantees the alignment (C11 §7.22.3): a block is aligned for every
/// type that fits into it.
const fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= 8 || align == 16 && size >= 16
}

// SAFETY: mimalloc returns blocks of the requested size and alignment, and no other owner has them
// until they are freed. `mi_malloc` and similar functions are called only if `is_aligned_anyway`.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as above.
        unsafe { if is_aligned_anyway(size, align) { mi_malloc(size) } else { mi_malloc_aligned(size, align) } }.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as above.
        unsafe { if is_aligned_anyway(size, align) { mi_zalloc(size) } else { mi_zalloc_aligned(size, align) } }.cast()
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (block, align) = (block.cast(), layout.align());
        // SAFETY: the caller promises that the block is one of mimalloc's. The rest is as above.
        unsafe {
            if is_aligned_anyway(size, align) {
                mi_realloc(block, size)
            } else {
                mi_realloc_aligned(block, size, align)
            }
        }
        .cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller promises that the block is one of mimalloc's.
        unsafe { mi_free(block.cast()) }
    }
}

/// `mi_option_purge_delay`, which the bindings do not name.
const PURGE_DELAY: c_int = 15;

/// Returns free memory to the system at once, not after a second. With bodies of up to 64 MiB, that
/// second held 30 MiB more. A miss does not take longer. The replay of LFU's million objects takes
/// 100 MB instead of 140, in the same time, because the tables return their memory when they grow.
/// A simulation, which allocates and frees gigabytes of packets, takes a third more time (160 KB
/// each). Call this function first, while there is one thread.
pub fn give_back_at_once() {
    // SAFETY: the call stores a number in a table. No other thread exists yet that could read it.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a block is not aligned for its type.
    #[test]
    fn blocks_are_aligned_as_they_were_asked_for() {
        let sizes = (1..600).chain((600..200_000).step_by(997));
        for (size, shift) in sizes.flat_map(|size| (0..8).map(move |shift| (size, shift))) {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            // SAFETY: the layouts have sizes, and each block is freed with its own layout after its
            // last use.
            unsafe {
                let block = ALLOCATOR.alloc(layout);
                block.write_bytes(1, size);
                let zeroed = ALLOCATOR.alloc_zeroed(layout);
                assert!(std::slice::from_raw_parts(zeroed, size).iter().all(|byte| *byte == 0), "{layout:?}");
                let grown = ALLOCATOR.realloc(block, layout, size * 2);
                assert!(std::slice::from_raw_parts(grown, size).iter().all(|byte| *byte == 1), "{layout:?}");
                for block in [zeroed, grown] {
                    assert!((block as usize).is_multiple_of(layout.align()), "{layout:?}");
                }
                ALLOCATOR.dealloc(zeroed, layout);
                ALLOCATOR.dealloc(grown, Layout::from_size_align(size * 2, layout.align()).unwrap());
            }
        }
    }

    /// Failure: another version has another option with this number.
    #[test]
    fn the_number_is_that_of_the_delay() {
        // SAFETY: the call reads a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000, "its default");
        give_back_at_once();
        assert_eq!(delay(), 0);
    }
}
