//! The cache: a request in, what to do out; a response in, what to do out. No socket, no clock.

use crate::cache_status::CacheStatus;
use crate::counters::Counters;
use crate::directives::RequestDirectives;
use crate::exchange::{Answer, Exchange, Reply, RequestHead, ResponseHead, Step, UpstreamFailure};
use crate::fill::{Budget, Fill};
use crate::flight::{Asking, Flights, Head, Landing, Lead, Seat};
use crate::freshness::Freshness;
use crate::key::Key;
use crate::purge::{Purge, Purged, Scope, Test};
use crate::storability::{self, Refusal};
use crate::store::{Found, Store};
use crate::stored::Stored;
use crate::vary::Selector;
use crate::{ForwardReason, Now, conditional, fields, limits, targeted};
use http::header::{CONTENT_LENGTH, CONTENT_LOCATION, ETAG, LAST_MODIFIED, LOCATION, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Method, StatusCode, Version};
use larder_policy::{Engine, Job, JobDone, Slot, Spec, SpecError};
use larder_units::{ByteSize, Streams};
use std::sync::Arc;

/// How to make a [`Cache`].
#[derive(Clone, Debug)]
pub struct Config {
    /// What is stored costs at most so much: bodies, header blocks, keys and the structures around them (see [`limits`]).
    pub capacity: ByteSize,
    /// The policies.
    pub policy: Spec,
    /// Largest body that is stored. No more than a fifth of the capacity counts, or a little above, so that bodies under way stay bounded
    /// (see [`limits::FILL_SHARE`]).
    pub max_object: ByteSize,
    /// Response fields that speak to this cache (RFC 9213), the most telling first: `CDN-Cache-Control`, or the operator's own.
    pub targets: Vec<HeaderName>,
    /// The secret of the keys' hash, from the host's entropy: who does not know it cannot make keys collide.
    pub hash_key: [u8; 16],
}

/// A shared HTTP cache (RFC 9111) over the policy engine.
///
/// The host calls [`Cache::on_request`] and follows the [`Step`]; for what goes to the origin, [`Cache::on_response`] or
/// [`Cache::on_failure`], and [`Cache::on_complete`] when a body that it was asked to collect has ended.
pub struct Cache {
    store: Store,
    flights: Flights,
    hash_key: [u8; 16],
    max_object: u64,
    targets: Box<[HeaderName]>,
    budget: Budget,
    counters: Counters,
}

