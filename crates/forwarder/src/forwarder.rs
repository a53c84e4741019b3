//! The forwarder: one shard of the NDN data plane as a state machine.
//!
//! The three pipelines follow the NFD developer guide (chapter 4): an incoming Interest, incoming Data, an incoming Nack. The host hands in
//! one received packet at a time with the time, and sends what stands in the [`Outbox`] afterwards.

#[doc(hidden)]
pub mod account;

use crate::content_store::ContentStore;
use crate::dead_nonces::DeadNonces;
use crate::drop_reason::{Detail, DropCounters, DropReason, Dropped};
use crate::face::{FaceConfig, FaceId, Faces};
use crate::limits;
use crate::management::events::FaceEvent;
use crate::management::{self, Authority, Management, Rule};
use crate::name_hash::{NameHasher, Prefix};
use crate::outbox::{Body, Outbox, Send};
use crate::pit::{InRecord, Pit, PitEntry};
use crate::prefix_table::PrefixTable;
use crate::rib::{FibUpdate, NextHop, Rib, Route, RouteError};
use crate::stats::{FaceStats, Stats};
use crate::strategy::{Decision, Instance, Strategy, StrategyError, StrategyGauge};
use bytes::Bytes;
use larder_packet::limits::REASSEMBLY_TIMEOUT;
use larder_packet::tlv::Tlv;
use larder_packet::{
    Data, Interest, LpHeader, LpPacket, NackReason, Name, NameRef, PitToken, Reassembled, Reassembler, types,
    with_nonce,
};
use larder_policy::{Engine, Gauge, Job, JobDone, Spec, SpecError};
use larder_units::{ByteSize, Stream, Streams, Time};
use std::time::Duration;

/// What a forwarder is made with.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The key of the name hashes, from the host's entropy: nobody outside may know it.
    pub hash_key: [u64; 2],
    /// The random streams of this run: nonces for Interests that come without one.
    pub streams: Streams,
    /// Interests pending at once.
    pub pit_entries: usize,
    /// Bytes of the largest network-layer packet; management's own stay below [`limits::MAX_PACKET_BYTES`].
    pub max_packet_bytes: usize,
    /// Whether the Content Store's capacity is a number of packets, as NFD's and ndnSIM's are, and not of bytes: whoever makes the engine says
    /// which. Sizes are then 1 to the policy too.
    pub counts_packets: bool,
    /// What the calendar says at [`Time::ZERO`]: time since 1970. Management tells times of day and names versions by it.
    pub started: Duration,
}

impl Config {
    /// The defaults, with this key and these random streams.
    pub fn new(hash_key: [u64; 2], streams: Streams) -> Self {
        Config {
            hash_key,
            streams,
            pit_entries: limits::PIT_ENTRIES,
            max_packet_bytes: limits::MAX_PACKET_BYTES,
            counts_packets: false,
            started: Duration::ZERO,
        }
    }
}

/// One shard of the data plane. See the crate's documentation for an example.
pub struct Forwarder {
    pub(crate) hasher: NameHasher,
    pub(crate) nonces: Stream,
    pub(crate) faces: Faces,
    pub(crate) fib: PrefixTable<Vec<NextHop>>,
    pub(crate) rib: Rib,
    pub(crate) strategies: PrefixTable<Instance>,
    /// Strategies that measure: where there is none, nothing is looked up for them.
    measuring: usize,
    streams: Streams,
    max_packet_bytes: usize,
    pub(crate) management: Management,
    started: Duration,
    /// The time of the last call that told it.
    pub(crate) clock: Time,
    pub(crate) pit: Pit,
    pub(crate) content_store: ContentStore,
    pub(crate) dead_nonces: DeadNonces,
    pub(crate) drops: DropCounters,
    pub(crate) satisfied: u64,
    pub(crate) unsatisfied: u64,
    /// Faces with a reassembler, and when they are next looked at for packets that will not be complete any more.
    reassembling: usize,
    next_sweep: Option<Time>,
    scratch: Scratch,
}

/// Buffers that live from packet to packet.
#[derive(Default)]
struct Scratch {
    prefixes: Vec<Prefix>,
    found: Vec<u32>,
    send_to: Vec<(FaceId, Option<u32>)>,
    asked: Vec<u64>,
}

/// Where the network-layer packet stands.
#[derive(Clone)]
pub(crate) enum Source {
    /// It stands in the bytes that the host handed in.
    Input,
    /// It was reassembled, or changed.
    Made(Bytes),
}

impl Source {
    fn body(&self) -> Body {
        match self {
            Source::Input => Body::Input,
            Source::Made(bytes) => Body::Stored(bytes.clone()),
        }
    }
}

