//! Hits with decoded names in the Content Store, and with names decoded at each look-up.
//!
//! Yuan and Crowley, Experimental evaluation of content distribution with NDN and HTTP, IEEE
//! INFOCOM Mini-Conference, 2013, section IV and fig. 8: CCNx kept its stored packets in a list
//! ordered by names, and a look-up decoded each name that it compared. Keeping the names decoded
//! gave CCNx 40 % more throughput.
//!
//! A decoded name is the range of its bytes in the packet: Larder's look-ups compare whole encoded
//! names, since equal names have equal encodings. So decoding is finding and checking the name. It
//! allocates nothing, as in CCNx. The forwarder's hits are measured from end to end, and the four
//! ways to find the name by themselves, over copies of the same packets. A hit with another way
//! takes as much more or less as its search does. Deviation: a binary search replaces CCNx's skip
//! list. Both compare log2(n) names.

use crate::{Error, Watch, thread_time};
use larder_forwarder::limits::CONTENT_STORE_ENTRY_BYTES;
use larder_forwarder::{Config, FaceConfig, FaceId, Forwarder, Outbox};
use larder_packet::tlv::Tlv;
use larder_packet::{
    Data, DataBuilder, DigestSigner, Interest, InterestBuilder, Name, NameRef, types,
};
use larder_policy::{AnyIds, Engine, Slot, SlotIndex};
use larder_units::{ByteSize, Streams, Time};
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::ops::Range;
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
    /// In the order of [`LOOK_UPS`].
    pub(super) methods: Vec<LookUpMethod>,
}

/// The way in which a stored name is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookUp {
    /// By its hash, as the forwarder does; the stored encoding is compared.
    Hashed,
    /// By its hash; the name that is found is decoded out of its packet.
    HashedDecoding,
    /// By binary search in canonical order; stored encodings are compared.
    Ordered,
    /// By binary search in canonical order; each compared name is decoded out of its packet, as in
    /// CCNx.
    OrderedDecoding,
}

const LOOK_UPS: [LookUp; 4] = [
    LookUp::Hashed,
    LookUp::HashedDecoding,
    LookUp::Ordered,
    LookUp::OrderedDecoding,
];

/// Indices into [`Names::methods`]. The method that decodes follows each of them.
pub(super) const HASHED: usize = 0;
pub(super) const ORDERED: usize = 2;

const NAMES: [&str; 4] = [
    "hashed, kept (the forwarder)",
    "hashed, decoded",
    "ordered, kept",
    "ordered, decoded (CCNx)",
];

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
pub(super) fn measure(
    segments: u64,
    rounds: usize,
    seed: u64,
    watch: &dyn Watch,
) -> Result<Names, Error> {
    watch.begin("names", rounds as u64);
    let mut store = Store::new(segments, seed)?;
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        // The first measurement does not count, because the processor's caches have the data of
        // the previous method.
        store.hits()?;
        let whole = store.hits()?;
        let searches = LOOK_UPS.map(|look_up| {
            store.searches(look_up);
            store.searches(look_up)
        });
        for (times, search) in times.iter_mut().zip(searches) {
            times.push((whole - searches[HASHED] + search) / HITS as f64);
        }
        watch.advance(1);
    }
    let methods = times.into_iter().zip(NAMES).map(|(mut times, name)| {
        times.sort_by(f64::total_cmp);
        let at = |share: usize| {
            times
                .get(times.len() * share / 4)
                .copied()
                .unwrap_or(f64::NAN)
        };
        LookUpMethod {
            name,
            nanoseconds: at(2),
            interval: (at(3) - at(1)) / 2.0,
        }
    });
    Ok(Names {
        segments: store.kept.packets.len() as u64,
        bytes: store.bytes,
        methods: methods.collect(),
    })
}

/// Stored packets, by the hash of their names and in order.
#[derive(Default)]
struct Kept {
    packets: Vec<Packet>,
    hasher: RandomState,
    index: SlotIndex<AnyIds>,
    /// Canonical order.
    order: Vec<usize>,
}

