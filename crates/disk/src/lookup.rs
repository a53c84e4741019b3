//! The place of a value, and the read of it.

use crate::layout::read_record;
use crate::queue::{Content, Piece};
use crate::storage::Storage;
use bytes::Bytes;
use larder_policy::Slot;
use std::fmt;
use std::io;
use std::sync::Arc;

/// The place of a value; [`Lookup::run`] reads it.
#[derive(Clone)]
pub struct Lookup {
    pub(crate) key: Box<[u8]>,
    pub(crate) hash: u64,
    pub(crate) slot: Slot,
    pub(crate) position: u64,
    pub(crate) place: Place,
    /// It, as long as it waits to be written.
    pub(crate) queued: Option<Arc<Piece>>,
}

/// The present or future place of a record on the disk.
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
    /// A mark says that it may be used with care only.
    pub expired: bool,
    /// Its place in the order of the log; see [`crate::Log::is_current`].
    pub position: u64,
}

/// Why nothing was read.
#[derive(Debug)]
pub enum ReadError {
    /// The system's.
    Io(io::Error),
    /// The bytes are not the written ones, or another key's.
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
    /// Returns true if [`Lookup::run`] reads no disk, because the value has not been written yet.
    pub fn is_in_memory(&self) -> bool {
        self.queued.is_some()
    }

    /// Memory that reading it takes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.place.length)
    }

    /// Returns the buffer for [`Lookup::run`]. If it is allocated on the thread that uses the
    /// value, the allocator keeps no share of memory for each reading thread.
    pub fn room(&self) -> Vec<u8> {
        match &self.queued {
            Some(_) => Vec::new(),
            None => Vec::with_capacity(self.place.length as usize),
        }
    }

    /// Reads the value, which takes as long as the disk does, into what [`Lookup::room`] gave. Give
    /// what comes to [`crate::Log::finish`].
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

    /// The record's key and value.
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
