//! The NDN forwarder as a state machine: FIB, PIT, Content Store, strategies, management.
//!
//! It is a data plane, or one shard of one (`shard.rs`): single-threaded, without sockets and
//! without a clock. A host (`larder-node`'s event loop, the network simulator, a test) passes in
//! each received frame with the time, and afterwards sends what is in the [`Outbox`].
//!
//! It does not contain sockets and the queues of faces (the host's), the caching policy
//! (`larder-policy`), or packet formats (`larder-packet`).
//!
//! Read first: [`Forwarder`], whose pipelines are those of the NFD developer guide, and [`Outbox`].
//! `management/mod.rs` has the NFD management protocol.
//!
//! ```text
//!              Interest
//! frame ─ LP ─┬─ PIT? ── Content Store? ── PIT ── FIB ─ strategy ─► Outbox
//!             └─ /localhost/nfd: management
//!
//!              Data
//! frame ─ LP ─ PIT ─┬─ Content Store (policy)
//!                   └─► Outbox, to all consumers
//! ```
//!
//! ```
//! use larder_forwarder::{Config, FaceConfig, Forwarder, Outbox, Route};
//! use larder_packet::{InterestBuilder, Name};
//! use larder_policy::Engine;
//! use larder_units::{ByteSize, Streams, Time};
//!
//! let streams = Streams::new(1);
//! let engine = Engine::new(&"filter(theta=2)+fifo".parse().unwrap(), ByteSize::from_mib(1), &streams).unwrap();
//! let mut forwarder = Forwarder::new(Config::new([1, 2], streams), engine);
//! let consumer = forwarder.add_face(FaceConfig::local("unix://consumer"));
//! let producer = forwarder.add_face(FaceConfig::local("unix://producer"));
//! let route = Route { face: producer, origin: 255, cost: 0, flags: 0, expires: None };
//! forwarder.add_route(&"/a".parse().unwrap(), route).unwrap();
//!
//! let mut outbox = Outbox::new();
//! let mut interest = InterestBuilder::new("/a/b".parse::<Name>().unwrap()).nonce(7).build();
//! forwarder.on_packet(Time::ZERO, consumer, &mut interest, &mut outbox).unwrap();
//! let send = outbox.drain().next().unwrap();
//! assert_eq!(send.face, producer);
//! ```
#![forbid(unsafe_code)]

mod config;
mod control;
mod control_plane;
mod data_plane;
mod drop_reason;
mod face;
mod forwarder;
pub mod limits;
mod local_names;
mod management;
mod outbox;
mod pipeline;
mod reassembly;
mod receive;
mod shard;
mod stats;
pub mod strategy;
mod tables;
mod tier;
mod verification;

pub use config::Config;
pub use control::authority::{Authorized, Rule};
pub use control::change::Change;
pub use control::shard_queries::{Report, ShardQuery};
pub use drop_reason::{Detail, DropCounters, DropReason, Dropped};
pub use face::{FaceConfig, FaceCounters, FaceId, LinkType, Persistency, Scope};
pub use forwarder::Forwarder;
pub use outbox::{Body, FaceAnswer, FaceRequest, HostRequest, Outbox, Send};
pub use receive::Received;
#[doc(hidden)]
pub use receive::stages;
pub use shard::{Dispatch, Homes, Shard};
pub use stats::{FaceStats, Stats, add_face_counters};
pub use tables::content_store::ContentStoreCounters;
pub use tables::erase_bans::EraseBans;
pub use tables::pit::{InRecord, OutRecord, PitEntry};
pub use tables::prefix_figures::PrefixFigures;
pub use tables::rib::{CAPTURE, CHILD_INHERIT, NextHop, Route, RouteError};
pub use tables::stored_packet::StoredPacket;
pub use tier::{SecondTier, TierCounters, TierFigures, TierLookup, TierRecord};
pub use verification::VerifyRule;
