//! Eviction policies, one file each, and what several of them share: `foreseen`, `ghosts` and `heap`.

pub(crate) mod arc;
pub(crate) mod clock;
pub(crate) mod fifo;
mod foreseen;
mod ghosts;
pub(crate) mod greedy_dual;
mod heap;
pub(crate) mod lfu;
pub(crate) mod lru;
pub(crate) mod lru_k;
pub(crate) mod random;
pub(crate) mod s3fifo;
pub(crate) mod sieve;
pub(crate) mod slru;
pub(crate) mod two_q;