/// The packet that is being handled: when and how it came, as far as the pipelines need it.
#[derive(Clone)]
pub(crate) struct Arrival {
    pub(crate) now: Time,
    pub(crate) face: FaceId,
    pub(crate) local: bool,
    pub(crate) point_to_point: bool,
    pub(crate) token: Option<PitToken>,
    pub(crate) nack: Option<NackReason>,
    pub(crate) mark: Option<u64>,
    /// What the path so far grants the consumer, Interests a second.
    pub(crate) rate: Option<u64>,
    pub(crate) no_cache: bool,
    /// Where an application with local fields wants its Interest to go.
    pub(crate) next_hop: Option<FaceId>,
    pub(crate) source: Source,
}

impl Arrival {
    /// Management's own packet.
    pub(crate) fn internal(now: Time, packet: Bytes) -> Arrival {
        Arrival {
            now,
            face: FaceId::INTERNAL,
            local: true,
            point_to_point: true,
            token: None,
            nack: None,
            mark: None,
            rate: None,
            no_cache: true,
            next_hop: None,
            source: Source::Made(packet),
        }
    }

    /// The packet was put together, or changed: it stands in `bytes` now.
    fn made(&self, bytes: Bytes) -> Arrival {
        Arrival { source: Source::Made(bytes), ..self.clone() }
    }
}

/// The pending Interest that a strategy decides about.
#[derive(Clone, Copy)]
struct Asked<'a> {
    slot: u32,
    interest: &'a Interest<'a>,
    /// The nonce with which it goes upstream.
    nonce: u32,
    /// How long an answer is waited for.
    lifetime: Duration,
}

impl Forwarder {
    /// A forwarder without faces and routes; the engine is the Content Store's.
    pub fn new(config: Config, engine: Engine) -> Self {
        let hasher = NameHasher::new(config.hash_key);
        let mut strategies = PrefixTable::new();
        strategies.insert(&hasher, Name::root().as_name(), Instance::default_of_root(&config.streams));
        Forwarder {
            hasher,
            nonces: config.streams.stream("forwarder nonces"),
            faces: Faces::new(),
            fib: PrefixTable::new(),
            rib: Rib::default(),
            strategies,
            measuring: 0,
            streams: config.streams,
            max_packet_bytes: config.max_packet_bytes,
            management: Management::new(),
            started: config.started,
            clock: Time::ZERO,
            pit: Pit::new(config.pit_entries),
            content_store: ContentStore::new(engine, config.counts_packets),
            dead_nonces: DeadNonces::new(),
            drops: DropCounters::default(),
            satisfied: 0,
            unsatisfied: 0,
            reassembling: 0,
            next_sweep: None,
            scratch: Scratch::default(),
        }
    }

    // ---- Packets and time ----

    /// Handles one frame from a face: an NDNLPv2 packet, or a bare Interest or Data. Its bytes may be changed in place (HopLimit).
    ///
    /// `Err` tells the host why the packet was dropped, for its log; it has been counted, and the face is none the worse.
    pub fn on_packet(&mut self, now: Time, face: FaceId, frame: &mut [u8], out: &mut Outbox) -> Result<(), Dropped> {
        out.clear();
        self.clock = now;
        let result = self.receive(now, face, frame, out);
        if let Err(dropped) = &result {
            self.drops.count(dropped.reason);
            if let Some(face) = self.faces.get_mut(face) {
                face.counters.dropped += 1;
            }
        }
        self.count_sends(frame, out);
        result
    }

