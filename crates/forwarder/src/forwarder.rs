//! The forwarder: the NDN data plane, or one shard of it, as a state machine.
//!
//! The host passes in what it received, with the time, and afterwards sends what is in the
//! [`Outbox`]. This file has the host's queries and settings. The path of a packet is in
//! `pipeline/`, which follows the NFD developer guide (chapter 4); the tables that it reads and
//! changes are fields of the [`DataPlane`]. Management works on the [`ControlPlane`].

use crate::config::Config;
use crate::control::authority::{Authority, Rule};
use crate::control::change::Change;
use crate::control::events::FaceEvent;
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::drop_reason::DropReason;
use crate::face::{FaceConfig, FaceId};
use crate::limits;
use crate::outbox::Outbox;
use crate::stats::{FaceStats, Stats};
use crate::strategy::{Instance, StrategyEntry, StrategyError, StrategyGauge, StrategyRegistry};
use crate::tables::content_store::ContentStore;
use crate::tables::prefix_figures::{FiguresByPrefix, PrefixFigures};
use crate::tables::rib::{FibUpdate, NextHop, ORIGIN_FIB, Route, RouteError};
use crate::verification::{Verification, VerifyRule};
use larder_packet::limits::REASSEMBLY_TIMEOUT;
use larder_packet::{Interest, Name, NameRef};
use larder_policy::observe::{Observation, Totals};
use larder_policy::{Engine, Gauge, Job, JobDone, Spec, SpecError};
use larder_units::{ByteSize, Time};
use std::time::Duration;

/// One shard of the data plane, with its control plane. See the crate's documentation for an
/// example.
pub struct Forwarder {
    pub(crate) data: DataPlane,
    pub(crate) control: ControlPlane,
}

impl Forwarder {
    /// Creates a forwarder without faces and routes. The engine is the Content Store's, with this
    /// shard's part of the capacity.
    pub fn new(config: Config, engine: Engine) -> Self {
        let needs_path = engine.spec().needs_path();
        let control = ControlPlane::new(&config, engine.capacity());
        let data = DataPlane::new(&config, engine);
        let mut forwarder = Forwarder { data, control };
        forwarder.tell_path_if(needs_path);
        forwarder
    }

    // ---- Packets and time ----

