//! A body that is assembled from slices: its segments, and how far it has come.

use crate::answer::Response;
use crate::key::Key;
use crate::segments::Segments;
use crate::shared_body::Reader;
use crate::slices::Sliced;
use crate::stored::Stored;
use crate::streamed::Streamed;
use crate::{Exchange, SliceFollower};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use std::ops::Range;
use std::sync::Arc;

/// A response whose body is put together piece by piece.
#[derive(Debug)]
pub struct Assembled {
    /// The status.
    pub status: StatusCode,
    /// All fields, ready to be sent.
    pub headers: HeaderMap,
    /// The body: [`crate::Cache::next_piece`] until [`Piece::End`].
    pub body: Assembly,
}

/// A body on its way to one client. All of its parts have one strong validator. If the origin no
/// longer has that representation, the body breaks off.
#[derive(Debug)]
pub struct Assembly {
    pub(crate) source: Arc<Source>,
    pub(crate) segments: Segments,
    /// The reader of the first segment, if there is one already.
    pub(crate) reader: Option<Reader>,
    /// The start of the slice that was last requested from the second tier.
    pub(crate) looked_up: Option<u64>,
}

/// The next step of an [`Assembly`].
#[derive(Debug)]
pub enum Piece {
    /// Send this.
    Bytes(Bytes),
    /// Read this to its end; tell [`Assembly::took`] of each piece.
    Read(Reader),
    /// Another request fetches the slice: wait for its reader, and continue as with
    /// [`Piece::Read`].
    Wait(SliceFollower),
    /// Recall this key from the second tier; then [`crate::Cache::on_tier_slice`] if something was
    /// there, and ask for the next piece if not.
    TierLookup(Box<[u8]>),
    /// Ask the origin, with [`Exchange::retry_headers`]; then [`crate::Cache::on_slice`], whose
    /// fill's reader is to be read, or [`crate::Cache::on_slice_failure`].
    Ask(Box<Exchange>),
    /// The body is complete.
    End,
}

/// A slice that was recalled, or the part of it that is needed.
#[derive(Debug)]
pub enum TierSlice {
    /// Send this.
    Bytes(Bytes),
    /// Send this from the second tier, and tell [`Assembly::took`] how long it was when it has been
    /// sent.
    Streamed(Box<Streamed>),
}

/// The object of the slices, and the request for it.
#[derive(Debug)]
pub(crate) struct Source {
    pub key: Key<'static>,
    pub version: Version,
    /// The stored head of the whole object, as it was when the answer began. It is sliced.
    pub stored: Stored,
    /// The client's fields without those of its connection.
    pub request: HeaderMap,
    /// Caches of our name that the request has passed.
    pub passed: usize,
}

impl Source {
    pub(crate) fn sliced(&self) -> &Sliced {
        self.stored.sliced().expect("a source is sliced")
    }
}

impl Assembly {
    /// Returns the assembly of the body that `response` announces.
    pub(crate) fn new(source: Arc<Source>, response: &mut Response) -> Assembly {
        let segments = Segments::new(response, source.sliced().length);
        Assembly { source, segments, reader: None, looked_up: None }
    }

    /// Bytes still to come.
    pub fn left(&self) -> u64 {
        self.segments.left()
    }

    /// Reports that so many bytes were read by the reader that [`crate::Cache::next_piece`] named.
    pub fn took(&mut self, bytes: usize) {
        self.segments.took(bytes as u64);
    }

    /// The bytes of the whole body that are still needed.
    pub(crate) fn content(&self) -> impl Iterator<Item = &Range<u64>> {
        self.segments.content()
    }
}
