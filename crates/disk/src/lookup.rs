//! The position of a value, and its read.

use crate::layout::read_record;
use crate::queue::{Content, Piece};
use crate::storage::Storage;
use bytes::Bytes;
use larder_policy::Slot;
use std::fmt;
use std::io;
use std::sync::Arc;

/// The position of a value. [`Lookup::run`] reads the value.
#[derive(Clone)]
pub struct Lookup {
    pub(crate) key: Box<[u8]>,
    pub(crate) hash: u64,
    pub(crate) slot: Slot,
    pub(crate) position: u64,
    pub(crate) place: Place,
    /// The piece of the value, while it waits to be written.
    pub(crate) queued: Option<Arc<Piece>>,
}

/// The present or future position of a record on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The position in the file.
    pub at: u64,
    /// The position in its region.
    pub offset: u32,
    pub length: u32,
    /// The seed of the checksums in its region.
    pub seed: u64,
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRecord {
    /// The two parts that were put, one after the other.
    pub value: Bytes,
    /// True if a mark allows only a use with care.
    pub expired: bool,
    /// The position in the order of the log; see [`crate::Log::is_current`].
    pub position: u64,
}

/// The reason why no value was read.
#[derive(Debug)]
pub enum ReadError {
    /// The error of the system.
    Io(io::Error),
    /// The bytes differ from the written ones, or belong to another key.
    Corrupt,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::Corrupt => f.write_str("what was read is not what was written"),
        }
    }
}

impl std::error::Error for ReadError {}

impl Lookup {
    /// Returns true if [`Lookup::run`] does not access the disk, because the value has not been
    /// written yet.
    pub fn is_in_memory(&self) -> bool {
        self.queued.is_some()
    }

    /// Returns the bytes of memory for the read.
    pub fn bytes(&self) -> u64 {
        u64::from(self.place.length)
    }

    /// Returns the buffer for [`Lookup::run`]. Allocate it on the thread that uses the value, so
    /// that the allocator does not keep memory for each reading thread.
    pub fn room(&self) -> Vec<u8> {
        match &self.queued {
            Some(_) => Vec::new(),
            None => Vec::with_capacity(self.place.length as usize),
        }
    }

    /// Reads the value into `room`, the buffer of [`Lookup::room`]. It blocks for the time of the
    /// disk access. Pass the result to [`crate::Log::finish`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn run(&self, storage: &impl Storage, room: Vec<u8>) -> Result<Bytes, ReadError> {
        let (key, value) = self.read(storage, room)?;
        if *key == *self.key {
            Ok(value)
        } else {
            Err(ReadError::Corrupt)
        }
    }

    /// Reads the record's key and value.
    pub(crate) fn read(
        &self,
        storage: &impl Storage,
        room: Vec<u8>,
    ) -> Result<(Bytes, Bytes), ReadError> {
        if let Some(piece) = &self.queued {
            return match &piece.content {
                Content::Record { key, value, .. } => {
                    Ok((Bytes::copy_from_slice(key), value.concat().into()))
                }
                _ => Err(ReadError::Corrupt),
            };
        }
        let Place {
            at,
            offset,
            length,
            seed,
        } = self.place;
        let mut bytes = room;
        bytes.resize(length as usize, 0);
        storage.read(at, &mut bytes).map_err(ReadError::Io)?;
        let record = read_record(&bytes.into(), offset, seed).ok_or(ReadError::Corrupt)?;
        Ok((record.key, record.value))
    }
}
