//! A value that is read in parts, at the pace of its reader, with the memory of one part.
//!
//! Opening it reads the whole record once, checks it, and keeps a checksum of each part. So every
//! later read of a part is checked, whatever its position, and the log reserves no space for it.
//! [`Log::follow`] finds a record that reclaiming has moved, and a record that has left the index
//! stays readable until its region is overwritten. [`Log::holds`] reports when that is near.

use crate::bans::Bans;
use crate::layout::{RECORD, RecordCheck, within_region};
use crate::limits::PART_BYTES;
use crate::log::Log;
use crate::lookup::{Lookup, ReadError};
use crate::queue::{Content, Piece};
use crate::storage::Storage;
use bytes::Bytes;
use std::ops::Range;
use std::sync::{Arc, Weak};
use xxhash_rust::xxh3::xxh3_64;

/// A value whose parts can be read, from any thread.
#[derive(Clone)]
pub struct Parts {
    /// Without the queued piece: a slow reader must not keep it in memory.
    lookup: Lookup,
    queued: Weak<Piece>,
    /// The length of the value in bytes.
    length: u32,
    /// XXH3 of each part; they are only in memory.
    sums: Arc<[u64]>,
}

impl Lookup {
    /// Reads the value once, part by part, and checks it. Returns its parts, and at most `first` of
    /// its first bytes. It blocks for the time of the disk access.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(&self, storage: &impl Storage, first: usize) -> Result<(Parts, Bytes), ReadError> {
        let mut reading = Reading {
            sums: Vec::new(),
            first,
            head: Vec::new(),
        };
        let length = match &self.queued {
            Some(piece) => {
                let value = value_of(piece, &self.key).ok_or(ReadError::Corrupt)?;
                let length = within_region(value.iter().map(Bytes::len).sum());
                let mut part = Vec::new();
                for range in parts_of(length) {
                    copy(value, &range, &mut part);
                    reading.take(&part);
                }
                length
            }
            None => self.check_parts(storage, &mut reading)?,
        };
        let queued = self.queued.as_ref().map_or_else(Weak::new, Arc::downgrade);
        let lookup = Lookup {
            queued: None,
            ..self.clone()
        };
        Ok((
            Parts {
                lookup,
                queued,
                length,
                sums: reading.sums.into(),
            },
            reading.head.into(),
        ))
    }

    fn check_parts(&self, storage: &impl Storage, reading: &mut Reading) -> Result<u32, ReadError> {
        let mut bytes = vec![0; self.before_value()];
        storage
            .read(self.place.at, &mut bytes)
            .map_err(ReadError::Io)?;
        let (mut check, length) = RecordCheck::begin(
            &bytes,
            self.place.offset,
            self.place.length,
            self.key.len(),
            self.place.seed,
        )
        .filter(|_| bytes[RECORD as usize..] == *self.key)
        .ok_or(ReadError::Corrupt)?;
        check.update(&self.key);
        for range in parts_of(length) {
            bytes.resize((range.end - range.start) as usize, 0);
            storage
                .read(self.value_at(range.start), &mut bytes)
                .map_err(ReadError::Io)?;
            check.update(&bytes);
            reading.take(&bytes);
        }
        check.is_whole().then_some(length).ok_or(ReadError::Corrupt)
    }

    /// Returns the bytes of the record before its value.
    fn before_value(&self) -> usize {
        RECORD as usize + self.key.len()
    }

    fn value_at(&self, start: u32) -> u64 {
        self.place.at + self.before_value() as u64 + u64::from(start)
    }
}

/// The progress of a value's check.
struct Reading {
    sums: Vec<u64>,
    first: usize,
    head: Vec<u8>,
}

impl Reading {
    fn take(&mut self, part: &[u8]) {
        self.sums.push(xxh3_64(part));
        let wanted = self.first.saturating_sub(self.head.len()).min(part.len());
        self.head.extend_from_slice(&part[..wanted]);
    }
}

impl Parts {
    /// Returns the length of the value in bytes.
    pub fn length(&self) -> u64 {
        u64::from(self.length)
    }

