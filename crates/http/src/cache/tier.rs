//! The cache's use of its second tier: what is stored there, renewed and removed.

use crate::cache::Cache;
use crate::now::Now;
use crate::rfc::key::Key;
use crate::store::record;
use crate::store::second_tier::SecondTier;
use crate::store::stored::Stored;
use larder_units::ByteSize;

impl Cache {
    /// Puts a second tier behind the store. Its hash key must live as long as the tier: variants
    /// are distinguished by hashes with it. Responses that wait to be written take up to `queue`
    /// bytes of the memory for bodies in progress. All shards get a handle of the same tier, the
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

    /// Returns true if a response was removed from the second tier because of an unsafe request
    /// since the last call. Then the host lets the tier settle before it answers, so that no crash
    /// brings the response back.
    pub fn take_unsettled(&mut self) -> bool {
        std::mem::take(&mut self.unsettled)
    }

    pub(crate) fn may_be_in_tier(&mut self, key: &Key<'_>) -> bool {
        self.tier
            .as_mut()
            .is_some_and(|tier| tier.request(&key.to_bytes()))
    }

    /// A renewed response goes there with the body that the store has: it keeps its room until it
    /// is written, also where the store lets it go meanwhile. So that bodies under way have half of
    /// all room in any case, what finds more waiting is removed there, as where there is no place
    /// in the queue; or it goes alone.
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
