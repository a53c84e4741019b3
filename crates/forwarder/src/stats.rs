//! What a forwarder tells of itself, for metrics and status pages.

use crate::content_store::ContentStoreCounters;
use crate::drop_reason::DropCounters;
use crate::face::{FaceConfig, FaceCounters, FaceId};

/// What a forwarder has counted and holds, at one moment.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Stats {
    /// Over all faces, those that are gone included.
    pub packets: FaceCounters,
    pub drops: DropCounters,
    pub content_store: ContentStoreCounters,
    pub content_store_entries: usize,
    pub content_store_bytes: u64,
    pub content_store_capacity_bytes: u64,
    pub pit_entries: usize,
    pub fib_entries: usize,
    pub rib_routes: usize,
    pub faces: usize,
    /// Interests that Data, or that the Content Store, answered.
    pub satisfied: u64,
    /// Interests that nobody answered in time.
    pub unsatisfied: u64,
}

/// One face with what it has counted.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FaceStats {
    pub id: FaceId,
    pub config: FaceConfig,
    pub counters: FaceCounters,
}
