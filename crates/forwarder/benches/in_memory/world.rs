//! A forwarder with the filter paper's tables, and requests for it: real frames, from the bytes
//! that came to the bytes that go.
//!
//! Takemasa, Koizumi and Hasegawa, Lightweight cache admission algorithm for fast NDN software
//! routers, Journal of Information Processing 27, 2019, section 6.1. Names of components of 9
//! characters; prefixes of 3, 4 and 5 components, as many of each; the consumer's requests follow
//! Zipf 0.8, over objects in a scrambled order, so that popular names are no neighbours in any
//! table.

use larder_forwarder::limits::CONTENT_STORE_ENTRY_BYTES;
use larder_forwarder::stages::STAGES;
use larder_forwarder::{Body, Config, FaceConfig, FaceId, Forwarder, Outbox, Received};
use larder_packet::{Data, DataBuilder, DigestSigner, Interest, InterestBuilder, Name, NameRef};
use larder_policy::Engine;
use larder_replay::Zipf;
use larder_units::{ByteSize, Stream, Streams, Time};
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// Exchanges whose frames stand ready when the clock starts; more would not fit into the
/// processor's second cache, where a network card or the kernel leaves what came.
const ROUND: usize = 256;
/// Type, length, nine characters.
const COMPONENT_BYTES: usize = 11;
/// Of an Interest before it has one.
const NO_NONCE: u32 = 0xFEED_F00D;
/// With names of 7 components the Interest has 93 bytes and the Data 1,115: with the
/// encapsulation's 28, 121 and 1,143.
pub const CONTENT: [u8; 986] = [0; 986];
/// IPv4 and UDP, in the published sizes and rates.
const ENCAPSULATION: usize = 28;
/// Coprime to the numbers of objects in use, so that ranks times this, modulo the objects, is a
/// permutation.
const SCRAMBLE: u64 = 7_368_787;

pub struct World {
    pub forwarder: Forwarder,
    consumer: FaceId,
    producer: FaceId,
    names: Zipf,
    stream: Stream,
    objects: u64,
    prefixes: u64,
    components: usize,
    round: Vec<Exchange>,
    /// Where the name's first component and the nonce stand in an Interest, and the component in a
    /// Data.
    offsets: [usize; 3],
    outbox: Outbox,
    /// What was encoded: a socket's buffer.
    wire: Vec<u8>,
    exchanges: u64,
    /// Nanoseconds in each stage since [`World::run_by_stages`] began, or nothing.
    stages: Option<[u64; STAGES]>,
    /// Processor time of the longest [`INSERTIONS`] into the FIB, in nanoseconds.
    pub longest_insertions: u64,
}

/// Insertions that are timed together: to read the clock takes as long as one.
pub const INSERTIONS: u64 = 64;

#[derive(Clone)]
struct Exchange {
    interest: Vec<u8>,
    data: Vec<u8>,
    is_forwarded: bool,
}

/// What a number of exchanges took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Speed {
    /// Processor time of an exchange in nanoseconds, the median over rounds.
    pub nanos: f64,
    /// Interests and Data sent, an exchange.
    pub packets: f64,
    /// Bits sent, an exchange, with the encapsulation.
    pub bits: f64,
    /// Data that the consumer got, an Interest.
    pub answered: f64,
    /// Interests that the Content Store answered.
    pub hit: f64,
    /// Data that it took, of those that came.
    pub insertion: f64,
}

impl Speed {
    pub fn packets_a_second(&self) -> f64 {
        self.packets * 1e9 / self.nanos
    }

    pub fn gigabits_a_second(&self) -> f64 {
        self.bits / self.nanos
    }
}

impl World {
    /// Requests for `objects` names of `components` components, over a FIB of `prefixes` prefixes.
    pub fn new(objects: u64, prefixes: u64, components: usize) -> World {
        let streams = Streams::new(1);
        let mut stream = streams.stream("in memory");
        let key = [stream.bits(), stream.bits()];
        let mut forwarder = Forwarder::new(Config::new(key, streams), engine("fifo", 1));
        let consumer = forwarder.add_face(FaceConfig::remote("consumer"));
        let producer = forwarder.add_face(FaceConfig::remote("producer"));
        let mut blank = Name::root();
        for _ in 0..components {
            blank.push_generic(b"000000000");
        }
        let interest = InterestBuilder::new(blank.clone()).nonce(NO_NONCE).build();
        let data = DataBuilder::new(blank.as_name())
            .content(&CONTENT)
            .build(&DigestSigner)
            .expect("a Data");
        let offsets = [
            Interest::decode(&interest)
                .expect("an Interest")
                .name_range()
                .start,
            find(&interest, &NO_NONCE.to_be_bytes()),
            Data::decode(&data).expect("a Data").name_range().start,
        ];
        let (mut longest_insertions, mut since) = (0, thread_nanos());
        for number in 0..prefixes {
            if number.is_multiple_of(INSERTIONS) {
                let now = thread_nanos();
                longest_insertions = longest_insertions.max(now - since);
                since = now;
            }
            let length = prefix_length(number);
            let mut name = blank.as_name().prefix(length).to_name().as_bytes().to_vec();
            write_components(&mut name, 0..length, number);
            forwarder.add_next_hop(NameRef::from_value(&name).expect("a name"), producer);
        }
        World {
            forwarder,
            consumer,
            producer,
            names: Zipf::new(objects, 0.8).expect("a law"),
            stream,
            objects,
            prefixes,
            components,
            round: vec![
                Exchange {
                    interest,
                    data,
                    is_forwarded: false
                };
                ROUND
            ],
            offsets,
            outbox: Outbox::new(),
            wire: Vec::new(),
            exchanges: 0,
            stages: None,
            longest_insertions,
        }
    }

