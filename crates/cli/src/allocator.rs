//! The binary's allocator. The node's caches and connections consist of many small blocks, which
//! one thread allocates and another frees. With the system's allocator, a miss of the HTTP cache
//! takes a tenth more time, and the memory of large bodies stays with the process.

#![allow(
    unsafe_code,
    reason = "an allocator is unsafe, and mimalloc's options have no safe way to them"
)]

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_usable_size,
    mi_zalloc, mi_zalloc_aligned,
};
use rustix::process::Resource;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_long};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Sizes of blocks that share pages of 4 MiB in mimalloc: a page for each of the four sizes between
/// two powers of two, in each thread. A page is given back when all of its blocks are free, so
/// bodies of mixed sizes leave many pages partly used: after half an hour, the process of a cache
/// held 1.2 times the memory of its objects. A larger block has a page of its own, which takes
/// memory only as far as it was written, and is given back with the block.
const IN_SHARED_PAGES: RangeInclusive<usize> = 80 * 1024 + 1..=512 * 1024;

/// The smallest size of a block with a page of its own, which blocks of [`IN_SHARED_PAGES`] are
/// requested with. The rest of it takes address space, but no memory.
const OWN_PAGE: usize = 512 * 1024 + 1;

/// True if blocks of [`IN_SHARED_PAGES`] are requested with [`OWN_PAGE`] bytes: see
/// [`prepare_node`].
static OWN_PAGES: AtomicBool = AtomicBool::new(false);

/// Returns true if the block is requested with [`OWN_PAGE`] bytes.
fn gets_own_page(size: usize, align: usize) -> bool {
    IN_SHARED_PAGES.contains(&size)
        && is_aligned_anyway(size, align)
        && OWN_PAGES.load(Ordering::Relaxed)
}

/// Returns true if the block was requested with [`OWN_PAGE`] bytes.
///
/// # Safety
/// The block is one of mimalloc's and has this layout.
unsafe fn has_own_page(block: *mut u8, layout: Layout) -> bool {
    // SAFETY: the caller promises that the block is mimalloc's.
    IN_SHARED_PAGES.contains(&layout.size()) && unsafe { mi_usable_size(block.cast()) } >= OWN_PAGE
}

// SAFETY: mimalloc returns blocks of the requested size and alignment, and no other owner has them
// until they are freed. `mi_malloc` and similar functions are called only if `is_aligned_anyway`.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if gets_own_page(size, align) {
            return with_own_page(size);
        }
        // SAFETY: as above.
        unsafe {
            if is_aligned_anyway(size, align) {
                mi_malloc(size)
            } else {
                mi_malloc_aligned(size, align)
            }
        }
        .cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if gets_own_page(size, align) {
            // SAFETY: the block has so many bytes. The rest of its page stays unwritten.
            return unsafe {
                let block = self.alloc(layout);
                if !block.is_null() {
                    block.write_bytes(0, size);
                }
                block
            };
        }
        // SAFETY: as above.
        unsafe {
            if is_aligned_anyway(size, align) {
                mi_zalloc(size)
            } else {
                mi_zalloc_aligned(size, align)
            }
        }
        .cast()
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let align = layout.align();
        forget_advice(block, layout.size());
        // SAFETY: the caller promises that the block is one of mimalloc's and has this layout.
        match (
            unsafe { has_own_page(block, layout) },
            gets_own_page(size, align),
        ) {
            (false, false) => {}
            // A page that stays keeps the memory of the part that is no longer used.
            (true, true) if size >= layout.size() / 2 => return block,
            // SAFETY: the caller's promises are those of `moved`.
            _ => return unsafe { moved(block, layout, size) },
        }
        let block = block.cast();
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
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        forget_advice(block, layout.size());
        // SAFETY: the caller promises that the block is one of mimalloc's.
        unsafe { mi_free(block.cast()) }
    }
}

/// Returns a block with a page of its own, or null. mimalloc may use the page of a freed block
/// again before it is given back ([`NODE_DELAY_MS`]). Then the memory behind `size` is given back
/// here.
fn with_own_page(size: usize) -> *mut u8 {
    // SAFETY: a block of at least 16 bytes is aligned for `gets_own_page`.
    let block: *mut u8 = unsafe { mi_malloc(OWN_PAGE) }.cast();
    #[cfg(target_os = "linux")]
    if !block.is_null() {
        let page = page_bytes();
        let unused = (block.addr() + size).next_multiple_of(page);
        let length = (block.addr() + OWN_PAGE).saturating_sub(unused) / page * page;
        // SAFETY: the range lies within the block, whose new owner has no more than `size` bytes of
        // it. A failure leaves the memory as it is.
        unsafe { libc::madvise(block.with_addr(unused).cast(), length, libc::MADV_DONTNEED) };
    }
    block
}

