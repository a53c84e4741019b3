//! The cache: takes requests and responses, returns what to do. No socket, no clock.

use crate::cache_status::CacheStatus;
use crate::collapse::{InFlightTable, Join, JoinRequest, Joined};
use crate::counters::Counters;
use crate::directives::{Reload, RequestDirectives};
use crate::exchange::Ask;
use crate::exchange::{Answer, Exchange, RequestHead, Step};
use crate::fields::{self, CdnLoop};
use crate::fill::Budget;
use crate::key::Key;
use crate::slices::Requester;
use crate::store::{Found, Store};
use crate::tier::SecondTier;
use crate::tier_lookup::TierLookup;
use crate::{ForwardReason, Now, conditional, limits};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use larder_policy::{Engine, Job, JobDone, Slot, Spec, SpecError};
use larder_units::{ByteSize, Streams};

/// The configuration of a [`Cache`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The limit of stored bytes: bodies, header blocks, keys and the structures around them (see
    /// [`limits`]).
    pub capacity: ByteSize,
    /// The policies.
    pub policy: Spec,
    /// The largest stored body. At most seven eighths of the room for bodies in progress
    /// ([`limits::filling`]) count: a fifth of a small capacity, a tenth of a large one.
    pub max_object: ByteSize,
    /// The size of slices: bodies that are requested in ranges are fetched and stored in such
    /// parts; 0: only whole. From [`limits::SLICE_BYTES_LEAST`] to the effective `max_object`.
    pub slice: ByteSize,
    /// True: a response with `Set-Cookie` is stored if its `Cache-Control` allows it (RFC 9111
    /// §7.3). False: only if it has `public` or `s-maxage`.
    pub share_cookies: bool,
    /// Targeted response fields for this cache (RFC 9213), the one with the highest priority first:
    /// `CDN-Cache-Control`, or the operator's own.
    pub targets: Vec<HeaderName>,
    /// True if a client's `no-cache` and `max-age=0` are ignored: a fresh stored response answers a
    /// reload too.
    pub ignore_reloads: bool,
    /// The secret of the keys' hash, from the host's entropy. Without it, no client can make keys
    /// collide.
    pub hash_key: [u8; 16],
}

/// A shared HTTP cache (RFC 9111) over the policy engine.
///
/// The host calls [`Cache::on_request`] and follows the [`Step`]. For a response of the origin it
/// calls [`Cache::on_response`] or [`Cache::on_failure`], and [`Cache::on_complete`] when a body
/// that it has to collect has ended.
pub struct Cache {
    pub(crate) store: Store,
    pub(crate) in_flight_table: InFlightTable,
    pub(crate) hash_key: [u8; 16],
    pub(crate) cdn_loop: CdnLoop,
    pub(crate) max_object: u64,
    /// 0 without slices.
    pub(crate) slice_bytes: u64,
    /// Numbers sliced responses from a random start: slices of one, also of an earlier process, are
    /// never taken for those of another.
    pub(crate) generations: u64,
    pub(crate) share_cookies: bool,
    pub(crate) ignores_reloads: bool,
    pub(crate) targets: Box<[HeaderName]>,
    pub(crate) budget: Budget,
    pub(crate) counters: Counters,
    pub(crate) tier: Option<Box<dyn SecondTier>>,
    /// Bytes that may wait to be written to the tier.
    pub(crate) tier_queue: u64,
    /// See [`Cache::take_unsettled`].
    pub(crate) unsettled: bool,
}

impl Cache {
    /// Creates an empty cache.
    ///
    /// # Errors
    /// [`SpecError`] if arguments of a policy contradict each other.
    pub fn new(config: &Config, streams: &Streams) -> Result<Cache, SpecError> {
        let engine = Engine::new(&config.policy, config.capacity, streams)?;
        let budget = Budget::new(limits::filling(config.capacity.bytes()));
        let max_object = config.max_object.bytes().min(budget.limit_for_large());
        let slice = config.slice.bytes();
        let slice_bytes = if slice == 0 { 0 } else { slice.max(limits::SLICE_BYTES_LEAST).min(max_object) };
        Ok(Cache {
            store: Store::new(engine, budget.clone()),
            in_flight_table: InFlightTable::new(),
            hash_key: config.hash_key,
            cdn_loop: CdnLoop::of(&config.hash_key),
            max_object,
            slice_bytes,
            generations: streams.stream("slices").bits(),
            share_cookies: config.share_cookies,
            ignores_reloads: config.ignore_reloads,
            targets: config.targets.clone().into_boxed_slice(),
            budget,
            counters: Counters::default(),
            tier: None,
            tier_queue: 0,
            unsettled: false,
        })
    }

    /// Processes a client's request.
    pub fn on_request(&mut self, request: &RequestHead<'_>, now: Now) -> Step {
        self.counters.requests += 1;
        self.step(request, None, now)
    }

    /// Continues with a client that waited for the response to another request and got no answer
    /// ([`crate::JoinResult::Again`]). `joined` is [`crate::Follower::joined`]; a reload accepts a
    /// stored response that came since then and was not requested before the response that it
    /// waited for.
    pub fn on_released(&mut self, request: &RequestHead<'_>, joined: Joined, now: Now) -> Step {
        self.step(request, Some(joined), now)
    }

