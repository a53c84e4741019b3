//! Prefetches memory into the processor's cache: large caches mostly wait for memory, hundreds of
//! cycles a line.
//!
//! Measured with the replay of Zipf 0.8 over 1e7 objects, a tenth stored: two to three times as
//! many requests a second. On processors other than x86-64 it does nothing.
//!
//! It also requests large pages for large tables ([`grow`]). Without them the processor must first
//! look up the page, in memory that is in no cache either. Measured with the forwarder's
//! `in_memory` bench, 13.5 million prefixes: a third less time an exchange. On systems other than
//! Linux it does nothing.
//!
//! With a comparison in `index`, these are the only unsafe lines of this crate.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Begins to load the cache line of `table[index]`, if the index is valid. It changes nothing.
#[inline(always)]
pub fn prefetch<T>(table: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = table.as_ptr().wrapping_add(index).cast();
        // SAFETY: a hint that has no effect that the program can see, and faults at no address. SSE
        // is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, index);
}

/// Makes room for `length` elements in all, on large pages if they fill at least one. It requests
/// these before the old elements move in, because memory that was written to keeps its pages.
pub fn grow<T>(table: &mut Vec<T>, length: usize) {
    let mut larger = Vec::with_capacity(length.max(table.len()));
    use_large_pages(&mut larger);
    larger.append(table);
    *table = larger;
}

/// Extends `table` to `length` with `fill`. If it does not fit, it moves to twice the room, on
/// large pages if it fills at least one. The growth of `Vec` would leave the copied elements on
/// small pages.
pub(crate) fn lengthen<T: Copy>(table: &mut Vec<T>, length: usize, fill: T) {
    if length > table.capacity() {
        grow(table, length.max(2 * table.capacity()).max(4));
    }
    table.resize(length, fill);
}

/// Requests large pages for the part of a large table that was not written to yet.
pub(crate) fn use_large_pages<T>(table: &mut Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let start = table.as_mut_ptr() as usize;
        let end = start + table.capacity() * size_of::<T>();
        let (first, end) = (start.next_multiple_of(PAGE_BYTES), end - end % PAGE_BYTES);
        if end.saturating_sub(first) >= LARGE_TABLE_BYTES {
            let place = table.as_mut_ptr().wrapping_byte_add(first - start).cast();
            note_advice(start);
            // SAFETY: the range is within the vector's allocation, and the advice has no effect
            // that the program can see.
            let _ = unsafe { madvise(place, end - first, Advice::LinuxHugepage) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = table;
}

/// The start addresses of known tables on large pages; 0 is none. A node has dozens.
#[cfg(target_os = "linux")]
static ADVISED: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];

#[cfg(target_os = "linux")]
fn note_advice(start: usize) {
    let is_noted = |place: &AtomicUsize| {
        let had = place.compare_exchange(0, start, Ordering::Relaxed, Ordering::Relaxed);
        had.is_ok() || had == Err(start)
    };
    ADVISED.iter().any(is_noted);
}

/// Returns true, once, if large pages were requested for a table that starts here. An allocator
/// withdraws the advice when the memory of the table is freed, because later contents may be small.
pub fn take_advice(start: usize) -> bool {
    #[cfg(target_os = "linux")]
    return ADVISED.iter().any(|place| {
        place
            .compare_exchange(start, 0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    });
    #[cfg(not(target_os = "linux"))]
    {
        let _ = start;
        false
    }
}

/// Pages of 4 KiB. If they are larger, the system refuses addresses in between, without harm.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 4096;

/// Below this size the processor's second-level cache of page addresses suffices, also for several
/// such tables. With 8 MB, agd's replay of mix 1 GiB was a twentieth slower.
#[cfg(target_os = "linux")]
const LARGE_TABLE_BYTES: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_advice_of_a_table_is_forgotten_or_taken_twice() {
        let mut table: Vec<u64> = Vec::new();
        grow(&mut table, 1 << 20);
        let start = table.as_ptr() as usize;
        assert!(take_advice(start) && !take_advice(start) && !take_advice(start + 8));
    }

    #[test]
    fn a_large_table_loses_what_is_in_it() {
        let mut table: Vec<u64> = (0..1000).collect();
        grow(&mut table, 4 << 20);
        assert!(table.capacity() >= 4 << 20);
        table.resize(4 << 20, 7);
        assert!(
            table[..1000].iter().copied().eq(0..1000)
                && table[1000..].iter().all(|other| *other == 7)
        );
    }
}
