//! The forwarder: one shard of the NDN data plane as a state machine.
//!
//! The three pipelines follow the NFD developer guide (chapter 4): an incoming Interest, incoming Data, an incoming Nack. The host hands in
//! one received packet at a time with the time, and sends what stands in the [`Outbox`] afterwards.

use crate::content_store::{ContentStore, ContentStoreCounters};
use crate::dead_nonces::DeadNonces;
use crate::drop_reason::{DropCounters, DropReason};
use crate::face::{FaceConfig, FaceCounters, FaceId, Faces};
use crate::limits;
use crate::management::{self, Command};
use crate::name_hash::{NameHasher, Prefix};
use crate::outbox::{Body, Outbox, Send};
use crate::pit::{InRecord, Pit};
use crate::prefix_table::PrefixTable;
use crate::rib::{FibUpdate, NextHop, Rib, Route};
use crate::strategy::{self, Decision, Strategy};
use bytes::Bytes;
use larder_packet::tlv::Tlv;
use larder_packet::{
    ControlResponse, Data, DataBuilder, DecodeError, DigestSigner, Interest, LpHeader, LpPacket, NackReason, Name,
    NameRef, PitToken, Reassembled, types, with_nonce,
};
use larder_policy::{Engine, Gauge, Job, JobDone};
use larder_units::{Stream, Streams, Time};
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
    /// Whether remote applications may register prefixes under `/localhop/nfd`.
    pub localhop_registration: bool,
}

impl Config {
    /// The defaults, with this key and these random streams.
    pub fn new(hash_key: [u64; 2], streams: Streams) -> Self {
        Config { hash_key, streams, pit_entries: limits::PIT_ENTRIES, localhop_registration: false }
    }
}

/// What a forwarder has counted and holds, at one moment.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Stats {
    /// Over all faces, those that are gone included.
    pub packets: FaceCounters,
    pub drops: DropCounters,
    pub content_store: ContentStoreCounters,
    pub content_store_entries: usize,
    pub content_store_bytes: u64,
    pub content_store_capacity_bytes: u64,
    pub pit_entries: usize,
    pub fib_entries: usize,
    pub rib_routes: usize,
    pub faces: usize,
    /// Interests that Data, or that the Content Store, answered.
    pub satisfied: u64,
    /// Interests that nobody answered in time.
    pub unsatisfied: u64,
}

/// One face with what it has counted.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FaceStats {
    pub id: FaceId,
    pub config: FaceConfig,
    pub counters: FaceCounters,
}

/// One shard of the data plane. See the crate's documentation for an example.
pub struct Forwarder {
    hasher: NameHasher,
    nonces: Stream,
    localhop_registration: bool,
    faces: Faces,
    fib: PrefixTable<Vec<NextHop>>,
    rib: Rib,
    strategies: PrefixTable<&'static dyn Strategy>,
    pit: Pit,
    content_store: ContentStore,
    dead_nonces: DeadNonces,
    drops: DropCounters,
    satisfied: u64,
    unsatisfied: u64,
    scratch: Scratch,
}

/// Buffers that live from packet to packet.
#[derive(Default)]
struct Scratch {
    prefixes: Vec<Prefix>,
    found: Vec<u32>,
    send_to: Vec<FaceId>,
    asked: Vec<u64>,
}

/// The packet that is being handled: what `Body::Input` means for it.
#[derive(Clone)]
enum Source {
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

/// The link header of the packet that is being handled, as far as the pipelines need it.
#[derive(Clone, Copy)]
struct Link {
    face: FaceId,
    local: bool,
    point_to_point: bool,
    token: Option<PitToken>,
    mark: Option<u64>,
    no_cache: bool,
}

impl Forwarder {
    /// A forwarder without faces and routes; the engine is the Content Store's.
    pub fn new(config: Config, engine: Engine) -> Self {
        let hasher = NameHasher::new(config.hash_key);
        let mut strategies = PrefixTable::new();
        strategies.insert(&hasher, Name::root().as_name(), strategy::STRATEGIES[0].strategy);
        Forwarder {
            hasher,
            nonces: config.streams.stream("forwarder nonces"),
            localhop_registration: config.localhop_registration,
            faces: Faces::new(),
            fib: PrefixTable::new(),
            rib: Rib::default(),
            strategies,
            pit: Pit::new(config.pit_entries),
            content_store: ContentStore::new(engine),
            dead_nonces: DeadNonces::new(),
            drops: DropCounters::default(),
            satisfied: 0,
            unsatisfied: 0,
            scratch: Scratch::default(),
        }
    }

