//! A second tier behind the store, for example on a disk: larger, slower, and still there after a
//! restart.
//!
//! Every response that may be stored is put there when it is stored, or when the store's policy
//! does not admit it. So a restart finds the served responses, and the tier's own policy decides
//! which of them stay. A request that the store cannot answer, but the tier may, is looked up there
//! (`cache/tier_lookup.rs`) before the origin is asked. Invalidated, purged and outdated responses
//! are removed there too.
//!
//! `record.rs` describes the records.

use crate::body::budget::Reservation;
use crate::body::streamed::RecordHandle;
use crate::store::purge::Purge;
use crate::store::purge_table::PurgeVerdict;
use bytes::Bytes;

/// The host's side, which stores records by key and variant. Calls come under the cache's lock, so
/// none may wait for a disk.
pub trait SecondTier: Send {
    /// Counts a request for this key in the tier's policy. Returns true if it may have a response.
    fn request(&mut self, key: &[u8]) -> bool;

    /// Stores a response, in two parts. It replaces the response with the same variant, even if it
    /// is not stored itself. Returns true if it is stored.
    fn put(&mut self, key: &[u8], variant: u32, response: [Bytes; 2]) -> bool;

    /// Returns the bytes of responses that it may hold.
    fn capacity(&self) -> u64;

    /// Returns the bytes of responses that wait to be written.
    fn waiting(&self) -> u64;

    /// Removes all variants.
    fn remove(&mut self, key: &[u8]);

    /// Removes this variant.
    fn remove_variant(&mut self, key: &[u8], variant: u32);

    /// Carries out a purge of more than one key, or a soft one.
    fn purge(&mut self, purge: &Purge);

    /// Returns true if it may have a response. Does not count a request.
    fn has(&self, key: &[u8]) -> bool;

    /// Returns the effect of the removals and purges since a response was read. `response` is its
    /// beginning. [`PurgeVerdict::Purged`] if it is no longer there.
    fn verdict(&self, key: &[u8], position: u64, response: &[u8]) -> PurgeVerdict;
}

/// A response from the second tier. It is read completely if
/// [`Budget::reserve_for_tier_hit`](crate::Budget::reserve_for_tier_hit) has room for it; otherwise
/// its body is streamed.
#[derive(Debug)]
pub struct TierHit {
    /// The two parts, one after the other, or their location.
    pub response: TierResponse,
    /// True if it was softly purged.
    pub expired: bool,
    /// The position for [`SecondTier::verdict`].
    pub position: u64,
}

/// The part of a response that the second tier returns.
#[derive(Debug)]
pub enum TierResponse {
    /// The whole response.
    Whole {
        /// The bytes.
        bytes: Bytes,
        /// Its reservation in [`Cache::budget`](crate::Cache::budget), made before it was read.
        room: Reservation,
    },
    /// Its first bytes: [`crate::limits::TIER_FIRST_BYTES`], if it has as many. The rest stays on
    /// the tier until a client reads it.
    First {
        /// The bytes.
        bytes: Bytes,
        /// The length of the whole response in bytes.
        length: u64,
        /// Returned by [`Streamed::record`](crate::Streamed::record).
        record: RecordHandle,
    },
}
