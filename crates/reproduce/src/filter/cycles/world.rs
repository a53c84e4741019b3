//! A forwarder with the paper's tables and packets, and its requests: names of 7 components of 9
//! characters, prefixes of 4 components. Beside it a policy engine alone (`policy.rs`).

use super::counter;
use super::policy::{PolicyAlone, PolicyCycles};
use crate::{Error, thread_time};
use larder_forwarder::limits::CONTENT_STORE_ENTRY_BYTES;
use larder_forwarder::stages::{STAGES, Stage, StageProfile};
use larder_forwarder::{Body, Config, FaceConfig, FaceId, Forwarder, Outbox, Received};
use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name, NameRef};
use larder_policy::{Engine, Spec};
use larder_replay::Zipf;
use larder_units::{ByteSize, Stream, Streams, Time};

/// The exchanges of a batch. Its packets stay in the processor's caches.
const BATCH: usize = 64;
const COMPONENTS: usize = 7;
const PREFIX_COMPONENTS: usize = 4;
/// The bytes of a component: type, length, nine characters.
const COMPONENT_BYTES: usize = 11;
/// The nonce of an Interest before it gets a new one.
const NO_NONCE: u32 = 0xFEED_F00D;
/// The content of a Data. With the Interest's 87 bytes and the encapsulation's 28, the sizes are
/// close to the published ones of 121 and 1,143.
const CONTENT: [u8; 980] = [0; 980];
/// The bytes of IPv4 and UDP, which the published sizes contain.
const ENCAPSULATION: u64 = 28;
/// Coprime to the numbers of objects in use, so that ranks times this, modulo the objects, are in a
/// scrambled order: popular names are no neighbours in any table.
const SCRAMBLE: u64 = 7_368_787;

/// An Interest, and the Data that would answer it.
#[derive(Clone)]
struct Exchange {
    interest: Vec<u8>,
    data: Vec<u8>,
}

/// The median cycles of an Interest, and of a Data, in each stage of the forwarder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stages {
    interests: [f64; STAGES],
    data: [f64; STAGES],
}

impl Stages {
    pub(super) fn of_interests(&self, stage: Stage) -> f64 {
        self.interests[stage as usize]
    }

    pub(super) fn of_data(&self, stage: Stage) -> f64 {
        self.data[stage as usize]
    }
}

/// A forwarder and its requests.
pub(super) struct World {
    forwarder: Forwarder,
    faces: (FaceId, FaceId),
    names: Zipf,
    stream: Stream,
    objects: u64,
    /// The number of prefixes in the FIB.
    prefixes: u64,
    batch: Vec<Exchange>,
    /// The offsets of the name's first component and of the nonce in an Interest, and of the
    /// component in a Data.
    offsets: [usize; 3],
    data_bytes: usize,
    outbox: Outbox,
    policy: PolicyAlone,
    exchanges: u64,
}

/// The measurements of whole exchanges.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whole {
    /// The cycles of one exchange, the median over batches.
    pub(super) cycles: f64,
    /// The packets sent per exchange: 1 for a hit, 2 for a miss.
    pub(super) packets: f64,
    /// Hits ÷ Interests.
    pub(super) hit: f64,
    /// Insertions ÷ misses.
    pub(super) insertion: f64,
    /// Gb/s that are sent, with the encapsulation, by the processor's time (fig. 8).
    pub(super) gigabits: f64,
}

impl World {
    /// Creates a forwarder with `prefixes` in the FIB, and requests for `objects` names by Zipf
    /// 0.8.
    pub(super) fn new(objects: u64, prefixes: u64, seed: u64) -> Result<World, Error> {
        let streams = Streams::new(seed);
        let names = Zipf::new(objects, 0.8).ok_or_else(|| {
            Error(format!(
                "no Zipf distribution with exponent 0.8 over {objects} objects"
            ))
        })?;
        let mut stream = streams.stream("cycles");
        let key = [stream.bits(), stream.bits()];
        let mut forwarder = Forwarder::new(Config::new(key, streams), engine("fifo", 1, &streams)?);
        let consumer = forwarder.add_face(FaceConfig::local("consumer"));
        let producer = forwarder.add_face(FaceConfig::local("producer"));
        let blank = name(0, 0)?;
        let interest = InterestBuilder::new(blank.clone()).nonce(NO_NONCE).build();
        let data = DataBuilder::new(blank.as_name())
            .content(&CONTENT)
            .build(&DigestSigner);
        let data = data.map_err(Error::from_cause)?;
        let offsets = [
            find(&interest, b"000000000"),
            find(&interest, &NO_NONCE.to_be_bytes()),
            find(&data, b"000000000"),
        ];
        let mut prefix = blank
            .as_name()
            .prefix(PREFIX_COMPONENTS)
            .to_name()
            .as_name()
            .as_bytes()
            .to_vec();
        for number in 0..prefixes {
            write_components(&mut prefix, 2, 0..PREFIX_COMPONENTS, number);
            let name = NameRef::from_value(&prefix).map_err(Error::from_cause)?;
            forwarder.add_next_hop(name, producer);
        }
        let (faces, data_bytes) = ((consumer, producer), data.len());
        let batch = vec![Exchange { interest, data }; BATCH];
        let outbox = Outbox::new();
        let policy = PolicyAlone::new(engine("fifo", 1, &streams)?, 1);
        Ok(World {
            forwarder,
            faces,
            names,
            stream,
            objects,
            prefixes,
            batch,
            offsets,
            data_bytes,
            outbox,
            policy,
            exchanges: 0,
        })
    }

