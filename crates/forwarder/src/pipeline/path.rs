//! A cache's place on the path of an answer, told along with the packets (NDNLPv2 header,
//! [`PathRecord`]).
//!
//! An Interest collects how many caches it has passed, what they may store together, and the
//! greatest of their centralities: what ProbCache (Psaras, Chai and Pavlou, ICN 2012) and Cache
//! less for more (Chai et al., Networking 2012) let requests collect. The forwarder keeps, beside
//! the pending Interest, what stood in the first one that asked. Whoever answers copies the
//! greatest centrality into the Data, which then counts the caches that it passes. So each cache
//! knows its [`Path`] from packets alone, wherever the Interest was answered. Where several wait
//! for one answer, the path is that of the first. Where neither the own policy asks for it nor the
//! host said a centrality ([`Forwarder::set_centrality`]), nothing of it is kept or told;
//! neighbours that tell nothing count as the path's end. NFD passes the field over. A router whose
//! Content Store has no room does not count.
//!
//! O(1) a packet; 24 bytes an entry of the PIT; 24 bytes on the wire.

use crate::face::FaceId;
use crate::forwarder::Forwarder;
use larder_packet::PathRecord;
use larder_policy::Path;
use larder_units::ByteSize;

/// What a forwarder that tells paths keeps.
pub(crate) struct Paths {
    centrality: u64,
    capacity: u64,
    /// What the pending Interests had collected, by their slot in the PIT.
    behind: Vec<PathRecord>,
}

/// Of a Data that comes: for the policy, and for the next cache.
pub(crate) struct Place {
    pub(crate) path: Path,
    pub(crate) told: PathRecord,
}

impl Forwarder {
    /// From now on tells and learns the places of caches on their paths, for the policies `lcd`,
    /// `probcache` and `betweenness`; `centrality` is this router's betweenness, in any unit that
    /// all routers share. Room in the Content Store is no reason to admit any more.
    pub fn set_centrality(&mut self, centrality: u64) {
        let capacity = self.content_store.engine().capacity().bytes();
        self.paths = Some(Box::new(Paths { centrality, capacity, behind: Vec::new() }));
    }

    /// For a policy that asks for its place on the path, where the host has said no centrality: all
    /// routers are equal then.
    pub(crate) fn tell_path_if(&mut self, policy_asks: bool) {
        if policy_asks && self.paths.is_none() {
            self.set_centrality(0);
        }
    }

    /// What a neighbour is told; applications are told nothing.
    pub(crate) fn path_to(&self, face: FaceId, told: Option<PathRecord>) -> Option<PathRecord> {
        told.filter(|_| self.faces.get(face).is_some_and(|face| !face.is_local()))
    }
}

impl Paths {
    pub(crate) fn set_capacity(&mut self, capacity: ByteSize) {
        self.capacity = capacity.bytes();
    }

    /// A new Interest pends.
    pub(crate) fn remember(&mut self, slot: u32, path: Option<PathRecord>) {
        let slot = slot as usize;
        if self.behind.len() <= slot {
            self.behind.resize(slot + 1, PathRecord::default());
        }
        self.behind[slot] = path.unwrap_or_default();
    }

    /// What the pending Interest in `slot` tells upstream.
    pub(crate) fn of_interest(&self, slot: u32) -> PathRecord {
        self.joined(self.behind.get(slot as usize).copied().unwrap_or_default())
    }

    fn joined(&self, path: PathRecord) -> PathRecord {
        match self.capacity {
            0 => path,
            capacity => PathRecord {
                caches: path.caches.saturating_add(1),
                capacity: path.capacity.saturating_add(capacity),
                centrality: path.centrality.max(self.centrality),
            },
        }
    }

    /// The place of a Data that answers the Interest in `slot`.
    pub(crate) fn of_data(&self, told: Option<PathRecord>, slot: u32) -> Place {
        let behind = self.behind.get(slot as usize).copied().unwrap_or_default();
        let through = self.joined(behind);
        // An application tells nothing: the path begins here.
        let told = told.unwrap_or(PathRecord { centrality: through.centrality, ..PathRecord::default() });
        let hops_from_source = told.caches.saturating_add(1);
        let path = Path {
            hops_from_source,
            hops_to_consumer: behind.caches,
            capacity_to_consumer: through.capacity,
            betweenness: self.centrality as f64,
            greatest_betweenness: told.centrality.max(through.centrality) as f64,
        };
        let passed = if self.capacity > 0 { hops_from_source } else { told.caches };
        Place { path, told: PathRecord { caches: passed, ..told } }
    }
}

/// What a Data from the Content Store tells that answers an Interest with this record.
pub(crate) fn answered(path: Option<PathRecord>) -> PathRecord {
    PathRecord { centrality: path.unwrap_or_default().centrality, ..PathRecord::default() }
}
