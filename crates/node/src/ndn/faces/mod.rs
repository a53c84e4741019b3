//! Faces that this node makes for routes and for management.

pub(crate) mod outgoing;
pub(crate) mod permanent;
pub(crate) mod requests;
pub(crate) mod upstream;
