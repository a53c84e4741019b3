//! Applications: consumers at a rate or by a window, transfers of files, producers.
//!
//! | application | asks, or answers |
//! | --- | --- |
//! | [`Cbr`] | at a frequency, by sequence numbers or by popularity, with ndnSIM's retransmissions |
//! | [`CacheHost`] | for contents that a hash gives it, and keeps them |
//! | [`Producer`] | every Interest, with Data of one size |
//! | [`Fetch`] | for a file, as `larder get` does |
//! | [`Serve`] | with a file, as `larder put` does |

mod cache_host;
mod cbr;
mod names;
mod producer;
mod retransmission;
mod transfer;

pub use cache_host::{CacheHost, CustodianCounters};
pub use cbr::{Cbr, CbrConfig, ConsumerCounters, DelayRow, Randomize};
pub use names::{Names, TraceShare, ZipfMandelbrot};
pub use producer::{Payload, Producer, ProducerConfig, Unsigned};
pub use transfer::{Fetch, Serve};
