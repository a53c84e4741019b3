//! Responses of the origin: the answer to the client and to the followers, and the effect on stored
//! responses.

use crate::cache::Cache;
use crate::cache::completion::says_it_changed;
use crate::cache::exchange::{Ask, Exchange, ResponseHead};
use crate::cache::fill::Fill;
use crate::cache::slice_fetch::Whole;
use crate::cache::slices::Served;
use crate::cache::source::Source;
use crate::cache::steps::Reply;
use crate::collapse::in_flight::Outcome;
use crate::now::Now;
use crate::outbox::{ClockBehind, Outbox};
use crate::rfc::cache_status::CacheStatus;
use crate::rfc::framing::{content_length, is_framed};
use crate::rfc::selection::Ready;
use crate::rfc::storability::Refusal;
use crate::rfc::{conditional, date, fields};
use crate::store::purge_table::PurgeVerdict;
use crate::store::stored::Stored;
use http::header::{CONTENT_LENGTH, DATE, ETAG, IF_RANGE, LAST_MODIFIED, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use std::time::Duration;

/// An origin's clock is behind if its `Date` is at least this much older than the receipt. A
/// smaller difference is rounding to seconds, or a slow application.
const CLOCK_BEHIND: Duration = Duration::from_secs(5);

impl Cache {
    /// Handles the head of the origin's final response (interim responses do not concern the
    /// cache).
    pub fn on_response(
        &mut self,
        exchange: Box<Exchange>,
        head: ResponseHead,
        now: Now,
        outbox: &mut Outbox,
    ) -> Reply {
        if says_more(&exchange, head.status) {
            self.outdate_objects(exchange.hash);
        }
        let reply = self.reply(exchange, head, now, outbox);
        if let Reply::Retry(exchange) = &reply
            && let Some(lead) = &exchange.lead
        {
            // Followers that get another variant do not wait for it.
            self.in_flight_table.wake_waiting(lead, outbox);
        }
        self.report(outbox);
        reply
    }

    fn reply(
        &mut self,
        mut exchange: Box<Exchange>,
        head: ResponseHead,
        now: Now,
        outbox: &mut Outbox,
    ) -> Reply {
        let ResponseHead {
            mut status,
            version,
            mut headers,
        } = head;
        let framed = is_framed(status, version, &headers);
        fields::strip_hop_by_hop_but_trailer(&mut headers, exchange.takes_trailers);
        self.look_at_date(&mut exchange, &headers, now, outbox);
        fields::ensure_date(&mut headers, now);
        fields::append_via(&mut headers, version);
        self.learn_variant(&mut exchange, &headers, now);
        if status == StatusCode::NOT_MODIFIED && exchange.is_validating() {
            let stored = exchange.held.take().expect("it is being validated");
            return self.on_not_modified(exchange, stored, &headers, now, outbox);
        }
        if !is_error(status) {
            self.failing.clear(exchange.hash);
        } else if let Some(answer) = self.stale_answer(&mut exchange, Some(status), now, outbox) {
            // These followers cannot use the stale answer.
            self.release_followers(&mut exchange, outbox);
            return Reply::Answer(answer);
        }
        let mut was_part = false;
        if status == StatusCode::PARTIAL_CONTENT {
            match self.on_part(exchange, headers, now, outbox) {
                Ok(reply) => return reply,
                Err(Whole {
                    exchange: same,
                    headers: fields,
                }) => (exchange, headers) = (same, fields),
            }
            was_part = matches!(exchange.ask, Ask::Slice(_));
            if was_part {
                status = StatusCode::OK;
            } else {
                self.learn(&exchange, &headers, now);
            }
        }
        // The requested part or representation does not exist; the client's may.
        let astray = exchange.is_validating() || exchange.headers.contains_key(IF_RANGE);
        if status == StatusCode::RANGE_NOT_SATISFIABLE
            && matches!(exchange.ask, Ask::Slice(_))
            && astray
        {
            return self.ask_as_client(exchange, now, outbox);
        }
        self.invalidate_by(&mut exchange, status, &headers, now, outbox);
        let fill = self.consider(&mut exchange, status, &headers, framed, now);
        let (mut fill, refusal) = match fill {
            Ok(fill) => (Some(Box::new(fill)), None),
            Err(refusal) => (None, refusal),
        };
        if was_part && fill.is_none() {
            // It may not be stored, so the client's part cannot be cut out of it.
            return self.ask_as_client(exchange, now, outbox);
        }
        let is_observed =
            fill.is_some() || matches!(refusal, Some(Refusal::NotAdmitted | Refusal::Busy));
        if !is_observed && !exchange.in_background {
            self.store.observer.unstorable(content_length(&headers));
        }
        if let Some(refusal) = refusal {
            self.counters.refuse(refusal);
        }
        // With an unknown length, the policy decides at the end of the body.
        let is_sliced = fill.as_ref().is_some_and(|fill| fill.slicer.is_some());
        let stored = is_sliced
            || fill
                .as_ref()
                .is_some_and(|fill| fill.declared.is_some() && !fill.unwanted);
        if is_sliced {
            // Its head is stored.
            self.release_followers(&mut exchange, outbox);
        }
        self.share(&mut exchange, &mut fill, status, &headers, now, outbox);
        CacheStatus::Forwarded {
            reason: exchange.reason,
            status: Some(status),
            stored,
            collapsed: false,
            refusal,
            object: exchange.is_object.then(|| ttl_seconds(&fill, now)),
        }
        .set(&mut headers);
        if let (Some(fill), Ask::Slice(_)) = (&mut fill, &exchange.ask) {
            (status, headers) = cut(fill, &exchange, status, headers);
        }
        Reply::Relay {
            status,
            headers,
            fill,
        }
    }

    /// Records whether the response comes directly from its origin, and reports an origin whose
    /// clock is behind.
    pub(crate) fn look_at_date(
        &mut self,
        exchange: &mut Exchange,
        headers: &HeaderMap,
        now: Now,
        outbox: &mut Outbox,
    ) {
        exchange.is_direct = fields::is_direct(headers);
        let date = date::field(headers, &DATE).unwrap_or(now.unix_seconds);
        let behind = Duration::from_secs(now.unix_seconds.saturating_sub(date));
        // A response that took long is older.
        if !exchange.is_direct || behind < now.time.since(exchange.asked) + CLOCK_BEHIND {
            return;
        }
        self.counters.clocks_behind += 1;
        if self.counters.clocks_behind == 1 {
            let authority = exchange.key.authority().to_owned();
            outbox.clock_behind = Some(ClockBehind { authority, behind });
        }
    }

    /// Remembers by which fields the responses of the URL vary, and so which variant this is.
    fn learn_variant(&mut self, exchange: &mut Exchange, headers: &HeaderMap, now: Now) {
        self.in_flight_table
            .learn_vary(exchange.hash, headers, now.time);
        let variant = self.variant_of_request(&exchange.key, exchange.hash, &exchange.headers, now);
        exchange.variant_hash = self.in_flight_table.hash(exchange.hash, &variant);
        if let Some(lead) = &exchange.lead {
            self.in_flight_table
                .set_variant(lead, variant, exchange.variant_hash);
        }
    }

    /// Handles the arrival of a response's head. The followers of a leader get the body while it
    /// arrives, or must ask the cache again.
    fn share(
        &mut self,
        exchange: &mut Exchange,
        fill: &mut Option<Box<Fill>>,
        status: StatusCode,
        headers: &HeaderMap,
        now: Now,
        outbox: &mut Outbox,
    ) {
        let Some(lead) = exchange.lead.take() else {
            return;
        };
        let reusable = fill
            .as_mut()
            .filter(|fill| fill.stored.freshness.is_reusable(now.time));
        if let Some(fill) = reusable {
            if self.store.purges.verdict(&fill.stored) != PurgeVerdict::Kept {
                // Some followers may have come after the purge.
                return self.in_flight_table.finish(lead, Outcome::Again, outbox);
            }
            self.in_flight_table
                .set_alone(exchange.variant_hash, false, now.time);
            self.in_flight_table.start(&lead, fill.head(), outbox);
            fill.lead = Some(lead);
            return;
        }
        if is_trouble(status) {
            let retry_after = headers.get(RETRY_AFTER).cloned();
            return self.in_flight_table.finish(
                lead,
                Outcome::Failed {
                    status,
                    retry_after,
                    is_of_origin: true,
                },
                outbox,
            );
        }
        self.in_flight_table
            .set_alone(exchange.variant_hash, true, now.time);
        self.in_flight_table.finish(lead, Outcome::Again, outbox);
    }

    /// Makes the stored response usable again after a 304 (RFC 9111 §4.3.4).
    fn on_not_modified(
        &mut self,
        mut exchange: Box<Exchange>,
        mut stored: Stored,
        headers: &HeaderMap,
        now: Now,
        outbox: &mut Outbox,
    ) -> Reply {
        self.failing.clear(exchange.hash);
        let same = stored
            .sliced()
            .is_none_or(|sliced| sliced.pin.agrees(headers));
        if !same || !conditional::selects(headers, &stored.headers()) {
            self.discard(&stored);
            self.ask_again(&mut exchange, now);
            return Reply::Retry(exchange);
        }
        if let Some(slot) = self.store.position(&stored) {
            if exchange.in_background {
                self.store.hit_in_background(slot, now.time)
            } else {
                self.store.hit(slot, now.time)
            }
        }
        if exchange.forbids_storing {
            // RFC 9111 §5.2.1.5: no part of the response to a no-store request is stored, not even
            // the fields of a 304.
            stored.freshen(
                headers,
                |status, headers| self.says(&exchange, status, headers),
                exchange.asked,
                now,
            );
            self.counters.refuse(Refusal::NoStore);
        } else if let Err(refusal) = self.renew(&exchange, &mut stored, headers, now) {
            self.counters.refuse(refusal);
        }
        let ttl_seconds = stored.freshness.ttl_seconds(now.time);
        let status = CacheStatus::Validated {
            reason: exchange.reason,
            ttl_seconds,
            is_untrusted: exchange.is_untrusted,
        };
        let headers = stored.validated_headers(now.time, status);
        let response = stored
            .ready(headers)
            .reply(&exchange.method, &exchange.headers);
        if let Some(lead) = exchange.lead.take() {
            // Followers find the renewed response. If each request validates it, they need not wait
            // for each other.
            let is_reusable = stored.freshness.is_reusable(now.time);
            self.in_flight_table
                .set_alone(exchange.variant_hash, !is_reusable, now.time);
            // It stays in the second tier, so only this copy is renewed.
            let is_current = || self.store.purges.verdict(&stored) == PurgeVerdict::Kept;
            let outcome = if stored.in_tier().is_some() && is_reusable && is_current() {
                Outcome::TierHit(Box::new(stored.clone()))
            } else {
                Outcome::Again
            };
            self.in_flight_table.finish(lead, outcome, outbox);
        }
        self.counters.validated += 1;
        if stored.sliced().is_none() {
            let answer = response.with_body_of(&stored);
            self.counters.hit_bytes += answer.length();
            return Reply::Answer(answer);
        }
        let Exchange {
            key,
            version,
            headers: request,
            ..
        } = *exchange;
        let passed = fields::cdn_loop_count(&request);
        match self.serve(
            Source {
                key,
                version,
                stored,
                request,
                passed,
            },
            response,
            now,
        ) {
            Served::AtOnce(answer) => Reply::Answer(answer),
            Served::Assembled(assembled) => Reply::Assemble(assembled, None),
        }
    }

    /// Compares a 200 to HEAD with the stored GET (RFC 9111 §4.3.5). If they differ in a validator
    /// or in length, the stored response is outdated; otherwise it is renewed.
    pub(crate) fn compare_head(
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
        let stored = old.headers();
        let agrees = |name: &HeaderName| {
            headers
                .get(name)
                .is_none_or(|new| stored.get(name) == Some(new))
        };
        if [ETAG, LAST_MODIFIED, CONTENT_LENGTH].iter().all(agrees) {
            // RFC 9111 §5.2.1.5: the fields of a response to a no-store HEAD are not stored either.
            if !exchange.forbids_storing {
                // If it may no longer be stored, the call has removed it.
                let _ = self.renew(exchange, &mut old.clone(), headers, now);
            }
            return;
        }
        self.discard(old);
    }
}

/// Returns true if a response is newer than the objects of its key. A fresh object is not, and a
/// 304 says that nothing has changed.
fn says_more(exchange: &Exchange, status: StatusCode) -> bool {
    exchange.method == Method::GET
        && !exchange.is_fresh_object
        && status != StatusCode::NOT_MODIFIED
        && says_it_changed(status)
}

/// Returns the seconds for which a response is fresh.
fn ttl_seconds(fill: &Option<Box<Fill>>, now: Now) -> i64 {
    let freshness = fill.as_ref().map(|fill| fill.stored.freshness);
    freshness.map_or(0, |freshness| freshness.ttl_seconds(now.time))
}

/// Returns true if a stale response may replace a response with this status (RFC 5861 §4).
fn is_error(status: StatusCode) -> bool {
    status == StatusCode::INTERNAL_SERVER_ERROR || is_trouble(status)
}

/// Returns true if the status concerns the origin's health. Such a response answers all followers.
/// 500 does not count, because it may concern one request.
fn is_trouble(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

/// Returns the client's part if the client requested a part and the whole body arrives.
fn cut(
    fill: &mut Fill,
    exchange: &Exchange,
    status: StatusCode,
    headers: HeaderMap,
) -> (StatusCode, HeaderMap) {
    let ready = Ready {
        status,
        headers,
        length: fill.declared,
        boundary: None,
    };
    let response = ready.reply(&exchange.method, &exchange.headers);
    fill.part = if response.has_body {
        (response.first, response.end)
    } else {
        (0, Some(0))
    };
    (response.status, response.headers)
}
