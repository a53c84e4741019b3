//! A body that is put together from slices: what it is made of, and how far it has come.

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

/// A body on its way to one client. What it is made of bears one strong validator; where the origin
/// no longer has that, it breaks off.
#[derive(Debug)]
pub struct Assembly {
    pub(crate) source: Arc<Source>,
    pub(crate) segments: Segments,
    /// What the first of the segments can be read from already.
    pub(crate) reader: Option<Reader>,
    /// Where the slice begins that the second tier was last asked for.
    pub(crate) looked_up: Option<u64>,
}

/// What comes next of an [`Assembly`].
#[derive(Debug)]
pub enum Piece {
    /// Send this.
    Bytes(Bytes),
    /// Read this to its end; tell [`Assembly::took`] of each piece.
    Read(Reader),
    /// Somebody else is asking for the slice: wait for its reader, and proceed as with
    /// [`Piece::Read`].
    Wait(SliceFollower),
    /// Recall this key from the second tier; then [`crate::Cache::on_tier_slice`] if something was
    /// there, and ask for the next piece if not.
    TierLookup(Box<[u8]>),
    /// Ask the origin, with [`Exchange::retry_headers`]; then [`crate::Cache::on_slice`], whose
    /// fill's reader is to be read, or [`crate::Cache::on_slice_failure`].
    Ask(Box<Exchange>),
    /// That was all.
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

/// What the slices are slices of, and who asks for them.
#[derive(Debug)]
pub(crate) struct Source {
    pub key: Key<'static>,
    pub version: Version,
    /// What is stored of the whole, as it was when the answer began. It is sliced.
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
    /// Of the body that `response` tells of.
    pub(crate) fn new(source: Arc<Source>, response: &mut Response) -> Assembly {
        let segments = Segments::new(response, source.sliced().length);
        Assembly { source, segments, reader: None, looked_up: None }
    }

    /// Bytes still to come.
    pub fn left(&self) -> u64 {
        self.segments.left()
    }

    /// So many bytes have been read by the reader that [`crate::Cache::next_piece`] named.
    pub fn took(&mut self, bytes: usize) {
        self.segments.took(bytes as u64);
    }

    /// The bytes of the whole body that are still needed.
    pub(crate) fn content(&self) -> impl Iterator<Item = &Range<u64>> {
        self.segments.content()
    }
}