/// Moves a block to a new one of `size` bytes, and copies only the requested bytes: mimalloc would
/// copy, and so write, all of its page.
///
/// # Safety
/// As for [`GlobalAlloc::realloc`].
#[cold]
unsafe fn moved(block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    // SAFETY: the caller promises that the block has this layout and that the new one is valid.
    // Both blocks have the copied bytes.
    unsafe {
        let new = ALLOCATOR.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !new.is_null() {
            new.copy_from_nonoverlapping(block, size.min(layout.size()));
            ALLOCATOR.dealloc(block, layout);
        }
        new
    }
}

/// `mi_option_purge_delay`, which the bindings do not name.
const PURGE_DELAY: c_int = 15;

/// Prepares the allocator for a node, which runs for months. Call this function first, while there
/// is one thread.
///
/// Bodies of [`IN_SHARED_PAGES`] get pages of their own, if the unwritten rest of a page costs
/// nothing: the kernel has to count the memory that is written, not the address space, and must not
/// put a huge page (2 MiB) behind the first byte. Large tables still get them.
pub fn prepare_node() {
    give_back_after(NODE_DELAY_MS);
    OWN_PAGES.store(
        address_space_is_free() && only_advised_huge_pages(),
        Ordering::Relaxed,
    );
}

/// Returns true if neither strict overcommit nor a limit counts the address space of the process.
fn address_space_is_free() -> bool {
    let is_unlimited = |resource| rustix::process::getrlimit(resource).current.is_none();
    let overcommit = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
    is_unlimited(Resource::As)
        && is_unlimited(Resource::Data)
        && overcommit.is_ok_and(|mode| mode.trim() != "2")
}

/// Sees to it that no memory of this process gets huge pages without having asked for them: bodies
/// do not, and large tables do (`larder_policy::grow`). Returns true if that is so.
///
/// Linux has the exception for memory that asks since 6.18. An older one lets only such memory have
/// huge pages if the system is set so (`madvise`); otherwise all are forbidden, those of the tables
/// too.
fn only_advised_huge_pages() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: the calls change and read a setting of the process.
    unsafe {
        // Whoever has started the process may have forbidden them all.
        if libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1
            || libc::prctl(
                libc::PR_SET_THP_DISABLE,
                1,
                THP_DISABLE_EXCEPT_ADVISED,
                0,
                0,
            ) == 0
            || system_wants_advice()
        {
            return true;
        }
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
        libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// `PR_THP_DISABLE_EXCEPT_ADVISED` of linux/prctl.h, which libc does not have yet.
#[cfg(target_os = "linux")]
const THP_DISABLE_EXCEPT_ADVISED: libc::c_ulong = 1 << 1;

/// Returns true if the system gives huge pages only to memory that asks for them, or to none.
#[cfg(target_os = "linux")]
fn system_wants_advice() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|setting| setting.contains("[madvise]") || setting.contains("[never]"))
}

/// The smallest block that a table may have asked to be on huge pages.
const MAY_BE_ADVISED: usize = 2 << 20;

/// Takes the request for huge pages back, before the block of a table is freed: what comes to this
/// place next may be bodies.
#[inline]
fn forget_advice(block: *mut u8, size: usize) {
    if size >= MAY_BE_ADVISED
        && larder_policy::take_advice(block.addr())
        && OWN_PAGES.load(Ordering::Relaxed)
    {
        forbid_huge_pages_at(block, size);
    }
}

#[cold]
fn forbid_huge_pages_at(block: *mut u8, size: usize) {
    #[cfg(target_os = "linux")]
    {
        let page = page_bytes();
        let first = block.addr().next_multiple_of(page);
        let length = (block.addr() + size).saturating_sub(first) / page * page;
        // SAFETY: the range lies within the block, and what is in it stays. A failure changes
        // nothing.
        unsafe { libc::madvise(block.with_addr(first).cast(), length, libc::MADV_NOHUGEPAGE) };
    }
}

#[cfg(target_os = "linux")]
fn page_bytes() -> usize {
    // SAFETY: the call reads a constant of the process.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }
        .max(1)
        .cast_unsigned() as usize
}

/// The delay of a node. Within it, a miss takes the memory of an evicted body: without delay, a
/// miss of 100 to 400 KB took 1.4 times the CPU time, for the faults of new pages. With the default
/// of a second, bodies of up to 64 MiB held 30 MiB more.
const NODE_DELAY_MS: c_long = 10;

/// The delay of a replay: none. The replay of LFU's million objects takes 72 MB instead of 98, in
/// the same time, because the tables return their memory when they grow.
pub const REPLAY_DELAY_MS: c_long = 0;

