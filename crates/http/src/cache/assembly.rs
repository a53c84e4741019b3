//! A body that is assembled from slices: its segments, and its progress.

use crate::body::segments::{Segment, Segments};
use crate::body::shared_body::BodyPart;
use crate::body::streamed::Streamed;
use crate::cache::source::Source;
use crate::rfc::selection::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use std::ops::Range;
use std::sync::Arc;

/// A response whose body is assembled piece by piece.
#[derive(Debug)]
pub struct Assembled {
    /// The status.
    pub status: StatusCode,
    /// All fields, ready to be sent.
    pub headers: HeaderMap,
    /// The body: [`crate::Cache::next_piece`] until [`Piece::End`](crate::Piece::End).
    pub body: Assembly,
}

/// A body that is being sent to one client. All of its parts have one strong validator. If the
/// origin no longer has that representation, the body breaks off.
#[derive(Debug)]
pub struct Assembly {
    pub(crate) source: Arc<Source>,
    pub(crate) segments: Segments,
    /// The body in progress that has the first segment, if there is one already.
    pub(crate) in_progress: Option<BodyPart>,
    /// The start of the slice that was last requested from the second tier.
    pub(crate) looked_up: Option<u64>,
}

/// A slice from the second tier, or the needed part of it.
#[derive(Debug)]
pub enum TierSlice {
    /// Send these bytes.
    Bytes(Bytes),
    /// Send this from the second tier, then call [`Assembly::took`] with its length.
    Streamed(Box<Streamed>),
}

impl Assembly {
    /// Returns the assembly of the body that `response` announces.
    pub(crate) fn new(source: Arc<Source>, response: &mut Response) -> Assembly {
        let segments = Segments::new(response, source.sliced().length);
        Assembly {
            source,
            segments,
            in_progress: None,
            looked_up: None,
        }
    }

    /// Takes the part in a body in progress, the fill of
    /// [`Reply::Assemble`](crate::Reply::Assemble). Read it first, and call [`Assembly::took`] for
    /// each piece.
    pub fn take_in_progress(&mut self) -> Option<BodyPart> {
        self.in_progress.take()
    }

    /// Returns the bytes that remain.
    pub fn left(&self) -> u64 {
        self.segments.left()
    }

    /// Returns the start of the next bytes in the whole body; `None` if generated lines come
    /// before.
    pub fn at(&self) -> Option<u64> {
        match self.segments.front()? {
            Segment::Content(range) => Some(range.start),
            Segment::Lines(_) => None,
        }
    }

    /// Reports that this many bytes were sent that [`crate::Cache::next_piece`] did not return.
    pub fn took(&mut self, bytes: usize) {
        self.segments.took(bytes as u64);
    }

    /// Returns the ranges of the whole body that are still needed.
    pub(crate) fn content(&self) -> impl Iterator<Item = &Range<u64>> {
        self.segments.content()
    }
}
