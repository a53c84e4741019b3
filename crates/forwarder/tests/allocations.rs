//! A packet that is forwarded, a hit and Data that satisfies Interests allocate nothing, once the
//! tables have grown; one by one and in batches.

use larder_forwarder::{Config, FaceConfig, FaceId, Forwarder, Outbox, Received, Route};
use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what this thread allocates.
struct Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises hold for the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises hold for the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NAMES: usize = 256;
const BATCH: usize = 48;

struct World {
    forwarder: Forwarder,
    faces: [FaceId; 2],
    exchanges: Vec<(Vec<u8>, Vec<u8>)>,
    outbox: Outbox,
    wire: Vec<u8>,
    sent: usize,
    now: Time,
}

impl World {
    fn new(policy: &str, capacity: ByteSize) -> World {
        let streams = Streams::new(1);
        let engine = Engine::new(&policy.parse().unwrap(), capacity, &streams).unwrap();
        let mut forwarder = Forwarder::new(Config::new([1, 2], streams), engine);
        let faces =
            ["consumer", "producer"].map(|face| forwarder.add_face(FaceConfig::remote(face)));
        let route = Route {
            face: faces[1],
            origin: 255,
            cost: 0,
            flags: 0,
            expires: None,
        };
        forwarder
            .add_route(&"/a/b".parse().unwrap(), route)
            .unwrap();
        let exchange = |i: usize| {
            let name: Name = format!("/a/b/some/ordinary/name/seg={i}").parse().unwrap();
            let data = DataBuilder::new(&name)
                .content(&[7; 1000])
                .build(&DigestSigner)
                .unwrap();
            (InterestBuilder::new(name).nonce(0).build(), data)
        };
        let exchanges = (0..NAMES).map(exchange).collect();
        let (outbox, wire) = (Outbox::new(), Vec::with_capacity(1 << 20));
        World {
            forwarder,
            faces,
            exchanges,
            outbox,
            wire,
            sent: 0,
            now: Time::ZERO,
        }
    }

    /// Every name once, one packet after the other.
    fn round(&mut self, nonce: u32) {
        for (interest, data) in &mut self.exchanges {
            self.now = Time::from_nanos(self.now.nanos() + 1_000_000);
            let end = interest.len();
            interest[end - 4..].copy_from_slice(&nonce.to_be_bytes());
            for (face, frame) in self.faces.iter().zip([interest, data]) {
                let _ = self
                    .forwarder
                    .on_packet(self.now, *face, frame, &mut self.outbox);
                self.wire.clear();
                let input = self.outbox.input();
                for send in self.outbox.drain() {
                    send.write_stream(&frame[input.clone()], &mut self.wire);
                    self.sent += 1;
                }
            }
        }
    }

    /// The same in batches; returns the allocations of the calls, without what the test needs for
    /// itself.
    fn round_in_batches(&mut self, nonce: u32) -> u64 {
        let mut during = 0;
        for batch in self.exchanges.chunks_mut(BATCH) {
            self.now = Time::from_nanos(self.now.nanos() + 1_000_000);
            for (interest, _) in batch.iter_mut() {
                let end = interest.len();
                interest[end - 4..].copy_from_slice(&nonce.to_be_bytes());
            }
            for at in 0..2 {
                let face = self.faces[at];
                let frames = batch
                    .iter_mut()
                    .map(|(interest, data)| if at == 0 { interest } else { data });
                let mut received: Vec<Received<'_>> =
                    frames.map(|frame| Received { face, frame }).collect();
                let before = allocations();
                self.forwarder
                    .on_packets(self.now, &mut received, &mut self.outbox);
                self.wire.clear();
                for send in self.outbox.sends() {
                    let input = self.outbox.input_of(send);
                    send.write_stream(&received[send.index].frame[input], &mut self.wire);
                    self.sent += 1;
                }
                self.outbox.drain();
                during += allocations() - before;
            }
        }
        during
    }
}

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// Allocations and sends of one round, after others.
fn measured(policy: &str, capacity: ByteSize) -> [(u64, usize); 2] {
    let mut world = World::new(policy, capacity);
    for nonce in 0..40 {
        world.round(2 * nonce);
        world.round_in_batches(2 * nonce + 1);
    }
    world.sent = 0;
    let before = allocations();
    world.round(100);
    let singly = (allocations() - before, world.sent);
    world.sent = 0;
    let in_batches = world.round_in_batches(101);
    [singly, (in_batches, world.sent)]
}

#[test]
fn a_forwarded_interest_and_its_data_allocate() {
    // Nothing fits into the store: every Interest is forwarded, every Data satisfies one, none is
    // stored.
    assert_eq!(
        measured("fifo", ByteSize::from_bytes(100)),
        [(0, 2 * NAMES); 2]
    );
    // Nor is it where the policy refuses, which the node's default does mostly.
    let filter = "filter(theta=2,window=64,table=8192)+fifo";
    let [(singly, sent), (in_batches, _)] = measured(filter, ByteSize::from_bytes(10_000));
    assert!(
        sent > NAMES && singly == 0 && in_batches == 0,
        "{singly} singly, {in_batches} in batches"
    );
}

#[test]
fn a_hit_allocates() {
    assert_eq!(measured("lru", ByteSize::from_mib(64)), [(0, NAMES); 2]);
}

#[test]
fn a_stored_data_takes_a_new_buffer_each_time() {
    // Every Data is stored, and every one was evicted when it is asked for again; the order of
    // names takes a node now and then.
    for (allocated, sent) in measured("fifo", ByteSize::from_bytes(40_000)) {
        assert_eq!(sent, 2 * NAMES);
        assert!(
            allocated <= NAMES as u64 / 3,
            "{allocated} for {NAMES} stored Data"
        );
    }
}
