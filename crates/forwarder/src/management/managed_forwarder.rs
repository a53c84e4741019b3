//! The part of the forwarder that commands and datasets can read and change.
//!
//! The files of the protocol's modules get a [`ManagedForwarder`], and so they cannot reach the
//! PIT, the packets or the state of other commands.

use crate::control::datasets::Content;
use crate::control::erasure::Erasure;
use crate::control::pending_faces::PendingFaces;
use crate::control::refusal::Refusal;
use crate::control::shard_queries::{Goal, PendingQuery, ShardQuery};
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::face::{FaceConfig, FaceId};
use crate::limits::SHARD_QUERIES;
use crate::outbox::{HostRequest, Outbox};
use crate::stats::{FaceStats, Stats, add_face_counters};
use crate::strategy::StrategyError;
use crate::tables::prefix_figures::PrefixFigures;
use crate::tables::rib::{NextHop, Route, RouteError};
use crate::tier::TierFigures;
use larder_packet::mgmt::CsObject;
use larder_packet::{Name, NameRef};
use larder_policy::{Spec, SpecError};
use larder_units::{ByteSize, Time};

/// Both planes, with the operations that commands and datasets can use. With several shards,
/// figures and stored objects are those of all shards while a dataset is created.
pub(super) struct ManagedForwarder<'a> {
    plane: &'a mut DataPlane,
    control: &'a mut ControlPlane,
}

/// Takes the value of one prefix.
pub(super) type Visit<'a, T> = dyn FnMut(Name, &T) -> Result<(), Refusal> + 'a;

/// The function of a dataset. It adds the entries to the content.
pub(super) type DatasetFn =
    fn(&ManagedForwarder<'_>, Time, NameRef<'_>, &mut Content) -> Result<(), Refusal>;

impl<'a> ManagedForwarder<'a> {
    pub(super) fn new(plane: &'a mut DataPlane, control: &'a mut ControlPlane) -> Self {
        ManagedForwarder { plane, control }
    }

    // ---- The node ----

    /// Returns milliseconds since 1970.
    pub(super) fn unix_millis(&self, now: Time) -> u64 {
        self.plane.unix_millis(now)
    }

    /// Returns the path of the host's configuration file.
    pub(super) fn configuration(&self) -> Option<&str> {
        self.control.management.configuration.as_deref()
    }

    /// Returns the counters and the sizes of the tables.
    pub(super) fn stats(&self) -> Stats {
        let mut stats = self.control.stats(self.plane);
        for (others, _, _) in self.control.management.shard_queries.figures_of_others() {
            stats.add_shard(others);
        }
        stats
    }

    // ---- Faces ----

    /// Returns the FaceUris at which the host listens.
    pub(super) fn channels(&self) -> &[String] {
        &self.control.management.channels
    }

    /// Returns every face, by number.
    pub(super) fn faces(&self) -> Vec<FaceStats> {
        let mut faces = self.plane.face_stats();
        for (_, others, _) in self.control.management.shard_queries.figures_of_others() {
            add_face_counters(&mut faces, others);
        }
        faces
    }

    /// Returns the configuration of a face.
    pub(super) fn face(&self, id: FaceId) -> Option<&FaceConfig> {
        self.plane.faces.get(id).map(|face| &face.config)
    }

    /// Returns the bytes of the largest network-layer packet.
    pub(super) fn max_packet_bytes(&self) -> usize {
        self.plane.max_packet_bytes
    }

    /// Replaces the configuration of a face.
    pub(super) fn configure_face(&mut self, id: FaceId, config: FaceConfig) {
        self.control.configure_face(self.plane, id, config);
    }

    /// Returns the `faces/create` commands that wait for the host.
    pub(super) fn pending_faces(&mut self) -> &mut PendingFaces {
        &mut self.control.management.pending_faces
    }

    // ---- Routes and strategies ----

    /// Calls `visit` with each FIB entry, in no order, until it fails.
    pub(super) fn next_hops(&self, visit: &mut Visit<'_, [NextHop]>) -> Result<(), Refusal> {
        self.plane
            .fib
            .iter()
            .try_for_each(|(prefix, next_hops)| visit(prefix, next_hops))
    }

    /// Calls `visit` with the routes of each prefix, in canonical order, until it fails.
    pub(super) fn routes(&self, visit: &mut Visit<'_, [Route]>) -> Result<(), Refusal> {
        self.control
            .rib
            .iter()
            .try_for_each(|(prefix, routes)| visit(prefix.clone(), routes))
    }

    /// Adds a route, or replaces the one of the same prefix, face and origin.
    pub(super) fn add_route(&mut self, prefix: &Name, route: Route) -> Result<(), RouteError> {
        self.control.add_route(self.plane, prefix, route)
    }

    /// Removes a route, if it exists.
    pub(super) fn remove_route(&mut self, prefix: &Name, face: FaceId, origin: u64) {
        self.control.remove_route(self.plane, prefix, face, origin);
    }

    /// Calls `visit` with each strategy choice, in no order, until it fails.
    pub(super) fn strategies(&self, visit: &mut Visit<'_, Name>) -> Result<(), Refusal> {
        self.plane
            .strategies
            .table()
            .iter()
            .try_for_each(|(prefix, choice)| visit(prefix, choice.instance()))
    }

    /// Sets the strategy of a prefix, and returns its complete name.
    pub(super) fn set_strategy(
        &mut self,
        prefix: &Name,
        strategy: &Name,
    ) -> Result<Name, StrategyError> {
        self.control.set_strategy(self.plane, prefix, strategy)
    }

