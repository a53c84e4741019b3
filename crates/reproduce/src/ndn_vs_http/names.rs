//! The forwarder's hits with decoded names in the Content Store, and with names decoded at each
//! look-up.

use crate::{Error, Watch, thread_time};
use larder_forwarder::account::add_next_hop;
use larder_forwarder::account::names::{LOOK_UPS, LookUp, Order, answer};
use larder_forwarder::limits::CONTENT_STORE_ENTRY_BYTES;
use larder_forwarder::{Config, FaceConfig, FaceId, Forwarder, Outbox};
use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams, Time};
use std::time::Duration;

/// The content of a segment, of the size that `larder put` uses.
const SEGMENT: [u8; 8000] = [0; 8000];

/// The paper's number of clients. Each requests one segment after another.
const CLIENTS: u64 = 40;

/// The number of hits between two readings of the clock, about 200 µs.
const HITS: usize = 640;

/// The results.
pub(super) struct Names {
    pub(super) segments: u64,
    /// The bytes of a Data.
    pub(super) bytes: usize,
    /// The look-ups of [`LOOK_UPS`], then the forwarder as it is deployed.
    pub(super) methods: Vec<LookUpMethod>,
}

/// Indices into [`Names::methods`]. The method that decodes follows each of the first two.
pub(super) const HASHED: usize = 0;
pub(super) const ORDERED: usize = 2;
pub(super) const WHOLE: usize = 4;

const NAMES: [&str; 5] = ["hashed, kept", "hashed, decoded", "ordered, kept", "ordered, decoded (CCNx)", "on_packet"];

/// The result of one way to answer an Interest.
pub(super) struct LookUpMethod {
    pub(super) name: &'static str,
    /// The CPU time of a hit, ns: the median over rounds.
    pub(super) nanoseconds: f64,
    /// Half the distance of the quartiles over rounds, ns.
    pub(super) interval: f64,
}

impl LookUpMethod {
    /// Returns the Gb/s that a core sends, in Data of `bytes` bytes.
    pub(super) fn gigabits(&self, bytes: usize) -> f64 {
        8.0 * bytes as f64 / self.nanoseconds
    }
}

impl Names {
    /// Returns the throughput with stored decoded names, relative to that with names decoded at
    /// each look-up.
    pub(super) fn gain(&self, kept: usize) -> f64 {
        self.methods[kept + 1].nanoseconds / self.methods[kept].nanoseconds
    }
}

/// Stores a file of `segments` segments, and measures every method in turn.
pub(super) fn measure(segments: u64, rounds: usize, seed: u64, watch: &dyn Watch) -> Result<Names, Error> {
    watch.begin("names", rounds as u64);
    let mut store = Store::new(segments, seed)?;
    let order = Order::of(&store.forwarder);
    let mut times: [Vec<f64>; 5] = Default::default();
    for _ in 0..rounds {
        for (times, look_up) in times.iter_mut().zip(LOOK_UPS.into_iter().map(Some).chain([None])) {
            // The first measurement does not count, because the processor's caches have the data of
            // the previous method.
            store.time(look_up, &order)?;
            let took = store.time(look_up, &order)?;
            times.push(took.as_nanos() as f64 / HITS as f64);
        }
        watch.advance(1);
    }
    let methods = times.into_iter().zip(NAMES).map(|(mut times, name)| {
        times.sort_by(f64::total_cmp);
        let at = |share: usize| times.get(times.len() * share / 4).copied().unwrap_or_default();
        LookUpMethod { name, nanoseconds: at(2), interval: (at(3) - at(1)) / 2.0 }
    });
    Ok(Names { segments: order.len() as u64, bytes: store.bytes, methods: methods.collect() })
}

/// A forwarder with a file in its Content Store.
struct Store {
    forwarder: Forwarder,
    consumer: FaceId,
    outbox: Outbox,
    now: Time,
    segments: u64,
    bytes: usize,
    asked: u64,
}

