//! Storing: decides whether the body of a response is collected, stores it at its end, and removes
//! what it replaces.

use crate::body::shared_body::BodyEnd;
use crate::cache::Cache;
use crate::cache::exchange::{Ask, Exchange};
use crate::cache::fill::Fill;
use crate::collapse::in_flight::Outcome;
use crate::now::Now;
use crate::outbox::Outbox;
use crate::rfc::cache_status::ForwardReason;
use crate::rfc::directives::ResponseDirectives;
use crate::rfc::framing::content_length;
use crate::rfc::freshness::Freshness;
use crate::rfc::storability::Refusal;
use crate::rfc::vary::Selector;
use crate::rfc::{freshness, storability, targeted};
use crate::store::index::Found;
use crate::store::purge_table::PurgeVerdict;
use crate::store::stored::Stored;
use bytes::Bytes;
use http::header::{CONTENT_LOCATION, TRAILER};
use http::{HeaderMap, Method, StatusCode};
use larder_policy::observe;
use std::time::Duration;

/// The result for a body that was collected for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It is stored.
    Stored,
    /// The body was not as its head declared, or ended early. It is not stored.
    Truncated,
    /// The body is not stored for this reason.
    Refused(Refusal),
}

impl Cache {
    /// Decides whether the body is collected. `Err(None)` if the method allows no storing.
    pub(crate) fn consider(
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
        if exchange.method == Method::POST
            && !exchange.forbids_storing
            && self.is_page_of_target(exchange, status, headers)
        {
            let mut fill = self
                .start_fill(exchange, status, headers, framed, now)
                .map_err(Some)?;
            // The request has just invalidated earlier responses; this response describes the state
            // after it.
            fill.asked = now.time + Duration::from_nanos(1);
            fill.stored.asked_at = self.store.purges.now();
            return Ok(fill);
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

    /// Returns true if a response to POST answers later GETs: it states its lifetime, and that it
    /// is the representation of its target (RFC 9110 §9.3.3).
    fn is_page_of_target(
        &self,
        exchange: &Exchange,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> bool {
        let named = headers
            .get(CONTENT_LOCATION)
            .and_then(|value| value.to_str().ok());
        let named = named.and_then(|reference| exchange.key.same_origin_reference(reference));
        let explicit = || freshness::is_explicit(headers, &self.says(exchange, status, headers));
        status == StatusCode::OK && named.is_some_and(|key| key == exchange.key) && explicit()
    }

    /// Returns the directives of a response, with the changes of the host's rules.
    pub(crate) fn says(
        &self,
        exchange: &Exchange,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> ResponseDirectives {
        let mut says = targeted::directives(headers, &self.config.targets);
        says.is_direct = exchange.is_direct;
        says.left = exchange.left_at_peer;
        if let Some(rules) = &exchange.rules {
            rules.overrides(status, headers).apply(&mut says, headers);
        }
        // RFC 9111 §5.2.2.10.
        says.proxy_revalidate |=
            self.config.strict_s_maxage && says.s_maxage.is_some() && !says.allows_stale;
        says
    }

    /// Returns whether a response may be stored at all (RFC 9111 §3).
    pub(crate) fn judge(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        says: &ResponseDirectives,
        authorized: bool,
        freshness: &Freshness,
    ) -> Result<(), Refusal> {
        storability::judge(
            status,
            headers,
            says,
            authorized,
            freshness.has_lifetime(),
            self.config.share_cookies,
        )
    }

    /// Discards the old response, because the origin has a new one that will not replace it,
    /// whether or not the old one had validators. Otherwise a reload would show the new one, and
    /// the next request the old one again.
    fn discard_outdated(
        &mut self,
        exchange: &Exchange,
        validated: Option<&Stored>,
        status: StatusCode,
    ) {
        if let Some(old) = validated {
            return self.discard(old);
        }
        // A 304 to the client's own condition does not concern a response that was not validated,
        // and a part is not enough.
        if !exchange.may_store
            || matches!(
                status,
                StatusCode::NOT_MODIFIED | StatusCode::PARTIAL_CONTENT
            )
        {
            return;
        }
        if let Some(old) = &exchange.held {
            self.remove_variant_from_tier(old);
        }
        if let Found::Match(slot) = self
            .store
            .find(&exchange.key, exchange.hash, &exchange.headers)
        {
            let old = self.store.stored(slot);
            self.discard(&old);
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
        // The policy counts the request only if HTTP allows storing the response.
        let says = self.says(exchange, status, headers);
        let freshness = Freshness::of(status, headers, &says, asked, now);
        self.judge(status, headers, &says, exchange.is_authorized(), &freshness)?;
        if !framed {
            return Err(Refusal::Unframed);
        }
        if headers.contains_key(TRAILER) {
            return Err(Refusal::Trailers);
        }
        let declared = if status == StatusCode::NO_CONTENT {
            Some(0)
        } else {
            content_length(headers)
        };
        if let Some(length) = declared.filter(|length| *length > self.max_object) {
            if exchange.keeps_no_copy {
                return Err(Refusal::NotAdmitted);
            }
            self.store.miss(hash, now.time);
            return self
                .start_slicing(exchange, status, headers, length, now)
                .ok_or(Refusal::TooLarge);
        }
        let selector = Selector::of(headers, &exchange.headers);
        let stored = Stored::new(
            exchange.key.to_bytes(),
            hash,
            selector,
            status,
            headers,
            freshness,
        );
        let mut stored = stored.at(exchange.asked_at);
        // It is there.
        stored.is_offered = !exchange.is_object && !exchange.becomes_no_object;
        let size = declared.map(|length| self.store.size_of(&stored, length));
        // The policy decides about what this cache may keep, and learns from requests for that.
        let admitted = !exchange.keeps_no_copy && self.store.miss_and_admit(hash, size, now.time);
        if let Some(sizes) = size.zip(declared) {
            let outcome = match exchange.insists || exchange.reason == ForwardReason::Request {
                _ if exchange.in_background => observe::Outcome::Refreshed,
                true => observe::Outcome::Reloaded,
                false => observe::Outcome::Fetched,
            };
            self.store
                .observe_fetched(&stored, sizes, outcome, now.time);
        }
        // A body that the policy refuses is collected if other requests wait for it, because each
        // of them would send a request otherwise. And if the whole body arrives instead of a slice,
        // the client's part must be cut out of it.
        let is_slice = || match &exchange.ask {
            Ask::Slice(asked) => declared.is_some_and(|length| length <= asked.end - asked.start),
            _ => false,
        };
        let awaited = || {
            exchange
                .lead
                .as_ref()
                .is_some_and(|lead| self.in_flight_table.waiting(lead) > 0)
                || is_slice()
        };
        // If the store refuses the response, the second tier may store it.
        let has_tier = self.tier.is_some() && !exchange.keeps_no_copy;
        if !admitted && !awaited() && !has_tier {
            return Err(Refusal::NotAdmitted);
        }
        let body = self.next_body();
        let mut fill = Fill::new(stored, asked, declared, self.max_object, body, &self.budget)?;
        fill.unwanted = !admitted;
        fill.is_object = exchange.is_object;
        let reason = exchange.reason;
        fill.is_miss = matches!(reason, ForwardReason::UriMiss | ForwardReason::VaryMiss);
        fill.is_storable &= !exchange.keeps_no_copy;
        Ok(fill)
    }

    /// Reports that the body is no longer collected ([`Pushed::Passing`](crate::Pushed::Passing)).
    /// No further request may follow, because the start of the body may be gone.
    pub fn on_passing(&mut self, fill: &Fill) {
        if let Some(lead) = &fill.lead {
            self.in_flight_table.close(lead);
        }
    }

    /// Ends a body that ended without an error of the connection. Stores it if it is complete and
    /// still admitted. `collected` are the bytes of [`SharedBody::take_collected`]. The end goes to
    /// [`SharedBody::finish`].
    ///
    /// [`SharedBody::take_collected`]: crate::SharedBody::take_collected
    /// [`SharedBody::finish`]: crate::SharedBody::finish
    pub fn on_complete(
        &mut self,
        mut fill: Box<Fill>,
        collected: Option<Bytes>,
        now: Now,
        outbox: &mut Outbox,
    ) -> (Completion, BodyEnd) {
        let lead = fill.lead.take();
        let (completion, end) = self.complete_fill(*fill, collected, now);
        if let Some(lead) = lead {
            // A request that has not joined by then finds the stored response or starts its own
            // fetch.
            self.in_flight_table.finish(lead, Outcome::Again, outbox);
        }
        self.report(outbox);
        match completion {
            Completion::Stored => self.counters.stored += 1,
            Completion::Truncated => self.counters.truncated += 1,
            Completion::Refused(refusal) => self.counters.refuse(refusal),
        }
        (completion, end)
    }

    /// Ends a body that ended with an error, or that the host gives up. RFC 9111 §3.3 forbids to
    /// store it as complete, and partial ones are not stored. The end goes to
    /// [`SharedBody::finish`](crate::SharedBody::finish).
    pub fn on_abort(&mut self, mut fill: Box<Fill>, outbox: &mut Outbox) -> BodyEnd {
        if let Some(lead) = fill.lead.take() {
            self.in_flight_table.finish(lead, Outcome::Again, outbox);
        }
        self.counters.truncated += 1;
        fill.broken()
    }

    fn complete_fill(
        &mut self,
        mut fill: Fill,
        collected: Option<Bytes>,
        now: Now,
    ) -> (Completion, BodyEnd) {
        let asked = fill.asked;
        if fill.slicer.is_some() {
            self.on_slices_cut(&mut fill, now);
            let completion = match &fill.slicer {
                Some(slicer) if slicer.is_done() => Completion::Stored,
                Some(slicer) if slicer.is_stopped() => Completion::Refused(Refusal::Busy),
                _ => return (Completion::Truncated, fill.broken()),
            };
            return (completion, fill.into_stored(None).2);
        }
        if fill.abandoned.is_some() && fill.declared.is_some() || !fill.is_whole(collected.as_ref())
        {
            return (Completion::Truncated, fill.cut_short(collected));
        }
        if let Some(refusal) = fill.abandoned {
            // The new response is complete, even if it is not stored, so the old one is removed.
            let (stored, _, end) = fill.into_stored(collected);
            self.discard(&stored);
            return (Completion::Refused(refusal), end);
        }
        let (unwanted, hash) = (fill.unwanted, fill.stored.hash);
        if self.store.is_outdated(&fill.stored, asked) {
            return (
                Completion::Refused(Refusal::Invalidated),
                fill.into_stored(collected).2,
            );
        }
        if !fill.is_object {
            // A hit meanwhile may have offered the one before.
            self.outdate_objects(hash);
        }
        // The body had no declared length, so the policy decides now.
        let size = self.store.size_of(&fill.stored, fill.len());
        if fill.declared.is_none() {
            self.store.observe_fetched(
                &fill.stored,
                (size, fill.len()),
                observe::Outcome::Fetched,
                now.time,
            );
        }
        let is_admitted = !unwanted
            && (fill.declared.is_some() || self.store.admit_or_fill(hash, size, now.time));
        let (is_storable, is_miss) = (fill.is_storable, fill.is_miss);
        let (mut stored, body, end) = fill.into_stored(collected);
        if is_storable {
            self.put_in_tier(&stored, now);
        }
        stored.is_offered &= is_storable && self.is_offered_later(&stored, is_miss, now);
        stored.body = body;
        if !is_admitted {
            if !unwanted {
                self.discard_from_store(&stored);
            }
            return (Completion::Refused(Refusal::NotAdmitted), end);
        }
        if self.store.put(&stored, now.time) {
            (Completion::Stored, end)
        } else {
            (Completion::Refused(Refusal::TooLarge), end)
        }
    }

    /// Gives `stored`, a copy of the confirmed response, the fields of the confirmation, and
    /// replaces the original with it. If the result may not be stored, removes the original.
    pub(crate) fn renew(
        &mut self,
        exchange: &Exchange,
        stored: &mut Stored,
        headers: &HeaderMap,
        now: Now,
    ) -> Result<(), Refusal> {
        // Its object keeps the fields and the lifetime of before.
        self.outdate_objects(stored.hash);
        let had_lifetime = stored.freshness.has_lifetime();
        // A purge may name the response by its former tags, or may not have reached it yet.
        let was_purged = self.store.purges.verdict(stored) == PurgeVerdict::Purged;
        stored.asked_at = exchange.asked_at;
        // The confirmation is of before a soft purge that has come since it was asked for.
        let was_expired = self.store.purges.verdict(stored) != PurgeVerdict::Kept;
        let says = stored.freshen(
            headers,
            |status, headers| self.says(exchange, status, headers),
            exchange.asked,
            now,
        );
        let authorized = exchange.is_authorized();
        let renewed = stored.headers();
        let verdict = self.judge(
            stored.status,
            &renewed,
            &says,
            authorized,
            &stored.freshness,
        );
        let selector = Selector::of(&renewed, &exchange.headers);
        if verdict.is_err() || selector != stored.selector {
            self.discard(stored);
            stored.selector = selector;
        }
        verdict?;
        if was_purged {
            // After many purges the table of names is inexact. A response that may not have been
            // named is fetched once, and not validated for ever.
            self.discard(stored);
            return Err(Refusal::Invalidated);
        }
        if was_expired || self.store.is_outdated(stored, exchange.asked) {
            return Err(Refusal::Invalidated);
        }
        if stored.in_tier().is_some() {
            // Its body would have to be read. So it is validated again, until the whole response is
            // read.
            return Ok(());
        }
        // If each request validates it again, as before, the copy in the tier suffices.
        if had_lifetime || stored.freshness.has_lifetime() {
            self.renew_in_tier(stored, now);
        }
        self.store.renew(stored, now.time);
        Ok(())
    }

    /// Records that the origin is asked again: its next response is later than the purges so far.
    pub(crate) fn ask_again(&self, exchange: &mut Exchange, now: Now) {
        (exchange.asked, exchange.asked_at) = (now.time, self.store.purges.now());
        // Another cache may have sent the response before.
        (exchange.left_at_peer, exchange.keeps_no_copy) = (None, false);
        (exchange.is_object, exchange.is_fresh_object) = (false, false);
    }

    /// Removes the stored response that `old` is a copy of, or its successor.
    pub(crate) fn discard(&mut self, old: &Stored) {
        self.outdate_objects(old.hash);
        self.remove_variant_from_tier(old);
        self.discard_from_store(old);
    }

    fn discard_from_store(&mut self, old: &Stored) {
        if let Some(slot) = self.store.position(old) {
            self.store.remove(slot);
            self.counters.invalidated += 1;
        }
    }
}

/// Returns true if a response to a validation, stored or not, means that the stored response is
/// outdated. A 401 or 429 concerns the client, a 5xx the origin's health.
pub(crate) fn says_it_changed(status: StatusCode) -> bool {
    status.is_success() || status.is_redirection() || matches!(status.as_u16(), 404 | 410)
}