    // ---- Packets and time ----

    /// Handles one frame from a face: an NDNLPv2 packet, or a bare Interest or Data. Its bytes may be changed in place (HopLimit).
    ///
    /// `Err` tells the host why the packet was dropped, for its log; it has been counted, and the face is none the worse.
    pub fn on_packet(&mut self, now: Time, face: FaceId, frame: &mut [u8], out: &mut Outbox) -> Result<(), Dropped> {
        out.sends.clear();
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
        out.sends.clear();
        let mut due = std::mem::take(&mut self.scratch.found);
        due.clear();
        self.pit.expire(now, &mut due);
        for slot in due.drain(..) {
            self.unsatisfied += 1;
            self.finish(now, slot);
        }
        self.scratch.found = due;
        let updates = self.rib.expire(now);
        self.update_fib(updates);
    }

    /// When [`Forwarder::on_timeout`] must be called next.
    pub fn next_timeout(&self) -> Option<Time> {
        [self.pit.next_timeout(), self.rib.next_timeout()].into_iter().flatten().min()
    }

    fn receive(&mut self, now: Time, id: FaceId, frame: &mut [u8], out: &mut Outbox) -> Result<(), Dropped> {
        let face = self.faces.get_mut(id).ok_or(Dropped::new(DropReason::NoFace))?;
        face.counters.in_bytes += frame.len() as u64;
        let packet = LpPacket::decode(frame)?;
        let Some(fragment) = packet.fragment else { return Ok(()) };
        let link = Link {
            face: id,
            local: face.is_local(),
            point_to_point: face.config.point_to_point,
            token: packet.header.pit_token,
            mark: packet.header.congestion_mark,
            no_cache: packet.header.no_cache,
        };
        if packet.header.frag_count <= 1 {
            let nack = packet.header.nack;
            out.input = packet.fragment_range().unwrap_or_default();
            let packet = &mut frame[out.input.clone()];
            check_and_age(packet, nack)?;
            return self.on_network_packet(now, link, nack, packet, Source::Input, out);
        }
        let reassembler = face.reassembler.get_or_insert_default();
        match reassembler.accept(now, &packet.header, fragment) {
            Reassembled::Done(mut packet, header) => {
                let link =
                    Link { token: header.pit_token, mark: header.congestion_mark, no_cache: header.no_cache, ..link };
                check_and_age(&mut packet, header.nack)?;
                let packet = Bytes::from(packet);
                self.on_network_packet(now, link, header.nack, &packet, Source::Made(packet.clone()), out)
            }
            Reassembled::Partial | Reassembled::Whole(_) => Ok(()),
            Reassembled::Dropped(_) => Err(Dropped::new(DropReason::Reassembly)),
        }
    }

    /// Tells apart Interest, Data and Nack.
    fn on_network_packet(
        &mut self,
        now: Time,
        link: Link,
        nack: Option<NackReason>,
        packet: &[u8],
        source: Source,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        let kind = packet.first().map_or(0, |first| u32::from(*first));
        if let Some(face) = self.faces.get_mut(link.face) {
            let counters = &mut face.counters;
            match (kind, nack) {
                (types::INTEREST, None) => counters.in_interests += 1,
                (types::INTEREST, Some(_)) => counters.in_nacks += 1,
                (types::DATA, None) => counters.in_data += 1,
                _ => {}
            }
        }
        match (kind, nack) {
            (types::INTEREST, None) => self.on_interest(now, link, Interest::decode(packet)?, source, out),
            (types::INTEREST, Some(reason)) => self.on_nack(now, link, reason, Interest::decode(packet)?, source, out),
            (types::DATA, None) => self.on_data(now, link, Data::decode(packet)?, source, out),
            _ => Err(Dropped::new(DropReason::Malformed)),
        }
    }

