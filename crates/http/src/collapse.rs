//! Request collapsing (RFC 9111 §4: a cache may use one response for several requests that came
//! while it was fetched). One request for a key goes to the origin; the others wait for its
//! response and read the body while it arrives.
//!
//! ```text
//!  Asking ── a response that may be stored and reused ──► Streaming: followers read the shared body
//!    └────── anything else ─────────────────────────────► Finished: ask again, or the same error
//! ```
//!
//! A response that cannot be shared is remembered by key for [`limits::ALONE`] ("hit for miss"):
//! requests for the key do not wait for each other, and each response may change this. A 502, 503
//! or 504, and an origin that does not answer, answer all followers: a hundred more requests would
//! not help. Followers get the cache's own text, because an error page may be for one client.
//!
//! A reload (`no-cache`, `max-age=0`) follows only a request that is a reload of at least the same
//! degree, so that caches on the path to the origin see it, and whose response has not begun, so
//! that the response is newer than the reload (RFC 9111 §5.2.1.4). If another request is in flight,
//! a reload takes its place, and later requests follow the reload. So many reloads at once cost the
//! origin one request, and a second one if a plain one was in flight.
//!
//! Several caches of our name may stand in a row, and each may wait for the next. To prevent a
//! cycle of waits (of two caches that are each other's origin, for example), a request follows one
//! that is still asking only if it has passed no more of these caches than that one. Along a chain
//! of waits the number grows, so no chain ends where it began. A request that has passed more asks
//! by itself, and later ones follow it.

use crate::Answer;
use crate::answer::Ready;
use crate::cache_status::{CacheStatus, ForwardReason};
use crate::directives::{Reload, RequestDirectives};
use crate::freshness::Freshness;
use crate::key::Key;
use crate::shared_body::{BrokenOff, Reader, SharedBody};
use crate::stored::Stored;
use crate::vary::Selector;
use crate::{Now, limits};
use hashbrown::HashTable;
use http::header::{AGE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_units::Time;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A request in flight to the origin, and its followers.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Caches of our name that its request has passed ([`crate::cdn_loop_count`]).
    passed: usize,
    /// The degree of reload of its request.
    reload: Reload,
    /// The time when its request was sent.
    requested: Time,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    waiting: Vec<Option<Waker>>,
    /// Free places in `waiting`.
    free: Vec<usize>,
}

#[derive(Debug)]
enum Phase {
    Asking,
    Streaming(Box<Head>),
    Finished(Outcome),
}

/// The head of a response that followers share.
#[derive(Debug)]
pub(crate) struct Head {
    pub status: StatusCode,
    /// As for the leader, except for `Cache-Status`.
    pub headers: HeaderMap,
    pub selector: Selector,
    /// A body may take longer than the response stays fresh: then a late request has to ask again.
    pub freshness: Freshness,
    /// Content-Length.
    pub length: Option<u64>,
    pub shared_body: Arc<SharedBody>,
}

impl Head {
    /// Returns true if a request that came at `now` may be answered with it, as if it were stored
    /// already (RFC 9111 §4).
    fn suits(&self, request: &HeaderMap, directives: &RequestDirectives, now: Now) -> bool {
        self.selector.matches(request) && self.freshness.satisfies(directives, now.time)
    }
}

/// The end of a fetch without a body to share.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Followers ask the cache again.
    Again,
    /// The origin's failure answers all.
    Failed { status: StatusCode, retry_after: Option<HeaderValue> },
    /// The stale stored response that answered the leader. The status is the origin's, if it sent
    /// one.
    Stale { stored: Box<Stored>, status: Option<StatusCode> },
    /// The second tier had it.
    TierHit(Box<Stored>),
}

