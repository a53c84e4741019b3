//! The control plane: the routes and settings from which the data plane's tables follow, and the
//! state of management.
//!
//! Each change goes to the data plane at once, and to the other shards as a [`Change`].

use crate::config::Config;
use crate::control::Management;
use crate::control::change::Change;
use crate::control::events::FaceEvent;
use crate::data_plane::DataPlane;
use crate::face::{FaceConfig, FaceId};
use crate::limits;
use crate::pipeline::outgoing_interest::forget_held_interests;
use crate::shard::Shard;
use crate::stats::Stats;
use crate::strategy::{Instance, StrategyError, StrategyRegistry};
use crate::tables::prefix_figures::FiguresByPrefix;
use crate::tables::rib::{FibUpdate, Rib, Route, RouteError};
use crate::verification::{Verification, VerifyRule};
use larder_packet::{Name, NameRef};
use larder_policy::{Engine, Spec, SpecError};
use larder_units::{ByteSize, Streams, Time};
use std::sync::Arc;

/// The RIB, the settings over all shards, and the state of management.
pub(crate) struct ControlPlane {
    pub(crate) shard: Shard,
    pub(crate) rib: Rib,
    pub(crate) strategy_registry: StrategyRegistry,
    streams: Streams,
    /// Changes for the other shards.
    pub(crate) changes: Vec<Change>,
    /// The Content Store's capacity over all shards.
    pub(crate) capacity: ByteSize,
    pub(crate) management: Management,
    /// The time of the last call.
    pub(crate) clock: Time,
}

impl ControlPlane {
    /// Creates a control plane without routes. The capacity is that over all shards.
    pub(crate) fn new(config: &Config, capacity: ByteSize) -> Self {
        ControlPlane {
            shard: config.shard,
            rib: Rib::default(),
            strategy_registry: StrategyRegistry::installed().clone(),
            streams: config.streams,
            changes: Vec::new(),
            capacity,
            management: Management::new(),
            clock: Time::ZERO,
        }
    }

    // ---- Other shards ----

    /// Records a change for the others, if this shard manages them.
    fn tell(&mut self, change: impl FnOnce() -> Change) {
        if self.shard.manages() {
            self.changes.push(change());
        }
    }

    /// Applies a change of the first shard.
    pub(crate) fn apply(&mut self, plane: &mut DataPlane, now: Time, change: Change) {
        match change {
            Change::Face(id, config) => plane.faces.put(id, *config),
            Change::FaceGone(id) => self.remove_face(plane, id),
            Change::NextHops(prefix, next_hops) => {
                self.update_fib(plane, vec![FibUpdate { prefix, next_hops }])
            }
            // A change that the first shard accepted fits the others: they have the same tables and
            // bounds.
            Change::Strategy(prefix, Some(strategy)) => {
                drop(self.set_strategy(plane, &prefix, &strategy))
            }
            Change::Strategy(prefix, None) => self.unset_strategy(plane, &prefix),
            Change::Policy(policy, capacity) => {
                drop(self.set_policy(plane, now, &policy, Some(capacity)))
            }
            Change::Capacity(capacity) => self.set_capacity(plane, now, capacity),
            Change::Serving { admits, serves } => self.set_serving(plane, admits, serves),
            Change::Verification(rules) => plane.verification = Verification::of(rules),
            Change::NetworkRegions(regions) => self.set_network_regions(plane, regions),
            Change::CountBy(components) => self.set_figures_by_prefix(plane, components),
        }
    }

    // ---- Faces ----

    /// Adds a face.
    pub(crate) fn add_face(&mut self, plane: &mut DataPlane, config: FaceConfig) -> FaceId {
        let id = plane.faces.add(config);
        self.tell_of_face(plane, FaceEvent::Created, id);
        self.tell_config(plane, id);
        id
    }

    /// Replaces the configuration of a face.
    pub(crate) fn configure_face(&mut self, plane: &mut DataPlane, id: FaceId, config: FaceConfig) {
        plane.faces.configure(id, config);
        self.tell_config(plane, id);
    }

