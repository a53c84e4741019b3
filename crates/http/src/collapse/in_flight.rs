//! A request in flight to the origin: its phase, and the wake-ups of its followers.

use crate::body::shared_body::SharedBody;
use crate::now::Now;
use crate::rfc::cache_status::ForwardReason;
use crate::rfc::directives::{Reload, RequestDirectives};
use crate::rfc::freshness::Freshness;
use crate::rfc::vary::Selector;
use crate::store::stored::Stored;
use http::{HeaderMap, HeaderValue, StatusCode};
use larder_units::Time;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// A request in flight to the origin, and its followers.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Caches of our name that its request has passed ([`crate::cdn_loop_count`]).
    pub(super) passed: usize,
    /// The degree of reload of its request.
    pub(super) reload: Reload,
    /// The time when its request was sent.
    pub(super) requested: Time,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) waiting: Vec<Option<Waker>>,
    /// Free places in `waiting`.
    pub(super) free: Vec<usize>,
}

#[derive(Debug)]
pub(super) enum Phase {
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
    pub(super) fn suits(&self, request: &HeaderMap, directives: &RequestDirectives, now: Now) -> bool {
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
    /// Returns the fetch of a request that has just been sent.
    pub(super) fn new(passed: usize, reload: Reload, requested: Time) -> InFlight {
        let state = State { phase: Phase::Asking, waiting: Vec::new(), free: Vec::new() };
        InFlight { passed, reload, requested, state: Mutex::new(state) }
    }

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

    pub(super) fn is_finished(&self) -> bool {
        matches!(self.lock().phase, Phase::Finished(_))
    }

    /// Returns true if a request may follow it.
    pub(super) fn accepts_follower(&self, asking: &JoinRequest<'_>) -> bool {
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
    pub(super) fn yields_to(&self, asking: &JoinRequest<'_>) -> bool {
        let reload = asking.directives.reload();
        match self.lock().phase {
            Phase::Asking => asking.passed > self.passed || reload > self.reload,
            Phase::Streaming(_) => reload > Reload::No,
            Phase::Finished(_) => true,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
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

impl State {
    pub(super) fn wait(&mut self, ticket: &mut Option<usize>, cx: &Context<'_>) {
        let place = *ticket.get_or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.waiting.push(None);
                self.waiting.len() - 1
            })
        });
        self.waiting[place] = Some(cx.waker().clone());
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