/// What became of a body that was collected for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It is stored.
    Stored,
    /// It was not what its head declared, or ended early. Not stored.
    Truncated,
    /// It is not stored for this reason.
    Refused(Refusal),
}

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    /// [`SpecError`] where arguments of a policy contradict each other.
    pub fn new(config: &Config, streams: &Streams) -> Result<Cache, SpecError> {
        let engine = Engine::new(&config.policy, config.capacity, streams)?;
        let budget = Budget::new(config.capacity.bytes() / limits::FILL_SHARE);
        Ok(Cache {
            store: Store::new(engine),
            flights: Flights::new(),
            hash_key: config.hash_key,
            max_object: config.max_object.bytes().min(budget.limit_for_large()),
            targets: config.targets.clone().into_boxed_slice(),
            budget,
            counters: Counters::default(),
        })
    }

    /// A client asks.
    pub fn on_request(&mut self, request: &RequestHead<'_>, now: Now) -> Step {
        self.counters.requests += 1;
        self.step(request, now)
    }

    /// A client has waited in vain for the response to another request ([`crate::Boarding::Again`]): what now?
    pub fn on_released(&mut self, request: &RequestHead<'_>, now: Now) -> Step {
        self.step(request, now)
    }

    fn step(&mut self, request: &RequestHead<'_>, now: Now) -> Step {
        let key = Key::new(request.scheme, request.authority, request.target);
        let hash = key.hash(&self.hash_key);
        let wishes = RequestDirectives::of(request.headers);
        match passes_by(request, &key) {
            // Nothing stored answers it, and the origin shall not be asked.
            Some(ForwardReason::Bypass) if wishes.only_if_cached => return self.unsatisfied(request, now),
            Some(reason) => return Step::Forward(self.forward(request, key, hash, reason, now)),
            None => {}
        }
        let (reason, held) = match self.store.find(&key, hash, request.headers) {
            Found::Match(slot) => {
                let freshness = self.store.get_mut(slot).freshness;
                if freshness.satisfies(&wishes, now.time) {
                    return Step::Answer(self.hit(slot, hash, request, now));
                }
                if freshness.may_be_stale_once_more(&wishes, now.time) {
                    return self.hit_and_refresh(slot, key, hash, request, now);
                }
                let reason =
                    if freshness.is_reusable(now.time) { ForwardReason::Request } else { ForwardReason::Stale };
                (reason, Some(slot))
            }
            Found::OtherVariants => (ForwardReason::VaryMiss, None),
            Found::Nothing => (ForwardReason::UriMiss, None),
        };
        if wishes.only_if_cached {
            return self.unsatisfied(request, now);
        }
        let may_store = request.method == Method::GET && !wishes.no_store;
        let mut lead = None;
        // What a cache of our name has sent may be our own, come back in a circle: it would wait for itself.
        if may_store && reason != ForwardReason::Request && fields::times_passed(request.headers) == 0 {
            // A client's own condition or range may bring a 304 or a part, of which others have nothing.
            let may_lead = held.is_some() || !conditional::asks_for_less(request.headers);
            let asking = Asking { headers: request.headers, wishes, reason, now };
            match self.flights.seat(&key, hash, &asking, may_lead) {
                Seat::Lead(own) => lead = Some(own),
                Seat::Follow(follower) => {
                    self.counters.collapsed += 1;
                    return Step::Follow(follower);
                }
                Seat::Alone => {}
            }
        }
        let held = held.map(|slot| self.store.get_mut(slot).clone());
        let mut exchange = self.forward(request, key, hash, reason, now);
        exchange.may_store = may_store;
        exchange.forbids_storing = wishes.no_store;
        exchange.held = held;
        exchange.lead = lead;
        Step::Forward(exchange)
    }

    /// RFC 5861 §3: one request a key validates in the background, whoever asks meanwhile gets what is stale.
    fn hit_and_refresh(&mut self, slot: Slot, key: Key<'_>, hash: u64, request: &RequestHead<'_>, now: Now) -> Step {
        let stored = self.store.get_mut(slot).clone();
        let answer = self.hit(slot, hash, request, now);
        self.counters.stale += 1;
        if self.flights.is_under_way(&key, hash) {
            return Step::Answer(answer);
        }
        let lead = self.flights.lead(&key, hash);
        let mut exchange = self.forward(request, key, hash, ForwardReason::Stale, now);
        // Also where the client asked with HEAD: what is renewed is what answers GET.
        exchange.method = Method::GET;
        exchange.may_store = true;
        exchange.in_background = true;
        exchange.held = Some(stored);
        exchange.lead = Some(lead);
        Step::Refresh(answer, exchange)
    }

    /// The head of the origin's final response has come (interim ones are not for the cache).
    pub fn on_response(&mut self, mut exchange: Box<Exchange>, head: ResponseHead, now: Now) -> Reply {
        let ResponseHead { status, version, mut headers } = head;
        let framed = is_framed(status, version, &headers);
        fields::strip_hop_by_hop(&mut headers);
        fields::ensure_date(&mut headers, now);
        fields::append_via(&mut headers, version);
        if status == StatusCode::NOT_MODIFIED && exchange.is_validating() {
            let stored = exchange.held.take().expect("it is being validated");
            return self.on_not_modified(exchange, stored, &headers, now);
        }
        if is_trouble(status)
            && let Some(answer) = self.stale_answer(&exchange, Some(status), now)
        {
            return Reply::Answer(answer);
        }
        self.invalidate_by(&exchange, status, &headers, now);
        let fill = self.consider(&mut exchange, status, &headers, framed, now);
        let (mut fill, refusal) = match fill {
            Ok(fill) => (Some(Box::new(fill)), None),
            Err(refusal) => (None, refusal),
        };
        if let Some(refusal) = refusal {
            self.counters.refuse(refusal);
        }
        // Of unknown length: whether the policy admits it shows at its end.
        let stored = fill.as_ref().is_some_and(|fill| fill.declared.is_some() && !fill.unwanted);
        if let Some(lead) = exchange.lead.take() {
            self.share(lead, &exchange, &mut fill, status, &headers, now);
        }
        CacheStatus::Forwarded { reason: exchange.reason, status: Some(status), stored, collapsed: false, refusal }
            .set(&mut headers);
        Reply::Relay { status, headers, fill }
    }

    /// The head of a leader's response is there: its followers get the body as it comes, or have to see for themselves.
    fn share(
        &mut self,
        lead: Lead,
        exchange: &Exchange,
        fill: &mut Option<Box<Fill>>,
        status: StatusCode,
        headers: &HeaderMap,
        now: Now,
    ) {
        let reusable = fill.as_mut().filter(|fill| fill.stored.freshness.is_reusable(now.time));
        if let Some(fill) = reusable {
            self.flights.set_alone(exchange.hash, false, now.time);
            lead.0.take_off(Head {
                status,
                headers: headers.clone(),
                selector: fill.stored.selector.clone(),
                freshness: fill.stored.freshness,
                length: fill.declared,
                transit: Arc::clone(&fill.transit.0),
            });
            fill.lead = Some(lead);
            return;
        }
        self.flights.end(exchange.hash, &lead.0);
        if is_trouble(status) {
            let retry_after = headers.get(RETRY_AFTER).cloned();
            return lead.0.land(Landing::Failed { status, retry_after });
        }
        self.flights.set_alone(exchange.hash, true, now.time);
        lead.0.land(Landing::Again);
    }

    /// What is stale, where it may answer in the place of a failure (RFC 5861 §4; RFC 9111 §4.2.4). `status`: of the origin's answer, `None`
    /// where there was none.
    fn stale_answer(&mut self, exchange: &Exchange, status: Option<StatusCode>, now: Now) -> Option<Answer> {
        // A client that insists on validation gets the error.
        let stored = exchange.held.as_ref().filter(|_| exchange.reason == ForwardReason::Stale)?;
        if !stored.freshness.may_be_stale_on_failure(status.is_none(), now.time) {
            return None;
        }
        // What was purged, or changed by an unsafe request, while the origin was being asked. A soft purge leaves it in the store.
        let was_removed = self.store.position(stored).is_none();
        if was_removed && self.store.was_invalidated_since(exchange.hash, exchange.asked) {
            return None;
        }
        let ttl_seconds = stored.freshness.ttl_seconds(now.time);
        let cache_status = CacheStatus::Stale { reason: exchange.reason, status, ttl_seconds };
        let headers = stored.validated_headers(now.time, cache_status);
        let answer = stored.ready(&headers).reply(&exchange.method, &exchange.headers).with(&stored.body);
        self.counters.stale += 1;
        self.counters.hit_bytes += answer.body.len() as u64;
        if let Some(lead) = &exchange.lead {
            self.flights.end(exchange.hash, &lead.0);
            lead.0.land(Landing::Stale { stored: Box::new(stored.clone()), status });
        }
        Some(answer)
    }

    /// The origin did not answer.
    pub fn on_failure(&mut self, exchange: &Exchange, failure: UpstreamFailure, now: Now) -> Answer {
        self.counters.upstream_failures += u64::from(failure != UpstreamFailure::Upload);
        let disconnected =
            matches!(failure, UpstreamFailure::Unreachable | UpstreamFailure::TimedOut | UpstreamFailure::Malformed);
        if disconnected && let Some(answer) = self.stale_answer(exchange, None, now) {
            return answer;
        }
        // RFC 9111 §5.2.2.2: with must-revalidate, a cache that cannot reach the origin MUST answer with an error, and SHOULD with 504.
        let strict = exchange.held.as_ref().is_some_and(|stored| stored.freshness.forbids_stale());
        let (status, line) = match failure {
            UpstreamFailure::Upload => (StatusCode::BAD_REQUEST, "larder: the request's body broke off\n"),
            UpstreamFailure::Circle => (StatusCode::LOOP_DETECTED, "larder: the request goes round in a circle\n"),
            UpstreamFailure::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "larder: the origin did not answer in time\n"),
            _ if strict => (StatusCode::GATEWAY_TIMEOUT, "larder: the origin cannot be reached to validate\n"),
            UpstreamFailure::Unreachable => (StatusCode::BAD_GATEWAY, "larder: the origin cannot be reached\n"),
            UpstreamFailure::Malformed => (StatusCode::BAD_GATEWAY, "larder: the origin's response is malformed\n"),
        };
        let forwarded = CacheStatus::Forwarded {
            reason: exchange.reason,
            status: None,
            stored: false,
            collapsed: false,
            refusal: None,
        };
        if let Some(lead) = &exchange.lead {
            self.flights.end(exchange.hash, &lead.0);
            lead.0.land(Landing::Failed { status, retry_after: None });
        }
        Answer::error(status, &exchange.method, line, forwarded, now)
    }

    /// A collected body has ended, without an error of the connection. Stores it, if it is whole and still wanted.
    pub fn on_complete(&mut self, mut fill: Box<Fill>, now: Now) -> Completion {
        let (hash, lead) = (fill.stored.hash, fill.lead.take());
        let completion = self.complete_fill(*fill, now);
        if let Some(lead) = lead {
            self.flights.end(hash, &lead.0);
            // Who has not boarded yet finds it stored, or flies himself.
            lead.0.land(Landing::Again);
        }
        match completion {
            Completion::Stored => self.counters.stored += 1,
            Completion::Truncated => self.counters.truncated += 1,
            Completion::Refused(refusal) => self.counters.refuse(refusal),
        }
        completion
    }

    /// A collected body has ended with an error: RFC 9111 §3.3 forbids to store it as complete, and partial ones are not stored.
    pub fn on_abort(&mut self, mut fill: Box<Fill>) {
        if let Some(lead) = fill.lead.take() {
            self.flights.end(fill.stored.hash, &lead.0);
            lead.0.land(Landing::Again);
        }
        drop(fill);
        self.counters.truncated += 1;
    }

    /// One step of a purge, from `from` on, which is 0 at first; to be called again with [`Purged::next`] until there is none.
    pub fn purge(&mut self, purge: &Purge, from: usize, now: Now) -> Purged {
        let test = match &purge.scope {
            Scope::Exact(url) => {
                let key = url.key();
                let hash = key.hash(&self.hash_key);
                self.flights.forget(&key, hash);
                let objects = match purge.soft {
                    true => self.store.expire(&key, hash, now.time),
                    false => self.store.invalidate(&key, hash, now.time),
                };
                self.counters.purged += objects;
                return Purged { objects, next: None };
            }
            Scope::Prefix(url) => Test::Prefix(url.prefix()),
            Scope::Tag(tag) => Test::Tag(tag.as_bytes().into()),
            Scope::Everything => Test::Any,
        };
        if from == 0 {
            self.store.bar_all(now.time);
            self.flights.forget_all();
        }
        let purged = self.store.purge(from, purge.soft, now.time, |stored| test.takes(stored));
        self.counters.purged += purged.objects;
        purged
    }

    /// Long work of the policy that is due: run it on another thread, then give its result to [`Cache::complete_job`].
    pub fn job(&mut self) -> Option<Job> {
        self.store.engine.job()
    }

    /// Takes the result of a job.
    pub fn complete_job(&mut self, done: JobDone) {
        self.store.engine.complete(done);
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        Counters { evicted: self.store.evicted, ..self.counters.clone() }
    }

    /// The policy engine: bytes used, objects, the policies' figures.
    pub fn engine(&self) -> &Engine {
        &self.store.engine
    }

    /// Memory of bodies that are being received for the store, in bytes; beside [`Engine::used`].
    pub fn filling(&self) -> ByteSize {
        ByteSize::from_bytes(self.budget.used())
    }

    /// The most that [`Cache::filling`] can be.
    pub fn filling_limit(&self) -> ByteSize {
        ByteSize::from_bytes(self.budget.limit())
    }

    fn hit(&mut self, slot: Slot, hash: u64, request: &RequestHead<'_>, now: Now) -> Answer {
        self.store.engine.hit(slot, hash, now.time);
        let stored = self.store.get_mut(slot);
        stored.hit_headers(now.time);
        let answer = stored.ready(stored.headers()).reply(request.method, request.headers).with(&stored.body);
        self.counters.hits += 1;
        self.counters.hit_bytes += answer.body.len() as u64;
        answer
    }

    /// RFC 9111 §5.2.1.7.
    fn unsatisfied(&mut self, request: &RequestHead<'_>, now: Now) -> Step {
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
        Box::new(Exchange {
            key: key.into_owned(),
            hash,
            method: request.method.clone(),
            version: request.version,
            reason,
            asked: now.time,
            may_store: false,
            forbids_storing: false,
            in_background: false,
            held: None,
            lead: None,
            headers: HeaderMap::new(),
        })
    }

    /// RFC 9111 §4.3.4: a 304 makes the stored response usable again.
    fn on_not_modified(
        &mut self,
        mut exchange: Box<Exchange>,
        mut stored: Stored,
        headers: &HeaderMap,
        now: Now,
    ) -> Reply {
        if !conditional::selects(headers, stored.headers()) {
            self.discard(&stored);
            exchange.asked = now.time;
            return Reply::Retry(exchange);
        }
        if let Some(slot) = self.store.position(&stored) {
            self.store.engine.hit(slot, stored.hash, now.time);
        }
        if exchange.forbids_storing {
            // RFC 9111 §5.2.1.5: nothing of the response to a no-store request is stored, fields of a 304 included.
            stored.freshen(headers, &self.targets, exchange.asked, now);
            self.counters.refuse(Refusal::NoStore);
        } else if let Err(refusal) = self.renew(&exchange, &mut stored, headers, now) {
            self.counters.refuse(refusal);
        }
        let ttl_seconds = stored.freshness.ttl_seconds(now.time);
        let status = CacheStatus::Validated { reason: exchange.reason, ttl_seconds };
        let headers = stored.validated_headers(now.time, status);
        let answer = stored.ready(&headers).reply(&exchange.method, &exchange.headers).with(&stored.body);
        if let Some(lead) = exchange.lead.take() {
            // Followers find it renewed; where it has to be validated for each request, they need not wait for each other.
            self.flights.end(exchange.hash, &lead.0);
            self.flights.set_alone(exchange.hash, !stored.freshness.is_reusable(now.time), now.time);
            lead.0.land(Landing::Again);
        }
        self.counters.validated += 1;
        self.counters.hit_bytes += answer.body.len() as u64;
        Reply::Answer(answer)
    }

    /// Decides whether the body is collected. `Err(None)`: it was never a question.
    fn consider(
        &mut self,
        exchange: &mut Exchange,
        status: StatusCode,
        headers: &HeaderMap,
        framed: bool,
        now: Now,
    ) -> Result<Fill, Option<Refusal>> {
        let validated = exchange.held.clone().filter(Stored::has_validator);
        if exchange.method == Method::HEAD {
            self.compare_head(exchange, validated.as_ref(), status, headers, now);
        }
        if exchange.method != Method::GET {
            return Err(None);
        }
        let fill = if exchange.may_store {
            self.start_fill(exchange, status, headers, framed, now)
        } else if exchange.forbids_storing {
            Err(Refusal::NoStore)
        } else {
            Err(Refusal::Request)
        };
        if fill.is_err() && says_it_changed(status) {
            self.discard_outdated(exchange, validated.as_ref(), status);
        }
        fill.map_err(Some)
    }

    /// The origin has something else now, and it will not take the old one's place: the old one goes, whether or not it had validators.
    /// Else a reload shows the new one, and the request after it the old one again.
    fn discard_outdated(&mut self, exchange: &Exchange, validated: Option<&Stored>, status: StatusCode) {
        if let Some(old) = validated {
            return self.discard(old);
        }
        // Of what was not validated, a 304 to the client's own condition says nothing, and a part not enough.
        if !exchange.may_store || matches!(status, StatusCode::NOT_MODIFIED | StatusCode::PARTIAL_CONTENT) {
            return;
        }
        if let Found::Match(slot) = self.store.find(&exchange.key, exchange.hash, &exchange.headers) {
            self.store.remove(slot);
            self.counters.invalidated += 1;
        }
    }

    fn start_fill(
        &mut self,
        exchange: &Exchange,
        status: StatusCode,
        headers: &HeaderMap,
        framed: bool,
        now: Now,
    ) -> Result<Fill, Refusal> {
        let (hash, asked) = (exchange.hash, exchange.asked);
        // The request that led here counts where its answer may be stored by HTTP's rules.
        let says = targeted::directives(headers, &self.targets);
        let freshness = Freshness::of(status, headers, &says, asked, now);
        storability::judge(status, headers, &says, exchange.is_authorized(), freshness.has_lifetime())?;
        if !framed {
            return Err(Refusal::Unframed);
        }
        self.store.engine.miss(hash, now.time);
        let declared = if status == StatusCode::NO_CONTENT { Some(0) } else { content_length(headers) };
        if declared.is_some_and(|length| length > self.max_object) {
            return Err(Refusal::TooLarge);
        }
        let selector = Selector::of(headers, &exchange.headers);
        let stored = Stored::new(exchange.key.to_bytes(), hash, selector, status, headers, freshness);
        let admitted =
            declared.is_none_or(|length| self.store.engine.admit_or_fill(hash, stored.size(length), now.time));
        // What the policy does not want is collected where others wait for it: better than a request of each of them.
        let awaited = || exchange.lead.as_ref().is_some_and(|lead| lead.0.waiting() > 0);
        if !admitted && !awaited() {
            return Err(Refusal::NotAdmitted);
        }
        let mut fill = Fill::new(stored, asked, declared, self.max_object, &self.budget)?;
        fill.unwanted = !admitted;
        Ok(fill)
    }

    fn complete_fill(&mut self, fill: Fill, now: Now) -> Completion {
        let asked = fill.asked;
        if fill.abandoned.is_some() && fill.declared.is_some() || !fill.is_whole() {
            return Completion::Truncated;
        }
        if let Some(refusal) = fill.abandoned {
            fill.transit.0.finish();
            // The new one came whole, if not into the store: the old one goes.
            self.discard(&fill.stored);
            return Completion::Refused(refusal);
        }
        let (admitted, unwanted, length) = (fill.declared.is_some(), fill.unwanted, fill.len());
        let stored = fill.into_stored();
        if unwanted {
            return Completion::Refused(Refusal::NotAdmitted);
        }
        if self.store.was_invalidated_since(stored.hash, asked) {
            return Completion::Refused(Refusal::Invalidated);
        }
        if !admitted && !self.store.engine.admit_or_fill(stored.hash, stored.size(length), now.time) {
            self.discard(&stored);
            return Completion::Refused(Refusal::NotAdmitted);
        }
        if self.store.put(stored, now.time) { Completion::Stored } else { Completion::Refused(Refusal::TooLarge) }
    }

    /// RFC 9111 §4.4: a cache MUST invalidate the target of an unsafe method (or one it does not know) that was answered without an error,
    /// and MAY what Location and Content-Location name, in the same origin only.
    fn invalidate_by(&mut self, exchange: &Exchange, status: StatusCode, headers: &HeaderMap, now: Now) {
        let safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(&exchange.method);
        if safe || !(status.is_success() || status.is_redirection()) {
            return;
        }
        self.invalidate(&exchange.key, exchange.hash, now);
        for name in [LOCATION, CONTENT_LOCATION] {
            let reference = headers.get(&name).and_then(|value| value.to_str().ok());
            if let Some(key) = reference.and_then(|reference| exchange.key.same_origin_reference(reference)) {
                let hash = key.hash(&self.hash_key);
                self.invalidate(&key, hash, now);
            }
        }
    }

    fn invalidate(&mut self, key: &Key<'_>, hash: u64, now: Now) {
        self.counters.invalidated += self.store.invalidate(key, hash, now.time);
        // Who asks from now on shall not get what was asked for before.
        self.flights.forget(key, hash);
    }

    /// RFC 9111 §4.3.5: a 200 to HEAD that differs from the stored GET in a validator or in length shows that it is outdated; one that agrees
    /// renews it.
    fn compare_head(
        &mut self,
        exchange: &Exchange,
        validated: Option<&Stored>,
        status: StatusCode,
        headers: &HeaderMap,
        now: Now,
    ) {
        let Some(old) = validated else { return };
        if status != StatusCode::OK || old.status != StatusCode::OK {
            return;
        }
        let agrees = |name: &HeaderName| headers.get(name).is_none_or(|new| old.headers().get(name) == Some(new));
        if [ETAG, LAST_MODIFIED, CONTENT_LENGTH].iter().all(agrees) {
            // RFC 9111 §5.2.1.5: nor are the fields of a response to a no-store HEAD kept.
            if !exchange.forbids_storing {
                // Where it may no longer be stored, this has removed it.
                let _ = self.renew(exchange, &mut old.clone(), headers, now);
            }
            return;
        }
        self.discard(old);
    }

    /// Gives `stored`, a copy of what the origin has confirmed, the fields of the confirmation, and puts it in the place of the original. Where
    /// it may not be stored with these, the original goes.
    fn renew(
        &mut self,
        exchange: &Exchange,
        stored: &mut Stored,
        headers: &HeaderMap,
        now: Now,
    ) -> Result<(), Refusal> {
        let says = stored.freshen(headers, &self.targets, exchange.asked, now);
        let authorized = exchange.is_authorized();
        let has_lifetime = stored.freshness.has_lifetime();
        let verdict = storability::judge(stored.status, stored.headers(), &says, authorized, has_lifetime);
        let selector = Selector::of(stored.headers(), &exchange.headers);
        if verdict.is_err() || selector != stored.selector {
            self.discard(stored);
            stored.selector = selector;
        }
        verdict?;
        if self.store.was_invalidated_since(stored.hash, exchange.asked) {
            return Err(Refusal::Invalidated);
        }
        self.store.renew(stored.clone(), now.time);
        Ok(())
    }

    /// Removes the stored response that `old` is a copy of, or its successor.
    fn discard(&mut self, old: &Stored) {
        if let Some(slot) = self.store.position(old) {
            self.store.remove(slot);
            self.counters.invalidated += 1;
        }
    }
}

