//! The binary's allocator. The node's caches and connections are made of many small pieces, taken
//! on one thread and given back on another: with the system's allocator a miss of the HTTP cache
//! takes a tenth more time, and what large bodies have left behind stays with the process.

#![allow(unsafe_code, reason = "an allocator is unsafe, and mimalloc's options have no safe way to them")]

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_int;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// mimalloc without its way round for alignments that `malloc` has anyway, as the `mimalloc` crate
/// goes for every request: that way is longer, and takes more than was asked for where a size above
/// a KiB is no power of two.
struct Allocator;

/// What `malloc` promises (C11 §7.22.3): aligned for every type of up to so many bytes that fits.
const fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= 8 || align == 16 && size >= 16
}

// SAFETY: mimalloc gives blocks of the size and alignment that it is asked for, which nobody else
// has until they are freed; `mi_malloc` and its like are asked only where `is_aligned_anyway`.
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
        // SAFETY: the block is one of mimalloc's, by the caller's promise; for the rest, as above.
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
        // SAFETY: the block is one of mimalloc's, by the caller's promise.
        unsafe { mi_free(block.cast()) }
    }
}

/// `mi_option_purge_delay`, which the bindings do not name.
const PURGE_DELAY: c_int = 15;

/// What is free goes back to the system at once, instead of after a second: with bodies of up to 64
/// MiB that come and go, that second held 30 MiB more. A miss costs no more time for it. So the
/// replay of LFU's million objects takes 100 MB and no more time, with what its tables grew out of
/// 140. A simulation, which makes and drops packets by the gigabyte, takes a third more time for it
/// (160 KB each). To be called first, while there is one thread.
pub fn give_back_at_once() {
    // SAFETY: it stores a number in a table; nobody reads it at the same time, since there is no
    // other thread yet.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a block that is not where its type may stand.
    #[test]
    fn blocks_are_aligned_as_they_were_asked_for() {
        let sizes = (1..600).chain((600..200_000).step_by(997));
        for (size, shift) in sizes.flat_map(|size| (0..8).map(move |shift| (size, shift))) {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            // SAFETY: the layouts have sizes, and each block is given back with its own, after the
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

    /// Failure: another version has another option under this number.
    #[test]
    fn the_number_is_that_of_the_delay() {
        // SAFETY: it reads a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000, "its default");
        give_back_at_once();
        assert_eq!(delay(), 0);
    }
}
