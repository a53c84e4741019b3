//! The three ways of a packet through the forwarder, in memory: decode, tables, outbox; no sockets.
//!
//! Interests of about 120 bytes and Data of about 1,100 (the filter paper's sizes), names of 7 components of 9 characters, a FIB of 10,000
//! prefixes of 4 components. One item is an exchange: an Interest and what answers it.

use divan::Bencher;
use divan::counter::ItemsCount;
use larder_forwarder::{Config, FaceConfig, FaceId, Forwarder, Outbox, Route};
use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams, Time};

fn main() {
    divan::main();
}

const NAMES: usize = 20_000;
const PREFIXES: usize = 10_000;

struct World {
    forwarder: Forwarder,
    consumer: FaceId,
    producer: FaceId,
    interests: Vec<Vec<u8>>,
    data: Vec<Vec<u8>>,
    outbox: Outbox,
    at: usize,
}

fn name(i: usize) -> Name {
    format!("/{:09}/component/component/{:09}/component/component/{i:09}", i % 100, i % PREFIXES).parse().unwrap()
}

impl World {
    fn new(policy: &str, capacity: ByteSize) -> Self {
        let streams = Streams::new(1);
        let engine = Engine::new(&policy.parse().unwrap(), capacity, &streams).unwrap();
        let mut forwarder = Forwarder::new(Config::new([1, 2], streams), engine);
        let consumer = forwarder.add_face(FaceConfig::local("consumer"));
        let producer = forwarder.add_face(FaceConfig::local("producer"));
        for i in 0..PREFIXES {
            let route = Route { face: producer, origin: 255, cost: 0, flags: 0, expires: None };
            forwarder.add_route(&name(i).as_name().prefix(4).to_name(), route).unwrap();
        }
        let interests = (0..NAMES).map(|i| InterestBuilder::new(name(i)).nonce(i as u32).build()).collect();
        let content = vec![0; 950];
        let packet = |i| DataBuilder::new(name(i).as_name()).content(&content).build(&DigestSigner).unwrap();
        let data = (0..NAMES).map(packet).collect();
        World { forwarder, consumer, producer, interests, data, outbox: Outbox::new(), at: 0 }
    }

    fn exchange(&mut self, with_data: bool) -> usize {
        let i = self.at % NAMES;
        self.at += 1;
        let now = Time::from_nanos(self.at as u64 * 1000);
        // A new nonce for every round, in place: a nonce is remembered.
        let interest = &mut self.interests[i];
        let end = interest.len();
        interest[end - 4..].copy_from_slice(&(self.at as u32).to_be_bytes());
        let _ = self.forwarder.on_packet(now, self.consumer, interest, &mut self.outbox);
        let mut sent = self.outbox.drain().count();
        if with_data {
            let _ = self.forwarder.on_packet(now, self.producer, &mut self.data[i], &mut self.outbox);
            sent += self.outbox.drain().count();
        }
        sent
    }
}

/// Every Interest is forwarded, every Data satisfies one; the Content Store is full and stores what the policy wants.
#[divan::bench(args = ["fifo", "lru", "filter(theta=2)+fifo"], sample_count = 40, sample_size = 10_000)]
fn miss(bencher: Bencher<'_, '_>, policy: &str) {
    let mut world = World::new(policy, ByteSize::from_mib(1));
    (0..NAMES).for_each(|_| assert_eq!(world.exchange(true), 2));
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| world.exchange(true));
}

/// Every Interest is answered by the Content Store.
#[divan::bench(args = ["fifo", "lru", "filter(theta=2)+fifo"], sample_count = 40, sample_size = 10_000)]
fn hit(bencher: Bencher<'_, '_>, policy: &str) {
    let mut world = World::new(policy, ByteSize::from_mib(64));
    (0..NAMES).for_each(|_| assert_eq!(world.exchange(true), 2));
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| world.exchange(false));
}
