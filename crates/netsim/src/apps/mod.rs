//! Applications: consumers at a rate or by a window, transfers of files, producers.
//!
//! | application | asks, or answers |
//! | --- | --- |
//! | [`Cbr`] | at a frequency, by sequence numbers or by popularity, with ndnSIM's retransmissions |
//! | [`Producer`] | every Interest, with Data of one size |
//! | [`Fetch`] | for a file, as `larder get` does |
//! | [`Serve`] | with a file, as `larder put` does |

mod cbr;
mod names;
mod producer;
mod retransmission;
mod transfer;

pub use cbr::{Cbr, CbrConfig, ConsumerCounters, Randomize};
pub use names::{Names, ZipfMandelbrot};
pub use producer::{Payload, Producer, ProducerConfig, Unsigned};
pub use transfer::{Fetch, Serve};
