//! The forwarder: the NDN data plane, or one shard of it, as a state machine.
//!
//! The host passes in what it received, with the time, and afterwards sends what is in the
//! [`Outbox`]. This file has the parts, and the host's queries and settings. The path of a packet
//! is in `pipeline/`, which follows the NFD developer guide (chapter 4); the tables that it reads
//! and changes are in `tables/`.

mod replica;

pub use replica::Change;

use crate::control::Management;
use crate::control::authority::{Authority, Rule};
use crate::control::events::FaceEvent;
use crate::drop_reason::{DropCounters, DropReason};
use crate::face::{FaceConfig, FaceId, Faces};
use crate::limits;
use crate::outbox::Outbox;
use crate::shard::Shard;
use crate::stats::{FaceStats, Stats};
use crate::strategy::{Instance, StrategyEntry, StrategyError, StrategyGauge, StrategyRegistry};
use crate::tables::content_store::ContentStore;
use crate::tables::dead_nonces::DeadNonces;
use crate::tables::fib::Fib;
use crate::tables::name_hash::{NameHasher, Prefix};
use crate::tables::paths::Paths;
use crate::tables::pit::Pit;
use crate::tables::prefix_figures::{FiguresByPrefix, PrefixFigures};
use crate::tables::prefix_table::PrefixTable;
use crate::tables::rib::{FibUpdate, NextHop, ORIGIN_FIB, Rib, Route, RouteError};
use crate::tier::Tier;
use crate::verification::{Verification, VerifyRule};
use larder_packet::limits::REASSEMBLY_TIMEOUT;
use larder_packet::{Interest, Name, NameRef};
use larder_policy::observe::{Observation, Totals};
use larder_policy::{Engine, Gauge, Job, JobDone, Spec, SpecError};
use larder_units::{ByteSize, Stream, Streams, Time};
use std::time::Duration;

/// The configuration of a forwarder.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The key of the name hashes, from the host's entropy. It must stay secret.
    pub hash_key: [u64; 2],
    /// The random streams of this run, for nonces of Interests that come without one.
    pub streams: Streams,
    /// Its shard. It has its part of the other figures.
    pub shard: Shard,
    /// The largest number of pending Interests.
    pub pit_entries: usize,
    /// Bytes of the largest network-layer packet. Management's own stay below
    /// [`limits::MAX_PACKET_BYTES`].
    pub max_packet_bytes: usize,
    /// Bytes of incomplete packets in reassembly, over all faces.
    pub reassembly_bytes: usize,
    /// True if the Content Store's capacity is a number of packets, as in NFD and ndnSIM, and not
    /// of bytes. The creator of the engine decides. The policy then sees sizes of 1.
    pub counts_packets: bool,
    /// The calendar time at [`Time::ZERO`]: time since 1970. Management reports times of day and
    /// names versions with it.
    pub started: Duration,
}