    /// Replaces the Content Store by an empty one of `capacity` packets under these policies.
    pub(super) fn with_policy(
        &mut self,
        spec: &str,
        capacity: u64,
        seed: u64,
    ) -> Result<(), Error> {
        let bytes = capacity * (self.data_bytes as u64 + CONTENT_STORE_ENTRY_BYTES);
        self.forwarder
            .replace_content_store(engine(spec, bytes, &Streams::new(seed))?);
        self.policy = PolicyAlone::new(
            engine(spec, bytes, &Streams::new(seed))?,
            bytes / capacity.max(1),
        );
        Ok(())
    }

    /// Writes the names of the next batch of requests into the frames, with nonces that never
    /// occurred before. Returns the time of the batch.
    fn ask(&mut self) -> Time {
        let [name_at, nonce_at, data_at] = self.offsets;
        for exchange in &mut self.batch {
            let object = self.names.draw(&mut self.stream) * SCRAMBLE % self.objects;
            self.exchanges += 1;
            for (frame, at) in [
                (&mut exchange.interest, name_at),
                (&mut exchange.data, data_at),
            ] {
                write_components(frame, at, 0..PREFIX_COMPONENTS, object % self.prefixes);
                write_components(frame, at, PREFIX_COMPONENTS..COMPONENTS, object);
            }
            exchange.interest[nonce_at..nonce_at + 4]
                .copy_from_slice(&(self.exchanges as u32).to_be_bytes());
        }
        let now = Time::from_nanos(self.exchanges * 1000);
        self.forwarder.on_timeout(now, &mut self.outbox);
        now
    }

