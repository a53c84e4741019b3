//! Content codings: those that a request accepts, and those that the host adds to responses.

pub(crate) mod accept_encoding;
pub(crate) mod content_coding;
