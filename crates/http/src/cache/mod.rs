//! The cache: accepts requests and responses, and returns the next steps. No socket, no clock.

pub(crate) mod assembly;
pub(crate) mod completion;
pub(crate) mod counters;
pub(crate) mod exchange;
pub(crate) mod failing;
pub(crate) mod failure;
pub(crate) mod fill;
pub(crate) mod invalidation;
pub(crate) mod plain;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod slice_fetch;
pub(crate) mod slicer;
pub(crate) mod slices;
pub(crate) mod source;
pub(crate) mod steps;
pub(crate) mod tier;
pub(crate) mod tier_lookup;
pub(crate) mod variants;

use crate::body::budget::Budget;
use crate::body::shared_body::BodyId;
use crate::cache::counters::Counters;
use crate::cache::failing::FailingKeys;
use crate::collapse::table::InFlightTable;
use crate::config::Config;
use crate::limits;
use crate::now::Now;
use crate::outbox::Outbox;
use crate::rfc::fields::CdnLoop;
use crate::rfc::route::Router;
use crate::store::coded_forms::WantedForm;
use crate::store::index::Store;
use crate::store::object::Objects;
use crate::store::policy_engine::{
    EngineAccess, EngineFigures, EngineHandle, Eviction, PolicyEngine,
};
use crate::store::purges::Purges;
use crate::store::second_tier::SecondTier;
use bytes::Bytes;
use larder_policy::observe::{Observation, Observer, Totals};
use larder_policy::{Engine, Job, JobDone, SpecError};
use larder_units::{ByteSize, Streams, Time};
use std::cell::RefCell;
use std::sync::Arc;

/// Keys whose requests do not wait for each other (16 bytes each). If two have the same position,
/// the older is forgotten, and one burst of its requests waits.
const HIT_FOR_MISS_ENTRIES: usize = 4096;

/// URLs whose `Vary` is remembered. If two have the same position, the older is forgotten, and its
/// next burst waits for one response.
const VARY_ENTRIES: usize = 4096;

/// The least number of entries that a shard has as its share of [`HIT_FOR_MISS_ENTRIES`],
/// [`VARY_ENTRIES`] and [`FAILURE_ENTRIES`]: with few entries, collisions would make it forget.
const LEAST_ENTRIES_PER_SHARD: usize = 256;

/// Keys whose failing origin is remembered, 32 bytes each. If two have the same position, the older
/// is forgotten, and one of its clients waits for the origin again.
const FAILURE_ENTRIES: usize = 4096;

/// A shared HTTP cache (RFC 9111) over the policy engine, or one shard of it.
///
/// The host calls [`Cache::on_request`] and follows the [`Step`](crate::Step). For a response of
/// the origin it calls [`Cache::on_response`] or [`Cache::on_failure`], and [`Cache::on_complete`]
/// when a body that it has to collect has ended. Then it carries out the [`Outbox`].
///
/// A host with one thread has one shard ([`Cache::new`]). A host with several has many
/// ([`Cache::shards`]), each behind a lock of its own. A [`Router`] finds the shard of a request.
/// The parts of the request (an exchange, a fill, an assembly, a follower) stay with that shard.
pub struct Cache {
    /// The number of this shard.
    pub(crate) shard: u16,
    pub(crate) router: Router,
    pub(crate) store: Store,
    pub(crate) in_flight_table: InFlightTable,
    pub(crate) failing: FailingKeys,
    pub(crate) hash_key: [u8; 16],
    pub(crate) cdn_loop: CdnLoop,
    pub(crate) max_object: u64,
    /// 0 without slices.
    pub(crate) slice_bytes: u64,
    /// Numbers sliced responses from a random start, so that slices of one, also of an earlier
    /// process, never pass for those of another.
    pub(crate) generations: u64,
    /// The number of bodies so far.
    bodies: u64,
    /// The settings, which [`Cache::reconfigure`] replaces. `hash_key`, `max_object` and
    /// `slice_bytes` are those in effect.
    pub(crate) config: Arc<Config>,
    pub(crate) budget: Budget,
    pub(crate) counters: Counters,
    pub(crate) tier: Option<Box<dyn SecondTier>>,
    /// Bytes that may wait to be written to the second tier.
    pub(crate) tier_queue: u64,
    pub(crate) objects: Option<Objects>,
    /// Bytes that may wait to be written to the object tier.
    pub(crate) object_queue: u64,
    /// See [`Cache::take_unsettled`].
    pub(crate) unsettled: bool,
    /// See [`Cache::trust_since`].
    pub(crate) trusted_since: Time,
    /// See [`Cache::report_invalidations`].
    reports_invalidations: bool,
}

