//! The forwarder: the NDN data plane, or one shard of it, as a state machine.
//!
//! The host passes in what it received, with the time, and afterwards sends what is in the
//! [`Outbox`]. This file has the host's queries and settings. The path of a packet is in
//! `pipeline/`, which follows the NFD developer guide (chapter 4); the tables that it reads and
//! changes are fields of the [`DataPlane`]. Management works on the [`ControlPlane`].

use crate::config::Config;
use crate::control::authority::{Authority, Rule};
use crate::control::change::Change;
use crate::control::shard_queries::{Report, ShardQuery};
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::drop_reason::{DropReason, Dropped};
use crate::face::{FaceConfig, FaceId};
use crate::management::events::publish_events;
use crate::management::faces::on_face_answer;
use crate::management::readvertise::send_commands;
use crate::management::shard_query::{on_report, report};
use crate::outbox::{FaceAnswer, Outbox};
use crate::pipeline::interest_finalize::expire_interests;
use crate::pipeline::link_service::Frame;
use crate::pipeline::outgoing_interest::release_held_interests;
use crate::pipeline::tier_lookup::{give_up_reads, on_tier_lookup};
use crate::receive::batch::{Received, on_batch, prefetch_index};
use crate::receive::handle;
use crate::receive::stages::{Meter, StageProfile};
use crate::stats::{FaceStats, Stats};
use crate::strategy::{Instance, StrategyEntry, StrategyError, StrategyGauge, StrategyRegistry};
use crate::tables::content_store::ContentStore;
use crate::tables::name_hash::Hashed;
use crate::tables::prefix_figures::PrefixFigures;
use crate::tables::rib::{NextHop, ORIGIN_FIB, Route, RouteError};
use crate::tables::stored_packet::StoredPacket;
use crate::tier::{SecondTier, Tier, TierRecord};
use crate::verification::{Verification, VerifyRule};
use larder_packet::{Name, NameRef};
use larder_policy::observe::{Observation, Totals};
use larder_policy::{Engine, Gauge, Job, JobDone, Spec, SpecError};
use larder_units::{ByteSize, Time};
use std::time::Duration;

/// One shard of the data plane, with its control plane. See the crate's documentation for an
/// example.
pub struct Forwarder {
    data: DataPlane,
    control: ControlPlane,
}

impl Forwarder {
    /// Creates a forwarder without faces and routes. The engine is the Content Store's, with this
    /// shard's part of the capacity.
    pub fn new(config: Config, engine: Engine) -> Self {
        let needs_path = engine.spec().needs_path();
        let control = ControlPlane::new(&config, engine.capacity());
        let mut data = DataPlane::new(&config, engine);
        data.enable_paths_if(needs_path);
        Forwarder { data, control }
    }

    // ---- Packets and time ----

    /// Handles one frame from a face: an NDNLPv2 packet, or a bare Interest or Data. May change its
    /// bytes in place (HopLimit).
    ///
    /// `Err` has the reason of a drop, for the host's log. The drop was counted, and the face
    /// stays.
    pub fn on_packet(
        &mut self,
        now: Time,
        face: FaceId,
        frame: &mut [u8],
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        out.clear();
        let Forwarder { data, control } = self;
        control.clock = now;
        let mut read = Frame::NOTHING;
        read.read(&data.hasher, data.max_packet_bytes, face, frame);
        prefetch_index(data, &read);
        handle(data, control, now, &read, Hashed::default(), out)
    }

    /// Like [`Forwarder::on_packet`], for a bare Data in shared bytes, which the Content Store does
    /// not copy. It is for hosts of many forwarders that hold the same Data.
    ///
    /// # Errors
    /// Those of [`Forwarder::on_packet`]. An Interest is malformed here, because its HopLimit could
    /// not be decremented.
    pub fn on_shared(
        &mut self,
        now: Time,
        face: FaceId,
        packet: &StoredPacket,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        out.clear();
        let Forwarder { data, control } = self;
        control.clock = now;
        data.content_store.offer(Some(packet.clone()));
        let frame = Frame::read_shared(&data.hasher, data.max_packet_bytes, face, packet);
        prefetch_index(data, &frame);
        let handled = handle(data, control, now, &frame, Hashed::default(), out);
        data.content_store.offer(None);
        handled
    }

