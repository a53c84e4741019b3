//! A request that waits for the response to another one.

use crate::body::shared_body::BodyPart;
use crate::collapse::in_flight::{FetchId, Head, InFlight, Outcome, Phase};
use crate::now::Now;
use crate::outbox::FollowerId;
use crate::rfc::cache_status::{CacheStatus, ForwardReason};
use crate::rfc::directives::{Reload, RequestDirectives};
use crate::rfc::freshness::Freshness;
use crate::rfc::selection::Ready;
use crate::store::answer::Answer;
use crate::store::stored::{Stored, content_length, insert_written_anew};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};
use larder_units::Time;
use std::ops::Range;

/// A request that waits for the response to another one. The host returns it to the cache: to
/// [`Cache::join`](crate::Cache::join) at once and each time that
/// [`Outbox::woken`](crate::Outbox::woken) has its number, or to
/// [`Cache::on_follower_left`](crate::Cache::on_follower_left).
#[derive(Debug)]
#[must_use = "it goes back to the cache"]
pub struct Follower {
    pub(super) fetch: FetchId,
    pub(super) id: FollowerId,
    /// Its position among those that wait for the head.
    pub(super) place: Option<usize>,
    pub(super) reason: ForwardReason,
    /// The request's directives without the reload, which the leader's request includes.
    pub(super) directives: RequestDirectives,
    pub(super) reload: Reload,
    /// The time when it arrived.
    pub(super) now: Now,
    /// The time when the request that it follows was sent.
    pub(super) requested: Time,
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
    /// Returns true if a stored response satisfies the reload of the request that waited: it
    /// arrived since then, and was not requested before the response that the request waited for.
    pub(crate) fn is_reloaded_by(self, stored: &Freshness) -> bool {
        stored.is_received_after(self.at) && !stored.is_requested_before(self.requested)
    }
}

/// The result for a [`Follower`].
#[derive(Debug)]
pub enum JoinResult {
    /// The head has not arrived: wait until [`Outbox::woken`](crate::Outbox::woken) has its number.
    Wait(Follower),
    /// Send this answer.
    Answer(Answer),
    /// Send this head, and a part of a body in progress while it arrives.
    Stream {
        /// The status.
        status: StatusCode,
        /// All fields, ready to be sent.
        headers: HeaderMap,
        /// The part of the body.
        part: BodyPart,
    },
    /// Ask the cache again, with [`Cache::on_released`](crate::Cache::on_released).
    Again(Joined),
}

/// A request that waits for a slice of another one. The host returns it to the cache as a
/// [`Follower`], to [`Cache::join_slice`](crate::Cache::join_slice) or
/// [`Cache::on_slice_follower_left`](crate::Cache::on_slice_follower_left).
#[derive(Debug)]
#[must_use = "it goes back to the cache"]
pub struct SliceFollower {
    pub(crate) follower: Follower,
    /// The part of the slice.
    pub(crate) part: Range<u64>,
}

/// The result for a [`SliceFollower`].
#[derive(Debug)]
pub enum SliceJoin {
    /// The head has not arrived: wait until [`Outbox::woken`](crate::Outbox::woken) has its number.
    Wait(SliceFollower),
    /// Read this part, and call [`Assembly::took`](crate::Assembly::took) for each piece.
    Read(BodyPart),
    /// Call [`Cache::next_piece`](crate::Cache::next_piece) again.
    Again,
    /// The origin has failed, so the body breaks off.
    Broken,
}

impl SliceFollower {
    /// Returns the number by which [`Outbox::woken`](crate::Outbox::woken) names this follower.
    pub fn id(&self) -> FollowerId {
        self.follower.id
    }

    pub(super) fn result(&self, in_flight: &InFlight) -> Option<SliceJoin> {
        Some(match &in_flight.phase {
            Phase::Asking => return None,
            Phase::Streaming(head) if head.is_open => SliceJoin::Read(BodyPart::range(
                head.body,
                self.part.start,
                Some(self.part.end),
            )),
            Phase::Finished(Outcome::Failed { .. }) => SliceJoin::Broken,
            Phase::Streaming(_) | Phase::Finished(_) => SliceJoin::Again,
        })
    }
}

impl Follower {
    /// Returns the number by which [`Outbox::woken`](crate::Outbox::woken) names this follower.
    pub fn id(&self) -> FollowerId {
        self.id
    }

    /// Returns the time when it began to wait, and the request that it waits for.
    pub fn joined(&self) -> Joined {
        Joined {
            at: self.now.time,
            requested: self.requested,
        }
    }

