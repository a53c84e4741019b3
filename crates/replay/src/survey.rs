//! What a trace holds, for capacities given as a share of it.

use crate::Access;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// Counts the requests, the objects and their bytes. Memory grows with the objects: 16 bytes each, and the table's slack.
#[derive(Default)]
pub struct Survey {
    sizes: HashMap<u64, u64, FixedState>,
    requests: u64,
    unique_bytes: u64,
}

impl Survey {
    /// Counts one request.
    pub fn count(&mut self, access: &Access) {
        self.requests += 1;
        match self.sizes.entry(access.id) {
            Entry::Vacant(place) => {
                place.insert(access.size);
                self.unique_bytes = self.unique_bytes.saturating_add(access.size);
            }
            Entry::Occupied(mut known) if access.size > *known.get() => {
                self.unique_bytes = self.unique_bytes.saturating_add(access.size - *known.get());
                *known.get_mut() = access.size;
            }
            Entry::Occupied(_) => {}
        }
    }

    /// Requests counted.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Different objects requested.
    pub fn objects(&self) -> u64 {
        self.sizes.len() as u64
    }

    /// Bytes of all objects, each with the largest size that it had.
    pub fn unique_bytes(&self) -> u64 {
        self.unique_bytes
    }
}
