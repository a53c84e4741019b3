//! The jobs of the log for the disk, in the order of the schedule.

use super::Log;
use crate::bans::Bans;
use crate::job::{Done, Job, Outcome, Work};
use crate::limits;
use larder_units::Time;

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
            if self
                .schedule
                .unsynced_since
                .is_some_and(|since| now >= since + limits::SYNC_AFTER)
            {
                self.schedule.aim(self.schedule.appended, now);
            }
            if self.schedule.wants_sync() {
                self.schedule.syncing = self.schedule.written;
                return Some(Work::Sync);
            }
            if !self.queue.is_empty() && self.schedule.wants_write(self.queue.bytes()) {
                if self.queue.begins_with_trailer() && self.schedule.synced < self.schedule.written
                {
                    self.schedule.syncing = self.schedule.written;
                    return Some(Work::Sync);
                }
                let pieces = self.queue.batch(limits::WRITE_BYTES);
                return Some(Work::Write {
                    pieces,
                    geometry: self.geometry,
                    identity: self.identity,
                });
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

    /// Accepts the result of a job.
    pub fn complete(&mut self, done: Done, now: Time) {
        self.schedule.busy = false;
        if self.has_failed() {
            return;
        }
        match done.0 {
            Outcome::Written {
                result: Err(error), ..
            }
            | Outcome::Synced(Err(error)) => self.fail(error),
            Outcome::Written {
                pieces,
                last,
                with_boundary,
                result: Ok(bytes),
            } => {
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

    /// Returns the time at which [`Log::job`] has to be called again if nothing else happens.
    pub fn next_timeout(&self) -> Option<Time> {
        self.schedule
            .unsynced_since
            .filter(|_| !self.has_failed())
            .map(|since| since + limits::SYNC_AFTER)
    }

    /// Requests a sync of everything that was appended so far. Returns a ticket for
    /// [`Log::is_settled`].
    pub fn settle(&mut self, now: Time) -> u64 {
        let ticket = self.schedule.appended + self.waiting_pieces();
        self.schedule.aim(ticket, now);
        ticket
    }

    /// Returns true if everything before [`Log::settle`] is durable. Never true if the log has
    /// failed.
    pub fn is_settled(&self, ticket: u64) -> bool {
        self.schedule.synced >= ticket && !self.has_failed()
    }
}
