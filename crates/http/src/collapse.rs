//! Request collapsing (RFC 9111 §4: a cache may use one response for several requests that came
//! while it was fetched): one request for a key flies to the origin, the others wait for it and
//! stream what it brings as it comes.
//!
//! ```text
//!  Asking ── a response that may be stored and reused ──► Streaming: followers read its body from the transit
//!    └────── anything else ─────────────────────────────► Down: asked again at once, or answered with the same error
//! ```
//!
//! What cannot be shared is remembered by key for [`limits::ALONE`] ("hit for miss"): requests for
//! it do not wait for each other, and each response may show that it has changed. A 502, 503 or
//! 504, and an origin that does not answer, are an answer to all who waited: a hundred more
//! requests would not help it. They get our own words, since what an error page says may be one
//! client's.
//!
//! A reload (`no-cache`, `max-age=0`) follows only a request that is as much of a reload, so that
//! caches on the way to the origin hear of it, and whose response has not begun: what the origin
//! says then is newer than the reload (RFC 9111 §5.2.1.4). Where another request is under way, a
//! reload takes its place, and later requests follow the reload. So many reloads at once cost the
//! origin one request, a second one where a plain one was under way.
//!
//! Caches of our name may stand in a row, and each may wait for the next. So that none waits for
//! itself (two that are each other's origin, say), a request follows one that is still asking only
//! where it has passed no more of them than that one has: along a chain of such waits the number
//! grows, and no chain ends where it began. Who has passed more asks himself, and whoever comes
//! then follows him.

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

/// One request under way to the origin, and those who wait for it.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Caches of our name that its request had passed ([`crate::cdn_loop_count`]).
    passed: usize,
    /// How much of a reload its request is.
    reload: Reload,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    waiting: Vec<Option<Waker>>,
    /// Places in it of those who have gone, to be taken again.
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
    /// As for the leader, but for `Cache-Status`.
    pub headers: HeaderMap,
    pub selector: Selector,
    /// A body may take longer to come than the response stays fresh: who comes late has to ask
    /// anew.
    pub freshness: Freshness,
    /// Content-Length.
    pub length: Option<u64>,
    pub shared_body: Arc<SharedBody>,
}

impl Head {
    /// Whether a request that came at `now` may be answered with it, as if it were stored already
    /// (RFC 9111 §4).
    fn suits(&self, request: &HeaderMap, directives: &RequestDirectives, now: Now) -> bool {
        self.selector.matches(request) && self.freshness.satisfies(directives, now.time)
    }
}

/// How a flight ends without a body to share.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Followers ask the cache again.
    Again,
    /// The origin's trouble is everybody's.
    Failed { status: StatusCode, retry_after: Option<HeaderValue> },
    /// What is stored is stale, and did for the leader. The status is the origin's, where it gave
    /// one.
    Stale { stored: Box<Stored>, status: Option<StatusCode> },
    /// The second tier had it.
    TierHit(Box<Stored>),
}

impl InFlight {
    /// How many wait for its head.
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

    /// Whether a request would get something out of waiting.
    fn can_carry(&self, asking: &Asking<'_>) -> bool {
        let Asking { headers, directives, passed, now, .. } = asking;
        match &self.lock().phase {
            Phase::Asking => directives.reload() <= self.reload && *passed <= self.passed,
            Phase::Streaming(head) => {
                head.suits(headers, directives, *now) && head.shared_body.reader(0, None).is_some()
            }
            Phase::Finished(_) => false,
        }
    }

    /// Whether a request that cannot follow takes its place.
    fn yields_to(&self, asking: &Asking<'_>) -> bool {
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

/// The leader's hold on its flight. Dropped in mid-air (the host gave the exchange up), it lets the
/// followers go.
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
    /// Without the reload, which the flight carries out.
    directives: RequestDirectives,
    reload: Reload,
    /// When it came.
    now: Now,
    ticket: Option<usize>,
}

/// What became of a [`Follower`].
#[derive(Debug)]
pub enum JoinResult {
    /// Send this.
    Answer(Answer),
    /// Send this head, and the body as it comes.
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

/// A request that waits for a slice which another one has asked for.
#[derive(Debug)]
pub struct SliceFollower {
    pub(crate) follower: Follower,
    /// Of the slice.
    pub(crate) part: Range<u64>,
}

impl SliceFollower {
    /// Waits for the head of the slice; `None` where the cache has to be asked again.
    ///
    /// # Errors
    /// [`BrokenOff`] where the origin has failed.
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
    /// When it began to wait, for [`crate::Cache::on_released`].
    pub fn joined(&self) -> Time {
        self.now.time
    }

