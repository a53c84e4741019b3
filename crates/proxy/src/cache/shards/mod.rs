//! The cache behind locks, for a host whose threads share it: one lock for each shard, and one for
//! the policy engine, which a hit does not wait for. No task holds a lock across an await. The lock
//! of a shard is held while a body of some kilobytes is copied, but not longer.
//!
//! Lock order: a shard, then the engine. A thread that holds a shard locks no other one: what
//! concerns other shards is carried out after the lock is released ([`larder_http::Outbox`]).

mod assembly;
mod body_cell;
mod clock_warning;
mod handles;
mod variants;

pub use assembly::ShardAssembly;
pub use body_cell::{BrokenOff, SharedReader};
pub use handles::{OpenExchange, OpenFill, SliceWaitEnd, SliceWaiting, WaitEnd, Waiting};

use crate::base::fleet::Fleet;
use crate::base::limits;
use body_cell::BodyCell;
use bytes::Bytes;
use clock_warning::ClockWarning;
use foldhash::{HashMap, HashMapExt};
use http::{HeaderMap, StatusCode};
use larder_http::{
    Answer, Assembled, Assembly, BodyEnd, BodyId, Budget, Cache, CdnLoop, Completion, Config,
    Counters, EngineAccess, EngineFigures, Exchange, Fill, Follower, FollowerId, JoinResult,
    Joined, Now, Outbox, Piece, PlainHit, PlainRequest, PolicyEngine, Purge, ReadObject, Reply,
    RequestHead, ResponseHead, Router, Scope, SecondTier, SliceFollower, SliceJoin, Step, TierHit,
    TierSlice, TierStep, UpstreamFailure, WantedForm,
};
use larder_policy::observe::{Observation, Totals};
use larder_policy::{JobDone, SpecError};
use larder_units::{ByteSize, Streams, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The shards of a cache.
pub struct Shards {
    shards: Box<[Shard]>,
    router: Router,
    budget: Budget,
    cdn_loop: CdnLoop,
    started: Instant,
    /// True while long work of the policy runs.
    job_running: AtomicBool,
    clock_warning: ClockWarning,
    /// The fleet that the node belongs to.
    fleet: OnceLock<Arc<dyn Fleet>>,
}

/// One shard. Two of them share no cache line, or the processors would take turns at it.
#[repr(align(128))]
struct Shard {
    state: Mutex<State>,
}

struct State {
    cache: Cache,
    outbox: Outbox,
    /// The bodies of fills in progress.
    bodies: HashMap<BodyId, Arc<BodyCell>>,
    /// By [`FollowerId`].
    wakers: Vec<Option<Waker>>,
    /// Requests since the last check whether the policy has long work.
    since_job_check: u32,
}

/// The policy engine behind its lock.
#[derive(Clone)]
struct Engine(Arc<Mutex<PolicyEngine>>);

impl EngineAccess for Engine {
    fn with(&self, work: &mut dyn FnMut(&mut PolicyEngine)) {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn try_with(&self, work: &mut dyn FnMut(&mut PolicyEngine)) -> bool {
        match self.0.try_lock() {
            Ok(mut engine) => work(&mut engine),
            Err(TryLockError::Poisoned(poisoned)) => work(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }
}

/// Makes a handle of the second tier for each shard; and the size of the tier's queue.
pub type TierHandles<'a> = (&'a dyn Fn() -> Box<dyn SecondTier>, ByteSize);

/// The figures of a cache at one moment.
pub struct CacheFigures {
    /// The sums over all shards.
    pub counters: Counters,
    /// The policy engine.
    pub engine: EngineFigures,
    /// Bytes of bodies in progress: see [`Cache::filling`].
    pub filling: ByteSize,
    /// Bytes of shared header lines: see [`Cache::shared_lines`].
    pub shared_lines: ByteSize,
}

/// The next step for a request, with handles that go back to the cache when they are dropped.
pub enum Next {
    /// Send this.
    Answer(Answer),
    /// Send this; its body is put together from slices.
    Assemble(ShardAssembly<Assembled>),
    /// Send this stale response, and validate it in the background.
    Refresh(Answer, OpenExchange),
    /// Wait for the response to another request.
    Follow(Waiting),
    /// Ask the origin.
    Forward(OpenExchange),
}

/// The next step after the origin's response.
pub enum Response {
    /// Send this.
    Answer(Answer),
    /// Send this head and the origin's body.
    Relay(StatusCode, HeaderMap, Option<OpenFill>),
    /// Send this; its body is put together from slices. Collect the origin's response as well.
    Assemble(ShardAssembly<Assembled>, Option<OpenFill>),
    /// Ask again with [`Exchange::retry_headers`].
    Retry(OpenExchange),
}

/// The next step after a lookup in the second tier.
pub enum Lookup {
    /// Send this.
    Answer(Answer),
    /// Send this; its body is put together from slices.
    Assemble(ShardAssembly<Assembled>),
    /// Look this variant up.
    Variant(OpenExchange, u32),
    /// Ask the origin.
    Forward(OpenExchange),
}

/// The next step of a body that is put together from slices.
pub enum NextPiece {
    /// Send this.
    Bytes(Bytes),
    /// Read this to its end.
    Read(SharedReader),
    /// Wait for another request.
    Wait(SliceWaiting),
    /// Look this key up in the second tier.
    TierLookup(Box<[u8]>),
    /// Ask the origin.
    Ask(OpenExchange),
    /// The body is complete.
    End,
}

impl Shards {
    /// Creates an empty cache for so many threads, with its second tier if there is one.
    ///
    /// # Errors
    /// [`SpecError`] if arguments of a policy contradict each other.
    pub fn new(
        config: &Config,
        streams: &Streams,
        threads: usize,
        tier: Option<TierHandles<'_>>,
    ) -> Result<Arc<Shards>, SpecError> {
        Shards::with(
            config,
            streams,
            limits::shards(threads, config.capacity),
            tier,
        )
    }

    /// Creates an empty cache with so many shards.
    ///
    /// # Errors
    /// [`SpecError`] if arguments of a policy contradict each other.
    pub fn with(
        config: &Config,
        streams: &Streams,
        shards: u16,
        tier: Option<TierHandles<'_>>,
    ) -> Result<Arc<Shards>, SpecError> {
        let share = |engine| Engine(Arc::new(Mutex::new(engine)));
        let mut caches = Cache::shards(config, streams, shards, share)?;
        if let Some((tier, queue)) = tier {
            for cache in &mut caches {
                cache.set_tier(tier(), queue);
            }
        }
        let (router, budget, cdn_loop) =
            (caches[0].router(), caches[0].budget(), caches[0].cdn_loop());
        let shard = |cache| Shard {
            state: Mutex::new(State {
                cache,
                outbox: Outbox::default(),
                bodies: HashMap::new(),
                wakers: Vec::new(),
                since_job_check: 0,
            }),
        };
        let shards = caches.into_iter().map(shard).collect();
        let (started, job_running, clock_warning) = (
            Instant::now(),
            AtomicBool::new(false),
            ClockWarning::default(),
        );
        Ok(Arc::new(Shards {
            shards,
            router,
            budget,
            cdn_loop,
            started,
            job_running,
            clock_warning,
            fleet: OnceLock::new(),
        }))
    }

    /// Changes capacity, policy and the other settings, while requests are in progress: see
    /// [`Cache::reconfigure_engine`]. The content stays, as far as it fits. Hits do not wait; with
    /// another policy, misses wait until it has all objects.
    ///
    /// # Errors
    /// [`SpecError`] if arguments of a policy contradict each other. Nothing has changed then.
    pub fn reconfigure(&self, config: &Config, streams: &Streams) -> Result<(), SpecError> {
        let now = self.now();
        self.run(0, now, |state| {
            state
                .cache
                .reconfigure_engine(config, streams, now, &mut state.outbox)
        })?;
        let config = Arc::new(config.clone());
        for shard in &self.shards {
            shard.lock().cache.reconfigure(&config);
        }
        Ok(())
    }

    /// Returns the room for bodies in progress.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns the member that the cache adds to `CDN-Loop`.
    pub fn cdn_loop(&self) -> &CdnLoop {
        &self.cdn_loop
    }

    /// Returns the figures.
    pub fn figures(&self) -> CacheFigures {
        let (mut counters, mut shared_lines) = (Counters::default(), 0);
        for shard in &self.shards {
            let state = shard.lock();
            counters.add(&state.cache.counters());
            shared_lines += state.cache.shared_lines().bytes();
        }
        let state = self.shards[0].lock();
        let (engine, filling) = (state.cache.engine(), state.cache.filling());
        CacheFigures {
            counters,
            engine,
            filling,
            shared_lines: ByteSize::from_bytes(shared_lines),
        }
    }

    /// Returns the figures of the policy engine.
    pub fn engine(&self) -> EngineFigures {
        self.shards[0].lock().cache.engine()
    }

    /// Appends the sampled requests of all shards since the last call, and returns the counts of
    /// all requests: see [`Cache::take_observations`].
    pub fn take_observations(&self, last: Option<u64>, taken: &mut Vec<Observation>) -> Totals {
        let mut totals = Totals::default();
        for shard in &self.shards {
            totals.add(&shard.lock().cache.take_observations(last, taken));
        }
        totals
    }

    /// Checks the invariants of all shards: see [`Cache::check_invariants`]. No other thread uses
    /// the cache meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self) {
        for shard in &self.shards {
            shard.lock().cache.check_invariants();
        }
    }

    /// Returns how long before `now` a lookup was.
    pub fn since(&self, lookup: Time, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
            .saturating_sub(Duration::from_nanos(lookup.nanos()))
    }

    /// Returns the time, as the cache's calls take it.
    pub fn now(&self) -> Now {
        let nanos = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let unix_seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Now {
            time: Time::from_nanos(nanos),
            unix_seconds,
        }
    }

    /// Answers from the store, if a plain hit is enough: see [`Cache::plain_hit_at`]. Also returns
    /// the time of the lookup.
    pub fn plain_hit(
        self: &Arc<Self>,
        request: PlainRequest<'_>,
        fields: impl FnOnce() -> HeaderMap,
        head: &mut Vec<u8>,
        edit: impl FnOnce(&mut Vec<u8>),
    ) -> Option<(PlainHit, Time)> {
        let route = self
            .router
            .route(request.scheme, request.authority, request.target);
        let now = self.now();
        let mut state = self.at(route.shard(), now);
        let hit = state
            .cache
            .plain_hit_at(&route, &request, fields, now, head, edit)?;
        let is_due = state.is_job_check_due();
        drop(state);
        if is_due {
            self.start_job(route.shard());
        }
        Some((hit, now.time))
    }

    /// Passes a request to the cache, and now and then checks whether the policy has long work.
    /// `may_collapse`: it may wait for another request, or others for it.
    pub fn step(self: &Arc<Self>, head: &RequestHead<'_>, may_collapse: bool) -> Next {
        let route = self.router.route(head.scheme, head.authority, head.target);
        let (now, shard) = (self.now(), route.shard());
        let mut state = self.at(shard, now);
        let step = if may_collapse {
            state.cache.on_request_at(&route, head, now)
        } else {
            state.cache.on_uncollapsed_request_at(&route, head, now)
        };
        let is_due = state.is_job_check_due();
        drop(state);
        if is_due {
            self.start_job(shard);
        }
        self.next(shard, step)
    }

    /// See [`Cache::on_pass`].
    pub fn pass(self: &Arc<Self>, head: &RequestHead<'_>) -> Next {
        let (now, shard) = (
            self.now(),
            self.router
                .route(head.scheme, head.authority, head.target)
                .shard(),
        );
        let step = self.run(shard, now, |state| state.cache.on_pass(head, now));
        self.next(shard, step)
    }

    /// See [`Cache::on_released`].
    pub fn on_released(self: &Arc<Self>, head: &RequestHead<'_>, joined: Joined) -> Next {
        let (now, shard) = (
            self.now(),
            self.router
                .route(head.scheme, head.authority, head.target)
                .shard(),
        );
        let step = self.run(shard, now, |state| {
            state.cache.on_released(head, joined, now)
        });
        self.next(shard, step)
    }

    /// See [`Cache::on_response`]. Also returns true if the second tier has to settle before the
    /// answer: see [`Cache::take_unsettled`].
    pub fn on_response(
        self: &Arc<Self>,
        exchange: OpenExchange,
        head: ResponseHead,
    ) -> (Response, bool) {
        let exchange = exchange.into_inner();
        let (now, shard) = (self.now(), exchange.shard());
        let mut unsettled = false;
        let reply = self.run_all(shard, now, &mut unsettled, |state| {
            let reply = state
                .cache
                .on_response(exchange, head, now, &mut state.outbox);
            let fill = match &reply {
                Reply::Relay { fill, .. } | Reply::Assemble(_, fill) => fill.as_deref(),
                _ => None,
            };
            let body = fill.map(|fill| state.add_body(fill.body()));
            (reply, body)
        });
        let open = |fill: Option<Box<Fill>>, body| {
            fill.zip(body)
                .map(|(fill, body)| OpenFill::new(self, fill, body))
        };
        let response = match reply {
            (Reply::Answer(answer), _) => Response::Answer(answer),
            (
                Reply::Relay {
                    status,
                    headers,
                    fill,
                },
                body,
            ) => Response::Relay(status, headers, open(fill, body)),
            (Reply::Assemble(mut inner, fill), body) => {
                let part = inner.body.take_in_progress();
                let reader = part
                    .zip(body.as_ref())
                    .and_then(|(part, body)| body.reader(&part));
                Response::Assemble(
                    ShardAssembly {
                        inner,
                        shard,
                        reader,
                    },
                    open(fill, body),
                )
            }
            (Reply::Retry(exchange), _) => Response::Retry(OpenExchange::new(self, exchange)),
        };
        (response, unsettled)
    }

    /// See [`Cache::on_failure`].
    pub fn on_failure(&self, exchange: OpenExchange, failure: UpstreamFailure) -> Answer {
        let exchange = exchange.into_inner();
        let now = self.now();
        self.run(exchange.shard(), now, |state| {
            state
                .cache
                .on_failure(exchange, failure, now, &mut state.outbox)
        })
    }

    /// See [`Cache::on_tier_lookup`].
    pub fn on_tier_lookup(
        self: &Arc<Self>,
        exchange: OpenExchange,
        tier_hit: Option<TierHit>,
        head: &RequestHead<'_>,
    ) -> Lookup {
        let exchange = exchange.into_inner();
        let (now, shard) = (self.now(), exchange.shard());
        let step = self.run(shard, now, |state| {
            state
                .cache
                .on_tier_lookup(exchange, tier_hit, head, now, &mut state.outbox)
        });
        match step {
            TierStep::Answer(answer) => Lookup::Answer(answer),
            TierStep::Assemble(inner) => Lookup::Assemble(ShardAssembly {
                inner,
                shard,
                reader: None,
            }),
            TierStep::Variant(exchange, variant) => {
                Lookup::Variant(OpenExchange::new(self, exchange), variant)
            }
            TierStep::Forward(exchange) => Lookup::Forward(OpenExchange::new(self, exchange)),
        }
    }

    /// See [`Cache::read_object`].
    pub fn read_object(&self, exchange: &Exchange, bytes: &[u8], whole: u64) -> ReadObject {
        let now = self.now();
        let state = self.at(exchange.shard(), now);
        state.cache.read_object(exchange, bytes, whole, now)
    }

    /// Calls `set` with each shard.
    pub fn with_each(&self, mut set: impl FnMut(&mut Cache)) {
        for shard in &self.shards {
            set(&mut shard.lock().cache);
        }
    }

    /// See [`Cache::next_piece`].
    pub fn next_piece(self: &Arc<Self>, assembly: &mut ShardAssembly<Assembly>) -> NextPiece {
        if let Some(reader) = assembly.reader.take() {
            return NextPiece::Read(reader);
        }
        let (now, shard) = (self.now(), assembly.shard);
        let piece = self.run(shard, now, |state| {
            state.cache.next_piece(&mut assembly.inner, now)
        });
        self.of_piece(shard, piece)
    }

    fn of_piece(self: &Arc<Self>, shard: usize, piece: Piece) -> NextPiece {
        match piece {
            Piece::Bytes(bytes) => NextPiece::Bytes(bytes),
            Piece::Wait(follower) => NextPiece::Wait(SliceWaiting::new(self, shard, follower)),
            Piece::TierLookup(key) => NextPiece::TierLookup(key),
            Piece::Ask(exchange) => NextPiece::Ask(OpenExchange::new(self, exchange)),
            Piece::End => NextPiece::End,
        }
    }

    /// See [`Cache::next_ahead`].
    pub fn next_ahead(
        self: &Arc<Self>,
        assembly: &ShardAssembly<Assembly>,
        ahead: usize,
        is_known: &dyn Fn(u64) -> bool,
    ) -> Option<(u64, NextPiece)> {
        let (now, shard) = (self.now(), assembly.shard);
        let (at, piece) = self.run(shard, now, |state| {
            state
                .cache
                .next_ahead(&assembly.inner, ahead, is_known, now)
        })?;
        Some((at, self.of_piece(shard, piece)))
    }

    /// See [`Cache::on_tier_slice`].
    pub fn on_tier_slice(
        &self,
        assembly: &mut ShardAssembly<Assembly>,
        tier_hit: TierHit,
    ) -> Option<TierSlice> {
        let now = self.now();
        self.run(assembly.shard, now, |state| {
            state
                .cache
                .on_tier_slice(&mut assembly.inner, tier_hit, now, &mut state.outbox)
        })
    }

    /// See [`Cache::on_slice`].
    pub fn on_slice(
        self: &Arc<Self>,
        exchange: OpenExchange,
        head: ResponseHead,
    ) -> Option<OpenFill> {
        let exchange = exchange.into_inner();
        let now = self.now();
        let (fill, body) = self.run(exchange.shard(), now, |state| {
            let fill = state
                .cache
                .on_slice(exchange, head, now, &mut state.outbox)?;
            let body = state.add_body(fill.body());
            Some((fill, body))
        })?;
        Some(OpenFill::new(self, fill, body))
    }

    /// See [`Cache::on_slice_failure`].
    pub fn on_slice_failure(&self, exchange: OpenExchange) {
        let exchange = exchange.into_inner();
        let now = self.now();
        self.run(exchange.shard(), now, |state| {
            state.cache.on_slice_failure(exchange, &mut state.outbox)
        });
    }

    /// Lets a fleet decide which stored responses are trusted. It is called before the first
    /// request; of several, the first one counts.
    pub(crate) fn join_fleet(&self, fleet: &Arc<dyn Fleet>) {
        let _ = self.fleet.set(Arc::clone(fleet));
        let reports = fleet.shares_invalidations();
        for shard in &self.shards {
            shard.lock().cache.report_invalidations(reports);
        }
    }

    /// Returns that fleet.
    pub(crate) fn fleet(&self) -> Option<&Arc<dyn Fleet>> {
        self.fleet.get()
    }

    /// Locks a shard for calls at `now`.
    fn at(&self, shard: usize, now: Now) -> MutexGuard<'_, State> {
        let mut state = self.shards[shard].lock();
        if let Some(fleet) = self.fleet.get() {
            state.cache.trust_since(fleet.trusted_since(now.time));
        }
        state
    }

    /// Purges in steps, with requests in between. Returns the number of purged responses.
    pub fn purge(&self, purge: &Purge) -> u64 {
        let shards = purge.shards(&self.router);
        if matches!(purge.scope, Scope::Exact(_)) {
            return self.shards[shards.start]
                .lock()
                .cache
                .purge(purge, 0, self.now())
                .objects;
        }
        let position = self.shards[0].lock().cache.note_purge(purge);
        for shard in &self.shards {
            shard.lock().cache.begin_purge(purge);
        }
        self.shards[0].lock().cache.purge_tier(purge, position);
        let mut objects = 0;
        for shard in &self.shards {
            let mut next = Some(0);
            while let Some(from) = next {
                let now = self.now();
                let step = shard.lock().cache.continue_purge(purge, from, now);
                objects += step.objects;
                next = step.next;
            }
        }
        objects
    }

    fn join(
        &self,
        shard: usize,
        waiting: &mut Option<Follower>,
        request: &HeaderMap,
        cx: &Context<'_>,
    ) -> Poll<WaitEnd> {
        let Some(follower) = waiting.take() else {
            return Poll::Pending;
        };
        let joined = follower.joined();
        let now = self.now();
        let (result, body) = self.run(shard, now, |state| {
            let id = follower.id();
            let result = state.cache.join(follower, request);
            let body = match &result {
                JoinResult::Stream { part, .. } => state.bodies.get(&part.body).cloned(),
                _ => None,
            };
            state.set_waker(
                id,
                matches!(&result, JoinResult::Wait(_)).then(|| cx.waker().clone()),
            );
            (result, body)
        });
        Poll::Ready(match result {
            JoinResult::Wait(follower) => {
                *waiting = Some(follower);
                return Poll::Pending;
            }
            JoinResult::Answer(answer) => WaitEnd::Answer(answer),
            JoinResult::Stream {
                status,
                headers,
                part,
            } => match body.and_then(|body| body.reader(&part)) {
                Some(reader) => WaitEnd::Stream(status, headers, reader),
                None => WaitEnd::Again(joined),
            },
            JoinResult::Again(joined) => WaitEnd::Again(joined),
        })
    }

    fn join_slice(
        &self,
        shard: usize,
        waiting: &mut Option<SliceFollower>,
        cx: &Context<'_>,
    ) -> Poll<SliceWaitEnd> {
        let Some(follower) = waiting.take() else {
            return Poll::Pending;
        };
        let now = self.now();
        let (result, body) = self.run(shard, now, |state| {
            let id = follower.id();
            let result = state.cache.join_slice(follower);
            let body = match &result {
                SliceJoin::Read(part) => state.bodies.get(&part.body).cloned(),
                _ => None,
            };
            state.set_waker(
                id,
                matches!(&result, SliceJoin::Wait(_)).then(|| cx.waker().clone()),
            );
            (result, body)
        });
        Poll::Ready(match result {
            SliceJoin::Wait(follower) => {
                *waiting = Some(follower);
                return Poll::Pending;
            }
            SliceJoin::Read(part) => body
                .and_then(|body| body.reader(&part))
                .map_or(SliceWaitEnd::Again, SliceWaitEnd::Read),
            SliceJoin::Again => SliceWaitEnd::Again,
            SliceJoin::Broken => SliceWaitEnd::Broken,
        })
    }

    fn leave(&self, shard: usize, follower: Follower) {
        let mut state = self.shards[shard].lock();
        state.set_waker(follower.id(), None);
        state.cache.on_follower_left(follower);
    }

    fn leave_slice(&self, shard: usize, follower: SliceFollower) {
        let mut state = self.shards[shard].lock();
        state.set_waker(follower.id(), None);
        state.cache.on_slice_follower_left(follower);
    }

    fn abandon(&self, exchange: Box<Exchange>) {
        let now = self.now();
        self.run(exchange.shard(), now, |state| {
            state.cache.on_abandoned(exchange, &mut state.outbox)
        });
    }

    fn close(&self, fill: &Fill) {
        self.shards[fill.body().shard()]
            .lock()
            .cache
            .on_passing(fill);
    }

    fn put_slices(&self, fill: &mut Fill) -> bool {
        let now = self.now();
        self.shards[fill.body().shard()]
            .lock()
            .cache
            .on_slices_cut(fill, now)
    }

    fn complete(&self, fill: Box<Fill>, collected: Option<Bytes>) -> (Completion, BodyEnd) {
        let (now, body) = (self.now(), fill.body());
        self.run(body.shard(), now, |state| {
            state.bodies.remove(&body);
            state
                .cache
                .on_complete(fill, collected, now, &mut state.outbox)
        })
    }

    fn abort(&self, fill: Box<Fill>) -> BodyEnd {
        let (now, body) = (self.now(), fill.body());
        self.run(body.shard(), now, |state| {
            state.bodies.remove(&body);
            state.cache.on_abort(fill, &mut state.outbox)
        })
    }

    fn next(self: &Arc<Self>, shard: usize, step: Step) -> Next {
        match step {
            Step::Answer(answer) => Next::Answer(answer),
            Step::Assemble(inner) => Next::Assemble(ShardAssembly {
                inner,
                shard,
                reader: None,
            }),
            Step::Refresh(answer, exchange) => {
                Next::Refresh(answer, OpenExchange::new(self, exchange))
            }
            Step::Follow(follower) => Next::Follow(Waiting::new(self, shard, follower)),
            Step::Forward(exchange) => Next::Forward(OpenExchange::new(self, exchange)),
        }
    }

    /// Runs `work` on a shard, and carries out its outbox.
    fn run<T>(&self, shard: usize, now: Now, work: impl FnOnce(&mut State) -> T) -> T {
        self.run_all(shard, now, &mut false, work)
    }

    /// Does what [`Shards::run`] does. Sets `unsettled` if a shard says so.
    fn run_all<T>(
        &self,
        shard: usize,
        now: Now,
        unsettled: &mut bool,
        work: impl FnOnce(&mut State) -> T,
    ) -> T {
        let mut state = self.at(shard, now);
        let result = work(&mut state);
        *unsettled |= state.cache.take_unsettled();
        let State { outbox, wakers, .. } = &mut *state;
        if outbox.is_empty() {
            return result;
        }
        let Outbox {
            woken,
            evictions,
            invalidations,
            invalidated,
            clock_behind,
        } = std::mem::take(outbox);
        let waker = |follower: FollowerId| wakers.get_mut(follower.index()).and_then(Option::take);
        let woken: Vec<Waker> = woken.into_iter().filter_map(waker).collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        if let Some(origin) = &clock_behind {
            self.clock_warning.log(origin);
        }
        for eviction in evictions {
            self.shards[eviction.shard()]
                .lock()
                .cache
                .on_eviction(eviction);
        }
        for invalidation in invalidations {
            let mut other = self.shards[invalidation.shard()].lock();
            other.cache.on_invalidation(&invalidation, now);
            *unsettled |= other.cache.take_unsettled();
        }
        if let Some(fleet) = self.fleet.get().filter(|_| !invalidated.is_empty()) {
            fleet.invalidate(invalidated);
        }
        result
    }

    /// Starts long work of the policy, if some is due and none runs. AdaptSize's search takes tens
    /// of milliseconds, too long for a request thread.
    #[cold]
    fn start_job(self: &Arc<Self>, shard: usize) {
        if self.job_running.swap(true, Ordering::Relaxed) {
            return;
        }
        let running = JobRunning(Arc::clone(self));
        let Some(job) = self.shards[shard].lock().cache.job() else {
            return;
        };
        let work = move || running.0.complete_job(job.run());
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(work)),
            Err(_) => work(),
        }
    }

    /// See [`Cache::store_coded`].
    pub fn store_coded(&self, wanted: &WantedForm, coded: Bytes) {
        let now = self.now();
        self.run(wanted.shard(), now, |state| {
            state
                .cache
                .store_coded(wanted, coded, now, &mut state.outbox)
        });
    }

    fn complete_job(&self, done: JobDone) {
        self.shards[0].lock().cache.complete_job(done);
    }
}

/// Long work of the policy, which runs until this is dropped, also by a panic, so that the next may
/// run.
struct JobRunning(Arc<Shards>);

impl Drop for JobRunning {
    fn drop(&mut self) {
        self.0.job_running.store(false, Ordering::Relaxed);
    }
}

impl Shard {
    /// A method of the cache leaves it consistent or does not return: a panic in one is a bug, and
    /// the cache continues.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a request. Returns true if it is time to check whether the policy has long work.
    fn is_job_check_due(&mut self) -> bool {
        self.since_job_check += 1;
        let is_due = self.since_job_check >= limits::REQUESTS_PER_JOB_CHECK;
        if is_due {
            self.since_job_check = 0;
        }
        is_due
    }

    fn add_body(&mut self, id: BodyId) -> Arc<BodyCell> {
        Arc::clone(self.bodies.entry(id).or_default())
    }

    fn set_waker(&mut self, follower: FollowerId, waker: Option<Waker>) {
        if let Some(place) = self.wakers.get_mut(follower.index()) {
            *place = waker;
        } else if waker.is_some() {
            self.wakers.resize_with(follower.index() + 1, || None);
            self.wakers[follower.index()] = waker;
        }
    }
}

#[cfg(test)]
mod tests;
