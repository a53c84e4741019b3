//! The requests of clients: the answer from the store, a wait for another request, or the origin.

use crate::cache::Cache;
use crate::cache::exchange::{Ask, Exchange, RequestHead, TierLookup};
use crate::cache::slices::Requester;
use crate::cache::steps::Step;
use crate::collapse::follower::{Follower, JoinResult, Joined, SliceFollower, SliceJoin};
use crate::collapse::in_flight::JoinRequest;
use crate::collapse::table::{Join, Sharers};
use crate::config::ClientNoCache;
use crate::limits;
use crate::now::Now;
use crate::rfc::cache_status::{CacheStatus, ForwardReason};
use crate::rfc::coding::content_coding::weaken_tag;
use crate::rfc::directives::{Reload, RequestDirectives};
use crate::rfc::freshness::Freshness;
use crate::rfc::key::Key;
use crate::rfc::route::Route;
use crate::rfc::selection::Ready;
use crate::rfc::vary::Selector;
use crate::rfc::{conditional, date, fields};
use crate::store::answer::Answer;
use crate::store::coded_forms::AnswerCoding;
use crate::store::entry::Codable;
use crate::store::index::Found;
use crate::store::object::Offer;
use crate::store::policy_engine::EntryId;
use crate::store::stored::Stored;
use bytes::Bytes;
use http::header::DATE;
use http::{HeaderMap, Method, StatusCode};
use larder_units::Time;

impl Cache {
    /// Processes a client's request.
    pub fn on_request(&mut self, request: &RequestHead<'_>, now: Now) -> Step {
        self.on_request_at(
            &self
                .router
                .route(request.scheme, request.authority, request.target),
            request,
            now,
        )
    }

    /// Does what [`Cache::on_request`] does, for a request whose route is known.
    pub fn on_request_at(
        &mut self,
        route: &Route<'_>,
        request: &RequestHead<'_>,
        now: Now,
    ) -> Step {
        self.counters.requests += 1;
        self.step(route, request, None, self.config.collapse, now)
    }

    /// Does what [`Cache::on_request_at`] does, for a request that, by the host's decision, neither
    /// waits for another one nor lets others wait for it.
    pub fn on_uncollapsed_request_at(
        &mut self,
        route: &Route<'_>,
        request: &RequestHead<'_>,
        now: Now,
    ) -> Step {
        self.counters.requests += 1;
        self.step(route, request, None, false, now)
    }

    /// Processes a client's request that bypasses the store by the host's decision: no stored
    /// response answers it, and its response is not stored.
    pub fn on_pass(&mut self, request: &RequestHead<'_>, now: Now) -> Step {
        self.counters.requests += 1;
        let directives = self.directives(request.headers);
        if directives.only_if_cached {
            return Step::Answer(self.unsatisfied(request, now));
        }
        let Route { key, hash, .. } =
            self.router
                .route(request.scheme, request.authority, request.target);
        let reason = match *request.method {
            Method::GET | Method::HEAD => ForwardReason::Bypass,
            _ => ForwardReason::Method,
        };
        let mut exchange = self.forward(request, key, hash, reason, now);
        exchange.forbids_storing = true;
        Step::Forward(exchange)
    }

    /// Continues with a client that waited for the response to another request and got no answer
    /// ([`crate::JoinResult::Again`]). A reload accepts a stored response that came since it
    /// `joined` and was not requested before the response that it waited for.
    pub fn on_released(&mut self, request: &RequestHead<'_>, joined: Joined, now: Now) -> Step {
        let route = self
            .router
            .route(request.scheme, request.authority, request.target);
        self.step(&route, request, Some(joined), self.config.collapse, now)
    }

    /// Returns the result for a request that waits for another one's response, or lets it wait.
    /// `request` are its fields.
    pub fn join(&mut self, follower: Follower, request: &HeaderMap) -> JoinResult {
        self.in_flight_table.resolve(follower, request)
    }

    /// Returns the result for a body that waits for a slice, or lets it wait.
    pub fn join_slice(&mut self, follower: SliceFollower) -> SliceJoin {
        self.in_flight_table.resolve_slice(follower)
    }

    /// Reports that the client of a waiting request has left.
    pub fn on_follower_left(&mut self, follower: Follower) {
        self.in_flight_table.leave(follower);
    }

    /// Reports that the client of a body that waits for a slice has left.
    pub fn on_slice_follower_left(&mut self, follower: SliceFollower) {
        self.in_flight_table.leave(follower.follower);
    }

