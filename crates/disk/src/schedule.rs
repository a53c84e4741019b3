//! What the disk does when: appended pieces are written together, and synced together, before
//! [`limits::SYNC_AFTER`] is over.
//!
//! Pieces are numbered as they are appended; three numbers say how far the disk has come. Between
//! two regions there is always a sync: when a region begins, everything before it lasts. And before
//! its first record its header does: else a crash could leave records without it, and the next
//! start would use the region and its sequence number again, in front of what it never wrote. And
//! before a trailer everything that it speaks of: a sealed region is whole, or it has rotted.

use crate::bans::Bans;
use crate::job::{Done, Job, Outcome, Work};
use crate::limits;
use crate::log::Log;
use larder_units::Time;

/// How far the disk has come, as numbers of pieces. Numbers that nothing has got stand for removals
/// that another took the place of while they waited.
#[derive(Default)]
pub(crate) struct Schedule {
    pub appended: u64,
    written: u64,
    synced: u64,
    /// What the sync under way will have synced.
    syncing: u64,
    /// To be synced as soon as it can be, and since when.
    target: u64,
    target_at: Time,
    /// No later than the oldest piece that is not synced.
    unsynced_since: Option<Time>,
    /// A trailer, a header or a repair has been written: nothing else before a sync.
    must_sync: bool,
    /// A job is under way.
    busy: bool,
}

impl Schedule {
    pub(crate) fn note_append(&mut self, now: Time) {
        self.unsynced_since.get_or_insert(now);
    }

    fn aim(&mut self, target: u64, now: Time) {
        if target > self.target {
            (self.target, self.target_at) = (target, now);
        }
    }

    fn wants_sync(&self) -> bool {
        self.must_sync || (self.synced < self.target && self.target <= self.written)
    }

    fn wants_write(&self, queued_bytes: usize) -> bool {
        queued_bytes >= limits::WRITE_BYTES || self.written < self.target
    }

    fn sync_ended(&mut self) {
        self.synced = self.syncing;
        self.must_sync = false;
        if self.synced >= self.appended {
            self.unsynced_since = None;
        } else if self.synced >= self.target {
            // What is left was appended after the target was set.
            self.unsynced_since = self.unsynced_since.map(|since| since.max(self.target_at));
        }
    }
}

impl<M: Bans> Log<M> {
    /// Returns the next job for the disk. `None` if none is due, or one is in progress.
    pub fn job(&mut self, now: Time) -> Option<Job> {
        if self.schedule.busy || self.has_failed() {
            return None;
        }
        let work = self.next_work(now)?;
        self.schedule.busy = true;
        Some(Job(work))
    }

    fn next_work(&mut self, now: Time) -> Option<Work> {
        loop {
            self.place_tombstones(now);
            if self.schedule.unsynced_since.is_some_and(|since| now >= since + limits::SYNC_AFTER) {
                self.schedule.aim(self.schedule.appended, now);
            }
            if self.schedule.wants_sync() {
                self.schedule.syncing = self.schedule.written;
                return Some(Work::Sync);
            }
            if !self.queue.is_empty() && self.schedule.wants_write(self.queue.bytes()) {
                if self.queue.begins_with_trailer() && self.schedule.synced < self.schedule.written {
                    self.schedule.syncing = self.schedule.written;
                    return Some(Work::Sync);
                }
                let pieces = self.queue.batch(limits::WRITE_BYTES);
                return Some(Work::Write { pieces, geometry: self.geometry, identity: self.identity });
            }
            let free = self.free.len();
            if self.queue.bytes() < self.queue_bytes
                && let Some(lookup) = self.next_to_rewrite()
            {
                return Some(Work::Read(lookup));
            }
            if self.free.len() == free {
                return None;
            }
        }
    }

    /// What came of a job.
    pub fn complete(&mut self, done: Done, now: Time) {
        self.schedule.busy = false;
        if self.has_failed() {
            return;
        }
        match done.0 {
            Outcome::Written { result: Err(error), .. } | Outcome::Synced(Err(error)) => self.fail(error),
            Outcome::Written { pieces, last, with_boundary, result: Ok(bytes) } => {
                self.queue.drop_front(pieces);
                self.schedule.written = last;
                self.schedule.must_sync |= with_boundary;
                self.counters.written_bytes += bytes;
            }
            Outcome::Synced(Ok(())) => {
                self.schedule.sync_ended();
                self.counters.syncs += 1;
            }
            Outcome::Read(lookup, found) => self.rewrite(&lookup, found, now),
        }
    }

    /// When [`Log::job`] is worth asking again though nothing has happened.
    pub fn next_timeout(&self) -> Option<Time> {
        self.schedule.unsynced_since.filter(|_| !self.has_failed()).map(|since| since + limits::SYNC_AFTER)
    }

    /// Asks for what has been appended so far to be synced at once. Returns a ticket for
    /// [`Log::is_settled`].
    pub fn settle(&mut self, now: Time) -> u64 {
        let ticket = self.schedule.appended + self.waiting_pieces();
        self.schedule.aim(ticket, now);
        ticket
    }

    /// Whether everything before [`Log::settle`] lasts. Never where the log has failed.
    pub fn is_settled(&self, ticket: u64) -> bool {
        self.schedule.synced >= ticket && !self.has_failed()
    }
}
