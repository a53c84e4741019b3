//! What the second tier gives back: the answer, or something to validate, or nothing.

use crate::cache::Cache;
use crate::cache_status::CacheStatus;
use crate::exchange::{Answer, Ask, Exchange, RequestHead, Step};
use crate::flight::Landing;
use crate::store::Found;
use crate::stored::Stored;
use crate::streamed::InTier;
use crate::tier::{Recalled, RecalledResponse};
use crate::{ForwardReason, Now, record};

/// What to do after a recall.
#[derive(Debug)]
pub enum Recall {
    /// Send this.
    Answer(Answer),
    /// It was another variant: recall this one, and call [`Cache::on_recalled`] again.
    Variant(Box<Exchange>, u32),
    /// Go to the origin, as with [`Step::Forward`].
    Forward(Box<Exchange>),
}

/// How far a recall has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recalling {
    /// There is nothing to recall, or nothing more.
    No,
    /// Any variant may be the one.
    Any,
    /// This is the one, if there is one.
    Variant,
}

impl Exchange {
    /// The key to recall from the second tier, before the origin is asked.
    pub fn recall_key(&self) -> Option<Box<[u8]>> {
        (self.recalling != Recalling::No).then(|| self.key.to_bytes())
    }
}

impl Cache {
    /// What the second tier has given back for an exchange with a [`Exchange::recall_key`], if anything.
    pub fn on_recalled(
        &mut self,
        mut exchange: Box<Exchange>,
        recalled: Option<Recalled>,
        request: &RequestHead<'_>,
        now: Now,
    ) -> Recall {
        let recalling = std::mem::replace(&mut exchange.recalling, Recalling::No);
        let wishes = self.wishes(request.headers);
        if let Some(stored) = self.believed(&exchange, recalled, request, now) {
            if !stored.selector.matches(request.headers) {
                if recalling == Recalling::Any {
                    exchange.recalling = Recalling::Variant;
                    let variant = stored.selector.variant_of(request.headers, &self.hash_key);
                    return Recall::Variant(exchange, variant);
                }
            } else if stored.freshness.satisfies(&wishes, now.time) {
                return Recall::Answer(self.hit_recalled(exchange, stored, request, now));
            } else {
                let reusable = stored.freshness.is_reusable(now.time);
                exchange.reason = if reusable { ForwardReason::Request } else { ForwardReason::Stale };
                exchange.ask = Ask::Whole;
                exchange.held = Some(stored);
            }
        }
        if wishes.only_if_cached {
            let Step::Answer(answer) = self.unsatisfied(request, now) else { return Recall::Forward(exchange) };
            return Recall::Answer(answer);
        }
        self.counters.forward(exchange.reason);
        Recall::Forward(exchange)
    }

    /// The recalled response, unless the store has something newer, or it was removed meanwhile.
    fn believed(
        &mut self,
        exchange: &Exchange,
        recalled: Option<Recalled>,
        request: &RequestHead<'_>,
        now: Now,
    ) -> Option<Stored> {
        if let Found::Match(slot) = self.store.find(&exchange.key, exchange.hash, request.headers) {
            let stored = self.store.get_mut(slot);
            return stored.sliced().is_none().then(|| stored.clone());
        }
        let recalled = recalled?;
        let key = exchange.key.to_bytes();
        let is_current = self.tier.as_ref().is_some_and(|tier| tier.is_current(&key, recalled.position));
        if !is_current || self.store.was_invalidated_since(exchange.hash, exchange.asked) {
            return None;
        }
        let mut stored = match recalled.response {
            // The body is a part of it.
            RecalledResponse::Whole { bytes, room } => record::decode(&room.lend(bytes), key, exchange.hash, now)?,
            RecalledResponse::First { bytes, length, record } => {
                let (mut stored, start) = record::decode_head(&bytes, key, exchange.hash, now)?;
                let start = start as u64;
                stored.leave_in_tier(InTier { record, start, length: length.checked_sub(start)? });
                stored
            }
        };
        if recalled.expired {
            stored.freshness.expire(now.time);
        }
        Some(stored)
    }

    fn hit_recalled(
        &mut self,
        mut exchange: Box<Exchange>,
        stored: Stored,
        request: &RequestHead<'_>,
        now: Now,
    ) -> Answer {
        let ttl_seconds = stored.freshness.ttl_seconds(now.time);
        self.promote(stored.clone(), now);
        let headers = stored.validated_headers(now.time, CacheStatus::Recalled { ttl_seconds });
        let answer = stored.ready(&headers).reply(request.method, request.headers).with_body_of(&stored);
        self.counters.hits += 1;
        self.counters.recalled += 1;
        self.counters.hit_bytes += answer.length();
        if let Some(lead) = exchange.lead.take() {
            self.flights.end(exchange.hash, &lead.0);
            lead.0.land(Landing::Recalled(Box::new(stored)));
        }
        answer
    }

    /// What was recalled is in the store from now on, if it was read whole and the policy wants it there.
    fn promote(&mut self, stored: Stored, now: Now) {
        let (hash, size) = (stored.hash, stored.size(stored.body.len() as u64));
        self.store.engine.miss(hash, now.time);
        if stored.in_tier().is_some() {
            return;
        }
        let is_wanted = self.store.position(&stored).is_none() && self.store.engine.admit_or_fill(hash, size, now.time);
        if is_wanted {
            self.store.put(stored, now.time);
        }
    }
}