/// A Data, with the range of its name, which was decoded when it was stored.
struct Packet {
    wire: Vec<u8>,
    name: Range<usize>,
}

impl Packet {
    fn kept(&self) -> &[u8] {
        &self.wire[self.name.clone()]
    }

    /// The name, out of the packet: nothing that is kept beside it is used.
    fn decoded(&self) -> &[u8] {
        let name = || {
            let element = Tlv::only(&self.wire, types::DATA)
                .ok()?
                .children()
                .require(types::NAME, "Name")
                .ok()?;
            NameRef::from_value(element.value).ok()?;
            Some(element.value)
        };
        name().unwrap_or_default()
    }
}

impl Kept {
    fn of(wires: Vec<Vec<u8>>) -> Result<Kept, Error> {
        let mut kept = Kept::default();
        for (slot, wire) in wires.into_iter().enumerate() {
            let name = Data::decode(&wire).map_err(Error::from_cause)?.name_range();
            kept.index.insert(
                kept.hasher.hash_one(&wire[name.clone()]),
                Slot::new(slot as u32),
            );
            kept.packets.push(Packet { wire, name });
        }
        kept.order = (0..kept.packets.len()).collect();
        // Encodings sort as names do (packet specification 0.3, "Canonical Order"): types and
        // lengths come first, the shorter the smaller.
        kept.order.sort_by_key(|at| kept.packets[*at].kept());
        Ok(kept)
    }

    /// Returns the packet of this name, whose hash is known as in the forwarder.
    fn find(&self, look_up: LookUp, hash: u64, name: &[u8]) -> Option<usize> {
        let by_hash = |of: fn(&Packet) -> &[u8]| {
            self.index
                .find(hash, |slot| of(&self.packets[slot.index()]) == name)
                .map(Slot::index)
        };
        let in_order = |of: fn(&Packet) -> &[u8]| {
            let compared = self
                .order
                .binary_search_by(|at| of(&self.packets[*at]).cmp(name));
            compared.ok().map(|at| self.order[at])
        };
        match look_up {
            LookUp::Hashed => by_hash(Packet::kept),
            LookUp::HashedDecoding => by_hash(Packet::decoded),
            LookUp::Ordered => in_order(Packet::kept),
            LookUp::OrderedDecoding => in_order(Packet::decoded),
        }
    }
}

