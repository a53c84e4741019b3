//! The object from whose slices an answer is assembled.

use crate::rfc::key::Key;
use crate::store::sliced::Sliced;
use crate::store::stored::Stored;
use http::{HeaderMap, Version};

/// The object of the slices, and the request for it.
#[derive(Debug)]
pub(crate) struct Source {
    pub key: Key<'static>,
    pub version: Version,
    /// The stored head of the whole object, as it was when the answer began. It is sliced.
    pub stored: Stored,
    /// The client's fields without those of its connection.
    pub request: HeaderMap,
    /// The number of caches with our name that the request has passed.
    pub passed: usize,
}

impl Source {
    pub(crate) fn sliced(&self) -> &Sliced {
        self.stored.sliced().expect("a source is sliced")
    }
}