impl Store {
    fn new(segments: u64, seed: u64) -> Result<Store, Error> {
        let refused = |error: &dyn std::fmt::Display| Error(error.to_string());
        let streams = Streams::new(seed);
        let mut stream = streams.stream("names");
        let key = [stream.bits(), stream.bits()];
        let packet = |segment| {
            let name = name(segment);
            DataBuilder::new(name.as_name()).content(&SEGMENT).build(&DigestSigner).map_err(|error| refused(&error))
        };
        let bytes = packet(segments)?.len();
        let capacity = ByteSize::from_bytes(segments * (bytes as u64 + CONTENT_STORE_ENTRY_BYTES));
        let spec = "lru".parse().map_err(|error: larder_policy::SpecError| refused(&error))?;
        let engine = Engine::new(&spec, capacity, &streams).map_err(|error| refused(&error))?;
        let mut forwarder = Forwarder::new(Config::new(key, streams), engine);
        let consumer = forwarder.add_face(FaceConfig::local("consumer"));
        let producer = forwarder.add_face(FaceConfig::local("producer"));
        add_next_hop(&mut forwarder, Name::root().as_name(), producer);
        let (outbox, now) = (Outbox::new(), Time::ZERO);
        let mut store = Store { forwarder, consumer, outbox, now, segments, bytes, asked: 0 };
        for segment in 0..segments {
            let (mut interest, mut data) = (store.interest(segment), packet(segment)?);
            let Store { forwarder, outbox, now, .. } = &mut store;
            for (face, frame) in [(consumer, &mut interest), (producer, &mut data)] {
                forwarder.on_packet(*now, face, frame, outbox).map_err(|error| refused(&error))?;
                outbox.drain().for_each(drop);
            }
        }
        Ok(store)
    }

    /// Returns the CPU time of [`HITS`] hits.
    fn time(&mut self, look_up: Option<LookUp>, order: &Order) -> Result<Duration, Error> {
        let mut frames = self.ask();
        let Store { forwarder, consumer, outbox, now, .. } = self;
        let begun = thread_time();
        let answered = match look_up {
            Some(look_up) => answer(forwarder, *now, *consumer, (look_up, order), frames.iter_mut(), outbox),
            None => {
                let answer = |frame: &mut Vec<u8>| {
                    let _ = forwarder.on_packet(*now, *consumer, frame, outbox);
                    outbox.drain().count()
                };
                frames.iter_mut().map(answer).sum()
            }
        };
        let took = thread_time() - begun;
        match answered {
            HITS => Ok(took),
            _ => Err(Error(format!("{answered} of {HITS} Interests for stored Data were answered"))),
        }
    }

    fn interest(&mut self, segment: u64) -> Vec<u8> {
        self.asked += 1;
        self.now = Time::from_nanos(self.asked * 1000);
        InterestBuilder::new(name(segment)).nonce(self.asked as u32).build()
    }

    /// Returns the next Interests. The clients take turns, each at its own position in the file.
    fn ask(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::with_capacity(HITS);
        for _ in 0..HITS {
            let (client, turn) = (self.asked % CLIENTS, self.asked / CLIENTS);
            frames.push(self.interest((client * self.segments / CLIENTS + turn) % self.segments));
        }
        self.forwarder.on_timeout(self.now, &mut self.outbox);
        frames
    }
}

/// Returns a name, as `larder put` names the paper's file.
fn name(segment: u64) -> Name {
    let mut name = Name::root();
    name.push_generic(b"repo").push_generic(b"100m.txt").push_version(1_700_000_000_000_000).push_segment(segment);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unwatched;

    /// Failure: Interests miss, and misses are measured.
    #[test]
    fn something_else_than_hits_is_measured() {
        let names = measure(100, 2, 1, &Unwatched).unwrap();
        assert_eq!((names.segments, names.methods.len()), (100, 5));
        assert!(names.methods.iter().all(|way| way.nanoseconds > 0.0) && names.bytes > 8000);
    }
}