    /// Ends what has waited long enough: pending Interests, routes.
    pub fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        out.clear();
        self.clock = now;
        let mut due = std::mem::take(&mut self.scratch.found);
        due.clear();
        self.pit.expire(now, &mut due);
        for slot in due.drain(..) {
            self.unsatisfied += self.pit.entry(slot).in_records.len() as u64;
            self.measure(slot, |strategy, entry| strategy.on_expiry(now, entry));
            self.finish(now, slot);
        }
        self.scratch.found = due;
        let updates = self.rib.expire(now);
        self.update_fib(updates);
        if self.next_sweep.is_some_and(|at| at <= now) {
            self.reassembling = self.faces.sweep_reassemblers(now);
            self.next_sweep = (self.reassembling > 0).then_some(now + REASSEMBLY_TIMEOUT);
        }
        if self.management.events.is_due() {
            self.publish_events(now, out);
        }
        self.count_sends(&[], out);
    }

    /// When [`Forwarder::on_timeout`] must be called next.
    pub fn next_timeout(&self) -> Option<Time> {
        let events = self.management.events.is_due().then_some(Time::ZERO);
        [self.pit.next_timeout(), self.rib.next_timeout(), self.next_sweep, events].into_iter().flatten().min()
    }

    fn receive(&mut self, now: Time, id: FaceId, frame: &mut [u8], out: &mut Outbox) -> Result<(), Dropped> {
        let face = self.faces.get_mut(id).ok_or(Dropped::new(DropReason::NoFace))?;
        face.counters.in_bytes += frame.len() as u64;
        let packet = LpPacket::decode(frame)?;
        let Some(fragment) = packet.fragment else { return Ok(()) };
        let whole = Arrival {
            now,
            face: id,
            local: face.is_local(),
            point_to_point: face.config.is_point_to_point(),
            token: packet.header.pit_token,
            nack: packet.header.nack,
            mark: packet.header.congestion_mark,
            rate: packet.header.interest_rate,
            no_cache: packet.header.no_cache,
            next_hop: packet.header.next_hop_face.filter(|_| face.config.local_fields).map(FaceId),
            source: Source::Input,
        };
        if packet.header.frag_count <= 1 {
            out.input = packet.fragment_range().unwrap_or_default();
            let packet = &mut frame[out.input.clone()];
            check_and_age(packet, whole.nack, self.max_packet_bytes)?;
            return self.on_network_packet(&whole, packet, out);
        }
        if face.reassembler.is_none() {
            if self.reassembling >= limits::REASSEMBLING_FACES {
                return Err(Dropped::new(DropReason::Reassembly));
            }
            self.reassembling += 1;
            self.next_sweep.get_or_insert(now + REASSEMBLY_TIMEOUT);
        }
        let local_fields = face.config.local_fields;
        let largest = self.max_packet_bytes;
        let reassembler = face.reassembler.get_or_insert_with(|| Box::new(Reassembler::for_packets_of(largest)));
        match reassembler.accept(now, &packet.header, fragment) {
            Reassembled::Done(mut packet, header) => {
                check_and_age(&mut packet, header.nack, self.max_packet_bytes)?;
                let packet = Bytes::from(packet);
                let put_together = Arrival {
                    token: header.pit_token,
                    nack: header.nack,
                    mark: header.congestion_mark,
                    rate: header.interest_rate,
                    no_cache: header.no_cache,
                    next_hop: header.next_hop_face.filter(|_| local_fields).map(FaceId),
                    ..whole.made(packet.clone())
                };
                self.on_network_packet(&put_together, &packet, out)
            }
            Reassembled::Partial | Reassembled::Whole(_) => Ok(()),
            Reassembled::Dropped(_) => Err(Dropped::new(DropReason::Reassembly)),
        }
    }

    /// Tells apart Interest, Data and Nack.
    fn on_network_packet(&mut self, arrival: &Arrival, packet: &[u8], out: &mut Outbox) -> Result<(), Dropped> {
        let kind = packet.first().map_or(0, |first| u32::from(*first));
        if let Some(face) = self.faces.get_mut(arrival.face) {
            let counters = &mut face.counters;
            match (kind, arrival.nack) {
                (types::INTEREST, None) => counters.in_interests += 1,
                (types::INTEREST, Some(_)) => counters.in_nacks += 1,
                (types::DATA, None) => counters.in_data += 1,
                _ => {}
            }
        }
        match (kind, arrival.nack) {
            (types::INTEREST, None) => self.on_interest(arrival, Interest::decode(packet)?, out),
            (types::INTEREST, Some(reason)) => self.on_nack(arrival, reason, Interest::decode(packet)?, out),
            (types::DATA, None) => self.on_data(arrival, Data::decode(packet)?, out),
            _ => Err(Dropped::new(DropReason::Malformed)),
        }
    }

    // ---- Interest ----

    fn on_interest(&mut self, arrival: &Arrival, interest: Interest<'_>, out: &mut Outbox) -> Result<(), Dropped> {
        let Some(nonce) = interest.nonce else {
            // Applications may leave the nonce to the forwarder (packet specification 0.3, "Nonce").
            let packet = Bytes::from(with_nonce(interest.wire, self.nonces.bits() as u32));
            check_size(&packet, self.max_packet_bytes)?;
            return self.on_interest(&arrival.made(packet.clone()), Interest::decode(&packet)?, out);
        };
        let Arrival { now, face, token, .. } = *arrival;
        let name = interest.name;
        if !arrival.local && starts_with(name, b"localhost") {
            return Err(Dropped::new(DropReason::Scope));
        }
        if interest.check_parameters_digest().is_err() {
            return Err(Dropped::new(DropReason::ParametersDigest));
        }
        if interest.can_be_prefix && name.component_count() > limits::CAN_BE_PREFIX_COMPONENTS {
            return Err(Dropped::new(DropReason::NameTooDeep));
        }
        if management::is_management(name) && (arrival.local || self.management.authority.allows_localhop()) {
            return self.on_management(arrival, &interest, out);
        }
        let hash = self.hash_of(name);
        let pending = self.pit.find(hash, &interest);
        if self.is_duplicate(now, hash, nonce, face, pending) {
            self.nack(arrival, NackReason::Duplicate, out);
            return Err(Dropped::new(DropReason::DuplicateNonce));
        }
        if pending.is_some_and(|slot| is_waiting(now, self.pit.entry(slot))) {
            self.content_store.engine_mut().miss(hash, now);
        } else if let Some(data) = self.content_store.look_up(now, hash, &interest) {
            self.satisfied += 1;
            let header = self.header_for(face, token, None, FaceId::CONTENT_STORE);
            out.sends.push(Send { face, header, body: Body::Stored(data) });
            return Ok(());
        }
        let (slot, lifetime) = self.pend(hash, &interest)?;
        self.add_consumer(slot, InRecord { face, nonce, expires: now + lifetime, token })?;
        let asked = Asked { slot, interest: &interest, nonce, lifetime };
        match arrival.next_hop {
            // The application has chosen: no strategy is asked (NDNLPv2, "Consumer Controlled Forwarding").
            Some(chosen) => self.decide(arrival, &asked, out, |_, decision| decision.send_to_chosen(chosen)),
            None => self.decide(arrival, &asked, out, |strategy, decision| strategy.on_interest(decision)),
        }
        Ok(())
    }

    /// The PIT entry of an Interest, a new one where there is none, and how long it may wait.
    pub(crate) fn pend(&mut self, hash: u64, interest: &Interest<'_>) -> Result<(u32, Duration), Dropped> {
        let slot = match self.pit.find(hash, interest) {
            Some(slot) => slot,
            None => self.pit.insert(hash, interest).ok_or(Dropped::new(DropReason::PitFull))?,
        };
        Ok((slot, interest.lifetime_or_default().min(limits::INTEREST_LIFETIME)))
    }

    /// The hash under which an Interest is pending and cached Data is found: of its name without an implicit digest.
    pub(crate) fn hash_of(&self, name: NameRef<'_>) -> u64 {
        let (name, _) = name.strip_implicit_digest();
        self.hasher.hash(name.as_bytes())
    }

    /// A nonce that another face's Interest carries, or that a dead Interest carried: the Interest came around.
    fn is_duplicate(&mut self, now: Time, hash: u64, nonce: u32, face: FaceId, pending: Option<u32>) -> bool {
        if self.dead_nonces.contains(now, hash, nonce) {
            return true;
        }
        let Some(slot) = pending else { return false };
        let entry = self.pit.entry(slot);
        // From the face that sent it before, it is a retransmission (NFD, "DUPLICATE_NONCE_IN_SAME").
        let repeated = entry.in_records.iter().any(|record| record.nonce == nonce && record.face == face);
        let carried = entry.in_records.iter().map(|record| record.nonce);
        !repeated && carried.chain(entry.out_records.iter().map(|record| record.nonce)).any(|carried| carried == nonce)
    }

    pub(crate) fn add_consumer(&mut self, slot: u32, record: InRecord) -> Result<(), Dropped> {
        let entry = self.pit.entry_mut(slot);
        match entry.in_records.iter().position(|old| old.face == record.face) {
            Some(known) => entry.in_records[known] = record,
            None if entry.in_records.len() < limits::RECORDS_PER_ENTRY => entry.in_records.push(record),
            None => return Err(Dropped::new(DropReason::PitFull)),
        }
        let last = self.pit.entry(slot).last_expiry();
        self.pit.set_timer(slot, last);
        Ok(())
    }

    /// Lets the strategy of the name decide, and carries out what it says.
    fn decide(
        &mut self,
        arrival: &Arrival,
        asked: &Asked<'_>,
        out: &mut Outbox,
        ask: impl FnOnce(&mut dyn Strategy, &mut Decision<'_>),
    ) {
        let Asked { slot, interest, nonce, lifetime } = *asked;
        let Scratch { prefixes, send_to, .. } = &mut self.scratch;
        send_to.clear();
        let longest = self.fib.longest().max(self.strategies.longest());
        self.hasher.prefixes(interest.name, longest, prefixes);
        // The root has one always.
        let Some(instance) = self.strategies.longest_match_mut(interest.name, prefixes) else { return };
        let (namespace, next_hops) = next_hops(&self.hasher, &self.fib, interest, prefixes);
        let faces = &self.faces;
        let is_local = |record: &InRecord| faces.get(record.face).is_some_and(|face| face.is_local());
        let entry = self.pit.entry_mut(slot);
        entry.namespace = namespace;
        let from_afar = !entry.in_records.iter().any(is_local);
        let mut refused = None;
        let mut decision = Decision {
            now: arrival.now,
            from: arrival.face,
            entry,
            next_hops,
            faces,
            nonce,
            hop_limit: interest.hop_limit,
            lifetime,
            // HopLimit 0 after the decrement: the Interest may reach applications here, and nobody else.
            local_only: interest.hop_limit == Some(0)
                || starts_with(interest.name, b"localhost")
                || (from_afar && starts_with(interest.name, b"localhop")),
            send_to,
            refused: &mut refused,
        };
        ask(&mut *instance.strategy, &mut decision);
        for (face, nonce) in send_to.drain(..) {
            let mut header = header_to(None, arrival.mark);
            if self.faces.local_fields(face) {
                header.incoming_face = Some(arrival.face.0);
            }
            let body = match nonce {
                None => arrival.source.body(),
                Some(nonce) => Body::Stored(replace_nonce(interest.wire, nonce).into()),
            };
            out.sends.push(Send { face, header, body });
        }
        if let Some(reason) = refused {
            self.refuse(arrival, asked, reason, out);
        }
    }

    /// Tells everyone who waits for the entry that nobody can be asked, and forgets it.
    fn refuse(&mut self, arrival: &Arrival, asked: &Asked<'_>, reason: NackReason, out: &mut Outbox) {
        let Asked { slot, interest, .. } = *asked;
        let entry = self.pit.entry(slot);
        if reason == NackReason::NoRoute && entry.out_records.is_empty() {
            self.drops.count(DropReason::NoRoute);
        }
        for consumer in entry.in_records.iter().filter(|consumer| consumer.expires > arrival.now) {
            if !self.faces.get(consumer.face).is_some_and(|face| face.config.is_point_to_point()) {
                continue;
            }
            let body = match interest.nonce == Some(consumer.nonce) {
                true => arrival.source.body(),
                false => Body::Stored(replace_nonce(interest.wire, consumer.nonce).into()),
            };
            let header = LpHeader { nack: Some(reason), ..header_to(consumer.token, None) };
            out.sends.push(Send { face: consumer.face, header, body });
        }
        self.unsatisfied += entry.in_records.len() as u64;
        self.finish(arrival.now, slot);
    }

    /// Refuses the Interest that just came, to who sent it.
    pub(crate) fn nack(&mut self, arrival: &Arrival, reason: NackReason, out: &mut Outbox) {
        if arrival.point_to_point {
            let header = LpHeader { nack: Some(reason), ..header_to(arrival.token, None) };
            out.sends.push(Send { face: arrival.face, header, body: arrival.source.body() });
        }
    }

    /// Tells the strategy of a pending Interest what became of it, if it wants to know, and returns what it says.
    fn measure<R>(&mut self, slot: u32, tell: impl FnOnce(&mut dyn Strategy, &PitEntry) -> R) -> Option<R> {
        if self.measuring == 0 {
            return None;
        }
        let entry = self.pit.entry(slot);
        let name = entry.name();
        let prefixes = &mut self.scratch.prefixes;
        self.hasher.prefixes(name, self.strategies.longest(), prefixes);
        let instance = self.strategies.longest_match_mut(name, prefixes)?;
        Some(tell(&mut *instance.strategy, entry))
    }

    /// Forgets a pending Interest, but for the nonces that it sent out.
    fn finish(&mut self, now: Time, slot: u32) {
        let entry = self.pit.entry(slot);
        for record in &entry.out_records {
            self.dead_nonces.insert(now, entry.name_hash(), record.nonce);
        }
        self.pit.remove(slot);
    }

    // ---- Data ----

    pub(crate) fn on_data(&mut self, arrival: &Arrival, data: Data<'_>, out: &mut Outbox) -> Result<(), Dropped> {
        let is_localhost = starts_with(data.name, b"localhost");
        if !arrival.local && is_localhost {
            return Err(Dropped::new(DropReason::Scope));
        }
        let now = arrival.now;
        let hash = self.hasher.hash(data.name.as_bytes());
        let Scratch { prefixes, found, asked, .. } = &mut self.scratch;
        self.pit.matches(&self.hasher, hash, &data, prefixes, found);
        // Only who was asked may answer; the answer is then everybody's who waits for this name.
        let asked_here =
            |slot: &u32| self.pit.entry(*slot).out_records.iter().any(|record| record.face == arrival.face);
        if !found.iter().any(asked_here) {
            return Err(Dropped::new(DropReason::Unsolicited));
        }
        asked.clear();
        asked.extend(found.iter().map(|slot| self.pit.entry(*slot).name_hash()));
        if !arrival.no_cache && !is_localhost {
            self.content_store.insert(now, hash, &data, asked.drain(..));
        }
        let found = std::mem::take(&mut self.scratch.found);
        for slot in &found {
            let told = self.measure(*slot, |strategy, entry| strategy.on_data(now, arrival.face, entry));
            let told = told.unwrap_or_default();
            let mark = arrival.mark.or(told.mark.then_some(1));
            let rate = [arrival.rate, told.rate].into_iter().flatten().min();
            for consumer in &self.pit.entry(*slot).in_records {
                if consumer.expires > now && consumer.face != arrival.face {
                    self.satisfied += 1;
                    let mut header = self.header_for(consumer.face, consumer.token, mark, arrival.face);
                    header.interest_rate = rate;
                    out.sends.push(Send { face: consumer.face, header, body: arrival.source.body() });
                }
            }
            self.finish(now, *slot);
        }
        self.scratch.found = found;
        Ok(())
    }

    // ---- Nack ----

    fn on_nack(
        &mut self,
        arrival: &Arrival,
        reason: NackReason,
        interest: Interest<'_>,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        let unexpected = Dropped::new(DropReason::UnexpectedNack);
        let nonce = interest.nonce.filter(|_| arrival.point_to_point).ok_or(unexpected)?;
        interest.check_parameters_digest().map_err(|_| unexpected)?;
        let hash = self.hash_of(interest.name);
        let slot = self.pit.find_asked(hash, &interest, arrival.face, nonce).ok_or(unexpected)?;
        let entry = self.pit.entry_mut(slot);
        for record in entry.out_records.iter_mut().filter(|record| record.face == arrival.face) {
            record.nacked = Some(reason);
        }
        let lifetime = entry.last_expiry().since(arrival.now);
        let asked = Asked { slot, interest: &interest, nonce, lifetime };
        self.decide(arrival, &asked, out, |strategy, decision| strategy.on_nack(decision));
        Ok(())
    }

    // ---- Faces, routes, strategies: for the host ----

    /// A new face.
    pub fn add_face(&mut self, config: FaceConfig) -> FaceId {
        let id = self.faces.add(config);
        self.tell_of_face(FaceEvent::Created, id);
        id
    }

    /// The face's configuration, which management may have changed.
    pub fn face(&self, id: FaceId) -> Option<&FaceConfig> {
        self.faces.get(id).map(|face| &face.config)
    }

    fn tell_of_face(&mut self, event: FaceEvent, id: FaceId) {
        if let Some(face) = self.faces.get(id) {
            self.management.events.push(self.clock, event, id, &face.config);
        }
    }

    /// The face is gone: so are its routes. What waits for its Data waits for another, or for its time.
    pub fn remove_face(&mut self, face: FaceId) {
        self.tell_of_face(FaceEvent::Destroyed, face);
        if self.faces.remove(face) {
            let updates = self.rib.remove_face(face);
            self.update_fib(updates);
        }
    }

    /// Adds a route, or replaces the one of the same prefix, face and origin.
    ///
    /// # Errors
    /// [`RouteError`] where the face is not there, the prefix is too long or the table is full.
    pub fn add_route(&mut self, prefix: &Name, route: Route) -> Result<(), RouteError> {
        if self.faces.get(route.face).is_none() {
            return Err(RouteError::NoFace(route.face));
        }
        let name = prefix.as_name();
        if name.component_count() > limits::PREFIX_COMPONENTS || name.as_bytes().len() > limits::PREFIX_BYTES {
            return Err(RouteError::TooLong);
        }
        let routes = self.rib.of(prefix);
        let replaces = routes.iter().any(|old| old.face == route.face && old.origin == route.origin);
        if !replaces && (self.rib.routes() >= limits::ROUTES || routes.len() >= limits::ROUTES_PER_PREFIX) {
            return Err(RouteError::Full);
        }
        let updates = self.rib.add(prefix, route);
        self.update_fib(updates);
        Ok(())
    }

    /// Removes a route, if it is there.
    pub fn remove_route(&mut self, prefix: &Name, face: FaceId, origin: u64) {
        let updates = self.rib.remove(prefix, face, origin);
        self.update_fib(updates);
    }

    fn update_fib(&mut self, updates: Vec<FibUpdate>) {
        for FibUpdate { prefix, next_hops } in updates {
            match next_hops.is_empty() {
                true => self.fib.remove(&self.hasher, prefix.as_name()),
                false => self.fib.insert(&self.hasher, prefix.as_name(), next_hops),
            }
        }
    }

    /// Sets the strategy under a prefix, by its name: see
    /// [`crate::strategy::strategy_by_name`]. Returns its whole name.
    ///
    /// # Errors
    /// [`StrategyError`] where there is none, its parameters are wrong, the prefix is too long, or the table is full.
    pub fn set_strategy(&mut self, prefix: &Name, strategy: &Name) -> Result<Name, StrategyError> {
        let instance = Instance::new(strategy, &self.streams)?;
        let at = prefix.as_name();
        if at.component_count() > limits::PREFIX_COMPONENTS || at.as_bytes().len() > limits::PREFIX_BYTES {
            return Err(StrategyError::PrefixTooLong);
        }
        if self.strategies.len() >= limits::STRATEGY_CHOICES && !self.strategies.contains(&self.hasher, at) {
            return Err(StrategyError::Full);
        }
        let name = instance.instance().clone();
        self.strategies.insert(&self.hasher, prefix.as_name(), instance);
        self.count_measuring();
        Ok(name)
    }

    /// Forgets the strategy of exactly this prefix: what is under it is forwarded as what is above it. The root keeps one.
    pub fn unset_strategy(&mut self, prefix: &Name) {
        if !prefix.as_name().is_empty() {
            self.strategies.remove(&self.hasher, prefix.as_name());
            self.count_measuring();
        }
    }

    /// What the strategy of exactly this prefix reports of itself, such as the depth of a token bucket.
    pub fn strategy_gauges(&self, now: Time, prefix: &Name) -> Vec<StrategyGauge> {
        let instance = self.strategies.iter().find(|(name, _)| name == prefix);
        instance.map_or_else(Vec::new, |(_, instance)| instance.strategy.gauges(now))
    }

    fn count_measuring(&mut self) {
        self.measuring = self.strategies.iter().filter(|(_, instance)| instance.strategy.measures()).count();
    }

    /// Says who may command, in place of what was said before. A forwarder is made with one rule: every local application may do everything.
    pub fn set_rules(&mut self, rules: Vec<Rule>) {
        self.management.authority = Authority::new(rules);
    }

    /// Tells where the host listens, as FaceUris.
    pub fn set_channels(&mut self, uris: Vec<String>) {
        self.management.channels = uris;
    }

    /// Milliseconds since 1970.
    pub(crate) fn unix_millis(&self, now: Time) -> u64 {
        (self.started + now.since(Time::ZERO)).as_millis() as u64
    }

    // ---- Long work and figures: for the host ----

    /// Long work of the Content Store's policy, to be run on another thread and handed back to [`Forwarder::complete`].
    pub fn job(&mut self) -> Option<Job> {
        self.content_store.engine_mut().job()
    }

    /// Puts the Content Store under another policy, with this capacity or the one that it has. What is stored stays, as far as there is room,
    /// and the policy has its popularity to learn. Every packet is entered anew, in one go, while others wait. A [`Forwarder::job`] of the
    /// policy before may still come back: it is taken where it fits.
    ///
    /// # Errors
    /// [`SpecError`] where the policy's arguments contradict each other, or it needs to know the future.
    pub fn set_policy(&mut self, now: Time, policy: &Spec, capacity: Option<ByteSize>) -> Result<(), SpecError> {
        let capacity = capacity.unwrap_or(self.content_store.engine().capacity());
        let engine = Engine::new(policy, capacity, &self.streams)?;
        self.content_store.set_engine(now, engine);
        Ok(())
    }

    /// The Content Store's policy.
    pub fn policy(&self) -> &Spec {
        self.content_store.engine().spec()
    }

    /// Hands back the result of a [`Forwarder::job`].
    pub fn complete(&mut self, done: JobDone) {
        self.content_store.engine_mut().complete(done);
    }

    /// What the Content Store's policy reports of itself, such as a tuned parameter, with the stage's name.
    pub fn gauges(&self) -> Vec<(&'static str, Gauge)> {
        self.content_store.engine().gauges()
    }

    /// Counts a packet that the host dropped.
    pub fn count_drop(&mut self, face: FaceId, reason: DropReason) {
        self.drops.count(reason);
        if let Some(face) = self.faces.get_mut(face) {
            face.counters.dropped += 1;
        }
    }

    /// What has been counted and is held now.
    pub fn stats(&self) -> Stats {
        let engine = self.content_store.engine();
        let mut packets = self.faces.gone;
        self.faces.iter().for_each(|(_, face)| packets.add(&face.counters));
        Stats {
            packets,
            drops: self.drops.clone(),
            content_store: self.content_store.counters,
            content_store_entries: engine.len(),
            content_store_bytes: engine.used().bytes(),
            content_store_capacity_bytes: engine.capacity().bytes(),
            pit_entries: self.pit.len(),
            fib_entries: self.fib.len(),
            rib_routes: self.rib.routes(),
            faces: self.faces.len(),
            satisfied: self.satisfied,
            unsatisfied: self.unsatisfied,
        }
    }

    /// How long each Data of the Content Store has been there; in no order.
    pub fn ages_of_stored(&self, now: Time) -> impl Iterator<Item = Duration> {
        self.content_store.ages(now)
    }

    /// Every face, by number.
    pub fn face_stats(&self) -> Vec<FaceStats> {
        let stats = |(id, face): (FaceId, &crate::face::Face)| FaceStats {
            id,
            config: face.config.clone(),
            counters: face.counters,
        };
        let mut faces: Vec<FaceStats> = self.faces.iter().map(stats).collect();
        faces.sort_by_key(|face| face.id);
        faces
    }

    /// The header of a Data to `face`, which came from `incoming`.
    fn header_for(&self, face: FaceId, token: Option<PitToken>, mark: Option<u64>, incoming: FaceId) -> LpHeader {
        let incoming_face = self.faces.local_fields(face).then_some(incoming.0);
        LpHeader { incoming_face, ..header_to(token, mark) }
    }

    pub(crate) fn count_sends(&mut self, frame: &[u8], out: &Outbox) {
        for send in &out.sends {
            let Some(face) = self.faces.get_mut(send.face) else { continue };
            let counters = &mut face.counters;
            let packet = match &send.body {
                Body::Input => frame.get(out.input()).unwrap_or_default(),
                Body::Stored(bytes) => bytes,
            };
            counters.out_bytes += packet.len() as u64;
            match (send.header.nack, packet.first().map(|first| u32::from(*first))) {
                (Some(_), _) => counters.out_nacks += 1,
                (None, Some(types::INTEREST)) => counters.out_interests += 1,
                _ => counters.out_data += 1,
            }
        }
    }
}

