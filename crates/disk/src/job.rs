//! Work on the disk that the log requests. The host runs it without holding the log.

use crate::layout::{Geometry, Identity};
use crate::lookup::{Lookup, ReadError};
use crate::queue::{Piece, write};
use crate::storage::Storage;
use bytes::Bytes;
use std::io;
use std::sync::Arc;

/// One step of work. There is never more than one in progress. The host runs it, and passes the
/// result to [`crate::Log::complete`].
pub struct Job(pub(crate) Work);

pub(crate) enum Work {
    Write {
        pieces: Vec<Arc<Piece>>,
        geometry: Geometry,
        identity: Identity,
    },
    Sync,
    /// A read for reclaiming.
    Read(Lookup),
}

/// The result of a [`Job`].
pub struct Done(pub(crate) Outcome);

pub(crate) enum Outcome {
    /// Pieces up to the number `last` are written.
    Written {
        pieces: usize,
        last: u64,
        with_boundary: bool,
        result: io::Result<u64>,
    },
    Synced(io::Result<()>),
    Read(Lookup, Result<(Bytes, Bytes), ReadError>),
}

impl Job {
    /// Runs the job, which blocks for the time of the disk access.
    pub fn run(self, storage: &impl Storage) -> Done {
        Done(match self.0 {
            Work::Write {
                pieces,
                geometry,
                identity,
            } => Outcome::Written {
                with_boundary: pieces.last().is_some_and(|piece| piece.is_boundary()),
                result: write(&pieces, geometry, &identity, storage),
                pieces: pieces.len(),
                last: pieces.last().map_or(0, |piece| piece.number),
            },
            Work::Sync => Outcome::Synced(storage.sync()),
            Work::Read(lookup) => {
                let found = lookup.read(storage, lookup.room());
                Outcome::Read(lookup, found)
            }
        })
    }
}