impl InFlight {
    /// Returns how many wait for its head.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.lock();
        state.waiting.len() - state.free.len()
    }

    pub(crate) fn start(&self, head: Head) {
        self.change(Phase::Streaming(Box::new(head)));
    }

    pub(crate) fn finish(&self, outcome: Outcome) {
        self.change(Phase::Finished(outcome));
    }

    fn change(&self, phase: Phase) {
        let mut state = self.lock();
        state.phase = phase;
        state.free.clear();
        state.waiting.drain(..).flatten().for_each(Waker::wake);
    }

    fn is_finished(&self) -> bool {
        matches!(self.lock().phase, Phase::Finished(_))
    }

    /// Returns true if a request may follow it.
    fn accepts_follower(&self, asking: &JoinRequest<'_>) -> bool {
        let JoinRequest { headers, directives, passed, now, .. } = asking;
        match &self.lock().phase {
            Phase::Asking => directives.reload() <= self.reload && *passed <= self.passed,
            Phase::Streaming(head) => {
                head.suits(headers, directives, *now) && head.shared_body.reader(0, None).is_some()
            }
            Phase::Finished(_) => false,
        }
    }

    /// Returns true if a request that cannot follow takes its place.
    fn yields_to(&self, asking: &JoinRequest<'_>) -> bool {
        let reload = asking.directives.reload();
        match self.lock().phase {
            Phase::Asking => asking.passed > self.passed || reload > self.reload,
            Phase::Streaming(_) => reload > Reload::No,
            Phase::Finished(_) => true,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The leader's handle of its fetch. If the host gives the exchange up and drops it, the followers
/// are released.
#[derive(Debug)]
pub(crate) struct Lead(pub Arc<InFlight>);

impl Drop for Lead {
    fn drop(&mut self) {
        let asking = matches!(self.0.lock().phase, Phase::Asking);
        if asking {
            self.0.finish(Outcome::Again);
        }
    }
}

/// A request that waits for the response to another one.
#[derive(Debug)]
pub struct Follower {
    in_flight: Arc<InFlight>,
    reason: ForwardReason,
    /// The request's directives without the reload, which the leader carries out.
    directives: RequestDirectives,
    reload: Reload,
    /// The time when it came.
    now: Now,
    ticket: Option<usize>,
}

/// The time when a [`Follower`] began to wait, and the request that it waited for.
#[derive(Clone, Copy, Debug)]
pub struct Joined {
    /// The time when it began to wait.
    at: Time,
    /// The time when the request that it followed was sent.
    requested: Time,
}

impl Joined {
    /// Returns true if a stored response carries out the reload of the request that waited: it came
    /// since then, and was not requested before the response that the request waited for.
    pub(crate) fn is_reloaded_by(self, stored: &Freshness) -> bool {
        stored.is_received_after(self.at) && !stored.is_requested_before(self.requested)
    }
}

/// The result for a [`Follower`].
#[derive(Debug)]
pub enum JoinResult {
    /// Send this.
    Answer(Answer),
    /// Send this head, and the body while it arrives.
    Stream {
        /// The status.
        status: StatusCode,
        /// All fields, ready to be sent.
        headers: HeaderMap,
        /// The body.
        body: Reader,
    },
    /// Ask the cache again, with [`crate::Cache::on_released`].
    Again,
}

/// A request that waits for a slice of another one.
#[derive(Debug)]
pub struct SliceFollower {
    pub(crate) follower: Follower,
    /// The part of the slice.
    pub(crate) part: Range<u64>,
}

impl SliceFollower {
    /// Waits for the head of the slice; `None` if the cache has to be asked again.
    ///
    /// # Errors
    /// [`BrokenOff`] if the origin has failed.
    pub fn poll_slice(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Reader>, BrokenOff>> {
        let mut state = self.follower.in_flight.lock();
        match &state.phase {
            Phase::Asking => {
                state.wait(&mut self.follower.ticket, cx);
                Poll::Pending
            }
            Phase::Streaming(head) => Poll::Ready(Ok(head.shared_body.reader(self.part.start, Some(self.part.end)))),
            Phase::Finished(Outcome::Failed { .. }) => Poll::Ready(Err(BrokenOff)),
            Phase::Finished(_) => Poll::Ready(Ok(None)),
        }
    }
}

impl State {
    fn wait(&mut self, ticket: &mut Option<usize>, cx: &Context<'_>) {
        let place = *ticket.get_or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.waiting.push(None);
                self.waiting.len() - 1
            })
        });
        self.waiting[place] = Some(cx.waker().clone());
    }
}