/// Refuses what is too large, and takes one from an Interest's HopLimit (packet specification 0.3, "HopLimit"). A Nack's Interest goes back
/// the way that it came, and keeps its own.
fn check_and_age(packet: &mut [u8], nack: Option<NackReason>, largest: usize) -> Result<(), Dropped> {
    check_size(packet, largest)?;
    if nack.is_some() || packet.first().map(|first| u32::from(*first)) != Some(types::INTEREST) {
        return Ok(());
    }
    let interest = Interest::decode(packet)?;
    let Some((limit, at)) = interest.hop_limit.zip(interest.hop_limit_offset) else { return Ok(()) };
    packet[at] = limit.checked_sub(1).ok_or(Dropped::new(DropReason::HopLimit))?;
    Ok(())
}

fn check_size(packet: &[u8], largest: usize) -> Result<(), Dropped> {
    match packet.len() > largest {
        true => Err(Dropped { reason: DropReason::Oversized, detail: Detail::Bytes { found: packet.len(), largest } }),
        false => Ok(()),
    }
}

/// The next hops of the Interest's name, or of its first delegation that has a route (packet specification 0.3, "ForwardingHint"); and the
/// hash of their prefix.
fn next_hops<'a>(
    hasher: &NameHasher,
    fib: &'a PrefixTable<Vec<NextHop>>,
    interest: &Interest<'_>,
    prefixes: &mut Vec<Prefix>,
) -> (u64, &'a [NextHop]) {
    let direct = fib.longest_match(interest.name, prefixes);
    let found = match interest.forwarding_hint {
        None => direct,
        Some(_) => interest
            .forwarding_hints()
            .find_map(|delegation| {
                hasher.prefixes(delegation, fib.longest(), prefixes);
                fib.longest_match(delegation, prefixes)
            })
            .or(direct),
    };
    found.map_or((0, &[]), |(hash, hops)| (hash, hops.as_slice()))
}

/// The Interest with another nonce: each consumer gets back the one that it sent.
fn replace_nonce(interest: &[u8], nonce: u32) -> Vec<u8> {
    let mut wire = interest.to_vec();
    let element = Tlv::only(interest, types::INTEREST).ok();
    let found = element.and_then(|element| element.children().flatten().find(|child| child.typ == types::NONCE));
    if let Some(found) = found {
        let at = found.value_offset();
        wire[at..at + 4].copy_from_slice(&nonce.to_be_bytes());
    }
    wire
}

fn is_waiting(now: Time, entry: &PitEntry) -> bool {
    entry.in_records.iter().any(|record| record.expires > now)
}

fn starts_with(name: NameRef<'_>, first: &[u8]) -> bool {
    name.components().next().is_some_and(|component| component.value == first)
}

pub(crate) fn header_to(pit_token: Option<PitToken>, congestion_mark: Option<u64>) -> LpHeader {
    LpHeader { pit_token, congestion_mark, ..LpHeader::default() }
}