    /// Handles frames as [`Forwarder::on_packet`] does, one after the other, but faster. The
    /// [`index`](crate::Send::index) of a [`crate::Send`] is the frame that caused it;
    /// [`Outbox::drops`] has the dropped frames and the reasons.
    pub fn on_packets(&mut self, now: Time, batch: &mut [Received<'_>], out: &mut Outbox) {
        out.clear();
        self.control.clock = now;
        on_batch(
            &mut self.data,
            &mut self.control,
            now,
            batch,
            out,
            &mut Meter(None),
        );
    }

    /// Handles a batch as [`Forwarder::on_packets`] does, and returns the cost of its stages. A
    /// packet that is alone in its run counts for no stage after
    /// [`Stage::Prefetch`](crate::stages::Stage::Prefetch).
    #[doc(hidden)]
    pub fn profile(
        &mut self,
        now: Time,
        batch: &mut [Received<'_>],
        out: &mut Outbox,
        clock: &mut dyn FnMut() -> u64,
    ) -> StageProfile {
        out.clear();
        self.control.clock = now;
        let mut meter = Meter::new(clock);
        let Forwarder { data, control } = self;
        on_batch(data, control, now, batch, out, &mut meter);
        meter.profile()
    }

    /// Processes the result of a [`SecondTier::tier_lookup`]; `None` if the read failed.
    pub fn on_tier_lookup(
        &mut self,
        now: Time,
        ticket: u64,
        found: Option<TierRecord>,
        out: &mut Outbox,
    ) {
        out.clear();
        self.control.clock = now;
        on_tier_lookup(&mut self.data, now, ticket, found, out);
        self.data.count_made_sends(out);
    }

    /// Takes the host's answer to a [`FaceRequest`](crate::FaceRequest). The response to the
    /// command is in `out`.
    pub fn on_face_answer(&mut self, now: Time, ticket: u64, answer: FaceAnswer, out: &mut Outbox) {
        out.clear();
        let Forwarder { data, control } = self;
        control.clock = now;
        let pending_faces = &mut control.management.pending_faces;
        on_face_answer(data, pending_faces, now, ticket, answer, out);
        data.count_made_sends(out);
    }

    /// Answers a query of the first shard.
    pub fn report(&mut self, now: Time, question: ShardQuery) -> Report {
        report(&mut self.data, &self.control, now, question)
    }

    /// Takes another shard's answer to a [`HostRequest::Ask`](crate::HostRequest::Ask). After the
    /// last answer, the response to the command or dataset is in `out`.
    pub fn on_report(&mut self, now: Time, ticket: u64, report: Report, out: &mut Outbox) {
        out.clear();
        let Forwarder { data, control } = self;
        control.clock = now;
        on_report(data, control, now, ticket, report, out);
        data.count_made_sends(out);
    }

    /// Ends pending Interests and routes whose time is over, and releases Interests that a strategy
    /// held back.
    pub fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        out.clear();
        let Forwarder { data, control } = self;
        control.clock = now;
        give_up_reads(data, now, out);
        expire_interests(data, now);
        release_held_interests(data, now, out);
        control.expire_routes(data, now);
        data.reassembly.sweep(&mut data.faces, &mut data.drops, now);
        if control.management.events.is_due() {
            publish_events(data, &mut control.management.events, now, out);
        }
        send_commands(data, control, now, out);
        data.count_made_sends(out);
    }

    /// Returns the time at which [`Forwarder::on_timeout`] has to be called next.
    pub fn next_timeout(&self) -> Option<Time> {
        let events = self
            .control
            .management
            .events
            .is_due()
            .then_some(Time::ZERO);
        let released = self.data.strategies.next_release();
        let reads = self.data.tier.as_ref().and_then(|tier| tier.next_timeout());
        let readvertised = self.control.management.readvertise.next_timeout();
        let tables = [
            self.data.pit.next_timeout(),
            self.control.rib.next_timeout(),
        ];
        let others = [
            reads,
            self.data.reassembly.next_sweep,
            events,
            released,
            readvertised,
        ];
        tables.into_iter().chain(others).flatten().min()
    }

    // ---- Faces, routes, strategies: for the host ----

    /// Adds a face.
    pub fn add_face(&mut self, config: FaceConfig) -> FaceId {
        self.control.add_face(&mut self.data, config)
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

    /// Records that the face's link has reliability, or no longer has.
    pub fn set_link_reliability(&mut self, id: FaceId, reliable: bool) {
        if let Some(face) = self.data.faces.get_mut(id) {
            face.config.link_reliability = reliable;
        }
    }

    /// Removes a face and its routes. Interests that wait for its Data wait for another face, or
    /// until they expire.
    pub fn remove_face(&mut self, face: FaceId) {
        self.control.remove_face(&mut self.data, face);
    }

    /// Adds a route, or replaces the one of the same prefix, face and origin.
    ///
    /// # Errors
    /// [`RouteError`] if the face does not exist, the prefix is too long, or the table is full.
    pub fn add_route(&mut self, prefix: &Name, route: Route) -> Result<(), RouteError> {
        self.control.add_route(&mut self.data, prefix, route)
    }

    /// Removes a route, if it exists.
    pub fn remove_route(&mut self, prefix: &Name, face: FaceId, origin: u64) {
        self.control
            .remove_route(&mut self.data, prefix, face, origin);
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
        self.control.set_strategy(&mut self.data, prefix, strategy)
    }

    /// Removes the strategy of exactly this prefix. Names under it then use the strategy above it;
    /// the root uses the default.
    pub fn unset_strategy(&mut self, prefix: &Name) {
        self.control.unset_strategy(&mut self.data, prefix);
    }

    /// Returns the strategy that was set at exactly this prefix.
    pub fn strategy_of(&self, prefix: &Name) -> Option<&Name> {
        self.data
            .strategies
            .table()
            .get(&self.data.hasher, prefix.as_name())
            .map(Instance::instance)
    }

    /// Returns the gauges of the strategy of exactly this prefix, such as the depth of a token
    /// bucket.
    pub fn strategy_gauges(&self, now: Time, prefix: &Name) -> Vec<StrategyGauge> {
        let instance = self
            .data
            .strategies
            .table()
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
        self.data
            .strategies
            .table()
            .check_invariants(&self.data.hasher);
        // Other shards have next hops without routes.
        if self.data.shard.is_only() {
            self.control
                .rib
                .check_invariants(self.data.fib.len(), |prefix| {
                    self.data.fib.get(&self.data.hasher, prefix)
                });
        }
    }

    /// Replaces the rules of authorization. A new forwarder has one rule: every local application
    /// may use every command.
    pub fn set_rules(&mut self, rules: Vec<Rule>) {
        self.control.management.authority = Authority::new(rules);
    }

    /// Replaces the rules of the Data that has to verify before it is cached. Stored Data stays.
    pub fn set_verification(&mut self, rules: Vec<VerifyRule>) {
        let rules = Verification::in_order(rules);
        self.control.set_verification(&mut self.data, rules);
    }

    /// Sets the names of the regions that this node is in. An Interest whose forwarding hint leads
    /// to one of them has arrived: it goes on by its name, without the hint.
    pub fn set_network_regions(&mut self, regions: Vec<Name>) {
        self.control.set_network_regions(&mut self.data, regions);
    }

    /// Counts the Content Store's hits and misses by the first `components` components of the
    /// names; 0 ends it.
    pub fn set_figures_by_prefix(&mut self, components: usize) {
        self.control
            .set_figures_by_prefix(&mut self.data, components);
    }

    /// Returns hits and misses of the most requested prefixes; empty if they are not counted.
    pub fn figures_by_prefix(&self, most: usize) -> Vec<PrefixFigures> {
        self.data.figures_by_prefix(most)
    }

    /// Advertises the prefixes of applications to the routing daemon of this machine, or withdraws
    /// them.
    pub fn set_readvertise(&mut self, is_on: bool) {
        let Forwarder { data, control } = self;
        let readvertise = &mut control.management.readvertise;
        readvertise.turn(control.clock, is_on, &control.rib, &data.faces);
    }

    /// Sends and learns the places of caches on their paths, for the policies `lcd`, `probcache`
    /// and `betweenness`. `centrality` is this router's betweenness, in any unit that all routers
    /// share. After this, room in the Content Store is no reason to admit.
    pub fn set_centrality(&mut self, centrality: u64) {
        self.data.set_centrality(centrality);
    }

    /// Puts a second tier behind the Content Store.
    pub fn set_tier(&mut self, host: Box<dyn SecondTier>) {
        let tier = Tier::new(host, self.data.max_packet_bytes);
        self.data.tier = Some(Box::new(tier));
    }

    /// Returns the bytes of incomplete packets in reassembly, over all faces.
    pub fn partial_bytes(&self) -> usize {
        self.data.reassembly.bytes
    }

    /// Returns the faces with incomplete packets: the bytes of each, and the time at which its
    /// oldest packet began.
    pub fn partial_holders(&self) -> impl Iterator<Item = (FaceId, usize, Time)> {
        self.data.faces.reassembling()
    }

    /// Drops every incomplete packet of the face, to make room for others.
    pub fn give_up_partial(&mut self, face: FaceId) {
        let DataPlane {
            reassembly,
            faces,
            drops,
            ..
        } = &mut self.data;
        reassembly.give_up(faces, drops, face);
    }

    /// Sets the bytes of incomplete packets in reassembly, of all faces together.
    pub fn set_reassembly_bytes(&mut self, most: usize) {
        self.data.reassembly.most_bytes = most;
    }

    /// Sets the FaceUris at which the host listens.
    pub fn set_channels(&mut self, uris: Vec<String>) {
        self.control.management.channels = uris;
    }

    /// Sets the host's configuration file, which `status/general` reports.
    pub fn set_configuration(&mut self, path: String) {
        self.control.management.configuration = Some(path);
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
        self.control
            .set_policy(&mut self.data, now, policy, capacity)
    }

    /// Gives the Content Store another capacity, over all shards, under the same policy. Packets
    /// without room leave at once.
    pub fn set_capacity(&mut self, now: Time, capacity: ByteSize) {
        self.control.set_capacity(&mut self.data, now, capacity);
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
        self.data.count_drop(face, reason);
    }

    /// Returns the counters and the sizes of the tables.
    pub fn stats(&self) -> Stats {
        self.control.stats(&self.data)
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
        self.data.face_stats()
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
        self.control.apply(&mut self.data, now, change);
    }
}
