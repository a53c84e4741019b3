//! Eviction policies, one file each.

pub(crate) mod fifo;
pub(crate) mod lru;
pub(crate) mod random;
pub(crate) mod w_tinylfu;
pub(crate) mod wlfu;