/// Returns free memory to the system after so many milliseconds, when the next page of the
/// allocator is used or freed. Call this function first, while there is one thread.
pub fn give_back_after(milliseconds: c_long) {
    // SAFETY: the call stores a number in a table. No other thread exists yet that could read it.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, milliseconds) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Once;

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
                assert!(
                    std::slice::from_raw_parts(zeroed, size)
                        .iter()
                        .all(|byte| *byte == 0),
                    "{layout:?}"
                );
                let grown = ALLOCATOR.realloc(block, layout, size * 2);
                assert!(
                    std::slice::from_raw_parts(grown, size)
                        .iter()
                        .all(|byte| *byte == 1),
                    "{layout:?}"
                );
                for block in [zeroed, grown] {
                    assert!(
                        (block as usize).is_multiple_of(layout.align()),
                        "{layout:?}"
                    );
                }
                ALLOCATOR.dealloc(zeroed, layout);
                ALLOCATOR.dealloc(
                    grown,
                    Layout::from_size_align(size * 2, layout.align()).unwrap(),
                );
            }
        }
    }

    /// Sizes around both ends of [`IN_SHARED_PAGES`].
    const SIZES: [usize; 10] = [
        1, 81_919, 81_920, 81_921, 100_000, 300_000, 524_287, 524_288, 524_289, 2_000_000,
    ];

    /// Failure: a block that grows or shrinks loses bytes, or is written beyond its end.
    #[test]
    fn blocks_keep_their_bytes_from_page_to_page() {
        as_a_node();
        for (from, to) in SIZES.iter().flat_map(|from| SIZES.map(|to| (*from, to))) {
            let [old, new] = [from, to].map(|size| Layout::from_size_align(size, 1).unwrap());
            // SAFETY: the layouts have sizes, no more than their bytes is written, and each block
            // is freed with its last layout after its last use.
            unsafe {
                let first = ALLOCATOR.alloc(old);
                for at in 0..from {
                    first.add(at).write(at as u8);
                }
                let second = ALLOCATOR.realloc(first, old, to);
                let kept = std::slice::from_raw_parts(second, from.min(to));
                assert!(
                    kept.iter().enumerate().all(|(at, byte)| *byte == at as u8),
                    "{from} {to}"
                );
                second.write_bytes(255, to);
                ALLOCATOR.dealloc(second, new);
                // Most likely the same memory.
                let zeroed = ALLOCATOR.alloc_zeroed(new);
                assert!(
                    std::slice::from_raw_parts(zeroed, to)
                        .iter()
                        .all(|byte| *byte == 0),
                    "{to}"
                );
                ALLOCATOR.dealloc(zeroed, new);
            }
        }
    }

    /// Failure: a block of the time before [`prepare_node`] is taken for a whole page.
    #[test]
    fn a_block_from_before_is_written_beyond_its_end() {
        let layout = Layout::from_size_align(300_000, 1).unwrap();
        // SAFETY: mimalloc's block has the layout, and is freed with its last one.
        unsafe {
            let before: *mut u8 = mi_malloc(300_000).cast();
            assert!(!has_own_page(before, layout));
            before.write_bytes(7, 300_000);
            let grown = ALLOCATOR.realloc(before, layout, 500_000);
            assert!(mi_usable_size(grown.cast()) >= 500_000);
            assert!(
                std::slice::from_raw_parts(grown, 300_000)
                    .iter()
                    .all(|byte| *byte == 7)
            );
            ALLOCATOR.dealloc(grown, Layout::from_size_align(500_000, 1).unwrap());
        }
    }

    /// Calls [`prepare_node`].
    ///
    /// Failure: another version of mimalloc has another option with this number; or a huge page
    /// stands behind a body.
    fn as_a_node() {
        static ONCE: Once = Once::new();
        // SAFETY: the call reads a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        ONCE.call_once(|| {
            assert_eq!(delay(), 1000, "its default");
            prepare_node();
        });
        assert_eq!(delay(), NODE_DELAY_MS);
        assert!(!cfg!(target_os = "linux") || only_advised_huge_pages());
    }

    #[test]
    fn the_number_is_that_of_the_delay() {
        as_a_node();
    }

    /// Failure: the memory of freed bodies stays with the process, because a few bodies that were
    /// allocated beside them are still there.
    #[cfg(target_os = "linux")]
    #[test]
    fn freed_blocks_of_mixed_sizes_give_back_their_memory() {
        if !is_alone_with_own_pages("freed_blocks_of_mixed_sizes_give_back_their_memory") {
            return;
        }
        let before = private_bytes();
        let threads = (0..4_usize).map(|thread| {
            std::thread::spawn(move || {
                let size =
                    |number: usize| 82_000 + (number * 7919 + thread * 977) * 104_729 % 440_000;
                let bodies: Vec<Vec<u8>> = (0..100).map(|number| vec![1; size(number)]).collect();
                bodies.into_iter().step_by(8).collect::<Vec<_>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        let kept: Vec<_> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        // With shared pages, it is five times as much.
        assert_grown_by(before, &kept);
    }

    /// Failure: a body keeps the memory of a larger one, whose page it got.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_used_page_holds_no_more_than_its_block() {
        if !is_alone_with_own_pages("a_used_page_holds_no_more_than_its_block") {
            return;
        }
        let before = private_bytes();
        let kept = (0..300).map(|_| {
            drop(vec![1_u8; 524_000]);
            vec![1; 90_000]
        });
        let kept: Vec<Vec<u8>> = kept.collect();
        assert_grown_by(before, &kept);
    }

    /// Failure: tables have no huge pages because bodies must have none; or bodies get them where a
    /// freed table was.
    #[cfg(target_os = "linux")]
    #[test]
    fn tables_lack_huge_pages_or_bodies_get_them() {
        if !is_alone_with_own_pages("tables_lack_huge_pages_or_bodies_get_them") {
            return;
        }
        let mut table = Vec::new();
        larder_policy::grow(&mut table, 32 << 20);
        table.resize(32 << 20, 1_u8);
        let range = table.as_ptr_range();
        let middle = |bytes: &[u8]| bytes[bytes.len() / 2..].as_ptr().addr();
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .unwrap_or_default();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release
            .split(['.', '-'])
            .map(|number| number.parse::<u32>().unwrap_or(0));
        let has_exception = (numbers.next(), numbers.next()) >= (Some(6), Some(18));
        let can_have_them =
            setting.contains("[madvise]") || (has_exception && setting.contains("[always]"));
        assert!(
            !can_have_them || may_have_huge_pages(middle(&table)),
            "a table"
        );
        drop(table);
        let bodies: Vec<Vec<u8>> = (0..200).map(|_| vec![1; 300_000]).collect();
        let where_it_was = bodies.iter().filter(|body| range.contains(&body.as_ptr()));
        assert!(where_it_was.count() > 0, "no body came where the table was");
        assert!(
            bodies.iter().all(|body| !may_have_huge_pages(middle(body))),
            "a body"
        );
    }

    /// Returns true if the kernel may put a huge page behind this address.
    #[cfg(target_os = "linux")]
    fn may_have_huge_pages(address: usize) -> bool {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = smaps.lines();
        let is_here = |line: &str| {
            let range = line.split(' ').next()?.split_once('-')?;
            let [from, to] = [range.0, range.1].map(|end| usize::from_str_radix(end, 16));
            Some((from.ok()?..to.ok()?).contains(&address))
        };
        assert!(
            lines.any(|line| is_here(line) == Some(true)),
            "{address:x} is in no mapping"
        );
        let eligible = lines
            .find_map(|line| line.strip_prefix("THPeligible:"))
            .unwrap();
        eligible.trim() != "0"
    }

    /// Returns true in a process that runs only this test, if address space costs nothing there;
    /// otherwise runs the test in one.
    #[cfg(target_os = "linux")]
    fn is_alone_with_own_pages(test: &str) -> bool {
        const ALONE: &str = "LARDER_TEST_IS_ALONE";
        if std::env::var_os(ALONE).is_some() {
            as_a_node();
            return OWN_PAGES.load(Ordering::Relaxed);
        }
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = alone
            .args(["--exact", &format!("allocator::tests::{test}")])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&ended.stdout);
        assert!(
            ended.status.success() && output.contains("1 passed"),
            "{output}"
        );
        false
    }

    /// Panics if the process does not come down to these bodies.
    #[cfg(target_os = "linux")]
    fn assert_grown_by(before: usize, kept: &[Vec<u8>]) {
        let kept = kept.iter().map(Vec::len).sum::<usize>();
        let mut grown = 0;
        for _ in 0..1000 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            // A page that is freed lets mimalloc look for free memory.
            drop(vec![1_u8; *IN_SHARED_PAGES.start()]);
            grown = private_bytes().saturating_sub(before);
            if grown <= 2 * kept {
                return;
            }
        }
        panic!("{grown} bytes for {kept}");
    }

    /// Returns the memory of this process that is not shared with another.
    #[cfg(target_os = "linux")]
    fn private_bytes() -> usize {
        let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let lines = rollup
            .lines()
            .filter_map(|line| line.strip_prefix("Private_"));
        let kib = lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
        kib.sum::<usize>() * 1024
    }
}
