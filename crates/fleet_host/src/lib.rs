//! A node's part in a fleet: its thread, its files, and its client of NATS.
//!
//! What it is: the host of `larder-fleet`, which decides what a node may serve and when a purge is
//! repeated. It isolates async-nats. What it is not: a cache. It executes purges by a
//! [`Purger`](larder_proxy::Purger), and answers the lookups of the HTTP side by the trait
//! [`Fleet`](larder_proxy::Fleet).
//!
//! Read [`FleetConfig`] first, then [`Member`].
//!
//! ```text
//!   POST /purge ─► Member ─► Acceptor ─► outbox.jsonl ─► the log (JetStream)
//!                                                           │ republished
//!   lookup ─► Gate ◄── Follower::fresh_until ◄── Follower ◄─┘
//!                                                    └─► Purger (memory, disk tier) ─► position.json
//! ```
//!
//! # The folder
//! One process uses it at a time: `lock` is locked.
//!
//! | file | content |
//! | --- | --- |
//! | `outbox.jsonl` | the purges that this node has accepted, until the log surely has them |
//! | `position.json` | the last entry of the log whose purges are on disk |
#![forbid(unsafe_code)]

mod certificates;
mod clock;
mod config;
mod error;
mod files;
mod gate;
mod init;
mod invalidated;
pub mod limits;
mod log_client;
mod member;
mod order;
mod owned;
mod run;
mod status;

pub use certificates::{MadeCertificates, make_certificates};
pub use config::{FleetConfig, FleetTls, OnPartition};
pub use error::Error;
pub use init::{Created, LogSettings, create_log};
pub use larder_fleet::{PeerOffer, by_ownership, is_name, is_peer_name, owner_key};
pub use larder_http::Url;
pub use log_client::is_server;
pub use member::Member;