    /// Sets the time since which stored responses are trusted: those that were requested earlier
    /// are served only after the origin has confirmed them, and not at all if it fails. A node of a
    /// fleet does so while it does not know which purges it has missed. [`Time::ZERO`] trusts all.
    pub fn trust_since(&mut self, time: Time) {
        self.trusted_since = time;
    }

    /// Returns true if a stored response would be served, if it were trusted.
    pub(crate) fn is_untrusted(&self, stored: &Stored, now: Now) -> bool {
        let freshness = &stored.freshness;
        freshness.is_requested_before(self.trusted_since) && freshness.is_reusable(now.time)
    }

    /// Returns the directives of a client that the cache obeys.
    pub(crate) fn directives(&self, headers: &HeaderMap) -> RequestDirectives {
        let directives = RequestDirectives {
            trusted_since: self.trusted_since,
            ..RequestDirectives::of(headers)
        };
        if self.config.client_no_cache == ClientNoCache::Ignore {
            directives.without_reload()
        } else {
            directives
        }
    }

    /// Returns the next step. `joined` is set if the request waited for another one's response,
    /// which did not answer it.
    fn step(
        &mut self,
        route: &Route<'_>,
        request: &RequestHead<'_>,
        joined: Option<Joined>,
        collapses: bool,
        now: Now,
    ) -> Step {
        let Route { key, hash, .. } = route.clone();
        let directives = self.directives(request.headers);
        match passes_by(request, &key) {
            // No stored response answers it, and the origin must not be asked.
            Some(ForwardReason::Bypass) if directives.only_if_cached => {
                return Step::Answer(self.unsatisfied(request, now));
            }
            Some(reason) => {
                let mut exchange = self.forward(request, key, hash, reason, now);
                exchange.forbids_storing = directives.no_store;
                return Step::Forward(exchange);
            }
            None => {}
        }
        let (reason, held) =
            match self.answer_from_store(request, &key, hash, &directives, joined, now) {
                Ok(step) => return step,
                Err(miss) => miss,
            };
        let in_tier = held.is_none() && self.may_be_in_tier(&key);
        if directives.only_if_cached && !in_tier {
            return Step::Answer(self.unsatisfied(request, now));
        }
        let may_store =
            request.method == Method::GET && !directives.no_store && !directives.only_if_cached;
        let held = held.map(|slot| self.store.stored(slot));
        let opening = if may_store {
            self.opening(request, hash, held.as_ref(), now)
        } else {
            None
        };
        let mut lead = None;
        // A request of this cache that comes back in a loop gets an error from the host: no request
        // may follow it.
        if collapses
            && may_store
            && may_share(&directives, reason, joined)
            && !self.cdn_loop.goes_round(request.headers)
        {
            // A client's own condition or range may lead to a 304 or a part, which other requests
            // cannot use.
            let may_lead =
                held.is_some() || opening.is_some() || !conditional::asks_for_less(request.headers);
            let passed = fields::cdn_loop_count(request.headers);
            let asking = JoinRequest {
                headers: request.headers,
                directives,
                reason,
                passed,
                now,
            };
            match self.join_in_flight(&key, hash, &asking, may_lead) {
                Join::Lead(own) => lead = Some(own),
                Join::Follow(follower) => {
                    self.counters.collapsed += 1;
                    return Step::Follow(follower);
                }
                Join::Bypass => {}
            }
        }
        let mut exchange = if in_tier {
            // It counts if it is forwarded after all.
            self.exchange(request, key, hash, reason, now)
        } else {
            self.forward(request, key, hash, reason, now)
        };
        exchange.tier_lookup = if in_tier {
            TierLookup::Any
        } else {
            TierLookup::No
        };
        exchange.ask = opening.map_or(Ask::Whole, Ask::Slice);
        exchange.insists = directives.no_cache;
        exchange.is_untrusted = held
            .as_ref()
            .is_some_and(|held| self.is_untrusted(held, now));
        exchange.may_store = may_store;
        exchange.forbids_storing = directives.no_store;
        exchange.held = held;
        exchange.lead = lead;
        Step::Forward(exchange)
    }

    /// Returns the variant that a request gets, if it is known by which fields the responses vary.
    pub(crate) fn variant_of_request(
        &self,
        key: &Key<'_>,
        hash: u64,
        request: &HeaderMap,
        now: Now,
    ) -> Selector {
        let stored = self
            .store
            .newest_variant(key, hash)
            .map(|id| self.store.entry(id).selector());
        self.in_flight_table
            .variant(hash, stored, request, now.time)
    }

