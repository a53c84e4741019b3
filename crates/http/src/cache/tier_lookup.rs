//! The result of a lookup in the second tier: the answer, or a response to validate, or nothing.

use crate::body::streamed::InTier;
use crate::cache::Cache;
use crate::cache::exchange::{Ask, Exchange, RequestHead, TierLookup};
use crate::cache::slices::{Served, most_looked_at, partial};
use crate::cache::source::Source;
use crate::cache::steps::TierStep;
use crate::collapse::in_flight::Outcome;
use crate::now::Now;
use crate::outbox::Outbox;
use crate::rfc::cache_status::{CACHE_STATUS, CacheStatus, ForwardReason};
use crate::rfc::directives::RequestDirectives;
use crate::rfc::fields;
use crate::store::answer::Answer;
use crate::store::index::Found;
use crate::store::object::Offer;
use crate::store::purge_table::PurgeVerdict;
use crate::store::record;
use crate::store::second_tier::{TierHit, TierResponse};
use crate::store::stored::Stored;
use http::header::SET_COOKIE;
use larder_policy::observe;

impl Cache {
    /// Handles the second tier's result for an exchange with a [`Exchange::tier_key`].
    pub fn on_tier_lookup(
        &mut self,
        exchange: Box<Exchange>,
        tier_hit: Option<TierHit>,
        request: &RequestHead<'_>,
        now: Now,
        outbox: &mut Outbox,
    ) -> TierStep {
        let step = self.tier_step(exchange, tier_hit, request, now, outbox);
        if let TierStep::Variant(exchange, _) | TierStep::Forward(exchange) = &step
            && let Some(lead) = &exchange.lead
        {
            // Followers that get another variant do not wait for it.
            self.in_flight_table.wake_waiting(lead, outbox);
        }
        self.report(outbox);
        step
    }

    fn tier_step(
        &mut self,
        mut exchange: Box<Exchange>,
        tier_hit: Option<TierHit>,
        request: &RequestHead<'_>,
        now: Now,
        outbox: &mut Outbox,
    ) -> TierStep {
        let tier_lookup = std::mem::replace(&mut exchange.tier_lookup, TierLookup::No);
        let directives = self.directives(request.headers);
        if let Some(stored) = self.believed(&exchange, tier_hit, request, now) {
            self.learn_selector(&exchange, &stored, request, now);
            if !stored.selector.matches(request.headers) {
                if tier_lookup == TierLookup::Any {
                    exchange.tier_lookup = TierLookup::Variant;
                    let variant = stored.selector.variant_of(request.headers, &self.hash_key);
                    return TierStep::Variant(exchange, variant);
                }
            } else if stored.freshness.satisfies(&directives, now.time) {
                if stored.sliced().is_none() {
                    return TierStep::Answer(
                        self.answer_tier_hit(exchange, stored, request, now, outbox),
                    );
                }
                match self.tier_hit_slices(
                    exchange,
                    stored,
                    request,
                    directives.only_if_cached,
                    now,
                    outbox,
                ) {
                    Ok(tier_lookup) => return tier_lookup,
                    Err(same) => exchange = same,
                }
            } else if self.serves_while_failing(&stored, &directives, exchange.hash, now) {
                return TierStep::Answer(
                    self.answer_tier_hit(exchange, stored, request, now, outbox),
                );
            } else {
                let reusable = stored.freshness.is_reusable(now.time)
                    && !stored.freshness.is_requested_before(self.trusted_since);
                exchange.reason = if reusable {
                    ForwardReason::Request
                } else {
                    ForwardReason::Stale
                };
                let opening = self.opening(request, exchange.hash, Some(&stored), now);
                exchange.ask = opening
                    .filter(|_| exchange.may_store)
                    .map_or(Ask::Whole, Ask::Slice);
                exchange.is_untrusted = self.is_untrusted(&stored, now);
                exchange.held = Some(stored);
            }
        }
        if directives.only_if_cached {
            self.release_followers(&mut exchange, outbox);
            return TierStep::Answer(self.unsatisfied(request, now));
        }
        self.counters.forward(exchange.reason);
        TierStep::Forward(exchange)
    }

    /// Records by which fields the responses vary.
    fn learn_selector(
        &mut self,
        exchange: &Exchange,
        stored: &Stored,
        request: &RequestHead<'_>,
        now: Now,
    ) {
        let Some(lead) = &exchange.lead else { return };
        self.in_flight_table
            .learn_selector(exchange.hash, &stored.selector, now.time);
        let variant = self.variant_of_request(&exchange.key, exchange.hash, request.headers, now);
        let hash = self.in_flight_table.hash(exchange.hash, &variant);
        self.in_flight_table.set_variant(lead, variant, hash);
    }

    /// Returns true if the origin fails, need not be tried now, and the response may be served
    /// stale meanwhile.
    fn serves_while_failing(
        &mut self,
        stored: &Stored,
        directives: &RequestDirectives,
        hash: u64,
        now: Now,
    ) -> bool {
        if stored.sliced().is_some()
            || directives.no_store
            || directives.says_about_age()
            || stored.freshness.is_requested_before(self.trusted_since)
        {
            return false;
        }
        let failing = self
            .failing
            .look_up(hash, now.time)
            .filter(|failing| !failing.is_try_due);
        failing.is_some_and(|failing| {
            stored
                .freshness
                .may_be_stale_on_failure(failing.is_disconnected, now.time)
        })
    }

