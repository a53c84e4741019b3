//! The queue of each face, and what happens while it is long.

pub(crate) mod backpressure;
pub(crate) mod link;
pub(crate) mod links;
