//! The part of the forwarder that commands and datasets can read and change.
//!
//! The files of the protocol's modules get a [`ManagedForwarder`], and so they cannot reach the
//! PIT, the packets or the state of other commands.

use crate::control::datasets::Content;
use crate::control::erasure::Erasure;
use crate::control::pending_faces::PendingFaces;
use crate::control::refusal::Refusal;
use crate::face::{FaceConfig, FaceId};
use crate::forwarder::Forwarder;
use crate::outbox::Outbox;
use crate::stats::{FaceStats, Stats};
use crate::strategy::StrategyError;
use crate::tables::prefix_figures::PrefixFigures;
use crate::tables::rib::{NextHop, Route, RouteError};
use crate::tier::TierFigures;
use larder_packet::mgmt::CsObject;
use larder_packet::{Name, NameRef};
use larder_policy::{Spec, SpecError};
use larder_units::{ByteSize, Time};

/// The operations that commands and datasets can use. With several shards, figures and stored
/// objects are those of all shards while a dataset is created.
pub(super) trait ManagedForwarder {
    // ---- The node ----

    /// Returns milliseconds since 1970.
    fn unix_millis(&self, now: Time) -> u64;
    /// Returns the path of the host's configuration file.
    fn configuration(&self) -> Option<&str>;
    /// Returns the counters and the sizes of the tables.
    fn stats(&self) -> Stats;

    // ---- Faces ----

    /// Returns the FaceUris at which the host listens.
    fn channels(&self) -> &[String];
    /// Returns every face, by number.
    fn faces(&self) -> Vec<FaceStats>;
    /// Returns the configuration of a face.
    fn face(&self, id: FaceId) -> Option<&FaceConfig>;
    /// Returns the bytes of the largest network-layer packet.
    fn max_packet_bytes(&self) -> usize;
    /// Replaces the configuration of a face.
    fn configure_face(&mut self, id: FaceId, config: FaceConfig);
    /// Returns the `faces/create` commands that wait for the host.
    fn pending_faces(&mut self) -> &mut PendingFaces;

    // ---- Routes and strategies ----

