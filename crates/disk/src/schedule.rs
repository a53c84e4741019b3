//! The schedule of the disk: appended pieces are written together, and synced together, within
//! [`limits::SYNC_AFTER`].
//!
//! Pieces are numbered as they are appended; three numbers state the progress of the disk. There is
//! always a sync between two regions: when a region begins, everything before it is on the disk. A
//! region's header is synced before its first record. Otherwise a crash could leave records without
//! it, and the next start would reuse the region and its sequence number, with records of another
//! life after its own. The records of a region are synced before its trailer, so a sealed region is
//! intact, unless the disk has damaged it.

use crate::limits;
use larder_units::Time;

/// The progress of the disk, as numbers of pieces. Unused numbers belong to removals that another
/// one replaced while they waited.
#[derive(Default)]
pub(crate) struct Schedule {
    pub appended: u64,
    pub written: u64,
    pub synced: u64,
    /// The last piece of the sync in progress.
    pub syncing: u64,
    /// The last piece to sync as soon as possible, and the time of that request.
    pub target: u64,
    pub target_at: Time,
    /// The append time of the oldest piece that is not synced, or an earlier time.
    pub unsynced_since: Option<Time>,
    /// True if a trailer, a header or a repair has been written. A sync must come next.
    pub must_sync: bool,
    /// True if a job is in progress.
    pub busy: bool,
}

impl Schedule {
    pub(crate) fn note_append(&mut self, now: Time) {
        self.unsynced_since.get_or_insert(now);
    }

    pub(crate) fn aim(&mut self, target: u64, now: Time) {
        if target > self.target {
            (self.target, self.target_at) = (target, now);
        }
    }

    pub(crate) fn wants_sync(&self) -> bool {
        self.must_sync || (self.synced < self.target && self.target <= self.written)
    }

    pub(crate) fn wants_write(&self, queued_bytes: usize) -> bool {
        queued_bytes >= limits::WRITE_BYTES || self.written < self.target
    }

    /// Panics if the numbers of pieces are inconsistent: see [`crate::Log::check_invariants`].
    /// `waiting` is the number of pieces that wait for room.
    pub(crate) fn check_invariants(&self, waiting: u64) {
        let Schedule {
            appended,
            written,
            synced,
            target,
            ..
        } = *self;
        assert!(
            synced <= written && written <= appended,
            "{synced} pieces synced, {written} written, {appended} appended"
        );
        assert!(
            target <= appended + waiting,
            "piece {target} is to be synced, {appended} appended, {waiting} waiting"
        );
        assert!(
            !self.must_sync || synced < written,
            "a boundary was written and not synced"
        );
        assert_eq!(
            self.unsynced_since.is_some(),
            synced < appended,
            "a piece that is not synced has a time"
        );
    }

    pub(crate) fn sync_ended(&mut self) {
        self.synced = self.syncing;
        self.must_sync = false;
        if self.synced >= self.appended {
            self.unsynced_since = None;
        } else if self.synced >= self.target {
            // The rest was appended after the target was set.
            self.unsynced_since = self.unsynced_since.map(|since| since.max(self.target_at));
        }
    }
}