impl Follower {
    /// Returns the time when it began to wait, and the request that it waited for: for
    /// [`crate::Cache::on_released`].
    pub fn joined(&self) -> Joined {
        Joined { at: self.now.time, requested: self.in_flight.requested }
    }

    /// Waits for the head of the response. `request` are the fields of this follower's own request.
    pub fn poll_join(&mut self, request: &HeaderMap, cx: &mut Context<'_>) -> Poll<JoinResult> {
        let mut state = self.in_flight.lock();
        match &state.phase {
            Phase::Asking => {
                state.wait(&mut self.ticket, cx);
                Poll::Pending
            }
            Phase::Streaming(head) if head.suits(request, &self.directives, self.now) => {
                Poll::Ready(self.join_streaming(head, request))
            }
            Phase::Streaming(_) | Phase::Finished(Outcome::Again) => Poll::Ready(JoinResult::Again),
            // A reload does not accept a stale response; others may.
            Phase::Finished(Outcome::Failed { .. }) if self.in_flight.reload > self.reload => {
                Poll::Ready(JoinResult::Again)
            }
            Phase::Finished(Outcome::Stale { stored, status }) if stored.selector.matches(request) => {
                let ttl_seconds = stored.freshness.ttl_seconds(self.now.time);
                let cache_status = CacheStatus::Stale { reason: self.reason, status: *status, ttl_seconds };
                let headers = stored.validated_headers(self.now.time, cache_status);
                let answer = stored.ready(&headers).reply(&Method::GET, request).with_body_of(stored);
                Poll::Ready(JoinResult::Answer(answer))
            }
            Phase::Finished(Outcome::TierHit(stored)) if self.suits(stored, request) => {
                let ttl_seconds = stored.freshness.ttl_seconds(self.now.time);
                let headers = stored.validated_headers(self.now.time, CacheStatus::TierHit { ttl_seconds });
                let answer = stored.ready(&headers).reply(&Method::GET, request).with_body_of(stored);
                Poll::Ready(JoinResult::Answer(answer))
            }
            Phase::Finished(Outcome::Stale { .. } | Outcome::TierHit(_)) => Poll::Ready(JoinResult::Again),
            Phase::Finished(Outcome::Failed { status, retry_after }) => {
                let forwarded = CacheStatus::Forwarded {
                    reason: self.reason,
                    status: Some(*status),
                    stored: false,
                    collapsed: true,
                    refusal: None,
                };
                let line = "larder: the origin failed, and this request would have been the same\n";
                let mut answer = Answer::error(*status, &Method::GET, line, forwarded, self.now);
                if let Some(after) = retry_after {
                    answer.headers.insert(RETRY_AFTER, after.clone());
                }
                Poll::Ready(JoinResult::Answer(answer))
            }
        }
    }

    fn suits(&self, stored: &Stored, request: &HeaderMap) -> bool {
        stored.selector.matches(request) && stored.freshness.satisfies(&self.directives, self.now.time)
    }

    fn join_streaming(&self, head: &Head, request: &HeaderMap) -> JoinResult {
        let mut headers = head.headers.clone();
        let forwarded = CacheStatus::Forwarded {
            reason: self.reason,
            status: Some(head.status),
            stored: false,
            collapsed: true,
            refusal: None,
        };
        forwarded.set(&mut headers);
        // RFC 9111 §5.1. A follower that waited for the head gets it with the age that it came
        // with.
        headers.insert(AGE, HeaderValue::from(head.freshness.age(self.now.time).as_secs()));
        let ready = Ready { status: head.status, headers: &headers, length: head.length, boundary: None };
        let reply = ready.reply(&Method::GET, request);
        if !reply.has_body {
            return JoinResult::Answer(reply.without_body());
        }
        match head.shared_body.reader(reply.first, reply.end) {
            Some(body) => JoinResult::Stream { status: reply.status, headers: reply.headers, body },
            None => JoinResult::Again,
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut state = self.in_flight.lock();
        // After the fetch has finished, no follower waits.
        if let Some(ticket) = self.ticket.filter(|ticket| *ticket < state.waiting.len()) {
            state.waiting[ticket] = None;
            state.free.push(ticket);
        }
    }
}

/// A request that the store does not answer.
pub(crate) struct JoinRequest<'a> {
    pub headers: &'a HeaderMap,
    pub directives: RequestDirectives,
    pub reason: ForwardReason,
    /// Caches of our name that it has passed.
    pub passed: usize,
    pub now: Now,
}

