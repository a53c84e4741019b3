//! The cache's use of its tiers: stores, renews and removes responses in the second one, and reads
//! and offers objects of the third.

use crate::cache::Cache;
use crate::cache::exchange::Exchange;
use crate::now::Now;
use crate::rfc::key::Key;
use crate::store::object::{
    FreshObject, NOTE, ObjectHead, ObjectTier, Objects, Offer, ReadObject, VARIANT_SECRET, decode,
};
use crate::store::purge_table::{Position, PurgeVerdict};
use crate::store::record;
use crate::store::second_tier::SecondTier;
use crate::store::stored::Stored;
use http::StatusCode;
use http::header::ETAG;
use larder_units::ByteSize;

impl Cache {
    /// Sets a second tier behind the store. Its hash key must live as long as the tier, because
    /// hashes with it distinguish variants. Responses that wait to be written take up to `queue`
    /// bytes of the memory for bodies in progress. Each shard gets a handle of the same tier, the
    /// first shard first.
    pub fn set_tier(&mut self, tier: Box<dyn SecondTier>, queue: ByteSize) {
        self.tier = Some(tier);
        self.tier_queue = queue.bytes();
        if self.shard == 0 {
            self.budget.cede(queue.bytes());
        }
        self.max_object = self.max_object.min(self.budget.limit_for_large());
        self.slice_bytes = self.slice_bytes.min(self.max_object);
    }

    /// Returns true if an unsafe request has removed a response from the second tier since the last
    /// call. The host then lets the tier settle before it answers, so that no crash restores the
    /// response.
    pub fn take_unsettled(&mut self) -> bool {
        std::mem::take(&mut self.unsettled)
    }

    pub(crate) fn may_be_in_tier(&mut self, key: &Key<'_>) -> bool {
        self.tier
            .as_mut()
            .is_some_and(|tier| tier.request(&key.to_bytes()))
    }

    /// Writes a renewed response to the tier, with the body that the store has. The body keeps its
    /// reservation until it is written, even if the store evicts it meanwhile. Bodies in progress
    /// must have half of the memory in any case. So if others wait and all together would exceed
    /// the other half, the response is removed from the tier instead. A full queue has the same
    /// effect.
    pub(crate) fn renew_in_tier(&mut self, stored: &Stored, now: Now) {
        let waiting = self.tier.as_ref().map_or(0, |tier| tier.waiting());
        if waiting == 0 || waiting + stored.body.len() as u64 <= self.budget.limit() / 2 {
            self.put_in_tier(stored, now);
        } else {
            self.remove_variant_from_tier(stored);
        }
    }

    /// Stores a response in the tier. Returns true if it is stored there.
    pub(crate) fn put_in_tier(&mut self, stored: &Stored, now: Now) -> bool {
        let variant = stored.selector.variant(&self.hash_key);
        let Some(tier) = &mut self.tier else {
            return false;
        };
        tier.put(
            &stored.key,
            variant,
            [record::encode(stored, now).into(), stored.body.clone()],
        )
    }

    pub(crate) fn remove_from_tier(&mut self, key: &Key<'_>) {
        self.remove_object(&key.to_bytes());
        if let Some(tier) = &mut self.tier {
            tier.remove(&key.to_bytes());
            self.unsettled = true;
        }
    }

    pub(crate) fn remove_variant_from_tier(&mut self, stored: &Stored) {
        if stored.is_slice() {
            return;
        }
        let variant = stored.selector.variant(&self.hash_key);
        if let Some(tier) = &mut self.tier {
            tier.remove_variant(&stored.key, variant);
        }
    }

    /// Sets a third tier behind the store and the second tier. `writer` is a random number of this
    /// cache, for all its shards. Responses that wait to be written take up to `queue` bytes of the
    /// memory for bodies in progress. The host looks objects up for requests that it would send to
    /// the origin otherwise ([`Exchange::object_key`]).
    pub fn set_objects(&mut self, tier: Box<dyn ObjectTier>, writer: [u8; 16], queue: ByteSize) {
        self.objects = Some(Objects::new(tier, writer));
        self.object_queue = queue.bytes();
        if self.shard == 0 {
            self.budget.cede(queue.bytes());
        }
        self.max_object = self.max_object.min(self.budget.limit_for_large());
        self.slice_bytes = self.slice_bytes.min(self.max_object);
    }