    fn join_in_flight(
        &mut self,
        key: &Key<'_>,
        hash: u64,
        asking: &JoinRequest<'_>,
        may_lead: bool,
    ) -> Join {
        let variant = self.variant_of_request(key, hash, asking.headers, asking.now);
        let sharers = Sharers {
            key,
            variant: &variant,
            hash: self.in_flight_table.hash(hash, &variant),
        };
        self.in_flight_table.join(sharers, asking, may_lead)
    }

    /// Returns the step of a hit; otherwise the reason why it is none, and the stored response that
    /// must be validated.
    fn answer_from_store(
        &mut self,
        request: &RequestHead<'_>,
        key: &Key<'_>,
        hash: u64,
        directives: &RequestDirectives,
        joined: Option<Joined>,
        now: Now,
    ) -> Result<Step, (ForwardReason, Option<EntryId>)> {
        let slot = match self.store.find(key, hash, request.headers) {
            Found::Match(slot) => slot,
            Found::OtherVariants => return Err((ForwardReason::VaryMiss, None)),
            Found::Nothing => return Err((ForwardReason::UriMiss, None)),
        };
        let stored = self.store.entry(slot);
        let freshness = stored.freshness;
        let is_reloaded = joined.is_some_and(|joined| joined.is_reloaded_by(&freshness));
        let directives = if is_reloaded {
            directives.without_reload()
        } else {
            *directives
        };
        if freshness.satisfies(&directives, now.time) {
            if stored.sliced().is_some() {
                let requester = Requester {
                    key: key.clone(),
                    head: request,
                    only_if_cached: directives.only_if_cached,
                };
                return Ok(self.hit_slices(slot, requester, now));
            }
            return Ok(Step::Answer(self.hit(slot, hash, request, now)));
        }
        // The host has asked the origin, which is a better answer to any directive than a new
        // request.
        if let Some(tag) = request.confirmed
            && self.store.view(slot).is_confirmed_by(tag)
        {
            return Ok(Step::Answer(self.hit_confirmed(slot, hash, request, now)));
        }
        // A sliced response is validated first: otherwise each missing slice would be requested as
        // a part of a representation that may be gone.
        if stored.sliced().is_none() {
            let failing = self.failing.look_up(hash, now.time);
            let is_stale_allowed = freshness.may_be_stale_while_revalidating(&directives, now.time)
                || failing.is_some_and(|failing| {
                    !directives.no_store
                        && !directives.says_about_age()
                        && !freshness.is_requested_before(self.trusted_since)
                        && freshness.may_be_stale_on_failure(failing.is_disconnected, now.time)
                });
            if is_stale_allowed {
                let refreshes = failing.is_none_or(|failing| failing.is_try_due);
                return Ok(self.hit_stale(slot, key.clone(), hash, request, refreshes, now));
            }
        }
        let is_trusted = !freshness.is_requested_before(self.trusted_since);
        let reason = if is_trusted && freshness.is_reusable(now.time) {
            ForwardReason::Request
        } else {
            ForwardReason::Stale
        };
        Err((reason, Some(slot)))
    }

    /// Serves a stale response (RFC 5861). One request per variant validates it in the background,
    /// if `refreshes` is set; others get the stale response meanwhile.
    fn hit_stale(
        &mut self,
        slot: EntryId,
        key: Key<'_>,
        hash: u64,
        request: &RequestHead<'_>,
        refreshes: bool,
        now: Now,
    ) -> Step {
        let stored = self.store.stored(slot);
        let answer = self.hit(slot, hash, request, now);
        self.counters.stale += 1;
        let variant = self.variant_of_request(&key, hash, request.headers, now);
        let sharers = Sharers {
            key: &key,
            variant: &variant,
            hash: self.in_flight_table.hash(hash, &variant),
        };
        if !refreshes || self.in_flight_table.is_under_way(sharers) {
            return Step::Answer(answer);
        }
        let lead =
            self.in_flight_table
                .lead(sharers, fields::cdn_loop_count(request.headers), now.time);
        let mut exchange = self.forward(request, key, hash, ForwardReason::Stale, now);
        // Even if the client used HEAD, because the renewed response answers GET.
        exchange.method = Method::GET;
        exchange.may_store = true;
        exchange.in_background = true;
        exchange.held = Some(stored);
        exchange.lead = Some(lead);
        Step::Refresh(answer, exchange)
    }