impl Config {
    /// Returns the defaults with this key and these random streams.
    pub fn new(hash_key: [u64; 2], streams: Streams) -> Self {
        Config {
            hash_key,
            streams,
            shard: Shard::ONLY,
            pit_entries: limits::PIT_ENTRIES,
            max_packet_bytes: limits::MAX_PACKET_BYTES,
            reassembly_bytes: limits::REASSEMBLY_BYTES,
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
    pub(crate) fib: Fib,
    pub(crate) rib: Rib,
    pub(crate) strategies: PrefixTable<Instance>,
    strategy_registry: StrategyRegistry,
    network_regions: Vec<Name>,
    /// The number of strategies that measure. If there is none, no lookup is made for them.
    pub(crate) measuring: usize,
    /// The number of strategies that hold Interests back. If there is none, no strategy is asked
    /// for them.
    pub(crate) holding: usize,
    pub(crate) streams: Streams,
    pub(crate) max_packet_bytes: usize,
    pub(crate) shard: Shard,
    /// Changes for the other shards.
    pub(crate) changes: Vec<Change>,
    /// The Content Store's capacity over all shards.
    pub(crate) capacity: ByteSize,
    pub(crate) management: Management,
    pub(crate) started: Duration,
    /// The time of the last call.
    pub(crate) clock: Time,
    pub(crate) pit: Pit,
    pub(crate) content_store: ContentStore,
    /// The tier behind the Content Store, if there is one.
    pub(crate) tier: Option<Box<Tier>>,
    /// The Data that has to verify before it is cached, if there is any.
    pub(crate) verification: Option<Verification>,
    /// Present if hits and misses are counted by prefix.
    pub(crate) figures_by_prefix: Option<FiguresByPrefix>,
    pub(crate) dead_nonces: DeadNonces,
    pub(crate) drops: DropCounters,
    pub(crate) satisfied: u64,
    pub(crate) unsatisfied: u64,
    pub(crate) paths: Option<Box<Paths>>,
    /// Bytes of incomplete packets, and the time of the next check for packets that will not become
    /// complete.
    pub(crate) partial_bytes: usize,
    pub(crate) most_partial_bytes: usize,
    pub(crate) next_sweep: Option<Time>,
    pub(crate) scratch: Scratch,
}

/// Buffers that are reused from packet to packet.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) prefixes: Vec<Prefix>,
    /// The prefixes of the names of a batch.
    pub(crate) ahead: Vec<Prefix>,
    /// The prefixes of forwarding hints.
    pub(crate) hinted: Vec<Prefix>,
    pub(crate) found: Vec<u32>,
    pub(crate) send_to: Vec<(FaceId, Option<u32>)>,
}

impl Forwarder {
    /// Creates a forwarder without faces and routes. The engine is the Content Store's, with this
    /// shard's part of the capacity.
    pub fn new(config: Config, engine: Engine) -> Self {
        let hasher = NameHasher::new(config.hash_key);
        let needs_path = engine.spec().needs_path();
        let mut strategies = PrefixTable::new();
        strategies.insert(
            &hasher,
            Name::root().as_name(),
            Instance::default_of_root(&config.streams),
        );
        let mut forwarder = Forwarder {
            nonces: config.streams.stream("forwarder nonces"),
            faces: Faces::new(),
            fib: Fib::new(),
            rib: Rib::default(),
            strategies,
            network_regions: Vec::new(),
            strategy_registry: StrategyRegistry::installed().clone(),
            measuring: 0,
            holding: 0,
            streams: config.streams,
            max_packet_bytes: config.max_packet_bytes,
            shard: config.shard,
            changes: Vec::new(),
            capacity: engine.capacity(),
            management: Management::new(),
            started: config.started,
            clock: Time::ZERO,
            pit: Pit::new(
                config.shard.part(config.pit_entries as u64) as usize,
                config.shard.part(limits::PIT_BYTES as u64) as usize,
            ),
            content_store: ContentStore::new(hasher.clone(), engine, config.counts_packets),
            tier: None,
            verification: None,
            figures_by_prefix: None,
            dead_nonces: DeadNonces::new(),
            drops: DropCounters::default(),
            satisfied: 0,
            unsatisfied: 0,
            paths: None,
            partial_bytes: 0,
            most_partial_bytes: config.reassembly_bytes,
            next_sweep: None,
            scratch: Scratch::default(),
            hasher,
        };
        forwarder.tell_path_if(needs_path);
        forwarder
    }

    // ---- Packets and time ----

    /// Ends pending Interests and routes whose time is over, and releases Interests that a strategy
    /// held back.
    pub fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        out.clear();
        self.clock = now;
        self.give_up_reads(now, out);
        let mut due = std::mem::take(&mut self.scratch.found);
        due.clear();
        self.pit.expire(now, &mut due);
        for slot in due.drain(..) {
            let entry = self.pit.entry_mut(slot);
            self.unsatisfied += entry.in_records.len() as u64;
            if entry.waits_for_tier() {
                entry
                    .out_records
                    .retain(|record| record.face != FaceId::CONTENT_STORE);
            }
            self.measure(slot, |strategy, entry| strategy.on_expiry(now, entry));
            self.on_interest_finalize(now, slot);
        }
        self.scratch.found = due;
        self.release(now, out);
        let updates = self.rib.expire(now);
        self.update_fib(updates);
        if self.next_sweep.is_some_and(|at| at <= now) {
            let (left, given_up) = self.faces.sweep_reassemblers(now);
            self.partial_bytes = left;
            for _ in 0..given_up {
                self.drops.count(DropReason::Reassembly);
            }
            self.next_sweep = (left > 0).then_some(now + REASSEMBLY_TIMEOUT);
        }
        if self.management.events.is_due() {
            self.publish_events(now, out);
        }
        self.readvertise(now, out);
        self.count_made_sends(out);
    }

