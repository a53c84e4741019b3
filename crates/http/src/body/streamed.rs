//! A body that stays in the second tier: the host reads it there, a part at a time, as fast as its
//! client takes it. So the memory that a response takes does not depend on its length, nor on how
//! slow its client is.

use crate::body::segments::{Segment, Segments};
use crate::rfc::selection::Response;
use bytes::Bytes;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// The handle with which the host finds a record of its second tier.
pub type RecordHandle = Arc<dyn Any + Send + Sync>;

/// The place of a stored body that has not been read.
#[derive(Clone, Debug)]
pub(crate) struct InTier {
    pub record: RecordHandle,
    /// The start of the body in the record.
    pub start: u64,
    /// Bytes of the body.
    pub length: u64,
}

/// The body of an answer that the host reads from its second tier.
#[derive(Debug)]
pub struct Streamed {
    body: InTier,
    segments: Segments,
}

/// The next step of a [`Streamed`] body.
#[derive(Debug)]
pub enum StreamedPiece {
    /// These bytes. Tell [`Streamed::took`] of them.
    Lines(Bytes),
    /// The record's bytes from `at` on, `most` of them or fewer. Tell [`Streamed::took`] how many
    /// it was.
    Record {
        /// The position in the record.
        at: u64,
        /// Bytes.
        most: u64,
    },
    /// The body is complete.
    End,
}

impl Streamed {
    pub(crate) fn new(body: InTier, response: &mut Response) -> Streamed {
        let segments = Segments::new(response, body.length);
        Streamed { body, segments }
    }

    /// A part of a body.
    pub(crate) fn part(body: InTier, part: Range<u64>) -> Streamed {
        Streamed {
            body,
            segments: Segments::of(part),
        }
    }

    /// The record that it is read from.
    pub fn record(&self) -> &RecordHandle {
        &self.body.record
    }

    /// Bytes still to come.
    pub fn left(&self) -> u64 {
        self.segments.left()
    }

    /// Returns the next step.
    pub fn next_piece(&self) -> StreamedPiece {
        match self.segments.front() {
            None => StreamedPiece::End,
            Some(Segment::Lines(lines)) => StreamedPiece::Lines(lines.clone()),
            Some(Segment::Content(range)) => StreamedPiece::Record {
                at: self.body.start + range.start,
                most: range.end - range.start,
            },
        }
    }

    /// Reports that so many bytes were sent.
    pub fn took(&mut self, bytes: usize) {
        self.segments.took(bytes as u64);
    }
}
