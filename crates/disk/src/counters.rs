//! The counters of the log. Cores log nothing; the host turns the counters into metrics.

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records stored.
    pub stored: u64,
    /// Bytes of these, with their headers.
    pub stored_bytes: u64,
    /// Values that were not stored because the policy refused them.
    pub refused: u64,
    /// Values that were not stored because they are larger than a region.
    pub too_large: u64,
    /// Values that were not stored because the disk was too slow, or no region was free.
    pub dropped: u64,
    /// Records that left for others to come.
    pub evicted: u64,
    /// Records removed by their owner, or by a mark.
    pub removed: u64,
    /// Times that everything was removed, since more removals waited for room than may
    /// ([`crate::limits::TOMBSTONES`]).
    pub emptied: u64,
    /// Records written again when their region was reclaimed.
    pub rewritten: u64,
    /// Bytes of these.
    pub rewritten_bytes: u64,
    /// Records that the policy wanted and reclaiming dropped.
    pub reclaimed: u64,
    /// Regions reclaimed.
    pub regions_reclaimed: u64,
    /// Records read for their owner.
    pub recalled: u64,
    /// Reads that the disk refused.
    pub unreadable: u64,
    /// Records whose bytes differed from the written ones.
    pub corrupt: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs.
    pub syncs: u64,
}
