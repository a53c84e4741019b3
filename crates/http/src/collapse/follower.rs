//! A request that waits for the response to another one.

use crate::body::shared_body::{BrokenOff, Reader};
use crate::collapse::in_flight::{Head, InFlight, Outcome, Phase};
use crate::now::Now;
use crate::rfc::cache_status::{CacheStatus, ForwardReason};
use crate::rfc::directives::{Reload, RequestDirectives};
use crate::rfc::freshness::Freshness;
use crate::rfc::selection::Ready;
use crate::store::answer::Answer;
use crate::store::stored::Stored;
use http::header::{AGE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_units::Time;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A request that waits for the response to another one.
#[derive(Debug)]
pub struct Follower {
    pub(super) in_flight: Arc<InFlight>,
    pub(super) reason: ForwardReason,
    /// The request's directives without the reload, which the leader carries out.
    pub(super) directives: RequestDirectives,
    pub(super) reload: Reload,
    /// The time when it came.
    pub(super) now: Now,
    pub(super) ticket: Option<usize>,
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
                let answer = stored.ready(headers).reply(&Method::GET, request).with_body_of(stored);
                Poll::Ready(JoinResult::Answer(answer))
            }
            Phase::Finished(Outcome::TierHit(stored)) if self.suits(stored, request) => {
                let ttl_seconds = stored.freshness.ttl_seconds(self.now.time);
                let headers = stored.validated_headers(self.now.time, CacheStatus::TierHit { ttl_seconds });
                let answer = stored.ready(headers).reply(&Method::GET, request).with_body_of(stored);
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
        let ready = Ready { status: head.status, headers, length: head.length, boundary: None };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rfc::directives::ResponseDirectives;

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
}
