//! The cache's use of its second tier: stores, renews and removes responses there.

use crate::cache::Cache;
use crate::now::Now;
use crate::rfc::key::Key;
use crate::store::record;
use crate::store::second_tier::SecondTier;
use crate::store::stored::Stored;
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
}