    /// Hands the batch to `run`: its Interests, and then the Data of those that were sent on.
    /// Returns the results of both, and the number of packets that were sent.
    fn exchange<T>(
        &mut self,
        now: Time,
        mut run: impl FnMut(&mut Forwarder, Time, &mut [Received<'_>], &mut Outbox) -> T,
    ) -> ([T; 2], usize) {
        let World {
            forwarder,
            faces: (consumer, producer),
            batch,
            outbox,
            ..
        } = self;
        let asked = batch.iter_mut().map(|each| Received {
            face: *consumer,
            frame: &mut each.interest,
        });
        let of_interests = run(forwarder, now, &mut asked.collect::<Vec<_>>(), outbox);
        let (mut is_asked, mut packets) = ([false; BATCH], 0);
        for send in outbox.drain() {
            packets += 1;
            is_asked[send.index] |= matches!(send.body, Body::Input);
        }
        let answers = batch
            .iter_mut()
            .zip(is_asked)
            .filter(|(_, is_asked)| *is_asked);
        let answers = answers.map(|(each, _)| Received {
            face: *producer,
            frame: &mut each.data,
        });
        let of_data = run(forwarder, now, &mut answers.collect::<Vec<_>>(), outbox);
        packets += outbox.drain().count();
        ([of_interests, of_data], packets)
    }

    /// Forwards a batch and returns the cost of its stages, for Interests and for Data.
    fn profile(&mut self) -> [StageProfile; 2] {
        let now = self.ask();
        let profile =
            |forwarder: &mut Forwarder, now, batch: &mut [Received<'_>], outbox: &mut Outbox| {
                forwarder.profile(now, batch, outbox, &mut counter::now)
            };
        self.exchange(now, profile).0
    }

    /// Runs batches of whole exchanges, as the node does.
    pub(super) fn forward(&mut self, batches: usize) -> Whole {
        let before = self.forwarder.stats().content_store;
        let (mut cycles, mut packets) = (Vec::with_capacity(batches), 0);
        let mut rates = Vec::with_capacity(batches);
        for _ in 0..batches {
            let now = self.ask();
            let sent_before = self.bits_sent();
            let (begun, begun_at) = (counter::now(), thread_time());
            packets += self.exchange(now, Forwarder::on_packets).1;
            cycles.push((counter::now() - begun) as f64 / BATCH as f64);
            let nanos = (thread_time() - begun_at).as_nanos().max(1) as f64;
            rates.push((self.bits_sent() - sent_before) as f64 / nanos);
        }
        let after = self.forwarder.stats().content_store;
        let [hits, misses] = [after.hits - before.hits, after.misses - before.misses];
        Whole {
            cycles: median(&mut cycles),
            packets: packets as f64 / (batches * BATCH).max(1) as f64,
            hit: hits as f64 / (hits + misses).max(1) as f64,
            insertion: (after.insertions - before.insertions) as f64 / misses.max(1) as f64,
            gigabits: median(&mut rates),
        }
    }

    /// Returns the bits of all packets that were sent, with their encapsulation.
    fn bits_sent(&self) -> u64 {
        let sent = self.forwarder.stats().packets;
        8 * (sent.out_bytes + ENCAPSULATION * (sent.out_interests + sent.out_data))
    }

    /// Returns the median cycles of a packet in each stage, and those of the policy.
    pub(super) fn stages(&mut self, batches: usize) -> (Stages, PolicyCycles) {
        let mut all: [[Vec<f64>; STAGES]; 2] = Default::default();
        let mut policy: [Vec<f64>; 3] = Default::default();
        for _ in 0..batches {
            for (all, StageProfile { ticks, packets }) in all.iter_mut().zip(self.profile()) {
                for (stage, (ticks, packets)) in all.iter_mut().zip(ticks.into_iter().zip(packets))
                {
                    // With a single packet, the reading of the counter would dominate.
                    if packets >= LEAST {
                        stage.push(ticks as f64 / f64::from(packets));
                    }
                }
            }
            // By turns, so that the processor's caches have as little of the policy as they have in
            // forwarding.
            let objects = [(); BATCH].map(|()| self.names.draw(&mut self.stream));
            let costs = self
                .policy
                .run(Time::from_nanos(self.exchanges * 1000), &objects);
            for (all, (ticks, requests)) in policy.iter_mut().zip(costs) {
                if requests >= LEAST {
                    all.push(ticks as f64 / f64::from(requests));
                }
            }
        }
        let [interests, data] = all.map(|all| all.map(|mut stage| median(&mut stage)));
        let [history, admission, insertion] = policy.map(|mut part| median(&mut part));
        (
            Stages { interests, data },
            PolicyCycles {
                history,
                admission,
                insertion,
            },
        )
    }

    /// Runs at least `number` exchanges.
    pub(super) fn settle(&mut self, number: u64) {
        self.forward((number as usize).div_ceil(BATCH));
        for _ in 0..number.div_ceil(BATCH as u64) {
            let objects = [(); BATCH].map(|()| self.names.draw(&mut self.stream));
            self.policy.run(Time::ZERO, &objects);
        }
    }
}

/// The least number of packets in a stage of a batch for which the stage counts.
const LEAST: u32 = 4;

/// Returns the median; NaN without values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn engine(spec: &str, bytes: u64, streams: &Streams) -> Result<Engine, Error> {
    let spec: Spec = spec
        .parse()
        .map_err(|error: larder_policy::SpecError| Error(error.to_string()))?;
    Engine::new(&spec, ByteSize::from_bytes(bytes), streams).map_err(Error::from_cause)
}

fn name(prefix: u64, object: u64) -> Result<Name, Error> {
    let number = |at| {
        if at < PREFIX_COMPONENTS {
            prefix
        } else {
            object
        }
    };
    let uri: String = (0..COMPONENTS)
        .map(|at| format!("/{:09}", number(at)))
        .collect();
    uri.parse()
        .map_err(|_| Error(format!("{uri} is not a name")))
}

/// Writes `number` into these components of a name. The characters of its first component start at
/// `at`.
fn write_components(frame: &mut [u8], at: usize, components: std::ops::Range<usize>, number: u64) {
    for component in components {
        let mut rest = number;
        for digit in frame[at + component * COMPONENT_BYTES..][..9]
            .iter_mut()
            .rev()
        {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
}

fn find(frame: &[u8], bytes: &[u8]) -> usize {
    frame
        .windows(bytes.len())
        .position(|window| window == bytes)
        .unwrap_or_default()
}
