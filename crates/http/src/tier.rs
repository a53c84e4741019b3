//! A second tier behind the store, on a disk say: larger, slower, and still there after a restart.
//!
//! Everything that may be stored is put there as it is stored, or where the store's own policy does
//! not want it; so a restart finds what was served, and the tier's own policy decides what stays. A
//! request that the store cannot answer, and the tier may, is recalled (`tier_lookup.rs`) before
//! the origin is asked. Whatever is invalidated, purged or found outdated is removed there too.
//!
//! What stands there is written in `record.rs`.

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

    /// Stores a response, in two parts; it takes the place of the one with the same variant, also
    /// where it is not stored. Whether it is.
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

    /// Whether something may be recalled. Nothing is counted.
    fn has(&self, key: &[u8]) -> bool;

    /// Whether what was recalled is still there.
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
    /// What [`SecondTier::is_current`] knows it by.
    pub position: u64,
}

/// How much of a response the second tier gives back.
#[derive(Debug)]
pub enum TierResponse {
    /// All of it.
    Whole {
        /// The bytes.
        bytes: Bytes,
        /// The memory that it takes, of [`Cache::budget`]: reserved before it was read.
        room: Reservation,
    },
    /// Its first bytes, [`crate::limits::TIER_FIRST_BYTES`] if it has as many. The rest stays where
    /// it is until a client takes it.
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
    /// Puts a second tier behind the store. Its hash key should last as long as it does: variants
    /// are told apart by hashes with it. What waits to be written there takes up to `queue` of
    /// memory, of the room for bodies under way.
    pub fn set_tier(&mut self, tier: Box<dyn SecondTier>, queue: ByteSize) {
        self.tier = Some(tier);
        self.tier_queue = queue.bytes();
        self.budget.cede(queue.bytes());
        self.max_object = self.max_object.min(self.budget.limit_for_large());
        self.slice_bytes = self.slice_bytes.min(self.max_object);
    }

    /// Something was removed from the second tier because of an unsafe request, since this was last
    /// asked: the host should let the tier settle before it answers, so that no crash brings it
    /// back.
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

    /// Whether it is stored there.
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