    /// An empty Content Store of `packets` Data under this policy.
    pub fn with_policy(&mut self, policy: &str, packets: u64) {
        let bytes = packets * (self.round[0].data.len() as u64 + CONTENT_STORE_ENTRY_BYTES);
        self.forwarder.replace_content_store(engine(policy, bytes));
    }

    /// Rounds of exchanges, `batch` frames handed in at once.
    pub fn run(&mut self, exchanges: usize, batch: usize) -> Speed {
        self.measure(exchanges, batch, |_, _| {})
    }

    /// The same; returns the nanoseconds of an exchange in each stage, by the clock of the wall.
    pub fn run_by_stages(&mut self, exchanges: usize, batch: usize) -> [f64; STAGES] {
        self.stages = Some([0; STAGES]);
        self.run(exchanges, batch);
        let rounds = exchanges.div_ceil(ROUND);
        self.stages
            .take()
            .unwrap_or_default()
            .map(|nanos| nanos as f64 / (rounds * ROUND) as f64)
    }

    /// The same while another face asks for as many names that nobody answers. Its Interests are
    /// not counted, nor is their time.
    pub fn run_in_flood(&mut self, exchanges: usize, batch: usize) -> Speed {
        let flooder = self.forwarder.add_face(FaceConfig::remote("flooder"));
        let mut number = self.objects;
        self.measure(exchanges, batch, |world, now| {
            for _ in 0..ROUND {
                number += 1;
                let mut frame = world.round[0].interest.clone();
                write_components(&mut frame[world.offsets[0]..], 0..world.components, number);
                let _ = world
                    .forwarder
                    .on_packet(now, flooder, &mut frame, &mut world.outbox);
            }
        })
    }

