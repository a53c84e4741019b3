//! Eviction policies, one file each.

pub(crate) mod agd;
pub(crate) mod fifo;
pub(crate) mod lru;
pub(crate) mod random;