    /// Waits for the head of the response; `request` are the fields of this follower's own request.
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
            // A reload is refused what is stale; others may get it.
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
        // RFC 9111 §5.1. Who waited for the head gets it as old as it came.
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
        // Once the flight has landed, nobody waits.
        if let Some(ticket) = self.ticket.filter(|ticket| *ticket < state.waiting.len()) {
            state.waiting[ticket] = None;
            state.free.push(ticket);
        }
    }
}

/// A request that the store does not answer.
pub(crate) struct Asking<'a> {
    pub headers: &'a HeaderMap,
    pub directives: RequestDirectives,
    pub reason: ForwardReason,
    /// Caches of our name that it has passed.
    pub passed: usize,
    pub now: Now,
}

/// What a request that the store does not answer may do.
pub(crate) enum Join {
    /// It flies, and others may follow.
    Lead(Lead),
    Follow(Follower),
    /// It flies, and nobody follows.
    Bypass,
}

/// All flights, and the keys for which nobody waits.
pub(crate) struct InFlightTable {
    table: HashTable<Entry>,
    /// InFlightTable that were given up stay in the table until their key is asked for again, or
    /// until it has grown to this.
    sweep_at: usize,
    /// By hash: until when requests for it do not wait for each other.
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

    /// A seat for a request. One that `may_lead` not follows or flies alone.
    pub(crate) fn join(&mut self, key: &Key<'_>, hash: u64, asking: &Asking<'_>, may_lead: bool) -> Join {
        let Asking { directives, reason, now, .. } = *asking;
        if self.is_alone(hash, now.time) {
            return Join::Bypass;
        }
        if let Some(entry) = self.table.find(hash, |entry| key.is(&entry.key)) {
            if entry.in_flight.can_carry(asking) {
                let in_flight = Arc::clone(&entry.in_flight);
                let (reload, directives) = (directives.reload(), directives.without_reload());
                return Join::Follow(Follower { in_flight, reason, directives, reload, now, ticket: None });
            }
            if !entry.in_flight.yields_to(asking) {
                return Join::Bypass;
            }
        }
        if may_lead { Join::Lead(self.lead_for(key, hash, asking.passed, directives.reload())) } else { Join::Bypass }
    }

    /// Whether somebody flies for the key.
    pub(crate) fn is_under_way(&self, key: &Key<'_>, hash: u64) -> bool {
        self.table.find(hash, |entry| key.is(&entry.key)).is_some_and(|entry| !entry.in_flight.is_finished())
    }

    /// A flight for a request that has passed so many caches of our name.
    pub(crate) fn lead(&mut self, key: &Key<'_>, hash: u64, passed: usize) -> Lead {
        self.lead_for(key, hash, passed, Reload::No)
    }

    fn lead_for(&mut self, key: &Key<'_>, hash: u64, passed: usize, reload: Reload) -> Lead {
        self.forget(key, hash);
        if self.table.len() >= self.sweep_at {
            self.table.retain(|entry| !entry.in_flight.is_finished());
            self.sweep_at = limits::IN_FLIGHT_SWEPT.max(self.table.len() * 2);
        }
        let state = State { phase: Phase::Asking, waiting: Vec::new(), free: Vec::new() };
        let in_flight = Arc::new(InFlight { passed, reload, state: Mutex::new(state) });
        let entry = Entry { hash, key: key.to_bytes(), in_flight: Arc::clone(&in_flight) };
        self.table.insert_unique(hash, entry, |entry| entry.hash);
        Lead(in_flight)
    }

    /// Nobody joins the key's flight any more; those who have stay.
    pub(crate) fn forget(&mut self, key: &Key<'_>, hash: u64) {
        if let Ok(entry) = self.table.find_entry(hash, |entry| key.is(&entry.key)) {
            entry.remove();
        }
    }

    /// Nobody joins any of today's flights any more.
    pub(crate) fn forget_all(&mut self) {
        self.table.clear();
    }

    /// This flight is over.
    pub(crate) fn end(&mut self, hash: u64, in_flight: &Arc<InFlight>) {
        if let Ok(entry) = self.table.find_entry(hash, |entry| Arc::ptr_eq(&entry.in_flight, in_flight)) {
            entry.remove();
        }
    }

    /// Requests for the key shall, or shall no longer, wait for each other.
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

    /// The fear: clients come and go while one request hangs, and each leaves a place behind.
    #[test]
    fn places_of_those_who_have_gone_are_taken_again() {
        let mut in_flight_table = InFlightTable::new();
        let (key, headers) = (Key::new("http", "h", "/"), HeaderMap::new());
        let now = Now { time: Time::ZERO, unix_seconds: 0 };
        let (directives, reason) = (RequestDirectives::default(), ForwardReason::UriMiss);
        let asking = Asking { headers: &headers, directives, reason, passed: 0, now };
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
