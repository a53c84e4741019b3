//! The result of one replay, for a table and as JSON.

use crate::Unit;
use serde::{Deserialize, Serialize};

/// The results of one trace with one policy at one capacity, from the start or the end of the
/// warm-up to the trace's end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The trace's file name.
    pub trace: String,
    /// The policy spec, as given.
    pub policy: String,
    /// The capacity in `unit`s.
    pub capacity: u64,
    /// The unit of the capacity: objects if no request is for more than one byte.
    pub unit: Unit,
    /// The seed of every random choice.
    pub seed: u64,
    /// True if the cache stored objects without the admission policy until the first eviction
    /// ([`crate::Replay::filling`]).
    pub fill: bool,
    /// Requests replayed.
    pub requests: u64,
    /// Requests whose object was cached.
    pub hits: u64,
    /// Hits ÷ requests.
    pub object_hit_ratio: f64,
    /// Bytes of the requests that hit ÷ bytes of all requests.
    pub byte_hit_ratio: f64,
    /// Insertions ÷ misses: the share of fetched objects that was stored (p_Insertion of the
    /// `filter` paper, section 3.2.2).
    pub insertion_ratio: f64,
    /// Requests ÷ seconds of processor time in the replay loop, without reading the trace; 0 until
    /// the host sets it.
    pub requests_per_second: f64,
}
