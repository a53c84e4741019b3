//! Eviction policies, one file each, and what several of them share: [`foreseen`] and [`ghosts`].

pub(crate) mod clock;
pub(crate) mod fifo;
mod foreseen;
mod ghosts;
pub(crate) mod lru;
pub(crate) mod random;
pub(crate) mod s3fifo;
pub(crate) mod sieve;
pub(crate) mod slru;
