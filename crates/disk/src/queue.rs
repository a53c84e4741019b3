//! What has been appended and is not yet on the disk. It can be read from here meanwhile.

use crate::layout::{FooterEntry, Geometry, HEADER, Identity, Kind, RECORD, RecordHead, footer, region_header};
use crate::storage::Storage;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// In the order of the log: by sequence number, then offset.
#[derive(Default)]
pub(crate) struct Queue {
    pieces: VecDeque<Arc<Piece>>,
    bytes: usize,
}

pub(crate) struct Piece {
    /// In the order of the log, see [`crate::schedule::Schedule`].
    pub number: u64,
    pub region: u32,
    pub sequence: u64,
    pub offset: u32,
    pub content: Content,
}

pub(crate) enum Content {
    Header,
    Record { kind: Kind, tag: u32, hash: u64, key: Box<[u8]>, value: [Bytes; 2] },
    Footer(Vec<FooterEntry>),
}

impl Piece {
    pub(crate) fn bytes(&self) -> usize {
        match &self.content {
            Content::Header => HEADER as usize,
            Content::Record { key, value, .. } => RECORD as usize + key.len() + value[0].len() + value[1].len(),
            Content::Footer(entries) => size_of_val(&entries[..]),
        }
    }

    /// A region begins or ends with it: it is synced before anything else is written.
    pub(crate) fn is_boundary(&self) -> bool {
        matches!(self.content, Content::Header | Content::Footer(_))
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

    /// The first pieces: so many bytes, or up to a boundary of a region, since a sync has to come before anything else is written.
    pub(crate) fn batch(&self, bytes: usize) -> Vec<Arc<Piece>> {
        let mut taken = 0;
        let mut batch = Vec::new();
        for piece in &self.pieces {
            batch.push(Arc::clone(piece));
            taken += piece.bytes();
            if taken >= bytes || piece.is_boundary() {
                break;
            }
        }
        batch
    }

    /// The first `count` are on their way to the disk, and need not be kept.
    pub(crate) fn drop_front(&mut self, count: usize) {
        for piece in self.pieces.drain(..count.min(self.pieces.len())) {
            self.bytes -= piece.bytes();
        }
    }

    /// The piece that stands here, if it has not been written yet.
    pub(crate) fn find(&self, sequence: u64, offset: u32) -> Option<&Arc<Piece>> {
        let at = self.pieces.partition_point(|piece| (piece.sequence, piece.offset) < (sequence, offset));
        self.pieces.get(at).filter(|piece| (piece.sequence, piece.offset) == (sequence, offset))
    }
}

/// Bytes that are gathered into one write. Longer values are written from where they are.
const GATHERED_BYTES: usize = 1 << 20;

/// Writes pieces where they belong, neighbours in one go.
pub(crate) fn write(
    pieces: &[Arc<Piece>],
    geometry: Geometry,
    identity: &Identity,
    storage: &impl Storage,
) -> io::Result<u64> {
    let mut run = Run { storage, at: 0, bytes: Vec::new(), written: 0 };
    for piece in pieces {
        let at = geometry.region_at(piece.region) + u64::from(piece.offset);
        match &piece.content {
            Content::Header => run.push(at, &region_header(identity, piece.sequence))?,
            Content::Footer(entries) => run.push(at, &footer(entries, identity, piece.sequence))?,
            Content::Record { kind, tag, hash, key, value } => {
                let head = RecordHead { kind: *kind, tag: *tag, offset: piece.offset, hash: *hash, key, value };
                let mut at = at;
                for bytes in [&head.encode(identity.seed(piece.sequence)), &key[..], &value[0], &value[1]] {
                    run.push(at, bytes)?;
                    at += bytes.len() as u64;
                }
            }
        }
    }
    run.flush()?;
    Ok(run.written)
}

struct Run<'a, S> {
    storage: &'a S,
    /// Where `bytes` belong.
    at: u64,
    bytes: Vec<u8>,
    written: u64,
}

impl<S: Storage> Run<'_, S> {
    fn push(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if at != self.at + self.bytes.len() as u64 || self.bytes.len() + bytes.len() > GATHERED_BYTES {
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