    /// Returns the result, once there is one. `request` are the fields of this follower's own
    /// request.
    pub(super) fn result(&self, in_flight: &InFlight, request: &HeaderMap) -> Option<JoinResult> {
        let again = || JoinResult::Again(self.joined());
        Some(match &in_flight.phase {
            Phase::Asking if in_flight.variant.matches(request) => return None,
            // It is now known that this request gets another variant.
            Phase::Asking => again(),
            Phase::Streaming(head) if head.suits(request, &self.directives, self.now) => {
                self.join_streaming(head, request)
            }
            Phase::Streaming(_) | Phase::Finished(Outcome::Again) => again(),
            // A reload does not accept a stale response; others may.
            Phase::Finished(Outcome::Failed { .. }) if in_flight.reload > self.reload => again(),
            Phase::Finished(Outcome::Stale { stored, status })
                if stored.selector.matches(request)
                    && !stored
                        .freshness
                        .is_requested_before(self.directives.trusted_since) =>
            {
                let ttl_seconds = stored.freshness.ttl_seconds(self.now.time);
                let cache_status = CacheStatus::Stale {
                    reason: self.reason,
                    status: *status,
                    ttl_seconds,
                };
                let headers = stored.validated_headers(self.now.time, cache_status);
                JoinResult::Answer(
                    stored
                        .ready(headers)
                        .reply(&Method::GET, request)
                        .with_body_of(stored),
                )
            }
            Phase::Finished(Outcome::TierHit(stored)) if self.suits(stored, request) => {
                let ttl_seconds = stored.freshness.ttl_seconds(self.now.time);
                let headers =
                    stored.validated_headers(self.now.time, CacheStatus::TierHit { ttl_seconds });
                JoinResult::Answer(
                    stored
                        .ready(headers)
                        .reply(&Method::GET, request)
                        .with_body_of(stored),
                )
            }
            Phase::Finished(Outcome::Stale { .. } | Outcome::TierHit(_)) => again(),
            Phase::Finished(Outcome::Failed {
                status,
                retry_after,
                is_of_origin,
            }) => {
                let forwarded = CacheStatus::Forwarded {
                    reason: self.reason,
                    status: is_of_origin.then_some(*status),
                    stored: false,
                    collapsed: true,
                    refusal: None,
                    object: None,
                };
                let line = "larder: the origin failed, and this request would have been the same\n";
                let mut answer = Answer::error(*status, &Method::GET, line, forwarded, self.now);
                if let Some(after) = retry_after {
                    answer.headers.insert(RETRY_AFTER, after.clone());
                }
                JoinResult::Answer(answer)
            }
        })
    }

    fn suits(&self, stored: &Stored, request: &HeaderMap) -> bool {
        stored.selector.matches(request)
            && stored.freshness.satisfies(&self.directives, self.now.time)
    }

    fn join_streaming(&self, head: &Head, request: &HeaderMap) -> JoinResult {
        let mut headers = (*head.headers).clone();
        let forwarded = CacheStatus::Forwarded {
            reason: self.reason,
            status: Some(head.status),
            stored: false,
            collapsed: true,
            refusal: None,
            object: head
                .is_object
                .then(|| head.freshness.ttl_seconds(self.now.time)),
        };
        // RFC 9111 §5.1. A follower that waited for the head gets it with the age that it came
        // with.
        let age = head.freshness.age(self.now.time);
        let length = head
            .length
            .and_then(|length| content_length(head.status, length));
        insert_written_anew(&mut headers, length, age, forwarded.after(&head.earlier));
        let ready = Ready {
            status: head.status,
            headers,
            length: head.length,
            boundary: None,
        };
        let reply = ready.reply(&Method::GET, request);
        if !reply.has_body {
            return JoinResult::Answer(reply.without_body());
        }
        let part = BodyPart::range(head.body, reply.first, reply.end);
        JoinResult::Stream {
            status: reply.status,
            headers: reply.headers,
            part,
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
        let joined = Joined {
            at: Time::from_secs(5),
            requested: Time::from_secs(3),
        };
        let headers = HeaderMap::new();
        for (requested, received, expected) in [
            (3, 6, true),
            (4, 6, true),
            (2, 6, false),
            (3, 5, false),
            (3, 4, false),
            (4, 7, true),
        ] {
            let received = Now {
                time: Time::from_secs(received),
                unix_seconds: 0,
            };
            let directives = ResponseDirectives::of(&headers);
            let stored = Freshness::of(
                StatusCode::OK,
                &headers,
                &directives,
                Time::from_secs(requested),
                received,
            );
            assert_eq!(
                joined.is_reloaded_by(&stored),
                expected,
                "{requested}, {received:?}"
            );
        }
    }
}
