//! A body that stays in the second tier: the host reads it there, a part at a time, as fast as its
//! client accepts it. So the memory for a response does not depend on its length, nor on the speed
//! of its client.

use crate::body::segments::{Segment, Segments};
use crate::rfc::selection::Response;
use bytes::Bytes;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// The handle with which the host finds a record of its second tier.
pub type RecordHandle = Arc<dyn Any + Send + Sync>;

/// The position of a stored body that has not been read.
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
    /// Send these bytes, then call [`Streamed::took`].
    Lines(Bytes),
    /// Send at most `most` of the record's bytes from `at` on, then call [`Streamed::took`] with
    /// their number.
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

    /// Returns a part of a body.
    pub(crate) fn part(body: InTier, part: Range<u64>) -> Streamed {
        Streamed {
            body,
            segments: Segments::of(part),
        }
    }

    /// Returns the record with the body.
    pub fn record(&self) -> &RecordHandle {
        &self.body.record
    }

    /// Returns the bytes that remain.
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

    /// Reports that this many bytes were sent.
    pub fn took(&mut self, bytes: usize) {
        self.segments.took(bytes as u64);
    }
}
