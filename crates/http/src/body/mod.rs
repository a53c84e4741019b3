//! Bodies: while they arrive, in pieces, and the memory of those that are not in the store.

pub(crate) mod budget;
pub(crate) mod segments;
pub(crate) mod shared_body;
pub(crate) mod streamed;
pub(crate) mod writing;
