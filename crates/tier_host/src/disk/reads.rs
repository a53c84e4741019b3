//! Reads whole values, and values in parts at their reader's pace.

use super::Disk;
use super::readers::Read;
use crate::limits;
use bytes::Bytes;
use larder_disk::{Bans, FoundRecord, Log, Lookup, Parts, ReadError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

/// The result of a [`Disk::look_up_then`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// There is no record of this key.
    Absent,
    /// The disk has too much to do, or has stopped.
    Refused,
    /// The record is being read, or was.
    Reading,
}

/// The result of [`Disk::tier_lookup`].
pub enum Found<R> {
    /// The whole value, and the memory that was reserved for it.
    Whole(FoundRecord, R),
    /// Its first bytes. The rest comes with [`Disk::read_part`].
    First(FoundRecord, Parts),
}

impl<M: Bans + Send + 'static> Disk<M> {
    /// Reads the value with this tag, or else the newest one: the whole value if `hold` reserves
    /// memory for so many bytes, otherwise at least its first `first` bytes. Returns `None` if the
    /// disk has too much to do, or hangs.
    pub async fn tier_lookup<R: Send + 'static>(
        &self,
        key: &[u8],
        tag: Option<u32>,
        first: usize,
        hold: impl FnOnce(u64) -> Option<R>,
    ) -> Option<Found<R>> {
        let lookup = {
            let state = self.lock();
            state
                .reads
                .as_ref()
                .and_then(|_| state.log.look_up(key, tag))?
        };
        let held = hold(lookup.bytes());
        let _place = match held {
            Some(_) => None,
            None => Some(
                timeout(limits::DISK_PATIENCE, self.0.opens.acquire())
                    .await
                    .ok()?
                    .ok()?,
            ),
        };
        if lookup.is_in_memory() {
            return self.look(&lookup, Vec::new(), held, first);
        }
        let (sender, answered) = oneshot::channel();
        let disk = self.clone();
        // The thread that uses the value allocates its memory. Otherwise each reading thread would
        // keep some.
        let room = if held.is_some() {
            lookup.room()
        } else {
            Vec::new()
        };
        // The reservation lasts until the read ends, also if the caller no longer waits.
        let read = Box::new(move || {
            if !sender.is_closed() {
                _ = sender.send(disk.look(&lookup, room, held, first));
            }
        });
        if self.submit(read) {
            self.await_answer(answered, limits::DISK_PATIENCE).await?
        } else {
            None
        }
    }

    fn look<R>(
        &self,
        lookup: &Lookup,
        room: Vec<u8>,
        held: Option<R>,
        first: usize,
    ) -> Option<Found<R>> {
        let file = &self.0.file;
        match held {
            Some(held) => {
                let found = lookup.run(file, room);
                Some(Found::Whole(self.lock().log.finish(lookup, found)?, held))
            }
            None => {
                let opened = lookup.open(file, first);
                let (parts, tier_hit) = self.lock().log.finish_open(lookup, opened)?;
                Some(Found::First(tier_hit, parts))
            }
        }
    }

    /// Counts a request for `key`, and reads its newest value without waiting. A reading thread
    /// calls `answer`, or this call does at once if the value has not been written yet. If nothing
    /// is read, `answer` is not called. A disk that hangs calls it later.
    pub fn look_up_then(
        &self,
        key: &[u8],
        answer: impl FnOnce(Option<FoundRecord>) + Send + 'static,
    ) -> Asked {
        let lookup = {
            let mut state = self.lock();
            let now = self.now();
            let is_there = state.reads.is_some() && state.log.request(key, now);
            is_there.then(|| state.log.look_up(key, None)).flatten()
        };
        let Some(lookup) = lookup else {
            return Asked::Absent;
        };
        let (disk, room) = (self.clone(), lookup.room());
        let in_memory = lookup.is_in_memory();
        let read: Read = Box::new(move || {
            let found = lookup.run(&disk.0.file, room);
            let tier_hit = disk.lock().log.finish(&lookup, found);
            answer(tier_hit);
        });
        if in_memory {
            read();
            return Asked::Reading;
        }
        if self.submit(read) {
            Asked::Reading
        } else {
            Asked::Refused
        }
    }

    /// Returns the part of a value that contains the byte `at`, from there on. `parts` follows the
    /// value when it moves.
    ///
    /// # Errors
    /// The value has left the disk, or cannot be read.
    pub async fn read_part(&self, parts: &mut Parts, at: u64) -> Result<Bytes, ReadError> {
        let begun = Instant::now();
        loop {
            let (sender, answered) = oneshot::channel();
            let (disk, of) = (self.clone(), parts.clone());
            let is_taken = self.submit_part(Box::new(move || {
                if !sender.is_closed() {
                    _ = sender.send(of.read(&disk.0.file, at));
                }
            }));
            let left = limits::DISK_PART_PATIENCE.saturating_sub(begun.elapsed());
            let answer = if is_taken {
                self.await_answer(answered, left).await
            } else {
                None
            };
            match answer {
                Some(Ok(bytes)) => return Ok(bytes),
                Some(Err(error)) => {
                    let mut state = self.lock();
                    let Some(moved) = state.log.follow(parts) else {
                        state.cut_short += 1;
                        return Err(error);
                    };
                    *parts = moved;
                }
                None if begun.elapsed() < limits::DISK_PART_PATIENCE => {
                    sleep(limits::DISK_RETRY).await
                }
                None => {
                    self.lock().cut_short += 1;
                    return Err(ReadError::Io(std::io::ErrorKind::TimedOut.into()));
                }
            }
        }
    }

    /// Returns true if the value stays in its place, or `parts` has followed it. Otherwise, its
    /// region is overwritten soon.
    pub fn stays(&self, parts: &mut Parts) -> bool {
        let state = self.lock();
        if state.log.holds(parts) {
            return true;
        }
        let moved = Log::follow(&state.log, parts);
        let has_moved = moved.is_some();
        *parts = moved.unwrap_or_else(|| parts.clone());
        has_moved
    }

    /// Returns a receiver that changes when a region has been reclaimed.
    pub fn reclaimed(&self) -> watch::Receiver<u64> {
        self.0.reclaimed.subscribe()
    }

    /// Returns false if the queue is full, or the disk has stopped.
    fn submit(&self, read: Read) -> bool {
        let mut state = self.lock();
        let is_taken = state
            .reads
            .as_ref()
            .is_some_and(|reads| reads.try_send(read).is_ok());
        state.reads_refused += u64::from(!is_taken);
        is_taken
    }

    fn submit_part(&self, read: Read) -> bool {
        self.lock()
            .part_reads
            .as_ref()
            .is_some_and(|reads| reads.try_send(read).is_ok())
    }

    /// Returns `None` if the disk takes longer, or has stopped.
    async fn await_answer<T>(
        &self,
        answered: oneshot::Receiver<T>,
        patience: Duration,
    ) -> Option<T> {
        match timeout(patience, answered).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                self.lock().reads_refused += 1;
                None
            }
        }
    }
}
