//! A response of slices, with its shard.

use super::body_cell::SharedReader;
use http::{HeaderMap, StatusCode};
use larder_http::{Assembled, Assembly};

/// A response of slices, or its body, with the number of its shard.
pub struct ShardAssembly<T> {
    pub(super) inner: T,
    pub(super) shard: usize,
    /// The reader of the first part, if a body in progress has it.
    pub(super) reader: Option<SharedReader>,
}

impl ShardAssembly<Assembled> {
    /// Returns the head, and the body.
    pub fn into_parts(self) -> (StatusCode, HeaderMap, ShardAssembly<Assembly>) {
        let Assembled {
            status,
            headers,
            body,
        } = self.inner;
        (
            status,
            headers,
            ShardAssembly {
                inner: body,
                shard: self.shard,
                reader: self.reader,
            },
        )
    }
}

impl ShardAssembly<Assembly> {
    /// See [`Assembly::left`].
    pub fn left(&self) -> u64 {
        self.inner.left()
    }

    /// See [`Assembly::at`]. `None` also if a body in progress has the next bytes.
    pub fn at(&self) -> Option<u64> {
        if self.reader.is_some() {
            None
        } else {
            self.inner.at()
        }
    }

    /// See [`Assembly::took`].
    pub fn took(&mut self, bytes: usize) {
        self.inner.took(bytes);
    }
}
