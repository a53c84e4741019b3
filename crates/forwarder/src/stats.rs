//! A forwarder's counters and sizes, for metrics and status pages.

use crate::drop_reason::DropCounters;
use crate::face::{FaceConfig, FaceCounters, FaceId};
use crate::tables::content_store::ContentStoreCounters;
use crate::tier::TierCounters;

/// The counters and sizes of a forwarder at one moment.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Stats {
    /// Over all faces, those that are gone included.
    pub packets: FaceCounters,
    pub drops: DropCounters,
    pub content_store: ContentStoreCounters,
    /// The counters of the second tier.
    pub tier: TierCounters,
    pub content_store_entries: usize,
    pub content_store_bytes: u64,
    pub content_store_capacity_bytes: u64,
    pub pit_entries: usize,
    pub fib_entries: usize,
    pub rib_routes: usize,
    /// Prefixes of applications that a routing daemon has to learn, and those that it has accepted.
    pub prefixes_to_readvertise: usize,
    pub readvertised_prefixes: usize,
    pub faces: usize,
    /// Interests that Data, or that the Content Store, answered.
    pub satisfied: u64,
    /// Interests that were not answered in time.
    pub unsatisfied: u64,
}

impl Stats {
    /// Adds what another shard has counted and holds. Faces, routes and the FIB are the same at
    /// all.
    pub fn add_shard(&mut self, other: &Stats) {
        self.packets.add(&other.packets);
        self.drops.add(&other.drops);
        self.content_store.add(&other.content_store);
        self.tier.add(&other.tier);
        self.content_store_entries += other.content_store_entries;
        self.content_store_bytes += other.content_store_bytes;
        self.content_store_capacity_bytes += other.content_store_capacity_bytes;
        self.pit_entries += other.pit_entries;
        self.satisfied += other.satisfied;
        self.unsatisfied += other.unsatisfied;
    }
}

/// Adds what another shard has counted of the same faces.
pub fn add_face_counters(faces: &mut [FaceStats], other: &[(FaceId, FaceCounters)]) {
    for face in faces {
        if let Ok(at) = other.binary_search_by_key(&face.id, |(id, _)| *id) {
            face.counters.add(&other[at].1);
        }
    }
}

/// A face with its counters.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FaceStats {
    pub id: FaceId,
    pub config: FaceConfig,
    pub counters: FaceCounters,
}