    fn measure(
        &mut self,
        exchanges: usize,
        batch: usize,
        mut meanwhile: impl FnMut(&mut World, Time),
    ) -> Speed {
        let before = self.forwarder.stats();
        let answered = self.answered();
        let rounds = exchanges.div_ceil(ROUND);
        let mut nanos = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let now = self.ask();
            meanwhile(self, now);
            let begun = thread_nanos();
            self.forwarder.on_timeout(now, &mut self.outbox);
            for from in (0..ROUND).step_by(batch) {
                self.exchange(now, from..from + batch);
            }
            nanos.push((thread_nanos() - begun) as f64 / ROUND as f64);
        }
        let after = self.forwarder.stats();
        let interests = after.packets.out_interests - before.packets.out_interests;
        let data = after.packets.out_data - before.packets.out_data;
        let bytes = after.packets.out_bytes - before.packets.out_bytes
            + (interests + data) * ENCAPSULATION as u64;
        let [hits, misses] = [
            after.content_store.hits - before.content_store.hits,
            after.content_store.misses - before.content_store.misses,
        ];
        let all = (rounds * ROUND) as f64;
        nanos.sort_by(f64::total_cmp);
        Speed {
            nanos: nanos[rounds / 2],
            packets: (interests + data) as f64 / all,
            bits: 8.0 * bytes as f64 / all,
            answered: (self.answered() - answered) as f64 / all,
            hit: hits as f64 / (hits + misses) as f64,
            insertion: (after.content_store.insertions - before.content_store.insertions) as f64
                / misses.max(1) as f64,
        }
    }

    fn answered(&self) -> u64 {
        let faces = self.forwarder.face_stats();
        faces
            .iter()
            .find(|face| face.id == self.consumer)
            .map_or(0, |face| face.counters.out_data)
    }

    /// The next requests: names into the frames, and nonces that never came before.
    fn ask(&mut self) -> Time {
        let [name_at, nonce_at, data_at] = self.offsets;
        for exchange in &mut self.round {
            let object = self.names.draw(&mut self.stream) * SCRAMBLE % self.objects;
            let prefix = object % self.prefixes;
            let shared = prefix_length(prefix);
            self.exchanges += 1;
            for name in [
                &mut exchange.interest[name_at..],
                &mut exchange.data[data_at..],
            ] {
                write_components(name, 0..shared, prefix);
                write_components(name, shared..self.components, object);
            }
            exchange.interest[nonce_at..nonce_at + 4]
                .copy_from_slice(&(self.exchanges as u32).to_be_bytes());
        }
        Time::from_nanos(self.exchanges * 1000)
    }

    /// Interests of a batch, then the Data for those that were sent on. A batch of one goes the way
    /// of one packet.
    fn exchange(&mut self, now: Time, batch: std::ops::Range<usize>) {
        let batch = &mut self.round[batch];
        for exchange in batch.iter_mut() {
            exchange.is_forwarded = false;
        }
        if let [exchange] = batch {
            let _ = self.forwarder.on_packet(
                now,
                self.consumer,
                &mut exchange.interest,
                &mut self.outbox,
            );
            let input = &exchange.interest[self.outbox.input()];
            for send in self.outbox.sends() {
                exchange.is_forwarded |= matches!(send.body, Body::Input);
                send.write_stream(input, &mut self.wire);
            }
            if exchange.is_forwarded {
                let _ = self.forwarder.on_packet(
                    now,
                    self.producer,
                    &mut exchange.data,
                    &mut self.outbox,
                );
                let input = &exchange.data[self.outbox.input()];
                for send in self.outbox.sends() {
                    send.write_stream(input, &mut self.wire);
                }
            }
        } else {
            let World {
                forwarder,
                consumer,
                producer,
                outbox,
                wire,
                stages,
                ..
            } = self;
            let mut pass = Pass {
                forwarder,
                now,
                outbox,
                wire,
                stages: stages.as_mut(),
            };
            let interests = batch.iter_mut().map(|exchange| &mut exchange.interest);
            let sent_on = pass.run(*consumer, interests);
            for index in sent_on {
                batch[index].is_forwarded = true;
            }
            let answered = batch.iter_mut().filter(|exchange| exchange.is_forwarded);
            pass.run(*producer, answered.map(|exchange| &mut exchange.data));
        }
        self.wire.clear();
    }
}

/// A batch on its way through the forwarder.
struct Pass<'a> {
    forwarder: &'a mut Forwarder,
    now: Time,
    outbox: &'a mut Outbox,
    wire: &'a mut Vec<u8>,
    stages: Option<&'a mut [u64; STAGES]>,
}

impl Pass<'_> {
    /// Hands in frames and encodes what is to be sent; returns which frames were sent on.
    fn run<'f>(
        &mut self,
        face: FaceId,
        frames: impl Iterator<Item = &'f mut Vec<u8>>,
    ) -> Vec<usize> {
        let Pass {
            forwarder,
            now,
            outbox,
            wire,
            stages,
        } = self;
        let mut batch = Vec::with_capacity(ROUND);
        batch.extend(frames.map(|frame| Received {
            face,
            frame: frame.as_mut_slice(),
        }));
        match stages {
            None => forwarder.on_packets(*now, &mut batch, outbox),
            Some(stages) => {
                let begun = Instant::now();
                let mut clock = || begun.elapsed().as_nanos() as u64;
                let profile = forwarder.profile(*now, &mut batch, outbox, &mut clock);
                for (all, nanos) in stages.iter_mut().zip(profile.ticks) {
                    *all += nanos;
                }
            }
        }
        for send in outbox.sends() {
            send.write_stream(&batch[send.index].frame[outbox.input_of(send)], wire);
        }
        let mut sent_on = Vec::with_capacity(batch.len());
        sent_on.extend(
            outbox
                .sends()
                .iter()
                .filter(|send| matches!(send.body, Body::Input))
                .map(|send| send.index),
        );
        sent_on
    }
}

/// Of prefix `number`: 4 on average.
fn prefix_length(number: u64) -> usize {
    3 + (number % 3) as usize
}

/// Writes `number` into some components of a name.
pub fn write_components(name: &mut [u8], components: std::ops::Range<usize>, number: u64) {
    let mut digits = *b"000000000";
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    for component in components {
        let at = component * COMPONENT_BYTES + 2;
        name[at..at + digits.len()].copy_from_slice(&digits);
    }
}

fn engine(policy: &str, bytes: u64) -> Engine {
    let policy = policy.parse().expect("a policy");
    Engine::new(&policy, ByteSize::from_bytes(bytes), &Streams::new(1)).expect("an engine")
}

fn find(frame: &[u8], what: &[u8]) -> usize {
    frame
        .windows(what.len())
        .position(|window| window == what)
        .expect("it stands in the template")
}

/// Processor time of this thread: others on the machine do not count.
pub fn thread_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
