//! Appended pieces that are not on the disk yet. Lookups read them from here.

use crate::layout::{
    ENTRY, FooterEntry, Geometry, HEADER, Identity, Kind, RECORD, RecordHead, RegionEnd, TRAILER,
    within_region,
};
use crate::storage::Storage;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// The pieces in the order of the log: by sequence number, then offset.
#[derive(Default)]
pub(crate) struct Queue {
    pieces: VecDeque<Arc<Piece>>,
    bytes: usize,
}

pub(crate) struct Piece {
    /// The number in the order of the log, see [`crate::schedule::Schedule`].
    pub number: u64,
    pub region: u32,
    pub sequence: u64,
    pub offset: u32,
    pub content: Content,
}

pub(crate) enum Content {
    /// The header, at both ends of the region.
    Header,
    /// A record with its entry. `number` is its index among the region's records.
    Record {
        number: u32,
        kind: Kind,
        tag: u32,
        hash: u64,
        key: Box<[u8]>,
        value: [Bytes; 2],
    },
    /// The records that a restart writes at the positions of damaged ones. Only a ban has a value.
    Repairs(Vec<(FooterEntry, Bytes)>),
    /// Entries that a restart has found damaged, or has changed, with their numbers.
    Entries(Vec<(u32, FooterEntry)>),
    /// The trailer: the region has this number of records.
    Trailer(u32),
}

impl Piece {
    pub(crate) fn bytes(&self) -> usize {
        match &self.content {
            Content::Header => 2 * HEADER as usize,
            Content::Record { key, value, .. } => {
                (RECORD + ENTRY) as usize + key.len() + value[0].len() + value[1].len()
            }
            Content::Repairs(records) => records
                .iter()
                .map(|(_, value)| RECORD as usize + value.len())
                .sum(),
            Content::Entries(entries) => entries.len() * ENTRY as usize,
            Content::Trailer(_) => TRAILER as usize,
        }
    }

    /// Returns true if it must be synced before any other write.
    pub(crate) fn is_boundary(&self) -> bool {
        !matches!(self.content, Content::Record { .. })
    }
}

impl Queue {
    pub(crate) fn push(&mut self, piece: Piece) {
        self.bytes += piece.bytes();
        self.pieces.push_back(Arc::new(piece));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Queue::default();
    }

    /// Returns true if a trailer is next. All of its region's records are synced first, so a
    /// readable trailer is correct.
    pub(crate) fn begins_with_trailer(&self) -> bool {
        self.pieces
            .front()
            .is_some_and(|piece| matches!(piece.content, Content::Trailer(_)))
    }

    /// Returns the first pieces, up to this number of bytes or up to a boundary of a region,
    /// because a sync must come before any other write.
    pub(crate) fn batch(&self, bytes: usize) -> Vec<Arc<Piece>> {
        let mut taken = 0;
        let mut batch = Vec::new();
        for piece in &self.pieces {
            if !batch.is_empty() && matches!(piece.content, Content::Trailer(_)) {
                break;
            }
            batch.push(Arc::clone(piece));
            taken += piece.bytes();
            if taken >= bytes || piece.is_boundary() {
                break;
            }
        }
        batch
    }

    /// Drops the first `count` pieces, because the disk has them.
    pub(crate) fn drop_front(&mut self, count: usize) {
        for piece in self.pieces.drain(..count.min(self.pieces.len())) {
            self.bytes -= piece.bytes();
        }
    }

    /// Returns the position of the first piece, as sequence number and offset.
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        self.pieces
            .front()
            .map(|piece| (piece.sequence, piece.offset))
    }

    /// Panics if the pieces are not in the order of the log, if `written < number <= appended` does
    /// not hold for their numbers, or if `bytes` is not their sum: see
    /// [`crate::Log::check_invariants`].
    pub(crate) fn check_invariants(&self, written: u64, appended: u64) {
        let bytes: usize = self.pieces.iter().map(|piece| piece.bytes()).sum();
        assert_eq!(
            self.bytes, bytes,
            "the queued bytes are the sum of the pieces"
        );
        let (mut before, mut place) = (written, (0, 0));
        for piece in &self.pieces {
            assert!(
                before < piece.number,
                "piece {} is queued after {before} was written or queued",
                piece.number
            );
            let here = (piece.sequence, piece.offset);
            assert!(
                place <= here,
                "piece {}: at {here:?} behind {place:?}",
                piece.number
            );
            (before, place) = (piece.number, here);
        }
        assert_eq!(
            before, appended,
            "the last piece that was appended is queued or written"
        );
    }

    /// Returns the piece at this position, if it has not been written yet.
    pub(crate) fn find(&self, sequence: u64, offset: u32) -> Option<&Arc<Piece>> {
        let at = self
            .pieces
            .partition_point(|piece| (piece.sequence, piece.offset) < (sequence, offset));
        self.pieces
            .get(at)
            .filter(|piece| (piece.sequence, piece.offset) == (sequence, offset))
    }
}

