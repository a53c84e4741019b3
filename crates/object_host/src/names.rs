//! The names of objects in the bucket.

use object_store::path::Path;
use ring::digest;

/// The hash of a key and a variant. Whole keys are compared when an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name(pub(crate) u128);

impl Name {
    pub(crate) fn new(key: &[u8], variant: u32) -> Name {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&variant.to_le_bytes());
        context.update(key);
        let digest = context.finish();
        let (first, _) = digest.as_ref().split_first_chunk().expect("32 bytes");
        Name(u128::from_be_bytes(*first))
    }

    /// Returns the path: writes spread over 256 folders, as stores of objects like them.
    pub(crate) fn path(self, prefix: &str) -> Path {
        let text = format!("{:032x}", self.0);
        let (folder, rest) = text.split_at(2);
        Path::from(format!("{prefix}/{folder}/{rest}"))
    }
}

/// The path of an object that is written to try the bucket.
pub(crate) fn probe(prefix: &str) -> Path {
    Path::from(format!("{prefix}/probe"))
}

/// The folder of the filters.
pub(crate) fn filters(prefix: &str) -> Path {
    Path::from(format!("{prefix}/filters"))
}

/// The path of a layer of a node's filter.
pub(crate) fn filter(prefix: &str, node: u128, layer: usize) -> Path {
    Path::from(format!("{prefix}/filters/{node:032x}-{layer}"))
}