/// Requests that the cache has no part in.
fn passes_by(request: &RequestHead<'_>, key: &Key<'_>) -> Option<ForwardReason> {
    if request.method != Method::GET && request.method != Method::HEAD {
        return Some(ForwardReason::Method);
    }
    // A body in a GET ("fat GET") is not part of the key, and an origin might answer by it.
    let odd = request.has_body || key.len() > limits::KEY_BYTES || conditional::asks_the_origin(request.headers);
    odd.then_some(ForwardReason::Bypass)
}

/// Whether a response to a validation, stored or not, means that the stored response is of the past. A 401 or 429 speaks of the client, a
/// 5xx of the origin's health.
fn says_it_changed(status: StatusCode) -> bool {
    status.is_success() || status.is_redirection() || matches!(status.as_u16(), 404 | 410)
}

/// The origin's health, rather than an answer: RFC 5861 §4 counts these as errors, less 500, which may be one request's own.
fn is_trouble(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

/// Whether the end of the body can be told from a broken connection. In HTTP/1 a body without Content-Length and chunked coding ends with
/// its connection (RFC 9112 §6.3): the cache does not store those.
fn is_framed(status: StatusCode, version: Version, headers: &HeaderMap) -> bool {
    version > Version::HTTP_11
        || status == StatusCode::NO_CONTENT
        || content_length(headers).is_some()
        || fields::list(headers, &TRANSFER_ENCODING).last().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"))
}

/// The declared length, where all lines agree (RFC 9110 §8.6) and it is not overruled by a transfer coding.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    let mut values = fields::list(headers, &CONTENT_LENGTH);
    let first = values.next()?;
    let digits = first.iter().all(u8::is_ascii_digit) && values.all(|other| other == first);
    digits.then(|| std::str::from_utf8(first).ok()?.parse().ok())?
}
