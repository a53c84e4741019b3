//! Benchmark of segments of 8000 bytes from a publisher to a fetcher in memory: the cost of both
//! without IO. Run it with `cargo bench -p larder-transfer`.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use larder_packet::{Data, DigestSigner, Interest};
use larder_transfer::{Cubic, FetchOptions, Fetcher, Progress, PublishOptions, Publisher};
use larder_units::{Streams, Time};
use std::collections::HashMap;
use std::time::Duration;

const SEGMENTS: usize = 1000;
const BYTES: usize = SEGMENTS * 8000;

fn main() {
    divan::main();
}

fn publisher() -> Publisher<Vec<u8>> {
    let options = PublishOptions::default();
    Publisher::new(
        "/file".parse().unwrap(),
        1,
        vec![7; BYTES],
        Box::new(DigestSigner),
        options,
    )
    .unwrap()
}

fn fetcher() -> Fetcher {
    let nonces = Streams::new(1).stream("nonces");
    Fetcher::new(
        "/file/v=1".parse().unwrap(),
        FetchOptions::default(),
        Box::new(Cubic::new()),
        None,
        nonces,
    )
}

/// Runs a transfer; `answer` appends the Data for an Interest. Interests are sent in bursts, as
/// over a real link.
fn transfer(mut answer: impl FnMut(&Interest<'_>, &mut Vec<u8>)) -> u64 {
    let mut fetcher = fetcher();
    let (mut now, mut bytes) = (Time::ZERO, 0);
    let (mut interest, mut data, mut packets) = (Vec::new(), Vec::new(), Vec::new());
    while fetcher.progress() == Progress::Running {
        while fetcher.poll(now, &mut interest) {
            let start = data.len();
            answer(&Interest::decode(&interest).unwrap(), &mut data);
            packets.push(start..data.len());
            interest.clear();
        }
        now += Duration::from_millis(1);
        for range in packets.drain(..).filter(|range| !range.is_empty()) {
            let data = Data::decode(&data[range]).unwrap();
            fetcher.on_data(now, &data, false, |content| bytes += content.len() as u64);
        }
        data.clear();
    }
    assert_eq!(bytes, BYTES as u64);
    bytes
}

#[divan::bench]
fn fetch_and_publish(bencher: Bencher<'_, '_>) {
    let mut publisher = publisher();
    bencher
        .counter(ItemsCount::new(SEGMENTS))
        .counter(BytesCount::new(BYTES))
        .bench_local(|| {
            transfer(|interest, out| {
                publisher.on_interest(interest, out).unwrap();
            })
        });
}

#[divan::bench]
fn fetch_from_a_cache(bencher: Bencher<'_, '_>) {
    let mut publisher = publisher();
    let mut cache = HashMap::new();
    transfer(|interest, out| {
        let start = out.len();
        publisher.on_interest(interest, out).unwrap();
        cache.insert(interest.name.to_name(), out[start..].to_vec());
    });
    bencher
        .counter(ItemsCount::new(SEGMENTS))
        .counter(BytesCount::new(BYTES))
        .bench_local(|| {
            transfer(|interest, out| {
                if let Some(wire) = cache.get(&interest.name.to_name()) {
                    out.extend_from_slice(wire);
                }
            })
        });
}
