//! Traffic that is made, not recorded: by published tables and properties, where the traces themselves are not public.
//!
//! Every generator is an iterator of [`crate::Access`] and the same for the same seed.

mod cdn;
mod joint;

pub use cdn::{Cdn, CdnRequests};
pub use joint::{Joint, JointRequests, TableError};
