//! Files over NDN: a consumer that fetches segments with congestion control, and a producer that
//! makes them.
//!
//! Both are state machines without IO and without a clock. The host (the `larder` command, or the
//! simulator) passes packets and the time to them, and sends their packets. The crate opens no
//! socket, registers no prefix, and keeps no packet that it has made: caching is the task of the
//! forwarder.
//!
//! Read [`Fetcher`] and [`Publisher`] first. Further algorithms implement [`CongestionControl`]; a
//! [`CongestionSpec`] selects one by name. [`limits`] contains the limits that hosts meet.
//!
//! ```text
//!            Interests                                Interests
//!   poll ──────────────▶                           ──────────────▶ on_interest
//!  Fetcher               (a link, a node, a network)                Publisher ◀── Source::read_at
//!   on_data ◀──────────                            ◀──────────────
//!      │        Data                                    Data
//!      ▼ in order
//!    sink
//! ```
//!
//! ```
//! use larder_packet::{Data, DigestSigner, Interest};
//! use larder_transfer::{Cubic, FetchOptions, Fetcher, Progress, PublishOptions, Publisher};
//! use larder_units::{Streams, Time};
//!
//! let file = b"some bytes".repeat(5000);
//! let signer = Box::new(DigestSigner);
//! let mut producer = Publisher::new("/file".parse()?, 1, file.clone(), signer, PublishOptions::default())?;
//!
//! let nonces = Streams::new(1).stream("nonces");
//! let mut consumer = Fetcher::new("/file".parse()?, FetchOptions::default(), Box::new(Cubic::new()), None, nonces);
//!
//! let (mut interest, mut data, mut fetched) = (Vec::new(), Vec::new(), Vec::new());
//! while consumer.progress() == Progress::Running {
//!     // A host sends all Interests before it waits. Here each one is answered at once.
//!     while consumer.poll(Time::ZERO, &mut interest) {
//!         producer.on_interest(&Interest::decode(&interest)?, &mut data)?;
//!         if !data.is_empty() {
//!             consumer.on_data(Time::ZERO, &Data::decode(&data)?, false, |bytes| fetched.extend_from_slice(bytes));
//!         }
//!         interest.clear();
//!         data.clear();
//!     }
//! }
//! assert_eq!(consumer.progress(), Progress::Done);
//! assert_eq!(fetched, file);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Missing:
//!
//! * Fast retransmission: losses are found by timeout only.
//! * Pacing by a window: Interests are sent in bursts as it opens. Only a rate is paced.
//! * A manifest for a name that ends in a version: the manifest is named by the metadata, which is
//!   not requested then.
#![forbid(unsafe_code)]

pub mod congestion;
pub mod limits;
pub mod manifest;

mod error;
mod fetcher;
mod metadata;
mod object;
mod pacer;
mod publisher;
mod rtt;
mod window;

pub use congestion::{
    CongestionControl, CongestionSpec, CongestionSpecError, Cubic, FixedWindow, PathFeedback,
};
pub use error::{EndProblem, FetchError, Invalid, MetadataProblem, PublishError, Refusal};
pub use fetcher::{FetchOptions, FetchStats, Fetcher, Naming, Progress};
pub use metadata::{METADATA_KEYWORD, Metadata};
pub use pacer::Clock;
pub use publisher::{PublishOptions, PublishStats, Publisher, Reply, Source, Stamp};
pub use rtt::RttEstimator;