    /// Removes the strategy of exactly this prefix.
    pub(super) fn unset_strategy(&mut self, prefix: &Name) {
        self.control.unset_strategy(self.plane, prefix);
    }

    // ---- The Content Store ----

    /// Returns the policy.
    pub(super) fn policy(&self) -> &Spec {
        self.plane.content_store.engine().spec()
    }

    /// Returns the capacity, over all shards.
    pub(super) fn capacity(&self) -> ByteSize {
        self.control.capacity
    }

    /// Returns whether the store admits new Data, and whether it answers Interests.
    pub(super) fn serving(&self) -> (bool, bool) {
        let store = &self.plane.content_store;
        (store.admits, store.serves)
    }

    /// Returns what the second tier holds, if there is one.
    pub(super) fn tier(&self) -> Option<TierFigures> {
        self.plane.tier.as_ref().map(|tier| tier.host.figures())
    }

    /// Returns the stored objects under a prefix, in no order. If a dataset cannot hold them all,
    /// it returns more than fit.
    pub(super) fn stored(&self, now: Time, prefix: NameRef<'_>) -> Vec<CsObject> {
        let mut objects = self.plane.stored_under(now, prefix);
        objects.extend(self.control.management.shard_queries.stored_by_others());
        objects
    }

    /// Returns hits and misses of the most requested prefixes, or `None` if they are not counted.
    pub(super) fn figures_by_prefix(&self) -> Option<Vec<PrefixFigures>> {
        self.plane.figures_by_prefix.as_ref()?;
        let own = self.plane.figures_by_prefix(usize::MAX);
        let others = self.control.management.shard_queries.figures_of_others();
        let others = others.flat_map(|(_, _, by_prefix)| by_prefix.iter().cloned());
        let all = own.into_iter().chain(others).collect();
        Some(PrefixFigures::merged(all))
    }

    /// Replaces the policy, with this capacity over all shards or the present one.
    pub(super) fn set_policy(
        &mut self,
        now: Time,
        policy: &Spec,
        capacity: Option<ByteSize>,
    ) -> Result<(), SpecError> {
        self.control.set_policy(self.plane, now, policy, capacity)
    }

    /// Sets the capacity, over all shards.
    pub(super) fn set_capacity(&mut self, now: Time, capacity: ByteSize) {
        self.control.set_capacity(self.plane, now, capacity);
    }

    /// Sets whether the store admits new Data, and whether it answers Interests.
    pub(super) fn set_serving(&mut self, admits: bool, serves: bool) {
        self.control.set_serving(self.plane, admits, serves);
    }

    /// Erases stored Data, for the command `command` of the face `from`. Returns `None` if the
    /// command has to wait for other shards or for the second tier.
    pub(super) fn erase(
        &mut self,
        now: Time,
        from: FaceId,
        command: NameRef<'_>,
        erasure: Erasure,
        out: &mut Outbox,
    ) -> Result<Option<Erasure>, Refusal> {
        self.check_room_for_query()?;
        if let Some(tier) = &mut self.plane.tier {
            // The tier is first: records that it reads while the shards erase are then refused.
            tier.host.erase(erasure.prefix.as_name());
        }
        let prefix = erasure.prefix.as_name();
        let (erased, more) = self
            .plane
            .content_store
            .erase(now, from, prefix, erasure.left());
        let erasure = erasure.with(erased, more);
        Ok(self.go_on_erasing(from, command, 0, erasure, out))
    }

    /// Refuses a command that has to query other shards or the second tier if too many commands
    /// wait already. It is called before the command changes anything.
    fn check_room_for_query(&self) -> Result<(), Refusal> {
        if (self.control.shard.manages() || self.plane.tier.is_some())
            && self.control.management.shard_queries.waiting.len() >= SHARD_QUERIES
        {
            Err((507, "too many commands wait".to_owned()))
        } else {
            Ok(())
        }
    }

    /// Asks the shard after `shard` to erase what is left, or, if no shard is left, the second
    /// tier to make the erasure durable. Returns the erasure if nothing is left to do.
    pub(super) fn go_on_erasing(
        &mut self,
        from: FaceId,
        command: NameRef<'_>,
        shard: usize,
        so_far: Erasure,
        out: &mut Outbox,
    ) -> Option<Erasure> {
        let next = shard + 1;
        if next >= self.control.shard.of() || !self.control.shard.manages() {
            return self.settle(from, command, so_far, out);
        }
        // If nothing is left to erase, the shard still reports whether it has more.
        let question = ShardQuery::Erase(so_far.prefix.clone(), so_far.left(), from);
        let goal = Goal::Erase {
            shard: next,
            so_far,
        };
        let ticket = self.add_query(from, command, goal);
        out.requests.push(HostRequest::Ask {
            ticket,
            shard: next,
            question,
        });
        None
    }

    /// Asks the second tier to make a complete erasure durable. Returns the erasure if there is no
    /// tier, or if the client has to repeat the command.
    fn settle(
        &mut self,
        from: FaceId,
        command: NameRef<'_>,
        done: Erasure,
        out: &mut Outbox,
    ) -> Option<Erasure> {
        if self.plane.tier.is_none() || done.goes_on() {
            return Some(done);
        }
        let ticket = self.add_query(from, command, Goal::Settle { done });
        out.requests.push(HostRequest::SettleTier { ticket });
        None
    }

    fn add_query(&mut self, from: FaceId, command: NameRef<'_>, goal: Goal) -> u64 {
        let name = command.to_name();
        let query = PendingQuery { from, name, goal };
        self.control.management.shard_queries.add(query)
    }
}