    /// Returns the directives of a client, as far as they are obeyed.
    pub(crate) fn directives(&self, headers: &HeaderMap) -> RequestDirectives {
        let directives = RequestDirectives::of(headers);
        if self.ignores_reloads { directives.without_reload() } else { directives }
    }

    /// `joined` is set if the request waited for another one's response, which did not answer it.
    fn step(&mut self, request: &RequestHead<'_>, joined: Option<Joined>, now: Now) -> Step {
        let key = Key::new(request.scheme, request.authority, request.target);
        let hash = key.hash(&self.hash_key);
        let directives = self.directives(request.headers);
        match passes_by(request, &key) {
            // Nothing stored answers it, and the origin must not be asked.
            Some(ForwardReason::Bypass) if directives.only_if_cached => return self.unsatisfied(request, now),
            Some(reason) => {
                let mut exchange = self.forward(request, key, hash, reason, now);
                exchange.forbids_storing = directives.no_store;
                return Step::Forward(exchange);
            }
            None => {}
        }
        let (reason, held) = match self.answer_from_store(request, &key, hash, &directives, joined, now) {
            Ok(step) => return step,
            Err(miss) => miss,
        };
        let in_tier = held.is_none() && self.may_be_in_tier(&key);
        if directives.only_if_cached && !in_tier {
            return self.unsatisfied(request, now);
        }
        let may_store = request.method == Method::GET && !directives.no_store && !directives.only_if_cached;
        let held = held.map(|slot| self.store.get_mut(slot).clone());
        let opening = if may_store { self.opening(request, hash, held.as_ref(), now) } else { None };
        let mut lead = None;
        // A request of this cache that comes back in a loop gets an error from the host: no request
        // may follow it.
        if may_store && may_share(&directives, reason, joined) && !self.cdn_loop.goes_round(request.headers) {
            // A client's own condition or range may bring a 304 or a part, which is useless to
            // others.
            let may_lead = held.is_some() || opening.is_some() || !conditional::asks_for_less(request.headers);
            let passed = fields::cdn_loop_count(request.headers);
            let asking = JoinRequest { headers: request.headers, directives, reason, passed, now };
            match self.in_flight_table.join(&key, hash, &asking, may_lead) {
                Join::Lead(own) => lead = Some(own),
                Join::Follow(follower) => {
                    self.counters.collapsed += 1;
                    return Step::Follow(follower);
                }
                Join::Bypass => {}
            }
        }
        let mut exchange = match in_tier {
            // It is counted if it is forwarded after all.
            true => self.exchange(request, key, hash, reason, now),
            false => self.forward(request, key, hash, reason, now),
        };
        exchange.tier_lookup = if in_tier { TierLookup::Any } else { TierLookup::No };
        exchange.ask = opening.map_or(Ask::Whole, Ask::Slice);
        exchange.insists = directives.no_cache;
        exchange.may_store = may_store;
        exchange.forbids_storing = directives.no_store;
        exchange.held = held;
        exchange.lead = lead;
        Step::Forward(exchange)
    }

    /// Returns the step of a hit; otherwise why it is none, and the stored response that has to be
    /// validated.
    fn answer_from_store(
        &mut self,
        request: &RequestHead<'_>,
        key: &Key<'_>,
        hash: u64,
        directives: &RequestDirectives,
        joined: Option<Joined>,
        now: Now,
    ) -> Result<Step, (ForwardReason, Option<Slot>)> {
        let slot = match self.store.find(key, hash, request.headers) {
            Found::Match(slot) => slot,
            Found::OtherVariants => return Err((ForwardReason::VaryMiss, None)),
            Found::Nothing => return Err((ForwardReason::UriMiss, None)),
        };
        let stored = self.store.get_mut(slot);
        let freshness = stored.freshness;
        let is_reloaded = joined.is_some_and(|joined| joined.is_reloaded_by(&freshness));
        let directives = if is_reloaded { directives.without_reload() } else { *directives };
        if freshness.satisfies(&directives, now.time) {
            if stored.sliced().is_some() {
                let requester =
                    Requester { key: key.clone(), head: request, only_if_cached: directives.only_if_cached };
                return Ok(self.hit_slices(slot, hash, requester, now));
            }
            return Ok(Step::Answer(self.hit(slot, hash, request, now)));
        }
        // A sliced response is validated first: otherwise each missing slice would be requested as
        // a part of a representation that may be gone.
        if stored.sliced().is_none() && freshness.may_be_stale_once_more(&directives, now.time) {
            return Ok(self.hit_and_refresh(slot, key.clone(), hash, request, now));
        }
        let reason = if freshness.is_reusable(now.time) { ForwardReason::Request } else { ForwardReason::Stale };
        Err((reason, Some(slot)))
    }

