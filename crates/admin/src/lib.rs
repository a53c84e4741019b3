//! The pages of the admin server: what a node tells about itself, and the changes that it takes.
//!
//! What it is: `/status`, `/metrics`, `/healthz`, `/readyz`, the console and its history, captures,
//! and the authorization of purges. The parts of a node (HTTP, NDN, the gateway, the process) are
//! [`StatusSource`]s, which write their figures as JSON and as [`Metrics`]. The HTTP cache is the
//! [`ManagedCache`] of [`Purging`]. What it is not: a server. `larder-proxy` has the listener and
//! the thread, and passes each request to [`AdminPages::respond`].
//!
//! ```text
//!  StatusSource (HTTP, NDN, ...) ──► AdminPages ──► /status, /metrics
//!                                        └─────────► Console ──► History, streams of open pages
//!  the node ◄── NodeCommands ◄── POST /reload, /upgrade
//!  ManagedCache (HTTP) ◄── Purging ◄── POST /purge, POST /console/apply, /console/lookup
//! ```
//!
//! Read [`StatusSource`] first, then [`AdminPages`] and [`Console`].
#![forbid(unsafe_code)]

mod admin_body;
mod admin_reply;
mod commands;
mod console;
pub mod histogram;
pub mod limits;
mod metrics;
mod pages;
mod purging;
mod source;
mod token;

pub use admin_body::AdminBody;
pub use commands::{CommandOutcome, CommandReply, NodeCommand, NodeCommands};
pub use console::Console;
pub use metrics::{MetricLine, Metrics};
pub use pages::AdminPages;
pub use purging::{ManagedCache, Managing, OrderError, Purged, Purging};
pub use source::{CaptureLines, StatusSource};