    /// Reads the part that contains byte `at` of the value, from this byte on. It blocks for the
    /// time of the disk access.
    ///
    /// # Errors
    /// [`ReadError`] if another record is at this position now and
    /// [`Log::follow`](crate::Log::follow) does not find this one at another.
    /// [`ReadError::Corrupt`] also past the end.
    pub fn read(&self, storage: &impl Storage, at: u64) -> Result<Bytes, ReadError> {
        let at = u32::try_from(at)
            .ok()
            .filter(|at| *at < self.length)
            .ok_or(ReadError::Corrupt)?;
        let number = at / PART_BYTES;
        let start = number * PART_BYTES;
        let range = start..self.length.min(start + PART_BYTES);
        let mut bytes = Vec::new();
        let queued = self.queued.upgrade();
        match queued
            .as_ref()
            .and_then(|piece| value_of(piece, &self.lookup.key))
        {
            Some(value) => copy(value, &range, &mut bytes),
            None => {
                bytes.resize((range.end - range.start) as usize, 0);
                storage
                    .read(self.lookup.value_at(start), &mut bytes)
                    .map_err(ReadError::Io)?;
            }
        }
        if xxh3_64(&bytes) == self.sums[number as usize] {
            Ok(Bytes::from(bytes).slice((at - start) as usize..))
        } else {
            Err(ReadError::Corrupt)
        }
    }
}

impl<M: Bans> Log<M> {
    /// Finishes the opening of a value as [`Log::finish`] does: the bans check `first`, the
    /// beginning. Returns `None` if the value is gone or could not be read.
    pub fn finish_open(
        &mut self,
        lookup: &Lookup,
        opened: Result<(Parts, Bytes), ReadError>,
    ) -> Option<(Parts, crate::FoundRecord)> {
        let (parts, first) = match opened {
            Ok((parts, first)) => (Some(parts), Ok(first)),
            Err(error) => (None, Err(error)),
        };
        let recalled = self.finish(lookup, first);
        parts.zip(recalled)
    }

    /// Returns true if the value is still in its position. If not, its region may be overwritten
    /// when the next region but one begins.
    pub fn holds(&self, parts: &Parts) -> bool {
        let Lookup {
            slot,
            hash,
            position,
            ..
        } = parts.lookup;
        self.index
            .get_if_used(slot)
            .is_some_and(|entry| entry.hash == hash)
            && self.position_of(slot) == position
    }

    /// Returns the value at its new position, if reclaiming has moved it. It may be another value
    /// of the same length; its parts then cannot be read.
    pub fn follow(&self, parts: &Parts) -> Option<Parts> {
        let Lookup {
            slot,
            hash,
            ref place,
            ref key,
            ..
        } = parts.lookup;
        let entry = self.index.get_if_used(slot)?;
        if entry.hash != hash || entry.length != place.length || self.holds(parts) {
            return None;
        }
        let lookup = self.lookup(slot, key.clone());
        let queued = lookup
            .queued
            .as_ref()
            .map_or_else(Weak::new, Arc::downgrade);
        Some(Parts {
            lookup: Lookup {
                queued: None,
                ..lookup
            },
            queued,
            ..parts.clone()
        })
    }
}

fn parts_of(length: u32) -> impl Iterator<Item = Range<u32>> {
    (0..length.div_ceil(PART_BYTES)).map(move |number| {
        let start = number * PART_BYTES;
        start..length.min(start + PART_BYTES)
    })
}

fn value_of<'a>(piece: &'a Piece, wanted: &[u8]) -> Option<&'a [Bytes; 2]> {
    match &piece.content {
        Content::Record { key, value, .. } if **key == *wanted => Some(value),
        _ => None,
    }
}

/// Copies a range of a value of two pieces to `into`, which it clears before.
fn copy(value: &[Bytes; 2], range: &Range<u32>, into: &mut Vec<u8>) {
    into.clear();
    let (start, end) = (range.start as usize, range.end as usize);
    let split = value[0].len();
    into.extend_from_slice(&value[0][start.min(split)..end.min(split)]);
    into.extend_from_slice(&value[1][start.saturating_sub(split)..end.saturating_sub(split)]);
}
