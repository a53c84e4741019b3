//! Requests a second of the replay loop: Zipf 1.0 over 1e6 objects of one byte, a cache of a tenth.
//!
//! Beside it: libCacheSim 0.3.5 on the same traffic, in C, one thread: FIFO 6.9, LRU 5.9 million
//! requests a second.

use divan::Bencher;
use divan::counter::ItemsCount;
use larder_replay::{Access, Replay, Zipf};
use larder_units::{ByteSize, Streams, Time};
use std::sync::LazyLock;

fn main() {
    divan::main();
}

const REQUESTS: usize = 5_000_000;

static ACCESSES: LazyLock<Vec<Access>> = LazyLock::new(|| {
    let zipf = Zipf::new(1_000_000, 1.0).expect("a distribution");
    let mut stream = Streams::new(1).stream("bench");
    (0..REQUESTS)
        .map(|_| Access {
            id: zipf.draw(&mut stream),
            size: 1,
            now: Time::ZERO,
        })
        .collect()
});

#[divan::bench(
    args = ["fifo", "lru", "random", "filter+fifo", "filter(window=100000)+fifo", "size(max=1)+lru", "adaptsize(chance)+lru"],
    sample_count = 3,
    sample_size = 1
)]
fn zipf(bencher: Bencher<'_, '_>, policy: &str) {
    let accesses = &*ACCESSES;
    let spec = policy.parse().expect("a spec");
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(|| Replay::new(&spec, ByteSize::from_bytes(100_000), 1).expect("a replay"))
        .bench_local_refs(|replay| {
            for access in accesses {
                replay.request(access);
            }
        });
}