    /// Returns the time at which [`Forwarder::on_timeout`] has to be called next.
    pub fn next_timeout(&self) -> Option<Time> {
        let events = self.management.events.is_due().then_some(Time::ZERO);
        let released = match self.holding {
            0 => None,
            _ => self
                .strategies
                .values()
                .filter_map(|instance| instance.strategy.next_release())
                .min(),
        };
        let reads = self.tier.as_ref().and_then(|tier| tier.next_timeout());
        let readvertised = self.management.readvertise.next_timeout();
        let tables = [self.pit.next_timeout(), self.rib.next_timeout()];
        let others = [reads, self.next_sweep, events, released, readvertised];
        tables.into_iter().chain(others).flatten().min()
    }

    // ---- Faces, routes, strategies: for the host ----

    /// Adds a face.
    pub fn add_face(&mut self, config: FaceConfig) -> FaceId {
        let id = self.faces.add(config);
        self.tell_of_face(FaceEvent::Created, id);
        self.tell_config(id);
        id
    }

    /// Returns the face's configuration, which management may have changed.
    pub fn face(&self, id: FaceId) -> Option<&FaceConfig> {
        self.faces.get(id).map(|face| &face.config)
    }

    /// Returns true if a route leads to the face.
    pub fn has_routes(&self, id: FaceId) -> bool {
        self.rib.has_routes_to(id)
    }

    /// Returns true if the face has sent Data or a Nack for an Interest that was sent to it. An
    /// unsolicited packet counts as dropped, so more such packets than drops mean that one was
    /// solicited.
    pub fn has_answered(&self, id: FaceId) -> bool {
        let counters = self.faces.get(id).map(|face| &face.counters);
        counters.is_some_and(|counters| counters.in_data + counters.in_nacks > counters.dropped)
    }

    /// Records a change of the largest frame of the face's link.
    pub fn set_mtu(&mut self, id: FaceId, mtu: usize) {
        if let Some(face) = self.faces.get_mut(id) {
            face.config.mtu = Some(mtu);
        }
    }

    /// Sends the other shards a new or changed face.
    pub(crate) fn tell_config(&mut self, id: FaceId) {
        if let Some(config) = self.face(id).filter(|_| self.shard.manages()).cloned() {
            self.tell(|| Change::Face(id, Box::new(config)));
        }
    }

    /// Records that the face's link has reliability, or no longer has.
    pub fn set_link_reliability(&mut self, id: FaceId, reliable: bool) {
        if let Some(face) = self.faces.get_mut(id) {
            face.config.link_reliability = reliable;
        }
    }

    fn tell_of_face(&mut self, event: FaceEvent, id: FaceId) {
        if let Some(face) = self.faces.get(id) {
            self.management
                .events
                .push(self.clock, event, id, &face.config);
        }
    }

    /// Removes a face and its routes. Interests that wait for its Data wait for another face, or
    /// until they expire.
    pub fn remove_face(&mut self, face: FaceId) {
        self.tell_of_face(FaceEvent::Destroyed, face);
        if let Some(gone) = self.faces.remove(face) {
            self.partial_bytes -= gone
                .reassembler
                .map_or(0, |reassembler| reassembler.held_bytes());
            let updates = self.rib.remove_face(face);
            self.update_fib(updates);
            for instance in self.strategies.values_mut() {
                instance.strategy.forget(face);
            }
            self.tell(|| Change::FaceGone(face));
        }
    }

    /// Adds a route, or replaces the one of the same prefix, face and origin.
    ///
    /// # Errors
    /// [`RouteError`] if the face does not exist, the prefix is too long, or the table is full.
    pub fn add_route(&mut self, prefix: &Name, route: Route) -> Result<(), RouteError> {
        if self.faces.get(route.face).is_none() {
            return Err(RouteError::NoFace(route.face));
        }
        let name = prefix.as_name();
        if name.component_count() > limits::PREFIX_COMPONENTS
            || name.as_bytes().len() > limits::PREFIX_BYTES
        {
            return Err(RouteError::TooLong);
        }
        let routes = self.rib.of(prefix);
        let replaces = routes
            .iter()
            .any(|old| old.face == route.face && old.origin == route.origin);
        if !replaces
            && (self.rib.routes() >= limits::ROUTES || routes.len() >= limits::ROUTES_PER_PREFIX)
        {
            return Err(RouteError::Full);
        }
        let updates = self.rib.add(prefix, route);
        self.update_fib(updates);
        Ok(())
    }

