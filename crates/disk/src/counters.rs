//! The counters of the log. Cores log nothing; the host turns the counters into metrics.

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records stored.
    pub stored: u64,
    /// Bytes of the stored records, with their headers.
    pub stored_bytes: u64,
    /// Values that were not stored because the policy refused them.
    pub refused: u64,
    /// Values that were not stored because they are larger than a region.
    pub too_large: u64,
    /// Values that were not stored because the disk was too slow, or no region was free.
    pub dropped: u64,
    /// Records that were evicted to make room.
    pub evicted: u64,
    /// Records removed by their owner, or by a mark.
    pub removed: u64,
    /// The number of times that everything was removed, because more removals waited for room than
    /// is allowed ([`crate::limits::TOMBSTONES`]).
    pub emptied: u64,
    /// Records written again when their region was reclaimed.
    pub rewritten: u64,
    /// Bytes of the rewritten records.
    pub rewritten_bytes: u64,
    /// Records that the policy kept and that reclaiming dropped.
    pub reclaimed: u64,
    /// Regions reclaimed.
    pub regions_reclaimed: u64,
    /// Records read for their owner.
    pub recalled: u64,
    /// Reads that failed.
    pub unreadable: u64,
    /// Records whose bytes differed from the written ones.
    pub corrupt: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs.
    pub syncs: u64,
}