    // ---- Interest ----

    fn on_interest(
        &mut self,
        now: Time,
        link: Link,
        interest: Interest<'_>,
        source: Source,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        let Some(nonce) = interest.nonce else {
            // Applications may leave the nonce to the forwarder (packet specification 0.3, "Nonce").
            let packet = Bytes::from(with_nonce(interest.wire, self.nonces.bits() as u32));
            return self.on_interest(now, link, Interest::decode(&packet)?, Source::Made(packet.clone()), out);
        };
        let name = interest.name;
        if !link.local && starts_with(name, b"localhost") {
            return Err(Dropped::new(DropReason::Scope));
        }
        if interest.check_parameters_digest().is_err() {
            return Err(Dropped::new(DropReason::ParametersDigest));
        }
        if management::is_management(name) && (link.local || self.localhop_registration) {
            return self.on_command(now, link, &interest, source, out);
        }
        if interest.can_be_prefix && name.component_count() > limits::CAN_BE_PREFIX_COMPONENTS {
            return Err(Dropped::new(DropReason::NameTooDeep));
        }
        let hash = self.hasher.hash(name.as_bytes());
        let pending = self.pit.find(hash, &interest);
        if self.is_duplicate(now, hash, nonce, link.face, pending) {
            self.nack(link, NackReason::Duplicate, source, out);
            return Err(Dropped::new(DropReason::DuplicateNonce));
        }
        if !pending.is_some_and(|slot| is_waiting(now, self.pit.entry(slot))) {
            if let Some(data) = self.content_store.look_up(now, &self.hasher, hash, &interest) {
                self.satisfied += 1;
                out.sends.push(Send { face: link.face, header: header_to(link.token, None), body: Body::Stored(data) });
                return Ok(());
            }
        } else {
            self.content_store.engine_mut().miss(hash, now);
        }
        let slot = match pending {
            Some(slot) => slot,
            None => self.pit.insert(hash, &interest).ok_or(Dropped::new(DropReason::PitFull))?,
        };
        let lifetime = interest.lifetime_or_default().min(limits::INTEREST_LIFETIME);
        self.add_consumer(now, slot, InRecord { face: link.face, nonce, expires: now + lifetime, token: link.token })?;
        self.decide(now, slot, link, &interest, nonce, lifetime, source, out, |strategy, decision| {
            strategy.on_interest(decision)
        });
        Ok(())
    }

    /// A nonce that another face's Interest carries, or that a dead Interest carried: the Interest came around.
    fn is_duplicate(&mut self, now: Time, hash: u64, nonce: u32, face: FaceId, pending: Option<u32>) -> bool {
        if self.dead_nonces.contains(now, hash, nonce) {
            return true;
        }
        let Some(slot) = pending else { return false };
        let entry = self.pit.entry(slot);
        entry.in_records.iter().any(|record| record.nonce == nonce && record.face != face)
            || entry.out_records.iter().any(|record| record.nonce == nonce && record.face == face)
    }

    fn add_consumer(&mut self, now: Time, slot: u32, record: InRecord) -> Result<(), Dropped> {
        let entry = self.pit.entry_mut(slot);
        let expires = record.expires;
        match entry.in_records.iter().position(|old| old.face == record.face) {
            Some(known) => entry.in_records[known] = record,
            None if entry.in_records.len() < limits::RECORDS_PER_ENTRY => entry.in_records.push(record),
            None => return Err(Dropped::new(DropReason::PitFull)),
        }
        let last = entry.in_records.iter().map(|record| record.expires).max().unwrap_or(now);
        self.pit.set_timer(slot, last.max(expires));
        Ok(())
    }