    /// Removes a route, if it exists.
    pub fn remove_route(&mut self, prefix: &Name, face: FaceId, origin: u64) {
        let updates = self.rib.remove(prefix, face, origin);
        self.update_fib(updates);
    }

    fn update_fib(&mut self, updates: Vec<FibUpdate>) {
        for FibUpdate { prefix, next_hops } in &updates {
            self.fib.set(&self.hasher, prefix.as_name(), next_hops);
        }
        self.note_readvertised(&updates);
        for FibUpdate { prefix, next_hops } in updates {
            self.tell(|| Change::NextHops(prefix, next_hops));
        }
    }

    /// Adds a strategy to those that [`Forwarder::set_strategy`] and the management command
    /// `strategy-choice/set` can choose. With several shards, the host registers it with each of
    /// them, before a prefix uses it.
    ///
    /// # Errors
    /// [`StrategyError::NotRegistered`]: see [`StrategyRegistry::register`].
    pub fn register_strategy(&mut self, entry: StrategyEntry) -> Result<(), StrategyError> {
        self.strategy_registry.register(entry)
    }

    /// Returns the strategies that can be chosen.
    pub fn strategy_registry(&self) -> &StrategyRegistry {
        &self.strategy_registry
    }

    /// Sets the strategy of a prefix, by its name: see [`crate::strategy::strategy_by_name`].
    /// Returns its complete name.
    ///
    /// # Errors
    /// [`StrategyError`] if it does not exist, its parameters are wrong, the prefix is too long, or
    /// the table is full.
    pub fn set_strategy(&mut self, prefix: &Name, strategy: &Name) -> Result<Name, StrategyError> {
        let instance = Instance::new(&self.strategy_registry, strategy, &self.streams)?;
        let at = prefix.as_name();
        if at.component_count() > limits::PREFIX_COMPONENTS
            || at.as_bytes().len() > limits::PREFIX_BYTES
        {
            return Err(StrategyError::PrefixTooLong);
        }
        if self.strategies.len() >= limits::STRATEGY_CHOICES
            && self.strategies.get(&self.hasher, at).is_none()
        {
            return Err(StrategyError::Full);
        }
        let name = instance.instance().clone();
        let before = self
            .strategies
            .insert(&self.hasher, prefix.as_name(), instance);
        self.unhold(before);
        self.count_listening();
        self.tell(|| Change::Strategy(prefix.clone(), Some(name.clone())));
        Ok(name)
    }

    /// Removes the strategy of exactly this prefix. Names under it then use the strategy above it;
    /// the root uses the default.
    pub fn unset_strategy(&mut self, prefix: &Name) {
        let before = if prefix.as_name().is_empty() {
            let instance = Instance::default_of_root(&self.streams);
            self.strategies
                .insert(&self.hasher, prefix.as_name(), instance)
        } else {
            self.strategies.remove(&self.hasher, prefix.as_name())
        };
        self.unhold(before);
        self.count_listening();
        self.tell(|| Change::Strategy(prefix.clone(), None));
    }

    /// Returns the strategy that was set at exactly this prefix.
    pub fn strategy_of(&self, prefix: &Name) -> Option<&Name> {
        self.strategies
            .get(&self.hasher, prefix.as_name())
            .map(Instance::instance)
    }

    /// Returns the gauges of the strategy of exactly this prefix, such as the depth of a token
    /// bucket.
    pub fn strategy_gauges(&self, now: Time, prefix: &Name) -> Vec<StrategyGauge> {
        let instance = self.strategies.get(&self.hasher, prefix.as_name());
        instance.map_or_else(Vec::new, |instance| instance.strategy.gauges(now))
    }

    /// Checks that the parts of each table agree: PIT and quota, Content Store, index and engine,
    /// FIB and RIB. Takes time in proportion to the tables, so it is for tests and fuzz targets.
    ///
    /// # Panics
    /// If they do not agree, with a text that names the broken invariant.
    pub fn check_invariants(&self) {
        self.pit.check_invariants();
        self.content_store.check_invariants();
        self.fib.check_invariants(&self.hasher);
        self.strategies.check_invariants(&self.hasher);
        // Other shards have next hops without routes.
        if self.shard.is_only() {
            self.rib
                .check_invariants(self.fib.len(), |prefix| self.fib.get(&self.hasher, prefix));
        }
    }

