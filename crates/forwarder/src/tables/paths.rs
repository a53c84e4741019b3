//! The records of a cache's place on the path of an answer.

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