/// A forwarder with a file in its Content Store.
struct Store {
    forwarder: Forwarder,
    consumer: FaceId,
    outbox: Outbox,
    now: Time,
    /// Copies of what it stores.
    kept: Kept,
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
            DataBuilder::new(name.as_name())
                .content(&SEGMENT)
                .build(&DigestSigner)
                .map_err(|error| refused(&error))
        };
        let bytes = packet(segments)?.len();
        let capacity = ByteSize::from_bytes(segments * (bytes as u64 + CONTENT_STORE_ENTRY_BYTES));
        let spec = "lru"
            .parse()
            .map_err(|error: larder_policy::SpecError| refused(&error))?;
        let engine = Engine::new(&spec, capacity, &streams).map_err(|error| refused(&error))?;
        let mut forwarder = Forwarder::new(Config::new(key, streams), engine);
        let consumer = forwarder.add_face(FaceConfig::local("consumer"));
        let producer = forwarder.add_face(FaceConfig::local("producer"));
        forwarder.add_next_hop(Name::root().as_name(), producer);
        let (outbox, now) = (Outbox::new(), Time::ZERO);
        let kept = Kept::of((0..segments).map(packet).collect::<Result<_, _>>()?)?;
        let mut store = Store {
            forwarder,
            consumer,
            outbox,
            now,
            kept,
            bytes,
            asked: 0,
        };
        for segment in 0..segments {
            let (mut interest, mut data) = (
                store.interest(segment),
                store.kept.packets[segment as usize].wire.clone(),
            );
            let Store {
                forwarder,
                outbox,
                now,
                ..
            } = &mut store;
            for (face, frame) in [(consumer, &mut interest), (producer, &mut data)] {
                forwarder
                    .on_packet(*now, face, frame, outbox)
                    .map_err(|error| refused(&error))?;
                outbox.drain().for_each(drop);
            }
        }
        Ok(store)
    }

    /// Returns the CPU time of [`HITS`] hits, in nanoseconds.
    fn hits(&mut self) -> Result<f64, Error> {
        let mut frames = self.ask();
        let Store {
            forwarder,
            consumer,
            outbox,
            now,
            ..
        } = self;
        let begun = thread_time();
        let mut answered = 0;
        for frame in &mut frames {
            let _ = forwarder.on_packet(*now, *consumer, frame, outbox);
            answered += outbox.drain().count();
        }
        let took = thread_time() - begun;
        match answered {
            HITS => Ok(nanoseconds(took)),
            _ => Err(Error(format!(
                "{answered} of {HITS} Interests for stored Data were answered"
            ))),
        }
    }

    /// Returns the CPU time of the search for as many names, in nanoseconds.
    fn searches(&mut self, look_up: LookUp) -> f64 {
        let frames = self.ask();
        let interests = frames
            .iter()
            .filter_map(|frame| Interest::decode(frame).ok());
        let hashed = |interest: Interest<'_>| self.kept.hasher.hash_one(interest.name.as_bytes());
        let names: Vec<_> = interests
            .map(|interest| (hashed(interest), interest.name))
            .collect();
        let begun = thread_time();
        for (hash, name) in &names {
            black_box(self.kept.find(look_up, *hash, name.as_bytes()));
        }
        nanoseconds(thread_time() - begun)
    }

    fn interest(&mut self, segment: u64) -> Vec<u8> {
        self.asked += 1;
        self.now = Time::from_nanos(self.asked * 1000);
        InterestBuilder::new(name(segment))
            .nonce(self.asked as u32)
            .build()
    }

    /// Returns the next Interests. The clients take turns, each at its own position in the file.
    fn ask(&mut self) -> Vec<Vec<u8>> {
        let segments = self.kept.packets.len() as u64;
        let mut frames = Vec::with_capacity(HITS);
        for _ in 0..HITS {
            let (client, turn) = (self.asked % CLIENTS, self.asked / CLIENTS);
            frames.push(self.interest((client * segments / CLIENTS + turn) % segments));
        }
        self.forwarder.on_timeout(self.now, &mut self.outbox);
        frames
    }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// Returns a name, as `larder put` names the paper's file.
fn name(segment: u64) -> Name {
    let mut name = Name::root();
    name.push_generic(b"repo")
        .push_generic(b"100m.txt")
        .push_version(1_700_000_000_000_000)
        .push_segment(segment);
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
        assert_eq!((names.segments, names.methods.len()), (100, 4));
        assert!(names.methods.iter().all(|way| way.nanoseconds.is_finite()) && names.bytes > 8000);
    }

    /// Failure: one of the ways is fast because it finds nothing, or another Data.
    #[test]
    fn a_way_to_look_up_does_not_look() {
        // Of different depths and lengths, so that the order is not that of insertion.
        let uri = |n: usize| format!("/a/b{}/{n}{}", "b".repeat(n % 7), "/c".repeat(n % 4));
        let names: Vec<Name> = (0..50).rev().map(|n| uri(n).parse().unwrap()).collect();
        let data = |name: &Name| {
            DataBuilder::new(name.as_name())
                .content(b"x")
                .build(&DigestSigner)
                .unwrap()
        };
        let kept = Kept::of(names.iter().map(data).collect()).unwrap();
        let none: Name = "/a/none".parse().unwrap();
        for look_up in LOOK_UPS {
            let found = |name: &Name| {
                kept.find(
                    look_up,
                    kept.hasher.hash_one(name.as_bytes()),
                    name.as_bytes(),
                )
            };
            for (at, name) in names.iter().enumerate() {
                assert_eq!(found(name), Some(at), "{look_up:?} {name}");
            }
            assert_eq!(found(&none), None, "{look_up:?}");
        }
    }
}