    /// Ends pending Interests and routes whose time is over, and releases Interests that a strategy
    /// held back.
    pub fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        out.clear();
        self.control.clock = now;
        self.give_up_reads(now, out);
        let mut due = std::mem::take(&mut self.data.scratch.found);
        due.clear();
        self.data.pit.expire(now, &mut due);
        for slot in due.drain(..) {
            let entry = self.data.pit.entry_mut(slot);
            self.data.unsatisfied += entry.in_records.len() as u64;
            if entry.waits_for_tier() {
                entry
                    .out_records
                    .retain(|record| record.face != FaceId::CONTENT_STORE);
            }
            self.measure(slot, |strategy, entry| strategy.on_expiry(now, entry));
            self.on_interest_finalize(now, slot);
        }
        self.data.scratch.found = due;
        self.release(now, out);
        let updates = self.control.rib.expire(now);
        self.update_fib(updates);
        if self.data.next_sweep.is_some_and(|at| at <= now) {
            let (left, given_up) = self.data.faces.sweep_reassemblers(now);
            self.data.partial_bytes = left;
            for _ in 0..given_up {
                self.data.drops.count(DropReason::Reassembly);
            }
            self.data.next_sweep = (left > 0).then_some(now + REASSEMBLY_TIMEOUT);
        }
        if self.control.management.events.is_due() {
            self.publish_events(now, out);
        }
        self.readvertise(now, out);
        self.count_made_sends(out);
    }

    /// Returns the time at which [`Forwarder::on_timeout`] has to be called next.
    pub fn next_timeout(&self) -> Option<Time> {
        let events = self
            .control
            .management
            .events
            .is_due()
            .then_some(Time::ZERO);
        let released = match self.data.holding {
            0 => None,
            _ => self
                .data
                .strategies
                .values()
                .filter_map(|instance| instance.strategy.next_release())
                .min(),
        };
        let reads = self.data.tier.as_ref().and_then(|tier| tier.next_timeout());
        let readvertised = self.control.management.readvertise.next_timeout();
        let tables = [
            self.data.pit.next_timeout(),
            self.control.rib.next_timeout(),
        ];
        let others = [reads, self.data.next_sweep, events, released, readvertised];
        tables.into_iter().chain(others).flatten().min()
    }

    // ---- Faces, routes, strategies: for the host ----

    /// Adds a face.
    pub fn add_face(&mut self, config: FaceConfig) -> FaceId {
        let id = self.data.faces.add(config);
        self.tell_of_face(FaceEvent::Created, id);
        self.tell_config(id);
        id
    }

    /// Returns the face's configuration, which management may have changed.
    pub fn face(&self, id: FaceId) -> Option<&FaceConfig> {
        self.data.faces.get(id).map(|face| &face.config)
    }

    /// Returns true if a route leads to the face.
    pub fn has_routes(&self, id: FaceId) -> bool {
        self.control.rib.has_routes_to(id)
    }

    /// Returns true if the face has sent Data or a Nack for an Interest that was sent to it. An
    /// unsolicited packet counts as dropped, so more such packets than drops mean that one was
    /// solicited.
    pub fn has_answered(&self, id: FaceId) -> bool {
        let counters = self.data.faces.get(id).map(|face| &face.counters);
        counters.is_some_and(|counters| counters.in_data + counters.in_nacks > counters.dropped)
    }

    /// Records a change of the largest frame of the face's link.
    pub fn set_mtu(&mut self, id: FaceId, mtu: usize) {
        if let Some(face) = self.data.faces.get_mut(id) {
            face.config.mtu = Some(mtu);
        }
    }

    /// Sends the other shards a new or changed face.
    pub(crate) fn tell_config(&mut self, id: FaceId) {
        if let Some(config) = self.face(id).filter(|_| self.data.shard.manages()).cloned() {
            self.tell(|| Change::Face(id, Box::new(config)));
        }
    }

    /// Records that the face's link has reliability, or no longer has.
    pub fn set_link_reliability(&mut self, id: FaceId, reliable: bool) {
        if let Some(face) = self.data.faces.get_mut(id) {
            face.config.link_reliability = reliable;
        }
    }

    fn tell_of_face(&mut self, event: FaceEvent, id: FaceId) {
        if let Some(face) = self.data.faces.get(id) {
            self.control
                .management
                .events
                .push(self.control.clock, event, id, &face.config);
        }
    }

    /// Removes a face and its routes. Interests that wait for its Data wait for another face, or
    /// until they expire.
    pub fn remove_face(&mut self, face: FaceId) {
        self.tell_of_face(FaceEvent::Destroyed, face);
        if let Some(gone) = self.data.faces.remove(face) {
            self.data.partial_bytes -= gone
                .reassembler
                .map_or(0, |reassembler| reassembler.held_bytes());
            let updates = self.control.rib.remove_face(face);
            self.update_fib(updates);
            for instance in self.data.strategies.values_mut() {
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
        if self.data.faces.get(route.face).is_none() {
            return Err(RouteError::NoFace(route.face));
        }
        let name = prefix.as_name();
        if name.component_count() > limits::PREFIX_COMPONENTS
            || name.as_bytes().len() > limits::PREFIX_BYTES
        {
            return Err(RouteError::TooLong);
        }
        let routes = self.control.rib.of(prefix);
        let replaces = routes
            .iter()
            .any(|old| old.face == route.face && old.origin == route.origin);
        if !replaces
            && (self.control.rib.routes() >= limits::ROUTES
                || routes.len() >= limits::ROUTES_PER_PREFIX)
        {
            return Err(RouteError::Full);
        }
        let updates = self.control.rib.add(prefix, route);
        self.update_fib(updates);
        Ok(())
    }

    /// Removes a route, if it exists.
    pub fn remove_route(&mut self, prefix: &Name, face: FaceId, origin: u64) {
        let updates = self.control.rib.remove(prefix, face, origin);
        self.update_fib(updates);
    }

    fn update_fib(&mut self, updates: Vec<FibUpdate>) {
        for FibUpdate { prefix, next_hops } in &updates {
            self.data
                .fib
                .set(&self.data.hasher, prefix.as_name(), next_hops);
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
        self.control.strategy_registry.register(entry)
    }

    /// Returns the strategies that can be chosen.
    pub fn strategy_registry(&self) -> &StrategyRegistry {
        &self.control.strategy_registry
    }

    /// Sets the strategy of a prefix, by its name: see [`crate::strategy::strategy_by_name`].
    /// Returns its complete name.
    ///
    /// # Errors
    /// [`StrategyError`] if it does not exist, its parameters are wrong, the prefix is too long, or
    /// the table is full.
    pub fn set_strategy(&mut self, prefix: &Name, strategy: &Name) -> Result<Name, StrategyError> {
        let instance = Instance::new(
            &self.control.strategy_registry,
            strategy,
            &self.control.streams,
        )?;
        let at = prefix.as_name();
        if at.component_count() > limits::PREFIX_COMPONENTS
            || at.as_bytes().len() > limits::PREFIX_BYTES
        {
            return Err(StrategyError::PrefixTooLong);
        }
        if self.data.strategies.len() >= limits::STRATEGY_CHOICES
            && self.data.strategies.get(&self.data.hasher, at).is_none()
        {
            return Err(StrategyError::Full);
        }
        let name = instance.instance().clone();
        let before = self
            .data
            .strategies
            .insert(&self.data.hasher, prefix.as_name(), instance);
        self.unhold(before);
        self.count_listening();
        self.tell(|| Change::Strategy(prefix.clone(), Some(name.clone())));
        Ok(name)
    }

    /// Removes the strategy of exactly this prefix. Names under it then use the strategy above it;
    /// the root uses the default.
    pub fn unset_strategy(&mut self, prefix: &Name) {
        let before = if prefix.as_name().is_empty() {
            let instance = Instance::default_of_root(&self.control.streams);
            self.data
                .strategies
                .insert(&self.data.hasher, prefix.as_name(), instance)
        } else {
            self.data
                .strategies
                .remove(&self.data.hasher, prefix.as_name())
        };
        self.unhold(before);
        self.count_listening();
        self.tell(|| Change::Strategy(prefix.clone(), None));
    }

    /// Returns the strategy that was set at exactly this prefix.
    pub fn strategy_of(&self, prefix: &Name) -> Option<&Name> {
        self.data
            .strategies
            .get(&self.data.hasher, prefix.as_name())
            .map(Instance::instance)
    }

    /// Returns the gauges of the strategy of exactly this prefix, such as the depth of a token
    /// bucket.
    pub fn strategy_gauges(&self, now: Time, prefix: &Name) -> Vec<StrategyGauge> {
        let instance = self
            .data
            .strategies
            .get(&self.data.hasher, prefix.as_name());
        instance.map_or_else(Vec::new, |instance| instance.strategy.gauges(now))
    }

    /// Checks that the parts of each table agree: PIT and quota, Content Store, index and engine,
    /// FIB and RIB. Takes time in proportion to the tables, so it is for tests and fuzz targets.
    ///
    /// # Panics
    /// If they do not agree, with a text that names the broken invariant.
    pub fn check_invariants(&self) {
        self.data.pit.check_invariants();
        self.data.content_store.check_invariants();
        self.data.fib.check_invariants(&self.data.hasher);
        self.data.strategies.check_invariants(&self.data.hasher);
        // Other shards have next hops without routes.
        if self.data.shard.is_only() {
            self.control
                .rib
                .check_invariants(self.data.fib.len(), |prefix| {
                    self.data.fib.get(&self.data.hasher, prefix)
                });
        }
    }

    fn count_listening(&mut self) {
        self.data.measuring = self
            .data
            .strategies
            .values()
            .filter(|instance| instance.strategy.measures())
            .count();
        self.data.holding = self
            .data
            .strategies
            .values()
            .filter(|instance| instance.strategy.holds())
            .count();
    }

    /// Replaces the rules of authorization. A new forwarder has one rule: every local application
    /// may use every command.
    pub fn set_rules(&mut self, rules: Vec<Rule>) {
        self.control.management.authority = Authority::new(rules);
    }

    /// Replaces the rules of the Data that has to verify before it is cached. Stored Data stays.
    pub fn set_verification(&mut self, rules: Vec<VerifyRule>) {
        let rules = Verification::in_order(rules);
        self.data.verification = Verification::of(rules.clone());
        self.tell(|| Change::Verification(rules));
    }

    /// Sets the names of the regions that this node is in. An Interest whose forwarding hint leads
    /// to one of them has arrived: it goes on by its name, without the hint.
    pub fn set_network_regions(&mut self, regions: Vec<Name>) {
        self.data.network_regions.clone_from(&regions);
        self.tell(|| Change::NetworkRegions(regions));
    }

    /// Returns true if the hint of this Interest leads to a region of this node: one of its names
    /// is a prefix of the region's, as in NFD.
    pub(crate) fn is_in_producer_region(&self, interest: &Interest<'_>) -> bool {
        if interest.forwarding_hint.is_none() || self.data.network_regions.is_empty() {
            return false;
        }
        let mut delegations = interest.forwarding_hints();
        delegations.any(|delegation| {
            self.data
                .network_regions
                .iter()
                .any(|region| region.as_name().starts_with(delegation))
        })
    }

    /// Counts the Content Store's hits and misses by the first `components` components of the
    /// names; 0 ends it.
    pub fn set_figures_by_prefix(&mut self, components: usize) {
        self.data.figures_by_prefix = (components > 0).then(|| FiguresByPrefix::new(components));
        self.tell(|| Change::CountBy(components));
    }

    /// Returns hits and misses of the most requested prefixes; empty if they are not counted.
    pub fn figures_by_prefix(&self, most: usize) -> Vec<PrefixFigures> {
        let top = self
            .data
            .figures_by_prefix
            .as_ref()
            .map_or_else(Vec::new, FiguresByPrefix::top);
        top.into_iter().take(most).cloned().collect()
    }

    /// Sets the bytes of incomplete packets in reassembly, of all faces together.
    pub fn set_reassembly_bytes(&mut self, most: usize) {
        self.data.most_partial_bytes = most;
    }

    /// Sets the FaceUris at which the host listens.
    pub fn set_channels(&mut self, uris: Vec<String>) {
        self.control.management.channels = uris;
    }

    /// Sets the host's configuration file, which `status/general` reports.
    pub fn set_configuration(&mut self, path: String) {
        self.control.management.configuration = Some(path);
    }

    /// Returns milliseconds since 1970.
    pub(crate) fn unix_millis(&self, now: Time) -> u64 {
        (self.data.started + now.since(Time::ZERO)).as_millis() as u64
    }

    // ---- Long work and figures: for the host ----

    /// Returns long work of the Content Store's policy. The host runs it on another thread and
    /// passes the result to [`Forwarder::complete`].
    pub fn job(&mut self) -> Option<Job> {
        self.data.content_store.engine_mut().job()
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
        let capacity = capacity.unwrap_or(self.control.capacity);
        let part = self.data.shard.part_of(capacity);
        let engine = Engine::new(policy, part, &self.control.streams)?;
        self.data.content_store.set_engine(now, engine);
        self.tell_path_if(policy.needs_path());
        self.capacity_is(capacity);
        self.tell(|| Change::Policy(policy.clone(), capacity));
        Ok(())
    }

    /// Gives the Content Store another capacity, over all shards, under the same policy. Packets
    /// without room leave at once.
    pub fn set_capacity(&mut self, now: Time, capacity: ByteSize) {
        self.data
            .content_store
            .set_capacity(now, self.data.shard.part_of(capacity));
        self.capacity_is(capacity);
        self.tell(|| Change::Capacity(capacity));
    }

    fn capacity_is(&mut self, capacity: ByteSize) {
        self.control.capacity = capacity;
        if let Some(paths) = &mut self.data.paths {
            paths.set_capacity(capacity);
        }
    }

    /// Returns the Content Store's policy.
    pub fn policy(&self) -> &Spec {
        self.data.content_store.engine().spec()
    }

    /// Takes the result of a [`Forwarder::job`].
    pub fn complete(&mut self, done: JobDone) {
        self.data.content_store.engine_mut().complete(done);
    }

    /// Returns the gauges of the Content Store's policy, such as a tuned parameter, with the
    /// stage's name.
    pub fn gauges(&self) -> Vec<(&'static str, Gauge)> {
        self.data.content_store.engine().gauges()
    }

    /// Counts a packet that the host dropped.
    pub fn count_drop(&mut self, face: FaceId, reason: DropReason) {
        self.data.drops.count(reason);
        if let Some(face) = self.data.faces.get_mut(face) {
            face.counters.dropped += 1;
        }
    }

    /// Returns the counters and the sizes of the tables.
    pub fn stats(&self) -> Stats {
        let engine = self.data.content_store.engine();
        let mut packets = self.data.faces.gone;
        for (_, face) in self.data.faces.iter() {
            packets.add(&face.counters);
        }
        let (prefixes_to_readvertise, readvertised_prefixes) =
            self.control.management.readvertise.counts();
        Stats {
            packets,
            drops: self.data.drops.clone(),
            content_store: self.data.content_store.counters,
            tier: self
                .data
                .tier
                .as_ref()
                .map(|tier| tier.counters)
                .unwrap_or_default(),
            content_store_entries: engine.len(),
            content_store_bytes: engine.used().bytes(),
            content_store_capacity_bytes: engine.capacity().bytes(),
            pit_entries: self.data.pit.len(),
            fib_entries: self.data.fib.len(),
            rib_routes: self.control.rib.routes(),
            prefixes_to_readvertise,
            readvertised_prefixes,
            faces: self.data.faces.len(),
            satisfied: self.data.satisfied,
            unsatisfied: self.data.unsatisfied,
        }
    }

    /// Appends the sampled requests to the Content Store since the last call, and returns the
    /// counts of all: see [`Observer::take`](larder_policy::observe::Observer::take).
    pub fn take_observations(&mut self, last: Option<u64>, taken: &mut Vec<Observation>) -> Totals {
        self.data.content_store.observer.take(last, taken)
    }

    /// Returns the policy engine of the Content Store.
    pub fn engine(&self) -> &Engine {
        self.data.content_store.engine()
    }

    /// Returns the numbers of components of pending Interests with CanBePrefix: bit n - 1 for n of
    /// them. See [`crate::Dispatch::homes`].
    pub fn pending_prefixes(&self) -> u64 {
        self.data.pit.prefix_lengths().bits()
    }

    /// Returns the number of waiting consumers, over all pending Interests: for tests.
    #[doc(hidden)]
    pub fn waiting(&self) -> u64 {
        self.data.pit.waiting()
    }

    /// Returns the age of each Data in the Content Store, in no order.
    pub fn ages_of_stored(&self, now: Time) -> impl Iterator<Item = Duration> {
        self.data.content_store.ages(now)
    }

    /// Puts a next hop into the FIB without a route: for measurements with a table of published
    /// size, without the cost of registrations.
    #[doc(hidden)]
    pub fn add_next_hop(&mut self, prefix: NameRef<'_>, face: FaceId) {
        self.data
            .fib
            .set(&self.data.hasher, prefix, &[NextHop { face, cost: 0 }]);
    }

    /// Empties the Content Store and puts it under another policy: for measurements. FIB and PIT
    /// stay.
    #[doc(hidden)]
    pub fn replace_content_store(&mut self, engine: Engine) {
        self.data.content_store = ContentStore::new(self.data.hasher.clone(), engine, false);
    }

    /// Returns the first routes, in canonical order, without the next hops of `fib/add-nexthop`.
    pub fn first_routes(&self, most: usize) -> Vec<(Name, Route)> {
        let all = self
            .control
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
        self.data
            .fib
            .get(&self.data.hasher, prefix.as_name())
            .unwrap_or_default()
    }

    /// Returns every face, by number.
    pub fn face_stats(&self) -> Vec<FaceStats> {
        let stats = |(id, face): (FaceId, &crate::face::Face)| FaceStats {
            id,
            config: face.config.clone(),
            counters: face.counters,
        };
        let mut faces: Vec<FaceStats> = self.data.faces.iter().map(stats).collect();
        faces.sort_by_key(|face| face.id);
        faces
    }

    // ---- Changes for the other shards ----

    /// Takes out the changes that the other shards need before they get, or send, another packet.
    /// Always empty with one shard.
    pub fn drain_changes(&mut self) -> std::vec::Drain<'_, Change> {
        self.control.changes.drain(..)
    }

    /// Returns true if there are changes.
    pub fn has_changes(&self) -> bool {
        !self.control.changes.is_empty()
    }

    /// Applies a change of the first shard.
    pub fn apply(&mut self, now: Time, change: Change) {
        match change {
            Change::Face(id, config) => self.data.faces.put(id, *config),
            Change::FaceGone(id) => self.remove_face(id),
            Change::NextHops(prefix, next_hops) => {
                self.update_fib(vec![FibUpdate { prefix, next_hops }])
            }
            // A change that the first shard accepted fits the others: they have the same tables and
            // bounds.
            Change::Strategy(prefix, Some(strategy)) => drop(self.set_strategy(&prefix, &strategy)),
            Change::Strategy(prefix, None) => self.unset_strategy(&prefix),
            Change::Policy(policy, capacity) => drop(self.set_policy(now, &policy, Some(capacity))),
            Change::Capacity(capacity) => self.set_capacity(now, capacity),
            Change::Serving { admits, serves } => self.set_serving(admits, serves),
            Change::Verification(rules) => self.data.verification = Verification::of(rules),
            Change::NetworkRegions(regions) => self.set_network_regions(regions),
            Change::CountBy(components) => self.set_figures_by_prefix(components),
        }
    }

    /// Records a change for the others, if this shard manages them.
    pub(crate) fn tell(&mut self, change: impl FnOnce() -> Change) {
        if self.data.shard.manages() {
            self.control.changes.push(change());
        }
    }

    pub(crate) fn set_serving(&mut self, admits: bool, serves: bool) {
        (
            self.data.content_store.admits,
            self.data.content_store.serves,
        ) = (admits, serves);
        self.tell(|| Change::Serving { admits, serves });
    }
}
