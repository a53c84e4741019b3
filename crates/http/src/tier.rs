//! A second tier behind the store, for example on a disk: larger, slower, and still there after a
//! restart.
//!
//! Every response that may be stored is put there when it is stored, or when the store's policy
//! does not admit it. So a restart finds the served responses, and the tier's own policy decides
//! which of them stay. A request that the store cannot answer, but the tier may, is looked up there
//! (`tier_lookup.rs`) before the origin is asked. Invalidated, purged and outdated responses are
//! removed there too.
//!
//! `record.rs` describes the records.

use crate::cache::Cache;
use crate::key::Key;
use crate::purge::Purge;
use crate::stored::Stored;
use crate::{Now, RecordHandle, Reservation, record};
use bytes::Bytes;
use larder_units::ByteSize;

/// The host's side: it keeps records by key and variant. Calls come under the cache's lock, so none
/// may wait for a disk.
pub trait SecondTier: Send {
    /// A request for this key: whether something may be recalled. The tier's policy counts it
    /// either way.
    fn request(&mut self, key: &[u8]) -> bool;

    /// Stores a response, in two parts. It replaces the response with the same variant, even if it
    /// is not stored itself. Returns true if it is stored.
    fn put(&mut self, key: &[u8], variant: u32, response: [Bytes; 2]) -> bool;

    /// Bytes of responses that it may hold.
    fn capacity(&self) -> u64;

    /// Bytes of responses that are still to be written.
    fn waiting(&self) -> u64;

    /// Removes all variants.
    fn remove(&mut self, key: &[u8]);

    /// Removes this variant.
    fn remove_variant(&mut self, key: &[u8], variant: u32);

    /// Carries out a purge of more than one key, or a soft one.
    fn purge(&mut self, purge: &Purge);

    /// Returns true if a response may be there. Nothing is counted.
    fn has(&self, key: &[u8]) -> bool;

    /// Returns true if the response that was read is still there.
    fn is_current(&self, key: &[u8], position: u64) -> bool;
}

/// A response as the second tier gives it back. It is read whole where
/// [`Budget::reserve_for_tier_hit`](crate::Budget::reserve_for_tier_hit) has room for it; else its
/// body is streamed.
#[derive(Debug)]
pub struct TierHit {
    /// The two parts, one after the other, or where they are.
    pub response: TierResponse,
    /// It was softly purged.
    pub expired: bool,
    /// The position for [`SecondTier::is_current`].
    pub position: u64,
}

/// The part of a response that the second tier returns.
#[derive(Debug)]
pub enum TierResponse {
    /// All of it.
    Whole {
        /// The bytes.
        bytes: Bytes,
        /// The memory that it takes, of [`Cache::budget`]: reserved before it was read.
        room: Reservation,
    },
    /// Its first bytes: [`crate::limits::TIER_FIRST_BYTES`], if it has as many. The rest stays on
    /// the tier until a client reads it.
    First {
        /// The bytes.
        bytes: Bytes,
        /// Bytes of all of it.
        length: u64,
        /// Comes back in [`Streamed::record`](crate::Streamed::record).
        record: RecordHandle,
    },
}

impl Cache {
    /// Puts a second tier behind the store. Its hash key must live as long as the tier: variants
    /// are distinguished by hashes with it. Responses that wait to be written take up to `queue`
    /// bytes of the memory for bodies in progress.
    pub fn set_tier(&mut self, tier: Box<dyn SecondTier>, queue: ByteSize) {
        self.tier = Some(tier);
        self.tier_queue = queue.bytes();
        self.budget.cede(queue.bytes());
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
        self.tier.as_mut().is_some_and(|tier| tier.request(&key.to_bytes()))
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
        let Some(tier) = &mut self.tier else { return false };
        tier.put(&stored.key, variant, [record::encode(stored, now).into(), stored.body.clone()])
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

    pub(crate) fn purge_tier(&mut self, purge: &Purge) {
        if let Some(tier) = &mut self.tier {
            tier.purge(purge);
        }
    }
}