/// Bytes that are collected for one write. Longer values are written without a copy.
const GATHERED_BYTES: usize = 1 << 20;

/// Writes pieces to their positions: adjacent ones in one write, entries after the records.
pub(crate) fn write(
    pieces: &[Arc<Piece>],
    geometry: Geometry,
    identity: &Identity,
    storage: &impl Storage,
) -> io::Result<u64> {
    let mut run = Run {
        storage,
        at: 0,
        bytes: Vec::new(),
        written: 0,
    };
    let mut entries = Vec::new();
    for piece in pieces {
        let Piece {
            region, sequence, ..
        } = **piece;
        let at = |offset: u32| geometry.region_at(region) + u64::from(offset);
        let seed = identity.seed(sequence);
        match &piece.content {
            Content::Header => {
                let end = RegionEnd {
                    sequence,
                    entries: None,
                };
                let header = end.encode(identity);
                run.push(at(0), &header)?;
                run.push(at(geometry.footer_at(0)), &header)?;
            }
            Content::Record {
                number,
                kind,
                tag,
                hash,
                key,
                value,
            } => {
                let (kind, tag, hash, offset) = (*kind, *tag, *hash, piece.offset);
                let head = RecordHead {
                    kind,
                    tag,
                    offset,
                    hash,
                    key,
                    value,
                    filler: 0,
                };
                run.push_record(at(offset), &head, seed)?;
                let length =
                    within_region(RECORD as usize + key.len() + value[0].len() + value[1].len());
                let entry = FooterEntry {
                    hash,
                    tag,
                    offset,
                    length,
                    kind,
                };
                entries.push((
                    at(geometry.footer_at(number + 1)),
                    entry.encode(*number, seed),
                ));
            }
            Content::Repairs(records) => {
                for (entry, value) in records {
                    run.push_record(at(entry.offset), &entry.without_key(value), seed)?;
                }
            }
            Content::Entries(changed) => {
                let encode = |(number, entry): &(u32, FooterEntry)| {
                    (
                        at(geometry.footer_at(number + 1)),
                        entry.encode(*number, seed),
                    )
                };
                entries.extend(changed.iter().map(encode));
            }
            Content::Trailer(records) => {
                let trailer = RegionEnd {
                    sequence,
                    entries: Some(*records),
                }
                .encode(identity);
                run.push(at(geometry.footer_at(0)), &trailer)?;
            }
        }
    }
    // Each entry is below the one before it.
    for (at, bytes) in entries.into_iter().rev() {
        run.push(at, &bytes)?;
    }
    run.flush()?;
    Ok(run.written)
}

struct Run<'a, S> {
    storage: &'a S,
    /// The position of `bytes` in the file.
    at: u64,
    bytes: Vec<u8>,
    written: u64,
}

impl<S: Storage> Run<'_, S> {
    /// Adds a record: its head, its key and its value.
    fn push_record(&mut self, at: u64, record: &RecordHead<'_>, seed: u64) -> io::Result<()> {
        let head = record.encode(seed);
        self.push(at, &head)?;
        let mut next = at + head.len() as u64;
        for bytes in std::iter::once(record.key).chain(record.value.iter().map(|part| &part[..])) {
            self.push(next, bytes)?;
            next += bytes.len() as u64;
        }
        Ok(())
    }

    fn push(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if at != self.at + self.bytes.len() as u64
            || self.bytes.len() + bytes.len() > GATHERED_BYTES
        {
            self.flush()?;
            self.at = at;
        }
        if bytes.len() > GATHERED_BYTES {
            self.storage.write(at, bytes)?;
            self.written += bytes.len() as u64;
            self.at = at + bytes.len() as u64;
            return Ok(());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.bytes.is_empty() {
            self.storage.write(self.at, &self.bytes)?;
            self.written += self.bytes.len() as u64;
            self.at += self.bytes.len() as u64;
            self.bytes.clear();
        }
        Ok(())
    }
}