    /// Returns the response from the tier, unless the store has a newer one, or it was removed
    /// meanwhile.
    fn believed(
        &mut self,
        exchange: &Exchange,
        tier_hit: Option<TierHit>,
        request: &RequestHead<'_>,
        now: Now,
    ) -> Option<Stored> {
        if let Found::Match(slot) = self
            .store
            .find(&exchange.key, exchange.hash, request.headers)
        {
            return Some(self.store.stored(slot));
        }
        let stored =
            self.decode_tier_hit(tier_hit?, exchange.key.to_bytes(), exchange.hash, now)?;
        // If the slice size was changed at a restart, no slices would be found.
        if stored
            .sliced()
            .is_some_and(|sliced| sliced.slice_bytes != self.slice_bytes)
        {
            return None;
        }
        Some(stored)
    }

    /// Returns the response that was read, if it is still in the tier.
    pub(crate) fn decode_tier_hit(
        &self,
        tier_hit: TierHit,
        key: Box<[u8]>,
        hash: u64,
        now: Now,
    ) -> Option<Stored> {
        let head = match &tier_hit.response {
            TierResponse::Whole { bytes, .. } | TierResponse::First { bytes, .. } => bytes,
        };
        // A purge may have come after the read.
        let verdict = self.tier.as_ref()?.verdict(&key, tier_hit.position, head);
        if verdict == PurgeVerdict::Purged {
            return None;
        }
        let mut stored = match tier_hit.response {
            // The body is a part of these bytes.
            TierResponse::Whole { bytes, room } => {
                record::decode(&room.lend(bytes), key, hash, now)?
            }
            TierResponse::First {
                bytes,
                length,
                record,
            } => {
                let (mut stored, start) = record::decode_head(&bytes, key, hash, now)?;
                let start = start as u64;
                if stored.sliced().is_none() {
                    stored.leave_in_tier(InTier {
                        record,
                        start,
                        length: length.checked_sub(start)?,
                    });
                }
                stored
            }
        };
        // It may have been stored with another setting.
        if stored.fields().contains_key(SET_COOKIE) && !self.config.share_cookies {
            return None;
        }
        if tier_hit.expired || verdict == PurgeVerdict::Expired {
            stored.freshness.expire(now.time);
        }
        Some(stored.at(self.store.purges.of_tier()))
    }

    fn answer_tier_hit(
        &mut self,
        mut exchange: Box<Exchange>,
        stored: Stored,
        request: &RequestHead<'_>,
        now: Now,
        outbox: &mut Outbox,
    ) -> Answer {
        let ttl_seconds = stored.freshness.ttl_seconds(now.time);
        self.promote(stored.clone(), now);
        if stored.in_tier().is_none() && !exchange.becomes_no_object {
            self.offer(&stored, Offer::Known, now);
        }
        let headers = stored.validated_headers(now.time, CacheStatus::TierHit { ttl_seconds });
        let answer = stored
            .ready(headers)
            .reply(request.method, request.headers)
            .with_body_of(&stored);
        self.counters.hits += 1;
        self.counters.tier_hit(answer.length());
        if let Some(lead) = exchange.lead.take() {
            self.in_flight_table
                .finish(lead, Outcome::TierHit(Box::new(stored)), outbox);
        }
        answer
    }

    /// Puts the head into the store, where its slices and followers find it. `Err` if a slice is
    /// missing and the origin must not be asked.
    fn tier_hit_slices(
        &mut self,
        mut exchange: Box<Exchange>,
        stored: Stored,
        request: &RequestHead<'_>,
        only_if_cached: bool,
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<TierStep, Box<Exchange>> {
        if self.store.position(&stored).is_none() {
            self.store.put(&stored, now.time);
        }
        self.release_followers(&mut exchange, outbox);
        let ttl_seconds = stored.freshness.ttl_seconds(now.time);
        let headers = stored.validated_headers(now.time, CacheStatus::TierHit { ttl_seconds });
        let response = stored.ready(headers).reply(request.method, request.headers);
        let mut fields = request.headers.clone();
        fields::strip_hop_by_hop(&mut fields);
        let (key, version, passed) = (
            exchange.key.clone(),
            request.version,
            fields::cdn_loop_count(request.headers),
        );
        let source = Source {
            key,
            version,
            stored,
            request: fields,
            passed,
        };
        let mut assembled = match self.serve(source, response, now) {
            Served::AtOnce(answer) => {
                self.counters.hits += 1;
                return Ok(TierStep::Answer(answer));
            }
            Served::Assembled(assembled) => assembled,
        };
        if self.is_stored(&assembled.body, most_looked_at(only_if_cached)) {
            self.counters.hits += 1;
        } else if only_if_cached {
            return Err(exchange);
        } else {
            assembled.headers.insert(
                CACHE_STATUS,
                partial(&assembled.body.source.stored, now.time),
            );
        }
        Ok(TierStep::Assemble(assembled))
    }

    /// Puts the response into the store, if it was read completely and the policy admits it.
    pub(crate) fn promote(&mut self, stored: Stored, now: Now) {
        let (hash, size) = (
            stored.hash,
            self.store.size_of(&stored, stored.body.len() as u64),
        );
        self.store.miss(hash, now.time);
        if stored.in_tier().is_some() {
            return;
        }
        self.store.observe_fetched(
            &stored,
            (size, stored.body.len() as u64),
            observe::Outcome::Fetched,
            now.time,
        );
        let is_wanted = self.store.position(&stored).is_none()
            && self.store.admit_or_fill(hash, size, now.time);
        if is_wanted {
            self.store.put(&stored, now.time);
        }
    }
}
