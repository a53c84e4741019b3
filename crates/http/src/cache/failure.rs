//! The origin fails: a stale response answers if it may be served (RFC 5861 §4, RFC 9111 §4.2.4),
//! otherwise an error with the reason.

use crate::cache::Cache;
use crate::cache::exchange::{Exchange, UpstreamFailure};
use crate::cache::slices::Served;
use crate::cache::source::Source;
use crate::collapse::in_flight::Outcome;
use crate::now::Now;
use crate::outbox::Outbox;
use crate::rfc::cache_status::{CacheStatus, ForwardReason};
use crate::store::answer::Answer;
use crate::store::purge_table::PurgeVerdict;
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

impl Cache {
    /// Returns the stale answer that may replace a failure (RFC 5861 §4; RFC 9111 §4.2.4), if there
    /// is one. `status` is the status of the origin's answer; `None` if there was no answer.
    pub(crate) fn stale_answer(
        &mut self,
        exchange: &mut Exchange,
        status: Option<StatusCode>,
        now: Now,
        outbox: &mut Outbox,
    ) -> Option<Answer> {
        // If a client requires validation, it gets the error, whether the stored response is fresh
        // or stale.
        let insists = exchange.insists || exchange.reason != ForwardReason::Stale;
        let stored = exchange.held.as_ref().filter(|_| !insists)?;
        if stored.freshness.is_requested_before(self.trusted_since) {
            return None;
        }
        if !stored
            .freshness
            .may_be_stale_on_failure(status.is_none(), now.time)
        {
            return None;
        }
        // The response was purged, or changed by an unsafe request, during the fetch.
        if self.store.purges.verdict(stored) == PurgeVerdict::Purged {
            return None;
        }
        self.failing.note(exchange.hash, status.is_none(), now.time);
        let ttl_seconds = stored.freshness.ttl_seconds(now.time);
        let cache_status = CacheStatus::Stale {
            reason: exchange.reason,
            status,
            ttl_seconds,
        };
        let headers = stored.validated_headers(now.time, cache_status);
        let response = stored
            .ready(headers)
            .reply(&exchange.method, &exchange.headers);
        if stored.sliced().is_some() {
            // Only a range within one stored slice: other slices would have to be fetched.
            // Followers send requests of their own.
            let (key, stored, request) = (
                exchange.key.clone(),
                stored.clone(),
                exchange.headers.clone(),
            );
            let source = Source {
                key,
                version: exchange.version,
                stored,
                request,
                passed: 0,
            };
            let Served::AtOnce(answer) = self.serve(source, response, now) else {
                return None;
            };
            self.counters.stale += 1;
            return Some(answer);
        }
        let answer = response.with_body_of(stored);
        self.counters.stale += 1;
        self.counters.hit_bytes += answer.length();
        if let Some(lead) = exchange.lead.take() {
            let stored = Box::new(stored.clone());
            self.in_flight_table
                .finish(lead, Outcome::Stale { stored, status }, outbox);
        }
        Some(answer)
    }

    /// Ends an exchange that the host gives up, because its client has left or no permit is free.
    /// Followers ask the cache again.
    pub fn on_abandoned(&mut self, mut exchange: Box<Exchange>, outbox: &mut Outbox) {
        self.release_followers(&mut exchange, outbox);
    }

    /// Lets the followers of an exchange ask the cache again.
    pub(crate) fn release_followers(&mut self, exchange: &mut Exchange, outbox: &mut Outbox) {
        if let Some(lead) = exchange.lead.take() {
            self.in_flight_table.finish(lead, Outcome::Again, outbox);
        }
    }

    /// Handles a missing response of the origin.
    pub fn on_failure(
        &mut self,
        mut exchange: Box<Exchange>,
        failure: UpstreamFailure,
        now: Now,
        outbox: &mut Outbox,
    ) -> Answer {
        match failure {
            UpstreamFailure::Upload
            | UpstreamFailure::UploadTimedOut
            | UpstreamFailure::UploadTooLarge => {}
            UpstreamFailure::HeadTooLarge => self.counters.heads_too_large += 1,
            _ => self.counters.upstream_failures += 1,
        }
        let disconnected = matches!(
            failure,
            UpstreamFailure::Unreachable
                | UpstreamFailure::TimedOut
                | UpstreamFailure::Malformed
                | UpstreamFailure::HeadTooLarge
                | UpstreamFailure::Unavailable { .. }
        );
        if disconnected && let Some(answer) = self.stale_answer(&mut exchange, None, now, outbox) {
            // These followers cannot use the stale answer.
            self.release_followers(&mut exchange, outbox);
            return answer;
        }
        // RFC 9111 §5.2.2.2: with must-revalidate, a cache that cannot reach the origin MUST answer
        // with an error, and SHOULD with 504.
        let strict = exchange.held.as_ref().is_some_and(|stored| {
            stored.freshness.forbids_stale()
                || stored.freshness.is_requested_before(self.trusted_since)
        });
        let (status, line) = error_of(&failure, strict);
        let forwarded = CacheStatus::Forwarded {
            reason: exchange.reason,
            status: None,
            stored: false,
            collapsed: false,
            refusal: None,
            object: None,
        };
        let retry_after = match failure {
            UpstreamFailure::Unavailable { retry_after } if !strict => {
                Some(HeaderValue::from(retry_after))
            }
            _ => None,
        };
        if let Some(lead) = exchange.lead.take() {
            let retry_after = retry_after.clone();
            self.in_flight_table.finish(
                lead,
                Outcome::Failed {
                    status,
                    retry_after,
                    is_of_origin: false,
                },
                outbox,
            );
        }
        let mut answer = Answer::error(status, &exchange.method, line, forwarded, now);
        if let Some(after) = retry_after {
            answer.headers.insert(RETRY_AFTER, after);
        }
        answer
    }
}

/// Returns the status and the line that a client gets. `strict` is true if a stored response
/// forbids stale use.
fn error_of(failure: &UpstreamFailure, strict: bool) -> (StatusCode, &'static str) {
    match failure {
        UpstreamFailure::Upload => (
            StatusCode::BAD_REQUEST,
            "larder: the request's body broke off\n",
        ),
        UpstreamFailure::UploadTimedOut => (
            StatusCode::REQUEST_TIMEOUT,
            "larder: nothing more of the request's body came in time\n",
        ),
        UpstreamFailure::UploadTooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "larder: the request's body is too large\n",
        ),
        UpstreamFailure::Circle => (
            StatusCode::LOOP_DETECTED,
            "larder: the request goes round in a circle\n",
        ),
        UpstreamFailure::TimedOut => (
            StatusCode::GATEWAY_TIMEOUT,
            "larder: the origin did not answer in time\n",
        ),
        _ if strict => (
            StatusCode::GATEWAY_TIMEOUT,
            "larder: the origin cannot be reached to validate\n",
        ),
        UpstreamFailure::Unreachable => (
            StatusCode::BAD_GATEWAY,
            "larder: the origin cannot be reached\n",
        ),
        UpstreamFailure::Malformed => (
            StatusCode::BAD_GATEWAY,
            "larder: the origin's response is malformed\n",
        ),
        UpstreamFailure::HeadTooLarge => (
            StatusCode::BAD_GATEWAY,
            "larder: the origin's response has too many header fields, or too large ones\n",
        ),
        UpstreamFailure::Unavailable { .. } => (
            StatusCode::SERVICE_UNAVAILABLE,
            "larder: no server of the origin is available\n",
        ),
    }
}