    /// Reads an object for a request. `bytes` begins with everything before the body; `whole` are
    /// the bytes of the object.
    pub fn read_object(
        &self,
        exchange: &Exchange,
        bytes: &[u8],
        whole: u64,
        now: Now,
    ) -> ReadObject {
        let key = exchange.key.to_bytes();
        let decoded = decode(bytes, &key, exchange.hash, now);
        let (Some(objects), Some(mut decoded)) = (&self.objects, decoded) else {
            return ReadObject::Unusable;
        };
        if (decoded.start as u64).checked_add(decoded.body_bytes) != Some(whole) {
            return ReadObject::Unusable;
        }
        let selector = &decoded.stored.selector;
        if decoded.kind == NOTE || !selector.matches(&exchange.headers) {
            let variant = selector.variant_of(&exchange.headers, &VARIANT_SECRET);
            return ReadObject::Variant(variant);
        }
        if !objects.is_own(&decoded) {
            decoded.stored.asked_at = Position::default();
        }
        let is_latest = objects.is_latest(&decoded);
        let stored = &decoded.stored;
        let verdict = self.store.purges.verdict(stored);
        if verdict == PurgeVerdict::Purged || !self.may_be_shared(exchange, stored) {
            return ReadObject::Unusable;
        }
        let head = ObjectHead::new(stored, decoded.start, decoded.body_bytes, now);
        let directives = self.directives(&exchange.headers);
        if is_latest
            && verdict == PurgeVerdict::Kept
            && stored.freshness.satisfies(&directives, now.time)
        {
            let fresh = FreshObject {
                ttl_seconds: stored.freshness.ttl_seconds(now.time),
                asked_at: stored.asked_at,
            };
            return ReadObject::Fresh(head, fresh);
        }
        if stored.fields().contains_key(ETAG) {
            ReadObject::Stale(head)
        } else {
            ReadObject::Unusable
        }
    }

    /// Returns true if a response may be given to several clients by the settings and the rules of
    /// now: it may have been stored with others.
    fn may_be_shared(&self, exchange: &Exchange, stored: &Stored) -> bool {
        let headers = stored.headers();
        let says = self.says(exchange, stored.status, &headers);
        let judged = self.judge(stored.status, &headers, &says, false, &stored.freshness);
        judged.is_ok()
    }

    /// Offers a response that was requested again to the third tier.
    pub(crate) fn offer(&mut self, stored: &Stored, offer: Offer, now: Now) {
        if self.may_become_object(stored)
            && let Some(objects) = &mut self.objects
        {
            objects.offer(stored, offer, now);
        }
    }

    /// Returns true if the next hit of a fetched response offers it to the third tier. One that was
    /// fetched before is offered now. `is_miss`: nothing was stored before.
    pub(crate) fn is_offered_later(&mut self, stored: &Stored, is_miss: bool, now: Now) -> bool {
        if !stored.is_offered || !self.may_become_object(stored) {
            return false;
        }
        let variant = u64::from(stored.selector.variant(&VARIANT_SECRET));
        // An odd number spreads the variants of a key.
        let hash = stored.hash ^ variant.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let objects = self.objects.as_mut().filter(|_| is_miss);
        let was_fetched = objects.is_some_and(|objects| objects.tier.was_fetched(hash));
        if was_fetched {
            self.offer(stored, Offer::New, now);
        }
        !was_fetched
    }

    /// Only a tag lets the origin confirm an object.
    fn may_become_object(&self, stored: &Stored) -> bool {
        let is_one = |objects: &Objects| {
            stored.status == StatusCode::OK
                && stored.sliced().is_none()
                && stored.fields().contains_key(ETAG)
                && objects.tier.is_worth(stored.body.len() as u64)
        };
        self.objects.as_ref().is_some_and(is_one)
    }

    /// Removes the object of a key.
    pub(crate) fn remove_object(&mut self, key: &[u8]) {
        if let Some(objects) = &mut self.objects {
            objects.tier.remove(key);
        }
    }

    /// Records that the origin has said something newer than the objects of a key.
    pub(crate) fn outdate_objects(&mut self, hash: u64) {
        if let Some(objects) = &mut self.objects {
            objects.outdate(hash);
        }
    }
}