    /// Removes a face and its routes. Interests that wait for its Data wait for another face, or
    /// until they expire.
    pub(crate) fn remove_face(&mut self, plane: &mut DataPlane, face: FaceId) {
        self.tell_of_face(plane, FaceEvent::Destroyed, face);
        if let Some(gone) = plane.faces.remove(face) {
            plane.reassembly.remove_face(&gone);
            let updates = self.rib.remove_face(face);
            self.update_fib(plane, updates);
            for strategy in plane.strategies.strategies_mut() {
                strategy.forget(face);
            }
            self.tell(|| Change::FaceGone(face));
        }
    }

    /// Sends the other shards a new or changed face.
    fn tell_config(&mut self, plane: &DataPlane, id: FaceId) {
        if let Some(face) = plane.faces.get(id) {
            self.tell(|| Change::Face(id, Box::new(face.config.clone())));
        }
    }

    fn tell_of_face(&mut self, plane: &DataPlane, event: FaceEvent, id: FaceId) {
        if let Some(face) = plane.faces.get(id) {
            self.management
                .events
                .push(self.clock, event, id, &face.config);
        }
    }

    // ---- Routes ----

    /// Adds a route, or replaces the one of the same prefix, face and origin.
    pub(crate) fn add_route(
        &mut self,
        plane: &mut DataPlane,
        prefix: &Name,
        route: Route,
    ) -> Result<(), RouteError> {
        if plane.faces.get(route.face).is_none() {
            return Err(RouteError::NoFace(route.face));
        }
        if is_too_long(prefix.as_name()) {
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
        self.update_fib(plane, updates);
        Ok(())
    }

    /// Removes a route, if it exists.
    pub(crate) fn remove_route(
        &mut self,
        plane: &mut DataPlane,
        prefix: &Name,
        face: FaceId,
        origin: u64,
    ) {
        let updates = self.rib.remove(prefix, face, origin);
        self.update_fib(plane, updates);
    }

    /// Removes the routes whose time is over.
    pub(crate) fn expire_routes(&mut self, plane: &mut DataPlane, now: Time) {
        let updates = self.rib.expire(now);
        self.update_fib(plane, updates);
    }

    fn update_fib(&mut self, plane: &mut DataPlane, updates: Vec<FibUpdate>) {
        for FibUpdate { prefix, next_hops } in &updates {
            plane.fib.set(&plane.hasher, prefix.as_name(), next_hops);
        }
        self.management
            .readvertise
            .note(self.clock, &updates, &self.rib, &plane.faces);
        for FibUpdate { prefix, next_hops } in updates {
            self.tell(|| Change::NextHops(prefix, next_hops));
        }
    }

    // ---- Strategies ----

    /// Sets the strategy of a prefix, by its name. Returns its complete name.
    pub(crate) fn set_strategy(
        &mut self,
        plane: &mut DataPlane,
        prefix: &Name,
        strategy: &Name,
    ) -> Result<Name, StrategyError> {
        let instance = Instance::new(&self.strategy_registry, strategy, &self.streams)?;
        let at = prefix.as_name();
        if is_too_long(at) {
            return Err(StrategyError::PrefixTooLong);
        }
        let choices = plane.strategies.table();
        if choices.len() >= limits::STRATEGY_CHOICES && choices.get(&plane.hasher, at).is_none() {
            return Err(StrategyError::Full);
        }
        let name = instance.instance().clone();
        let before = plane.strategies.insert(&plane.hasher, at, instance);
        forget_held_interests(plane, before);
        self.tell(|| Change::Strategy(prefix.clone(), Some(name.clone())));
        Ok(name)
    }

    /// Removes the strategy of exactly this prefix. Names under it then use the strategy above it;
    /// the root uses the default.
    pub(crate) fn unset_strategy(&mut self, plane: &mut DataPlane, prefix: &Name) {
        let at = prefix.as_name();
        let before = if at.is_empty() {
            let instance = Instance::default_of_root(&self.streams);
            plane.strategies.insert(&plane.hasher, at, instance)
        } else {
            plane.strategies.remove(&plane.hasher, at)
        };
        forget_held_interests(plane, before);
        self.tell(|| Change::Strategy(prefix.clone(), None));
    }

    // ---- The Content Store ----

    /// Puts the Content Store under another policy, with this capacity over all shards or the
    /// present one.
    pub(crate) fn set_policy(
        &mut self,
        plane: &mut DataPlane,
        now: Time,
        policy: &Spec,
        capacity: Option<ByteSize>,
    ) -> Result<(), SpecError> {
        let capacity = capacity.unwrap_or(self.capacity);
        let part = self.shard.part_of(capacity);
        let engine = Engine::new(policy, part, &self.streams)?;
        plane.content_store.set_engine(now, engine);
        plane.enable_paths_if(policy.needs_path());
        self.capacity_is(plane, capacity);
        self.tell(|| Change::Policy(policy.clone(), capacity));
        Ok(())
    }

    /// Gives the Content Store another capacity, over all shards, under the same policy.
    pub(crate) fn set_capacity(&mut self, plane: &mut DataPlane, now: Time, capacity: ByteSize) {
        plane
            .content_store
            .set_capacity(now, self.shard.part_of(capacity));
        self.capacity_is(plane, capacity);
        self.tell(|| Change::Capacity(capacity));
    }

    fn capacity_is(&mut self, plane: &mut DataPlane, capacity: ByteSize) {
        self.capacity = capacity;
        if let Some(paths) = &mut plane.paths {
            paths.set_capacity(capacity);
        }
    }

    /// Sets whether the Content Store admits new Data, and whether it answers Interests.
    pub(crate) fn set_serving(&mut self, plane: &mut DataPlane, admits: bool, serves: bool) {
        (plane.content_store.admits, plane.content_store.serves) = (admits, serves);
        self.tell(|| Change::Serving { admits, serves });
    }

    /// Replaces the rules of the Data that has to verify before it is cached.
    pub(crate) fn set_verification(&mut self, plane: &mut DataPlane, rules: Arc<[VerifyRule]>) {
        plane.verification = Verification::of(rules.clone());
        self.tell(|| Change::Verification(rules));
    }

    /// Counts the Content Store's hits and misses by the first `components` components of the
    /// names; 0 ends it.
    pub(crate) fn set_figures_by_prefix(&mut self, plane: &mut DataPlane, components: usize) {
        plane.figures_by_prefix = (components > 0).then(|| FiguresByPrefix::new(components));
        self.tell(|| Change::CountBy(components));
    }

    // ---- The node ----

    /// Sets the names of the regions that this node is in.
    pub(crate) fn set_network_regions(&mut self, plane: &mut DataPlane, regions: Vec<Name>) {
        plane.network_regions.clone_from(&regions);
        self.tell(|| Change::NetworkRegions(regions));
    }

    /// Returns the counters and the sizes of the tables.
    pub(crate) fn stats(&self, plane: &DataPlane) -> Stats {
        let engine = plane.content_store.engine();
        let mut packets = plane.faces.gone;
        for (_, face) in plane.faces.iter() {
            packets.add(&face.counters);
        }
        let (prefixes_to_readvertise, readvertised_prefixes) = self.management.readvertise.counts();
        Stats {
            packets,
            drops: plane.drops.clone(),
            content_store: plane.content_store.counters,
            tier: plane
                .tier
                .as_ref()
                .map(|tier| tier.counters)
                .unwrap_or_default(),
            content_store_entries: engine.len(),
            content_store_bytes: engine.used().bytes(),
            content_store_capacity_bytes: engine.capacity().bytes(),
            pit_entries: plane.pit.len(),
            fib_entries: plane.fib.len(),
            rib_routes: self.rib.routes(),
            prefixes_to_readvertise,
            readvertised_prefixes,
            faces: plane.faces.len(),
            satisfied: plane.satisfied,
            unsatisfied: plane.unsatisfied,
        }
    }
}

/// Returns true if no table takes a prefix of this length.
fn is_too_long(prefix: NameRef<'_>) -> bool {
    prefix.component_count() > limits::PREFIX_COMPONENTS
        || prefix.as_bytes().len() > limits::PREFIX_BYTES
}
