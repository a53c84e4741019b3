//! A cache's place on the path of an answer, which packets carry (NDNLPv2 header, [`PathRecord`]).
//!
//! An Interest collects the number of caches that it has passed, their total capacity, and the
//! greatest of their centralities: what ProbCache (Psaras, Chai and Pavlou, ICN 2012) and Cache
//! less for more (Chai et al., Networking 2012) let requests collect. The forwarder keeps the
//! record of the first Interest beside the pending entry. The answering node copies the greatest
//! centrality into the Data, which then counts the caches that it passes. So each cache knows its
//! [`Path`] from packets alone, wherever the Interest was answered. If several Interests wait for
//! one answer, the path is that of the first. If neither the own policy needs it nor the host has
//! set a centrality ([`crate::Forwarder::set_centrality`]), nothing is kept or sent; a neighbour
//! that sends nothing counts as the path's end. NFD ignores the field. A router whose Content Store
//! has no room does not count.
//!
//! O(1) per packet; 24 bytes per entry of the PIT; 24 bytes on the wire.

use larder_packet::PathRecord;
use larder_policy::Path;
use larder_units::ByteSize;

/// The state of a forwarder that sends paths.
pub(crate) struct Paths {
    pub(crate) centrality: u64,
    pub(crate) capacity: u64,
    /// The records of pending Interests, by their slot in the PIT.
    pub(crate) behind: Vec<PathRecord>,
}

impl Paths {
    pub(crate) fn set_capacity(&mut self, capacity: ByteSize) {
        self.capacity = capacity.bytes();
    }

    /// Records a new pending Interest.
    pub(crate) fn remember(&mut self, slot: u32, path: Option<PathRecord>) {
        let slot = slot as usize;
        if self.behind.len() <= slot {
            self.behind.resize(slot + 1, PathRecord::default());
        }
        self.behind[slot] = path.unwrap_or_default();
    }

    /// Returns the record that the pending Interest in `slot` carries upstream.
    pub(crate) fn of_interest(&self, slot: u32) -> PathRecord {
        self.joined(self.behind.get(slot as usize).copied().unwrap_or_default())
    }

    pub(crate) fn joined(&self, path: PathRecord) -> PathRecord {
        match self.capacity {
            0 => path,
            capacity => PathRecord {
                caches: path.caches.saturating_add(1),
                capacity: path.capacity.saturating_add(capacity),
                centrality: path.centrality.max(self.centrality),
            },
        }
    }

    /// Returns the place of a Data that answers the Interest in `slot`.
    pub(crate) fn of_data(&self, told: Option<PathRecord>, slot: u32) -> Place {
        let behind = self.behind.get(slot as usize).copied().unwrap_or_default();
        let through = self.joined(behind);
        // An application sends none: the path begins here.
        let told = told.unwrap_or(PathRecord {
            centrality: through.centrality,
            ..PathRecord::default()
        });
        let hops_from_source = told.caches.saturating_add(1);
        let path = Path {
            hops_from_source,
            hops_to_consumer: behind.caches,
            capacity_to_consumer: through.capacity,
            betweenness: self.centrality as f64,
            greatest_betweenness: told.centrality.max(through.centrality) as f64,
        };
        let passed = if self.capacity > 0 {
            hops_from_source
        } else {
            told.caches
        };
        Place {
            path,
            told: PathRecord {
                caches: passed,
                ..told
            },
        }
    }
}

/// The place for an arriving Data: for the policy, and for the next cache.
pub(crate) struct Place {
    pub(crate) path: Path,
    pub(crate) told: PathRecord,
}

/// Returns the record of a Data from the Content Store that answers an Interest with this record.
pub(crate) fn answered(path: Option<PathRecord>) -> PathRecord {
    PathRecord {
        centrality: path.unwrap_or_default().centrality,
        ..PathRecord::default()
    }
}