    /// Calls `visit` with each FIB entry, in no order, until it fails.
    fn next_hops(&self, visit: &mut Visit<'_, [NextHop]>) -> Result<(), Refusal>;
    /// Calls `visit` with the routes of each prefix, in canonical order, until it fails.
    fn routes(&self, visit: &mut Visit<'_, [Route]>) -> Result<(), Refusal>;
    /// Adds a route, or replaces the one of the same prefix, face and origin.
    fn add_route(&mut self, prefix: &Name, route: Route) -> Result<(), RouteError>;
    /// Removes a route, if it exists.
    fn remove_route(&mut self, prefix: &Name, face: FaceId, origin: u64);
    /// Calls `visit` with each strategy choice, in no order, until it fails.
    fn strategies(&self, visit: &mut Visit<'_, Name>) -> Result<(), Refusal>;
    /// Sets the strategy of a prefix, and returns its complete name.
    fn set_strategy(&mut self, prefix: &Name, strategy: &Name) -> Result<Name, StrategyError>;
    /// Removes the strategy of exactly this prefix.
    fn unset_strategy(&mut self, prefix: &Name);

    // ---- The Content Store ----

    /// Returns the policy.
    fn policy(&self) -> &Spec;
    /// Returns the capacity, over all shards.
    fn capacity(&self) -> ByteSize;
    /// Returns whether the store admits new Data, and whether it answers Interests.
    fn serving(&self) -> (bool, bool);
    /// Returns what the second tier holds, if there is one.
    fn tier(&self) -> Option<TierFigures>;
    /// Returns the stored objects under a prefix, in no order. If a dataset cannot hold them all,
    /// it returns more than fit.
    fn stored(&self, now: Time, prefix: NameRef<'_>) -> Vec<CsObject>;
    /// Returns hits and misses of the most requested prefixes, or `None` if they are not counted.
    fn figures_by_prefix(&self) -> Option<Vec<PrefixFigures>>;
    /// Replaces the policy, with this capacity over all shards or the present one.
    fn set_policy(
        &mut self,
        now: Time,
        policy: &Spec,
        capacity: Option<ByteSize>,
    ) -> Result<(), SpecError>;
    /// Sets the capacity, over all shards.
    fn set_capacity(&mut self, now: Time, capacity: ByteSize);
    /// Sets whether the store admits new Data, and whether it answers Interests.
    fn set_serving(&mut self, admits: bool, serves: bool);
    /// Erases stored Data, for the command `command` of the face `from`. Returns `None` if the
    /// command has to wait for other shards or for the second tier.
    fn erase(
        &mut self,
        now: Time,
        from: FaceId,
        command: NameRef<'_>,
        erasure: Erasure,
        out: &mut Outbox,
    ) -> Result<Option<Erasure>, Refusal>;
}

/// Takes the value of one prefix.
pub(super) type Visit<'a, T> = dyn FnMut(Name, &T) -> Result<(), Refusal> + 'a;

/// The function of a dataset. It adds the entries to the content.
pub(super) type DatasetFn =
    fn(&dyn ManagedForwarder, Time, NameRef<'_>, &mut Content) -> Result<(), Refusal>;

impl ManagedForwarder for Forwarder {
    fn unix_millis(&self, now: Time) -> u64 {
        Forwarder::unix_millis(self, now)
    }

    fn configuration(&self) -> Option<&str> {
        self.control.management.configuration.as_deref()
    }

    fn stats(&self) -> Stats {
        self.stats_of_all()
    }

    fn channels(&self) -> &[String] {
        &self.control.management.channels
    }

    fn faces(&self) -> Vec<FaceStats> {
        self.face_stats_of_all()
    }

    fn face(&self, id: FaceId) -> Option<&FaceConfig> {
        Forwarder::face(self, id)
    }

    fn max_packet_bytes(&self) -> usize {
        self.data.max_packet_bytes
    }

    fn configure_face(&mut self, id: FaceId, config: FaceConfig) {
        self.data.faces.configure(id, config);
        self.tell_config(id);
    }

    fn pending_faces(&mut self) -> &mut PendingFaces {
        &mut self.control.management.pending_faces
    }

    fn next_hops(&self, visit: &mut Visit<'_, [NextHop]>) -> Result<(), Refusal> {
        self.data
            .fib
            .iter()
            .try_for_each(|(prefix, next_hops)| visit(prefix, next_hops))
    }

    fn routes(&self, visit: &mut Visit<'_, [Route]>) -> Result<(), Refusal> {
        self.control
            .rib
            .iter()
            .try_for_each(|(prefix, routes)| visit(prefix.clone(), routes))
    }

    fn add_route(&mut self, prefix: &Name, route: Route) -> Result<(), RouteError> {
        Forwarder::add_route(self, prefix, route)
    }

    fn remove_route(&mut self, prefix: &Name, face: FaceId, origin: u64) {
        Forwarder::remove_route(self, prefix, face, origin);
    }

    fn strategies(&self, visit: &mut Visit<'_, Name>) -> Result<(), Refusal> {
        self.data
            .strategies
            .iter()
            .try_for_each(|(prefix, choice)| visit(prefix, choice.instance()))
    }

    fn set_strategy(&mut self, prefix: &Name, strategy: &Name) -> Result<Name, StrategyError> {
        Forwarder::set_strategy(self, prefix, strategy)
    }

    fn unset_strategy(&mut self, prefix: &Name) {
        Forwarder::unset_strategy(self, prefix);
    }

    fn policy(&self) -> &Spec {
        Forwarder::policy(self)
    }

    fn capacity(&self) -> ByteSize {
        self.control.capacity
    }

    fn serving(&self) -> (bool, bool) {
        (
            self.data.content_store.admits,
            self.data.content_store.serves,
        )
    }

    fn tier(&self) -> Option<TierFigures> {
        self.data.tier.as_ref().map(|tier| tier.host.figures())
    }

    fn stored(&self, now: Time, prefix: NameRef<'_>) -> Vec<CsObject> {
        let mut objects = self.stored_under(now, prefix);
        objects.extend(self.stored_by_others());
        objects
    }

    fn figures_by_prefix(&self) -> Option<Vec<PrefixFigures>> {
        self.data
            .figures_by_prefix
            .as_ref()
            .map(|_| self.figures_by_prefix_of_all())
    }

    fn set_policy(
        &mut self,
        now: Time,
        policy: &Spec,
        capacity: Option<ByteSize>,
    ) -> Result<(), SpecError> {
        Forwarder::set_policy(self, now, policy, capacity)
    }

    fn set_capacity(&mut self, now: Time, capacity: ByteSize) {
        Forwarder::set_capacity(self, now, capacity);
    }

    fn set_serving(&mut self, admits: bool, serves: bool) {
        Forwarder::set_serving(self, admits, serves);
    }

    fn erase(
        &mut self,
        now: Time,
        from: FaceId,
        command: NameRef<'_>,
        erasure: Erasure,
        out: &mut Outbox,
    ) -> Result<Option<Erasure>, Refusal> {
        self.may_ask()?;
        if let Some(tier) = &mut self.data.tier {
            // The tier is first: records that it reads while the shards erase are then refused.
            tier.host.erase(erasure.prefix.as_name());
        }
        let (erased, more) =
            self.data
                .content_store
                .erase(now, from, erasure.prefix.as_name(), erasure.left());
        let erasure = erasure.with(erased, more);
        let done = self.ask_next_to_erase(from, command, 0, erasure, out);
        Ok(done.and_then(|done| self.settle(from, command, done, out)))
    }
}