    /// Answers with a stored response that the host has confirmed.
    fn hit_confirmed(
        &mut self,
        slot: EntryId,
        hash: u64,
        request: &RequestHead<'_>,
        now: Now,
    ) -> Answer {
        let freshness = self.store.entry(slot).freshness.confirmed(now.time);
        let mut answer = self.answer(slot, &freshness, hash, request, now);
        answer.headers.insert(DATE, date::format(now.unix_seconds));
        self.count_hit(slot, answer, now)
    }

    fn hit(&mut self, slot: EntryId, hash: u64, request: &RequestHead<'_>, now: Now) -> Answer {
        let freshness = self.store.entry(slot).freshness;
        let answer = self.answer(slot, &freshness, hash, request, now);
        self.count_hit(slot, answer, now)
    }

    fn count_hit(&mut self, slot: EntryId, answer: Answer, now: Now) -> Answer {
        self.store.hit(slot, now.time);
        self.counters.hits += 1;
        self.counters.hit_bytes += answer.length();
        if let Some(offered) = self.store.take_offered(slot) {
            self.offer(&offered, Offer::New, now);
        }
        answer
    }

    /// Returns the answer of the stored response in `slot`, with this freshness, to the request: in
    /// the coding that its client gets, if that form is stored.
    fn answer(
        &mut self,
        slot: EntryId,
        freshness: &Freshness,
        hash: u64,
        request: &RequestHead<'_>,
        now: Now,
    ) -> Answer {
        let codable = self.store.codable(slot);
        let wanted = request
            .coding
            .filter(|coding| codable.is_yes() && !self.store.entry(slot).refuses(*coding));
        let form = wanted.and_then(|coding| self.store.form(slot, coding));
        let missing = wanted.filter(|_| form.is_none());
        let view = form.unwrap_or_else(|| self.store.view(slot));
        let view = view.with_freshness(freshness);
        let entry = view.entry();
        if entry.status == StatusCode::OK && conditional::has_condition(request.headers) {
            // Most conditions lead to a 304. Such an answer has few of the fields.
            let mut headers = view.not_modified_headers(now.time);
            if conditional::is_not_modified(request.headers, &headers) {
                if missing.is_some() {
                    weaken_tag(&mut headers);
                }
                return Answer::of(StatusCode::NOT_MODIFIED, headers, Bytes::new());
            }
        }
        let headers = view.hit_headers(now.time);
        let ready = Ready {
            status: entry.status,
            headers,
            length: Some(entry.length()),
            boundary: Some(hash),
        };
        let answer = ready
            .reply(request.method, request.headers)
            .with_body(|| entry.body());
        let coding = match missing {
            Some(coding) => AnswerCoding::Wanted(Box::new(self.store.wanted(slot, coding))),
            None if codable == Codable::Unknown => AnswerCoding::Open,
            None => wanted.map_or(AnswerCoding::Decided, AnswerCoding::Form),
        };
        Answer { coding, ..answer }
    }

    /// Returns the answer to `only-if-cached` without a stored response (RFC 9111 §5.2.1.7).
    pub(crate) fn unsatisfied(&mut self, request: &RequestHead<'_>, now: Now) -> Answer {
        self.counters.unsatisfied += 1;
        let line = "larder: nothing stored answers this request, and it said only-if-cached\n";
        let status = StatusCode::GATEWAY_TIMEOUT;
        Answer::error(status, request.method, line, CacheStatus::Unsatisfied, now)
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
        let asked = (now.time, self.store.purges.now());
        Box::new(Exchange::new(
            (key.into_owned(), hash),
            self.shard,
            method,
            version,
            &self.cdn_loop,
            reason,
            asked,
        ))
    }
}

/// Returns true if a request may lead or follow others. A reload that could not share a response is
/// sent alone: otherwise it would wait for one request after another.
fn may_share(
    directives: &RequestDirectives,
    reason: ForwardReason,
    joined: Option<Joined>,
) -> bool {
    if directives.reload() > Reload::No {
        joined.is_none()
    } else {
        reason != ForwardReason::Request
    }
}

/// Returns the reason why a request bypasses the cache, if it does.
fn passes_by(request: &RequestHead<'_>, key: &Key<'_>) -> Option<ForwardReason> {
    if request.method != Method::GET && request.method != Method::HEAD {
        return Some(ForwardReason::Method);
    }
    // A body in a GET ("fat GET") is not part of the key, and an origin might use it.
    let odd = request.has_body
        || key.len() > limits::KEY_BYTES
        || conditional::asks_the_origin(request.headers);
    odd.then_some(ForwardReason::Bypass)
}