/// The possibilities of a request that the store does not answer.
pub(crate) enum Join {
    /// Ask the origin; others may follow.
    Lead(Lead),
    Follow(Follower),
    /// Ask the origin; none may follow.
    Bypass,
}

/// The fetches in flight, and the keys whose requests do not wait for each other.
pub(crate) struct InFlightTable {
    table: HashTable<Entry>,
    /// Fetches that were given up stay in the table until their key is requested again, or until
    /// the table has grown to this size.
    sweep_at: usize,
    /// By hash: the time until which its requests do not wait for each other.
    alone: Box<[(u64, Time)]>,
}

struct Entry {
    hash: u64,
    key: Box<[u8]>,
    in_flight: Arc<InFlight>,
}

impl InFlightTable {
    pub(crate) fn new() -> InFlightTable {
        let alone = vec![(0, Time::ZERO); limits::ALONE_PLACES].into_boxed_slice();
        InFlightTable { table: HashTable::new(), sweep_at: limits::IN_FLIGHT_SWEPT, alone }
    }

    /// Lets a request lead or follow. A request that must not lead (`may_lead`) follows or
    /// bypasses.
    pub(crate) fn join(&mut self, key: &Key<'_>, hash: u64, asking: &JoinRequest<'_>, may_lead: bool) -> Join {
        let JoinRequest { directives, reason, now, .. } = *asking;
        if self.is_alone(hash, now.time) {
            return Join::Bypass;
        }
        if let Some(entry) = self.table.find(hash, |entry| key.is(&entry.key)) {
            if entry.in_flight.accepts_follower(asking) {
                let in_flight = Arc::clone(&entry.in_flight);
                let (reload, directives) = (directives.reload(), directives.without_reload());
                return Join::Follow(Follower { in_flight, reason, directives, reload, now, ticket: None });
            }
            if !entry.in_flight.yields_to(asking) {
                return Join::Bypass;
            }
        }
        if may_lead {
            Join::Lead(self.lead_for(key, hash, asking.passed, directives.reload(), now.time))
        } else {
            Join::Bypass
        }
    }

    /// Returns true if a fetch for the key is in flight.
    pub(crate) fn is_under_way(&self, key: &Key<'_>, hash: u64) -> bool {
        self.table.find(hash, |entry| key.is(&entry.key)).is_some_and(|entry| !entry.in_flight.is_finished())
    }

    /// Begins a fetch for a request that has passed so many caches of our name.
    pub(crate) fn lead(&mut self, key: &Key<'_>, hash: u64, passed: usize, requested: Time) -> Lead {
        self.lead_for(key, hash, passed, Reload::No, requested)
    }

    fn lead_for(&mut self, key: &Key<'_>, hash: u64, passed: usize, reload: Reload, requested: Time) -> Lead {
        self.forget(key, hash);
        if self.table.len() >= self.sweep_at {
            self.table.retain(|entry| !entry.in_flight.is_finished());
            self.sweep_at = limits::IN_FLIGHT_SWEPT.max(self.table.len() * 2);
        }
        let state = State { phase: Phase::Asking, waiting: Vec::new(), free: Vec::new() };
        let in_flight = Arc::new(InFlight { passed, reload, requested, state: Mutex::new(state) });
        let entry = Entry { hash, key: key.to_bytes(), in_flight: Arc::clone(&in_flight) };
        self.table.insert_unique(hash, entry, |entry| entry.hash);
        Lead(in_flight)
    }