    fn count_listening(&mut self) {
        self.measuring = self
            .strategies
            .values()
            .filter(|instance| instance.strategy.measures())
            .count();
        self.holding = self
            .strategies
            .values()
            .filter(|instance| instance.strategy.holds())
            .count();
    }

    /// Replaces the rules of authorization. A new forwarder has one rule: every local application
    /// may use every command.
    pub fn set_rules(&mut self, rules: Vec<Rule>) {
        self.management.authority = Authority::new(rules);
    }

    /// Replaces the rules of the Data that has to verify before it is cached. Stored Data stays.
    pub fn set_verification(&mut self, rules: Vec<VerifyRule>) {
        let rules = Verification::in_order(rules);
        self.verification = Verification::of(rules.clone());
        self.tell(|| Change::Verification(rules));
    }

    /// Sets the names of the regions that this node is in. An Interest whose forwarding hint leads
    /// to one of them has arrived: it goes on by its name, without the hint.
    pub fn set_network_regions(&mut self, regions: Vec<Name>) {
        self.network_regions.clone_from(&regions);
        self.tell(|| Change::NetworkRegions(regions));
    }

    /// Returns true if the hint of this Interest leads to a region of this node: one of its names
    /// is a prefix of the region's, as in NFD.
    pub(crate) fn is_in_producer_region(&self, interest: &Interest<'_>) -> bool {
        if interest.forwarding_hint.is_none() || self.network_regions.is_empty() {
            return false;
        }
        let mut delegations = interest.forwarding_hints();
        delegations.any(|delegation| {
            self.network_regions
                .iter()
                .any(|region| region.as_name().starts_with(delegation))
        })
    }

    /// Counts the Content Store's hits and misses by the first `components` components of the
    /// names; 0 ends it.
    pub fn set_figures_by_prefix(&mut self, components: usize) {
        self.figures_by_prefix = (components > 0).then(|| FiguresByPrefix::new(components));
        self.tell(|| Change::CountBy(components));
    }

    /// Returns hits and misses of the most requested prefixes; empty if they are not counted.
    pub fn figures_by_prefix(&self, most: usize) -> Vec<PrefixFigures> {
        let top = self
            .figures_by_prefix
            .as_ref()
            .map_or_else(Vec::new, FiguresByPrefix::top);
        top.into_iter().take(most).cloned().collect()
    }

    /// Sets the bytes of incomplete packets in reassembly, of all faces together.
    pub fn set_reassembly_bytes(&mut self, most: usize) {
        self.most_partial_bytes = most;
    }

    /// Sets the FaceUris at which the host listens.
    pub fn set_channels(&mut self, uris: Vec<String>) {
        self.management.channels = uris;
    }

    /// Sets the host's configuration file, which `status/general` reports.
    pub fn set_configuration(&mut self, path: String) {
        self.management.configuration = Some(path);
    }

    /// Returns milliseconds since 1970.
    pub(crate) fn unix_millis(&self, now: Time) -> u64 {
        (self.started + now.since(Time::ZERO)).as_millis() as u64
    }

    // ---- Long work and figures: for the host ----

    /// Returns long work of the Content Store's policy. The host runs it on another thread and
    /// passes the result to [`Forwarder::complete`].
    pub fn job(&mut self) -> Option<Job> {
        self.content_store.engine_mut().job()
    }

    /// Puts the Content Store under another policy, with this capacity over all shards or the
    /// present one. Stored packets stay as far as there is room; the policy learns their popularity
    /// anew. Every packet is inserted again in one step, while others wait. A [`Forwarder::job`] of
    /// the former policy may still come back: it is applied if it fits.
    ///
    /// # Errors
    /// [`SpecError`] if the policy's arguments contradict each other, or it needs to know the
    /// future.
    pub fn set_policy(
        &mut self,
        now: Time,
        policy: &Spec,
        capacity: Option<ByteSize>,
    ) -> Result<(), SpecError> {
        let capacity = capacity.unwrap_or(self.capacity);
        let part = self.shard.part_of(capacity);
        let engine = Engine::new(policy, part, &self.streams)?;
        self.content_store.set_engine(now, engine);
        self.tell_path_if(policy.needs_path());
        self.capacity_is(capacity);
        self.tell(|| Change::Policy(policy.clone(), capacity));
        Ok(())
    }

    /// Gives the Content Store another capacity, over all shards, under the same policy. Packets
    /// without room leave at once.
    pub fn set_capacity(&mut self, now: Time, capacity: ByteSize) {
        self.content_store
            .set_capacity(now, self.shard.part_of(capacity));
        self.capacity_is(capacity);
        self.tell(|| Change::Capacity(capacity));
    }

