//! Eviction policies, one file each, and the parts that several of them share: `foreseen`,
//! `ghosts`, `heap`, `large` and `pool`.

pub(crate) mod agd;
pub(crate) mod arc;
pub(crate) mod belady;
pub(crate) mod car;
pub(crate) mod clock;
pub(crate) mod clock_pro;
pub(crate) mod fifo;
mod foreseen;
mod ghosts;
pub(crate) mod greedy_dual;
mod heap;
pub(crate) mod hyperbolic;
mod large;
pub(crate) mod lecar;
pub(crate) mod lfu;
pub(crate) mod lhd;
pub(crate) mod lirs;
pub(crate) mod lru;
pub(crate) mod lru_k;
mod pool;
pub(crate) mod random;
pub(crate) mod random_priority;
pub(crate) mod s3fifo;
pub(crate) mod sieve;
pub(crate) mod slru;
pub(crate) mod two_q;
pub(crate) mod w_tinylfu;
pub(crate) mod wlfu;