    /// Lets the strategy of the name decide, and carries out what it says.
    #[allow(clippy::too_many_arguments, reason = "one pipeline step with the packet's whole context")]
    fn decide(
        &mut self,
        now: Time,
        slot: u32,
        link: Link,
        interest: &Interest<'_>,
        nonce: u32,
        lifetime: Duration,
        source: Source,
        out: &mut Outbox,
        ask: impl FnOnce(&dyn Strategy, &mut Decision<'_>),
    ) {
        let Scratch { prefixes, send_to, .. } = &mut self.scratch;
        send_to.clear();
        let longest = self.fib.longest().max(self.strategies.longest());
        self.hasher.prefixes(interest.name, longest, prefixes);
        let strategy =
            *self.strategies.longest_match(interest.name, prefixes).unwrap_or(&strategy::STRATEGIES[0].strategy);
        let next_hops = next_hops(&self.hasher, &self.fib, interest, prefixes);
        let mut refused = None;
        let mut decision = Decision {
            now,
            from: link.face,
            entry: self.pit.entry_mut(slot),
            next_hops,
            faces: &self.faces,
            nonce,
            lifetime,
            // HopLimit 0 after the decrement: the Interest may reach applications here, and nobody else.
            local_only: interest.hop_limit == Some(0) || (!link.local && starts_with(interest.name, b"localhop")),
            send_to,
            refused: &mut refused,
        };
        ask(strategy, &mut decision);
        for face in send_to.drain(..) {
            out.sends.push(Send { face, header: header_to(None, link.mark), body: source.body() });
        }
        if let Some(reason) = refused {
            self.refuse(now, slot, reason, interest, source, out);
        }
    }

    /// Tells everyone who waits for the entry that nobody can be asked, and forgets it.
    fn refuse(
        &mut self,
        now: Time,
        slot: u32,
        reason: NackReason,
        interest: &Interest<'_>,
        source: Source,
        out: &mut Outbox,
    ) {
        if reason == NackReason::NoRoute && self.pit.entry(slot).out_records.is_empty() {
            self.drops.count(DropReason::NoRoute);
        }
        let consumers = std::mem::take(&mut self.pit.entry_mut(slot).in_records);
        for consumer in consumers.iter().filter(|consumer| consumer.expires > now) {
            let point_to_point = self.faces.get(consumer.face).is_some_and(|face| face.config.point_to_point);
            if !point_to_point {
                continue;
            }
            let body = match interest.nonce == Some(consumer.nonce) {
                true => source.body(),
                false => Body::Stored(replace_nonce(interest.wire, consumer.nonce).into()),
            };
            let header = LpHeader { nack: Some(reason), ..header_to(consumer.token, None) };
            out.sends.push(Send { face: consumer.face, header, body });
        }
        self.pit.entry_mut(slot).in_records = consumers;
        self.unsatisfied += 1;
        self.finish(now, slot);
    }

    fn nack(&mut self, link: Link, reason: NackReason, source: Source, out: &mut Outbox) {
        if link.point_to_point {
            let header = LpHeader { nack: Some(reason), ..header_to(link.token, None) };
            out.sends.push(Send { face: link.face, header, body: source.body() });
        }
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

    fn on_data(
        &mut self,
        now: Time,
        link: Link,
        data: Data<'_>,
        source: Source,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        if !link.local && starts_with(data.name, b"localhost") {
            return Err(Dropped::new(DropReason::Scope));
        }
        let hash = self.hasher.hash(data.name.as_bytes());
        let Scratch { prefixes, found, asked, .. } = &mut self.scratch;
        self.pit.matches(&self.hasher, hash, &data, prefixes, found);
        // Only who was asked may answer.
        found.retain(|slot| self.pit.entry(*slot).out_records.iter().any(|record| record.face == link.face));
        if found.is_empty() {
            return Err(Dropped::new(DropReason::Unsolicited));
        }
        asked.clear();
        asked.extend(found.iter().map(|slot| self.pit.entry(*slot).name_hash()));
        if !link.no_cache && !starts_with(data.name, b"localhost") {
            self.content_store.insert(now, hash, &data, asked.drain(..));
        }
        let found = std::mem::take(&mut self.scratch.found);
        for slot in &found {
            for consumer in &self.pit.entry(*slot).in_records {
                if consumer.expires > now && consumer.face != link.face {
                    self.satisfied += 1;
                    let header = header_to(consumer.token, link.mark);
                    out.sends.push(Send { face: consumer.face, header, body: source.body() });
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
        now: Time,
        link: Link,
        reason: NackReason,
        interest: Interest<'_>,
        source: Source,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        let unexpected = Dropped::new(DropReason::UnexpectedNack);
        let nonce = interest.nonce.filter(|_| link.point_to_point).ok_or(unexpected)?;
        let hash = self.hasher.hash(interest.name.as_bytes());
        let slot = self.pit.find_asked(hash, interest.name, link.face, nonce).ok_or(unexpected)?;
        let entry = self.pit.entry_mut(slot);
        for record in entry.out_records.iter_mut().filter(|record| record.face == link.face) {
            record.nacked = Some(reason);
        }
        let last = entry.in_records.iter().map(|record| record.expires).max().unwrap_or(now);
        let lifetime = last.since(now);
        let link = Link { token: None, ..link };
        self.decide(now, slot, link, &interest, nonce, lifetime, source, out, |strategy, decision| {
            strategy.on_nack(decision)
        });
        Ok(())
    }

    // ---- Management ----

    fn on_command(
        &mut self,
        now: Time,
        link: Link,
        interest: &Interest<'_>,
        source: Source,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        if !management::is_command(interest.name) {
            self.drops.count(DropReason::NoRoute);
            self.nack(link, NackReason::NoRoute, source, out);
            return Ok(());
        }
        let face = self.faces.get_mut(link.face).ok_or(Dropped::new(DropReason::NoFace))?;
        let hash = self.hasher.hash(interest.name.as_bytes());
        let response = match management::parse(now, link.face, link.local, interest, hash, &mut face.replay) {
            Ok(command) => self.carry_out(now, command),
            Err(refusal) => Err(refusal),
        };
        let response = response.unwrap_or_else(|(status_code, status_text)| ControlResponse {
            status_code,
            status_text,
            body: None,
        });
        let content = response.encode();
        let data = DataBuilder::new(interest.name).content(&content).build(&DigestSigner);
        let Ok(data) = data else { return Err(Dropped::new(DropReason::Malformed)) };
        out.sends.push(Send { face: link.face, header: header_to(link.token, None), body: Body::Stored(data.into()) });
        Ok(())
    }

    fn carry_out(&mut self, now: Time, command: Command) -> Result<ControlResponse, management::Refusal> {
        let response = management::done(now, &command);
        match command {
            Command::Register(prefix, route) => self.add_route(&prefix, route).map_err(|error| match error {
                RouteError::NoFace(_) => (410, error.to_string()),
                RouteError::TooLong | RouteError::Full => (414, error.to_string()),
            })?,
            Command::Unregister(prefix, face, origin) => self.remove_route(&prefix, face, origin),
        }
        Ok(response)
    }

    // ---- Faces, routes, strategies: for the host ----

    /// A new face.
    pub fn add_face(&mut self, config: FaceConfig) -> FaceId {
        self.faces.add(config)
    }

    /// The face is gone: so are its routes. What waits for its Data waits for another, or for its time.
    pub fn remove_face(&mut self, face: FaceId) {
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
        if prefix.as_name().component_count() > limits::PREFIX_COMPONENTS {
            return Err(RouteError::TooLong);
        }
        if self.rib.routes() >= limits::ROUTES || self.rib.of(prefix).len() >= limits::ROUTES_PER_PREFIX {
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

    /// Sets the strategy under a prefix of at most [`limits::PREFIX_COMPONENTS`] components; longer ones are refused.
    ///
    /// # Errors
    /// [`RouteError::TooLong`].
    pub fn set_strategy(&mut self, prefix: &Name, strategy: &'static dyn Strategy) -> Result<(), RouteError> {
        if prefix.as_name().component_count() > limits::PREFIX_COMPONENTS {
            return Err(RouteError::TooLong);
        }
        self.strategies.insert(&self.hasher, prefix.as_name(), strategy);
        Ok(())
    }

    // ---- Long work and figures: for the host ----

    /// Long work of the Content Store's policy, to be run on another thread and handed back to [`Forwarder::complete`].
    pub fn job(&mut self) -> Option<Job> {
        self.content_store.engine_mut().job()
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

    fn count_sends(&mut self, frame: &[u8], out: &Outbox) {
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
fn check_and_age(packet: &mut [u8], nack: Option<NackReason>) -> Result<(), Dropped> {
    if packet.len() > limits::MAX_PACKET_BYTES {
        return Err(Dropped { reason: DropReason::Oversized, detail: Detail::Bytes(packet.len()) });
    }
    if nack.is_some() || packet.first().map(|first| u32::from(*first)) != Some(types::INTEREST) {
        return Ok(());
    }
    let interest = Interest::decode(packet)?;
    let Some((limit, at)) = interest.hop_limit.zip(interest.hop_limit_offset) else { return Ok(()) };
    packet[at] = limit.checked_sub(1).ok_or(Dropped::new(DropReason::HopLimit))?;
    Ok(())
}

/// The next hops of the Interest's name, or of its first delegation that has a route (packet specification 0.3, "ForwardingHint").
fn next_hops<'a>(
    hasher: &NameHasher,
    fib: &'a PrefixTable<Vec<NextHop>>,
    interest: &Interest<'_>,
    prefixes: &mut Vec<Prefix>,
) -> &'a [NextHop] {
    let direct = fib.longest_match(interest.name, prefixes);
    if interest.forwarding_hint.is_none() {
        return direct.map_or(&[], Vec::as_slice);
    }
    let hinted = interest.forwarding_hints().find_map(|delegation| {
        hasher.prefixes(delegation, fib.longest(), prefixes);
        fib.longest_match(delegation, prefixes)
    });
    hinted.or(direct).map_or(&[], Vec::as_slice)
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

fn is_waiting(now: Time, entry: &crate::pit::PitEntry) -> bool {
    entry.in_records.iter().any(|record| record.expires > now)
}

fn starts_with(name: NameRef<'_>, first: &[u8]) -> bool {
    name.components().next().is_some_and(|component| component.value == first)
}

fn header_to(pit_token: Option<PitToken>, congestion_mark: Option<u64>) -> LpHeader {
    LpHeader { pit_token, congestion_mark, ..LpHeader::default() }
}

/// A packet that was dropped and counted, for the host's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Why.
    pub reason: DropReason,
    /// What more there is to say.
    pub detail: Detail,
}

/// The detail of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing more.
    None,
    /// What the decoder found, and where.
    Decode(DecodeError),
    /// The packet's size.
    Bytes(usize),
}

impl Dropped {
    const fn new(reason: DropReason) -> Self {
        Dropped { reason, detail: Detail::None }
    }
}

impl From<DecodeError> for Dropped {
    fn from(error: DecodeError) -> Self {
        Dropped { reason: DropReason::Malformed, detail: Detail::Decode(error) }
    }
}

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.detail {
            Detail::None => write!(f, "{}", self.reason),
            Detail::Decode(error) => write!(f, "{}: {error}", self.reason),
            Detail::Bytes(bytes) => {
                write!(f, "{}: {bytes} bytes, the limit is {}", self.reason, limits::MAX_PACKET_BYTES)
            }
        }
    }
}

/// A route that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// The next hop is not there.
    NoFace(FaceId),
    /// The prefix has too many components.
    TooLong,
    /// The table, or this prefix's part of it, is full.
    Full,
}

impl std::fmt::Display for RouteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RouteError::NoFace(face) => write!(f, "there is no face {face}"),
            RouteError::TooLong => write!(f, "a prefix has at most {} components", limits::PREFIX_COMPONENTS),
            RouteError::Full => f.write_str("the table of routes is full"),
        }
    }
}

impl std::error::Error for RouteError {}