    fn capacity_is(&mut self, capacity: ByteSize) {
        self.capacity = capacity;
        if let Some(paths) = &mut self.paths {
            paths.set_capacity(capacity);
        }
    }

    /// Returns the Content Store's policy.
    pub fn policy(&self) -> &Spec {
        self.content_store.engine().spec()
    }

    /// Takes the result of a [`Forwarder::job`].
    pub fn complete(&mut self, done: JobDone) {
        self.content_store.engine_mut().complete(done);
    }

    /// Returns the gauges of the Content Store's policy, such as a tuned parameter, with the
    /// stage's name.
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

    /// Returns the counters and the sizes of the tables.
    pub fn stats(&self) -> Stats {
        let engine = self.content_store.engine();
        let mut packets = self.faces.gone;
        for (_, face) in self.faces.iter() {
            packets.add(&face.counters);
        }
        let (prefixes_to_readvertise, readvertised_prefixes) = self.management.readvertise.counts();
        Stats {
            packets,
            drops: self.drops.clone(),
            content_store: self.content_store.counters,
            tier: self
                .tier
                .as_ref()
                .map(|tier| tier.counters)
                .unwrap_or_default(),
            content_store_entries: engine.len(),
            content_store_bytes: engine.used().bytes(),
            content_store_capacity_bytes: engine.capacity().bytes(),
            pit_entries: self.pit.len(),
            fib_entries: self.fib.len(),
            rib_routes: self.rib.routes(),
            prefixes_to_readvertise,
            readvertised_prefixes,
            faces: self.faces.len(),
            satisfied: self.satisfied,
            unsatisfied: self.unsatisfied,
        }
    }

    /// Appends the sampled requests to the Content Store since the last call, and returns the
    /// counts of all: see [`Observer::take`](larder_policy::observe::Observer::take).
    pub fn take_observations(&mut self, last: Option<u64>, taken: &mut Vec<Observation>) -> Totals {
        self.content_store.observer.take(last, taken)
    }

    /// Returns the policy engine of the Content Store.
    pub fn engine(&self) -> &Engine {
        self.content_store.engine()
    }

    /// Returns the numbers of components of pending Interests with CanBePrefix: bit n - 1 for n of
    /// them. See [`crate::Dispatch::homes`].
    pub fn pending_prefixes(&self) -> u64 {
        self.pit.prefix_lengths().bits()
    }

    /// Returns the number of waiting consumers, over all pending Interests: for tests.
    #[doc(hidden)]
    pub fn waiting(&self) -> u64 {
        self.pit.waiting()
    }

    /// Returns the age of each Data in the Content Store, in no order.
    pub fn ages_of_stored(&self, now: Time) -> impl Iterator<Item = Duration> {
        self.content_store.ages(now)
    }

    /// Puts a next hop into the FIB without a route: for measurements with a table of published
    /// size, without the cost of registrations.
    #[doc(hidden)]
    pub fn add_next_hop(&mut self, prefix: NameRef<'_>, face: FaceId) {
        self.fib
            .set(&self.hasher, prefix, &[NextHop { face, cost: 0 }]);
    }

    /// Empties the Content Store and puts it under another policy: for measurements. FIB and PIT
    /// stay.
    #[doc(hidden)]
    pub fn replace_content_store(&mut self, engine: Engine) {
        self.content_store = ContentStore::new(self.hasher.clone(), engine, false);
    }

    /// Returns the first routes, in canonical order, without the next hops of `fib/add-nexthop`.
    pub fn first_routes(&self, most: usize) -> Vec<(Name, Route)> {
        let all = self
            .rib
            .iter()
            .flat_map(|(prefix, routes)| routes.iter().map(move |route| (prefix, route)));
        let routes = all.filter(|(_, route)| route.origin != ORIGIN_FIB);
        routes
            .take(most)
            .map(|(prefix, route)| (prefix.clone(), route.clone()))
            .collect()
    }

    /// Returns the next hops of exactly this prefix, in the order in which strategies see them:
    /// those of its own routes, and of inherited ones. Without a route of its own it has none.
    pub fn next_hops(&self, prefix: &Name) -> &[NextHop] {
        self.fib
            .get(&self.hasher, prefix.as_name())
            .unwrap_or_default()
    }

    /// Returns every face, by number.
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
}
