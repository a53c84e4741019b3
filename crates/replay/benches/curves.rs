//! Requests a second of a curve of LRU at eight capacities, exact and sampled, beside one replay of
//! LRU at the largest of them: Zipf 1.0 over 1e6 objects of one byte, the capacities from a
//! thousandth of these to a tenth.

use divan::Bencher;
use divan::counter::ItemsCount;
use larder_replay::{Access, Curve, Replay, Sample, Zipf};
use larder_units::{ByteSize, Streams, Time};
use std::sync::LazyLock;

fn main() {
    divan::main();
}

const OBJECTS: u64 = 1_000_000;

const REQUESTS: usize = 5_000_000;

/// Bytes.
const CAPACITIES: [u64; 8] = [1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 70_000, 100_000];

static ACCESSES: LazyLock<Vec<Access>> = LazyLock::new(|| {
    let zipf = Zipf::new(OBJECTS, 1.0).expect("a distribution");
    let mut stream = Streams::new(1).stream("bench");
    (0..REQUESTS)
        .map(|_| Access {
            id: zipf.draw(&mut stream),
            size: 1,
            now: Time::ZERO,
        })
        .collect()
});

#[divan::bench(args = [1.0, 0.1, 0.01], sample_count = 3, sample_size = 1)]
fn curve(bencher: Bencher<'_, '_>, rate: f64) {
    let accesses = &*ACCESSES;
    let start = || {
        let sample = Sample::of(rate, 1).expect("a rate");
        (Curve::lru(&CAPACITIES, &sample), sample)
    };
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(start)
        .bench_local_refs(|(curve, sample)| {
            let mut sampled = Vec::new();
            for accesses in accesses.chunks(1 << 14) {
                sampled.clear();
                sampled.extend(accesses.iter().filter_map(|access| sample.take(access)));
                curve.requests(&sampled);
            }
        });
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn one_replay(bencher: Bencher<'_, '_>) {
    let accesses = &*ACCESSES;
    let largest = ByteSize::from_bytes(CAPACITIES[7]);
    let start = || Replay::new(&"lru".parse().expect("a spec"), largest, 1).expect("a replay");
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(start)
        .bench_local_refs(|replay| replay.requests(accesses));
}