impl Cache {
    /// Creates an empty cache with one shard.
    ///
    /// # Errors
    /// [`SpecError`] if arguments of a policy contradict each other.
    pub fn new(config: &Config, streams: &Streams) -> Result<Cache, SpecError> {
        let engine = PolicyEngine::new(Engine::new(&config.policy, config.capacity, streams)?);
        let shared = SharedParts::new(config);
        Ok(Cache::shard(
            &Arc::new(config.clone()),
            streams,
            EngineHandle::new(Box::new(RefCell::new(engine))),
            &shared,
            (0, 1),
        ))
    }

    /// Creates the shards of an empty cache, `count` of them (from 1 to [`limits::SHARDS`]). They
    /// share the capacity, the policy engine, and the memory for bodies in progress. `share` puts
    /// the engine behind a lock.
    ///
    /// # Errors
    /// [`SpecError`] if arguments of a policy contradict each other.
    pub fn shards<A: EngineAccess + Clone + 'static>(
        config: &Config,
        streams: &Streams,
        count: u16,
        share: impl FnOnce(PolicyEngine) -> A,
    ) -> Result<Vec<Cache>, SpecError> {
        let engine = share(PolicyEngine::new(Engine::new(
            &config.policy,
            config.capacity,
            streams,
        )?));
        let shared = SharedParts::new(config);
        let count = count.clamp(1, limits::SHARDS);
        let config = Arc::new(config.clone());
        let shard = |number| {
            let engine = EngineHandle::new(Box::new(engine.clone()));
            Cache::shard(&config, streams, engine, &shared, (number, count))
        };
        Ok((0..count).map(shard).collect())
    }

    /// Creates one shard: its number, and the number of all.
    fn shard(
        config: &Arc<Config>,
        streams: &Streams,
        engine: EngineHandle,
        SharedParts { budget, purges }: &SharedParts,
        (shard, shards): (u16, u16),
    ) -> Cache {
        let (max_object, slice_bytes) = sizes(config, budget);
        let observer = Observer::new(streams.stream("observer").bits(), limits::OBSERVATIONS);
        let part = |all: usize| (all / usize::from(shards)).max(LEAST_ENTRIES_PER_SHARD);
        let mut cache = Cache {
            shard,
            router: Router::new(config.hash_key, shards),
            store: Store::new(
                engine,
                observer,
                budget.clone(),
                purges.clone(),
                &config.hash_key,
                (shard, shards),
            ),
            in_flight_table: InFlightTable::new(
                part(HIT_FOR_MISS_ENTRIES),
                part(VARY_ENTRIES),
                &config.hash_key,
            ),
            failing: FailingKeys::new(part(FAILURE_ENTRIES)),
            hash_key: config.hash_key,
            cdn_loop: CdnLoop::of(&config.hash_key),
            max_object,
            slice_bytes,
            generations: streams.stream(&format!("slices {shard}")).bits(),
            bodies: 0,
            config: Arc::clone(config),
            budget: budget.clone(),
            counters: Counters::default(),
            tier: None,
            tier_queue: 0,
            objects: None,
            object_queue: 0,
            unsettled: false,
            trusted_since: Time::ZERO,
            reports_invalidations: false,
        };
        cache
            .store
            .bound_variants_to(config.variants, config.capacity.bytes());
        cache.store.set_compression(config.compression.as_ref());
        cache
    }

    /// Changes the capacity and the policy, which all shards share, while requests are in progress.
    /// A smaller capacity evicts; another policy gets the stored objects in the order in which the
    /// former one would evict them. Call it on the first shard, carry out the outbox, then call
    /// [`Cache::reconfigure`] on every shard.
    ///
    /// # Errors
    /// [`SpecError`] if arguments of a policy contradict each other. Nothing has changed then.
    pub fn reconfigure_engine(
        &mut self,
        config: &Config,
        streams: &Streams,
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<(), SpecError> {
        let mut evictions = Vec::new();
        self.store.engine.with(|engine| {
            engine.reconfigure(
                &config.policy,
                config.capacity,
                streams,
                now.time,
                &mut evictions,
            )
        })?;
        self.budget
            .set_limit(limits::filling(config.capacity.bytes()));
        self.budget.cede(self.tier_queue + self.object_queue);
        outbox.evictions.extend(evictions);
        Ok(())
    }

    /// Changes the settings of a shard. Stored responses and requests in progress keep those that
    /// they began with, except that of `compression`. The hash key does not change.
    pub fn reconfigure(&mut self, config: &Arc<Config>) {
        (self.max_object, self.slice_bytes) = sizes(config, &self.budget);
        self.store
            .bound_variants_to(config.variants, config.capacity.bytes());
        self.store.set_compression(config.compression.as_ref());
        self.config = Arc::clone(config);
    }

    /// Returns the router, which finds the shard of a request.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Removes a response that was evicted for another shard's response ([`Outbox::evictions`]).
    pub fn on_eviction(&mut self, eviction: Eviction) {
        self.store.evict(eviction);
    }

    /// Moves the effects on other shards to the outbox.
    pub(crate) fn report(&mut self, outbox: &mut Outbox) {
        self.store.take_evictions(&mut outbox.evictions);
    }

    /// Returns long work of the policy that is due. Run it on another thread, then pass its result
    /// to [`Cache::complete_job`].
    pub fn job(&mut self) -> Option<Job> {
        self.store.engine.with(PolicyEngine::job)
    }

    /// Stores a coded form of a response, if the response is still stored and the form is much
    /// smaller. Later requests that accept its coding get it.
    pub fn store_coded(
        &mut self,
        wanted: &WantedForm,
        coded: Bytes,
        now: Now,
        outbox: &mut Outbox,
    ) {
        if self.store.store_coded(wanted, coded, now.time) {
            self.counters.coded_forms += 1;
        }
        self.report(outbox);
    }

    /// Takes the result of a job.
    pub fn complete_job(&mut self, done: JobDone) {
        self.store.engine.with(|engine| engine.complete(done));
    }

    /// Checks the index against the policy engine (used bytes, objects, variants of a key), the
    /// budget of bodies, and the table of fetches. For tests, simulations and fuzz targets: O(n) in
    /// the number of stored responses. All evictions of outboxes have been carried out.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self) {
        let bodies = self.store.check_invariants();
        if self.router.shards() == 1 {
            self.budget.check_invariants(bodies);
        }
        self.in_flight_table.check_invariants();
    }

    /// Returns the number of the next body in progress.
    pub(crate) fn next_body(&mut self) -> BodyId {
        self.bodies += 1;
        BodyId {
            shard: self.shard,
            number: self.bodies,
        }
    }

    /// Appends the sampled requests of this shard since the last call, and returns the counts of
    /// all: see [`Observer::take`].
    pub fn take_observations(&mut self, last: Option<u64>, taken: &mut Vec<Observation>) -> Totals {
        self.store.observer.take(last, taken)
    }

    /// Returns the counters of this shard.
    pub fn counters(&self) -> Counters {
        let Store {
            evicted,
            variants_dropped,
            engine,
            ..
        } = &self.store;
        Counters {
            evicted: *evicted,
            variants_dropped: *variants_dropped,
            uncounted_hits: engine.uncounted,
            ..self.counters.clone()
        }
    }

    /// Returns the statistics of the policy engine, which all shards share.
    pub fn engine(&self) -> EngineFigures {
        self.store.engine.read(PolicyEngine::figures)
    }

    /// Returns the bytes of bodies that are received for the store, or that are not in the store
    /// and that clients still read. They add to [`EngineFigures::used`].
    pub fn filling(&self) -> ByteSize {
        ByteSize::from_bytes(self.budget.used())
    }

    /// Returns the bytes of header lines that stored responses of this shard share. They add to
    /// [`EngineFigures::used`].
    pub fn shared_lines(&self) -> ByteSize {
        ByteSize::from_bytes(self.store.shared_line_bytes())
    }

    /// Returns the member that the cache adds to `CDN-Loop`. The host refuses a request that
    /// returns with it, unless the store answers it ([`crate::UpstreamFailure::Circle`]).
    pub fn cdn_loop(&self) -> CdnLoop {
        self.cdn_loop.clone()
    }

    /// Returns the bytes of the largest body that is stored whole.
    pub fn max_object_bytes(&self) -> u64 {
        self.max_object
    }

    /// Returns the memory for bodies in progress, to reserve a part of it for a tier hit.
    pub fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// Returns the limit of [`Cache::filling`]: above it, nothing new is collected. Bodies that
    /// leave the store while clients read them may exceed it.
    pub fn filling_limit(&self) -> ByteSize {
        ByteSize::from_bytes(self.budget.limit())
    }
}

/// The parts that all shards share, besides the policy engine.
struct SharedParts {
    budget: Budget,
    purges: Purges,
}

impl SharedParts {
    fn new(config: &Config) -> SharedParts {
        let budget = Budget::new(limits::filling(config.capacity.bytes()));
        SharedParts {
            budget,
            purges: Purges::default(),
        }
    }
}

/// Returns the bytes of the largest body that is stored whole, and of a slice.
fn sizes(config: &Config, budget: &Budget) -> (u64, u64) {
    let max_object = config.max_object.bytes().min(budget.limit_for_large());
    let slice = match config.slice.bytes() {
        0 => 0,
        slice => slice.max(limits::SLICE_BYTES_LEAST).min(max_object),
    };
    (max_object, slice)
}
