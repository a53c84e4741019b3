//! The third tier of a node's HTTP cache: responses as objects of a store that outlives the node
//! and that several nodes share, by the protocol of S3.
//!
//! What it is: names, prices, the thread that writes, reads for requests, and what the node knows
//! about the objects that exist. What it is not: the format of the objects, and which of them still
//! hold: `larder-http` decides that.
//!
//! ```text
//!  cache ── offer, remove ──► queue ──► thread "object-store" ──► PUT, DELETE
//!  miss ──── get ──► Filter ──► GET on that thread ──► head, and the body while it comes
//! ```
//!
//! A request waits [`ObjectStoreConfig::wait`] for an object at most, then the origin is asked. A
//! store that fails half of the time is left alone for a while. The filter of all names is an
//! object itself, so that a node with empty disks knows what there is.
//!
//! Read [`Objects`] first, then [`ObjectStoreConfig`].
#![forbid(unsafe_code)]

mod breaker;
mod client;
mod config;
mod error;
mod filter;
pub mod limits;
mod names;
mod objects;
mod probe;
mod shared;
mod status;
#[cfg(test)]
mod tests;
mod thread;

pub use config::{ObjectStoreConfig, ObjectUrl, Prices};
pub use error::Error;
pub use objects::{Found, ObjectBody, Objects};
pub use probe::{Probe, probe};
pub use shared::Counters;
pub use status::{metrics, status};
