//! Decoding an Interest, a Data or a link packet must not allocate: a forwarder does it for every
//! packet.

mod generators;

use larder_packet::{Data, Interest, LpPacket, Name, encode_lp};
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator as it came; counting touches a thread's own
// cell only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

proptest! {
    #[test]
    fn for_a_packet(interest in generators::interest(), data in generators::data(), header in generators::header()) {
        let (interest, data) = (interest.build(), data.build());
        let mut in_lp = Vec::new();
        encode_lp(&header, &interest, &mut in_lp);
        let count = allocations(|| {
            let packet = LpPacket::decode(&in_lp).unwrap();
            let interest = Interest::decode(packet.fragment.unwrap()).unwrap();
            let _ = interest.check_parameters_digest();
            assert!(interest.name.prefix_ends().count() > 0);
            assert!(Data::decode(&data).unwrap().signature_value.len() == 32);
            assert!(Interest::decode(&in_lp[1..]).is_err());
        });
        prop_assert_eq!(count, 0);
    }
}

#[test]
fn the_counter_counts() {
    assert!(allocations(|| drop("/a".parse::<Name>().unwrap())) > 0);
}
