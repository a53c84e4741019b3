//! The cache host of hash routing: a cache with a name, which consumers request contents from by
//! that name.
//!
//! Source: Saino, Psaras and Pavlou, Hash-routing schemes for information centric networking, ACM
//! SIGCOMM ICN workshop 2013: the symmetric scheme. A consumer sends its Interest to the cache that
//! a hash of the content selects. After a miss this cache sends an Interest to the producer. The
//! Data return the same way, and no other cache keeps a copy.
//!
//! Here the cache has a name of its own: an Interest for `/custodian/n3/p/seq=7` asks node n3 for
//! `/p/seq=7`. Forwarders thus route by name as usual. An Interest that crosses its own path on the
//! way from the cache to the producer is a second Interest with another nonce, and not a loop. The
//! asymmetric and the multicast scheme are missing: their Data take the short way back, without a
//! path of Interests, which NDN does not have.
//!
//! Any policy of the registry decides on the copies. Each copy counts as the bytes of its packet,
//! or as one packet. O(1) per request beside the policy.

use crate::app::{App, Received, Sends};
use crate::apps::Unsigned;
use crate::error::ConfigError;
use crate::node::Capacity;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_packet::{Data, DataBuilder, Interest, InterestBuilder, Name};
use larder_policy::{Engine, Slot, Spec};
use larder_units::{ByteSize, Stream, Streams, Time};

/// The counters of a [`CacheHost`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHostCounters {
    /// Interests answered from copies.
    pub hits: u64,
    /// Interests sent on to the producer.
    pub misses: u64,
    /// Copies that were evicted.
    pub evictions: u64,
}

/// A cache with a name.
pub struct CacheHost {
    /// The number of components of the cache's own name, which precede the content's name.
    own_components: usize,
    engine: Engine,
    counts_packets: bool,
    index: HashMap<Name, Slot, FixedState>,
    /// By the slot of the engine: the content's name, and the Data that answers requests for it.
    copies: Vec<(Name, Vec<u8>)>,
    /// Contents that are requested from the producer, with the names of the consumers' Interests.
    waiting: HashMap<Name, Name, FixedState>,
    victims: Vec<Slot>,
    stream: Stream,
    counters: CacheHostCounters,
}

impl CacheHost {
    /// Creates an empty cache called `name`.
    ///
    /// # Errors
    /// [`ConfigError`] if the policy cannot be built.
    pub fn new(
        name: &Name,
        policy: &Spec,
        capacity: Capacity,
        streams: &Streams,
    ) -> Result<Self, ConfigError> {
        let (room, counts_packets) = match capacity {
            Capacity::Bytes(size) => (size, false),
            Capacity::Packets(packets) => (ByteSize::from_bytes(packets), true),
        };
        let engine = Engine::new(policy, room, streams);
        Ok(CacheHost {
            own_components: name.as_name().component_count(),
            engine: engine.map_err(|error| ConfigError::Policy {
                cache: format!("custodian {name}"),
                error,
            })?,
            counts_packets,
            index: HashMap::default(),
            copies: Vec::new(),
            waiting: HashMap::default(),
            victims: Vec::new(),
            stream: streams.stream("nonces"),
            counters: CacheHostCounters::default(),
        })
    }

    /// The counters.
    pub fn counters(&self) -> CacheHostCounters {
        self.counters
    }

    fn on_interest(&mut self, now: Time, interest: &Interest<'_>, sends: &mut Sends) {
        let mut content = Name::root();
        for component in interest.name.components().skip(self.own_components) {
            content.push_component(component);
        }
        let id = self.id(&content);
        if let Some(slot) = self.index.get(&content) {
            self.counters.hits += 1;
            self.engine.hit(*slot, id, now);
            return sends.push(self.copies[slot.index()].1.clone());
        }
        self.counters.misses += 1;
        self.engine.miss(id, now);
        let lifetime = interest.lifetime_or_default();
        sends.push(
            InterestBuilder::new(content.clone())
                .nonce(self.stream.bits() as u32)
                .lifetime(lifetime)
                .build(),
        );
        self.waiting.insert(content, interest.name.to_name());
    }

    fn on_data(&mut self, now: Time, data: &Data<'_>, sends: &mut Sends) {
        let content = data.name.to_name();
        let Some(asked) = self.waiting.remove(&content) else {
            return;
        };
        // `Unsigned` never fails.
        let answer = DataBuilder::new(asked.as_name())
            .content(data.content)
            .build(&Unsigned)
            .unwrap_or_default();
        let id = self.id(&content);
        let size = if self.counts_packets {
            1
        } else {
            answer.len() as u64
        };
        if !self.index.contains_key(&content) && self.engine.admit(id, size, now) {
            self.store(now, id, size, content, answer.clone());
        }
        sends.push(answer);
    }

    fn store(&mut self, now: Time, id: u64, size: u64, content: Name, answer: Vec<u8>) {
        let slot = self.engine.insert(id, size, now, &mut self.victims);
        for victim in self.victims.drain(..) {
            self.counters.evictions += 1;
            self.index.remove(&self.copies[victim.index()].0);
        }
        let Some(slot) = slot else { return };
        if self.copies.len() <= slot.index() {
            self.copies.resize_with(slot.index() + 1, Default::default);
        }
        self.copies[slot.index()] = (content.clone(), answer);
        self.index.insert(content, slot);
    }

    /// Returns the identifier for the policy. Copies are found by their whole names, not by this
    /// hash.
    fn id(&self, content: &Name) -> u64 {
        use std::hash::BuildHasher;
        self.index.hasher().hash_one(content)
    }
}

impl App for CacheHost {
    fn next_timer(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _: Time, _: &mut Sends) {}

    fn on_packet(&mut self, now: Time, packet: &Received<'_>, sends: &mut Sends) {
        if packet.header.nack.is_some() {
            // The consumer's Interest expires, and the consumer sends it again.
            if let Ok(interest) = Interest::decode(packet.packet) {
                self.waiting.remove(&interest.name.to_name());
            }
        } else if let Ok(interest) = Interest::decode(packet.packet) {
            self.on_interest(now, &interest, sends);
        } else if let Ok(data) = Data::decode(packet.packet) {
            self.on_data(now, &data, sends);
        }
    }
}
