//! Applications: consumers at a rate or by a window, transfers of files, producers.
//!
//! | application | asks, or answers |
//! | --- | --- |
//! | [`Cbr`] | at a frequency, by sequence numbers or by popularity, with ndnSIM's retransmissions |
//! | [`Custodian`] | for contents that a hash gives it, and keeps them |
//! | [`Producer`] | every Interest, with Data of one size |
//! | [`Fetch`] | for a file, as `larder get` does |
//! | [`Serve`] | with a file, as `larder put` does |

mod cbr;
mod custodian;
mod names;
mod producer;
mod retransmission;
mod transfer;

pub use cbr::{Cbr, CbrConfig, ConsumerCounters, DelayRow, Randomize};
pub use custodian::{Custodian, CustodianCounters};
pub use names::{Names, TraceShare, ZipfMandelbrot};
pub use producer::{Payload, Producer, ProducerConfig, Unsigned};
pub use transfer::{Fetch, Serve};