    /// Removes the key's fetch from the table: no request joins it any more, and its followers
    /// stay.
    pub(crate) fn forget(&mut self, key: &Key<'_>, hash: u64) {
        if let Ok(entry) = self.table.find_entry(hash, |entry| key.is(&entry.key)) {
            entry.remove();
        }
    }

    /// Panics if two fetches of one key are in the table.
    pub(crate) fn check_invariants(&self) {
        let mut keys: Vec<&[u8]> = self.table.iter().map(|entry| &*entry.key).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "two fetches of one key accept followers");
    }

    /// Removes all fetches from the table.
    pub(crate) fn forget_all(&mut self) {
        self.table.clear();
    }

    /// Removes a finished fetch.
    pub(crate) fn end(&mut self, hash: u64, in_flight: &Arc<InFlight>) {
        if let Ok(entry) = self.table.find_entry(hash, |entry| Arc::ptr_eq(&entry.in_flight, in_flight)) {
            entry.remove();
        }
    }

    /// Sets whether requests for the key wait for each other.
    pub(crate) fn set_alone(&mut self, hash: u64, alone: bool, now: Time) {
        let place = &mut self.alone[hash as usize % limits::ALONE_PLACES];
        if alone {
            *place = (hash, now + limits::ALONE);
        } else if place.0 == hash {
            *place = (0, Time::ZERO);
        }
    }

    pub(crate) fn is_alone(&self, hash: u64, now: Time) -> bool {
        let (of, until) = self.alone[hash as usize % limits::ALONE_PLACES];
        of == hash && now < until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::ResponseDirectives;

    /// Failure: a reload takes a response that was requested, or came, before it; or it goes to the
    /// origin although another reload has brought the response.
    #[test]
    fn a_reload_takes_a_response_of_the_wrong_time() {
        let joined = Joined { at: Time::from_secs(5), requested: Time::from_secs(3) };
        let headers = HeaderMap::new();
        for (requested, received, expected) in
            [(3, 6, true), (4, 6, true), (2, 6, false), (3, 5, false), (3, 4, false), (4, 7, true)]
        {
            let received = Now { time: Time::from_secs(received), unix_seconds: 0 };
            let directives = ResponseDirectives::of(&headers);
            let stored = Freshness::of(StatusCode::OK, &headers, &directives, Time::from_secs(requested), received);
            assert_eq!(joined.is_reloaded_by(&stored), expected, "{requested}, {received:?}");
        }
    }

    /// Failure: clients come and go while one request hangs, and each leaves a place behind.
    #[test]
    fn places_of_those_who_have_gone_are_taken_again() {
        let mut in_flight_table = InFlightTable::new();
        let (key, headers) = (Key::new("http", "h", "/"), HeaderMap::new());
        let now = Now { time: Time::ZERO, unix_seconds: 0 };
        let (directives, reason) = (RequestDirectives::default(), ForwardReason::UriMiss);
        let asking = JoinRequest { headers: &headers, directives, reason, passed: 0, now };
        let Join::Lead(lead) = in_flight_table.join(&key, 7, &asking, true) else { panic!() };
        let follower = |in_flight_table: &mut InFlightTable| {
            let Join::Follow(mut follower) = in_flight_table.join(&key, 7, &asking, true) else { panic!() };
            assert!(follower.poll_join(&headers, &mut Context::from_waker(Waker::noop())).is_pending());
            follower
        };
        let stays = follower(&mut in_flight_table);
        for _ in 0..1000 {
            let (one, other) = (follower(&mut in_flight_table), follower(&mut in_flight_table));
            assert_eq!(lead.0.waiting(), 3);
            drop((one, other));
        }
        assert_eq!((lead.0.waiting(), lead.0.lock().waiting.len()), (1, 3));
        lead.0.finish(Outcome::Again);
        drop(stays);
        assert_eq!(lead.0.waiting(), 0);
    }
}
