//! Applications: consumers with a rate or a window, transfers of files, producers.
//!
//! | application | task |
//! | --- | --- |
//! | [`Cbr`] | sends Interests at a frequency, by sequence numbers or by popularity, with ndnSIM's retransmissions |
//! | [`CacheHost`] | requests the contents that a hash assigns to it, and keeps them |
//! | [`Producer`] | answers every Interest with Data of one size |
//! | [`Fetch`] | fetches a file, as `larder get` does |
//! | [`Serve`] | serves a file, as `larder put` does |

mod cache_host;
mod cbr;
mod names;
mod producer;
mod retransmission;
mod transfer;

pub use cache_host::{CacheHost, CacheHostCounters};
pub use cbr::{Cbr, CbrConfig, ConsumerCounters, DelayRow, Randomize};
pub use names::{Names, TraceShare, ZipfMandelbrot};
pub use producer::{Payload, Producer, ProducerConfig, Unsigned};
pub use transfer::{Fetch, Serve};