    /// RFC 5861 §3: one request per key validates in the background; others get the stale response
    /// meanwhile.
    fn hit_and_refresh(&mut self, slot: Slot, key: Key<'_>, hash: u64, request: &RequestHead<'_>, now: Now) -> Step {
        let stored = self.store.get_mut(slot).clone();
        let answer = self.hit(slot, hash, request, now);
        self.counters.stale += 1;
        if self.in_flight_table.is_under_way(&key, hash) {
            return Step::Answer(answer);
        }
        let lead = self.in_flight_table.lead(&key, hash, fields::cdn_loop_count(request.headers), now.time);
        let mut exchange = self.forward(request, key, hash, ForwardReason::Stale, now);
        // Also if the client used HEAD: the renewed response answers GET.
        exchange.method = Method::GET;
        exchange.may_store = true;
        exchange.in_background = true;
        exchange.held = Some(stored);
        exchange.lead = Some(lead);
        Step::Refresh(answer, exchange)
    }

    /// Returns long work of the policy that is due. Run it on another thread, then pass its result
    /// to [`Cache::complete_job`].
    pub fn job(&mut self) -> Option<Job> {
        self.store.engine.job()
    }

    /// Takes the result of a job.
    pub fn complete_job(&mut self, done: JobDone) {
        self.store.engine.complete(done);
    }

    /// Checks the index against the policy engine (used bytes, objects, variants of a key), the
    /// budget of bodies, and the table of fetches. For tests, simulations and fuzz targets: O(n) in
    /// the number of stored responses.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self) {
        self.store.check_invariants();
        self.in_flight_table.check_invariants();
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        Counters { evicted: self.store.evicted, ..self.counters.clone() }
    }

    /// Returns the policy engine: bytes used, objects, the policies' figures.
    pub fn engine(&self) -> &Engine {
        &self.store.engine
    }

    /// Returns the bytes of bodies that are received for the store, or that are not in the store
    /// and that clients still read; beside [`Engine::used`].
    pub fn filling(&self) -> ByteSize {
        ByteSize::from_bytes(self.budget.used())
    }

    /// Returns the member that it adds to `CDN-Loop`. The host refuses a request that brings it
    /// back, unless the store answers it ([`crate::UpstreamFailure::Circle`]).
    pub fn cdn_loop(&self) -> CdnLoop {
        self.cdn_loop.clone()
    }

    /// Returns the room for bodies in progress, to reserve a part of it for a tier hit.
    pub fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// Returns the limit of [`Cache::filling`]: above it, nothing new is collected. Bodies that
    /// leave the store while clients read them may exceed it.
    pub fn filling_limit(&self) -> ByteSize {
        ByteSize::from_bytes(self.budget.limit())
    }

    fn hit(&mut self, slot: Slot, hash: u64, request: &RequestHead<'_>, now: Now) -> Answer {
        self.store.engine.hit(slot, hash, now.time);
        let stored = self.store.get_mut(slot);
        stored.hit_headers(now.time);
        let answer = stored.ready(stored.headers()).reply(request.method, request.headers).with_body_of(stored);
        self.counters.hits += 1;
        self.counters.hit_bytes += answer.length();
        answer
    }

    /// RFC 9111 §5.2.1.7.
    pub(crate) fn unsatisfied(&mut self, request: &RequestHead<'_>, now: Now) -> Step {
        self.counters.unsatisfied += 1;
        let line = "larder: nothing stored answers this request, and it said only-if-cached\n";
        let status = StatusCode::GATEWAY_TIMEOUT;
        Step::Answer(Answer::error(status, request.method, line, CacheStatus::Unsatisfied, now))
    }

    fn forward(
        &mut self,
        request: &RequestHead<'_>,
        key: Key<'_>,
        hash: u64,
        reason: ForwardReason,
        now: Now,
    ) -> Box<Exchange> {
        self.counters.forward(reason);
        self.exchange(request, key, hash, reason, now)
    }

    fn exchange(
        &self,
        request: &RequestHead<'_>,
        key: Key<'_>,
        hash: u64,
        reason: ForwardReason,
        now: Now,
    ) -> Box<Exchange> {
        let (method, version) = (request.method.clone(), request.version);
        Box::new(Exchange::new(key.into_owned(), hash, method, version, &self.cdn_loop, reason, now.time))
    }
}

/// Returns true if a request may lead or follow others. A reload that could not share a response is
/// sent alone: otherwise it would wait for one request after another.
fn may_share(directives: &RequestDirectives, reason: ForwardReason, joined: Option<Joined>) -> bool {
    if directives.reload() > Reload::No { joined.is_none() } else { reason != ForwardReason::Request }
}

/// Returns why a request bypasses the cache, if it does.
fn passes_by(request: &RequestHead<'_>, key: &Key<'_>) -> Option<ForwardReason> {
    if request.method != Method::GET && request.method != Method::HEAD {
        return Some(ForwardReason::Method);
    }
    // A body in a GET ("fat GET") is not part of the key, and an origin might answer by it.
    let odd = request.has_body || key.len() > limits::KEY_BYTES || conditional::asks_the_origin(request.headers);
    odd.then_some(ForwardReason::Bypass)
}
