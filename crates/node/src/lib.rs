//! The node: the host of the NDN forwarder and of the HTTP cache. It owns the sockets, the clock,
//! the threads and the entropy.
//!
//! The rules of forwarding and caching are in `larder-forwarder` and `larder-http`, policies in
//! `larder-policy`. The HTTP host is `larder-proxy`, and HTTP over NDN is `larder-gateway`. Read
//! [`Node`] first, then [`Config`].
//!
//! ```text
//!                 ┌─ thread "ndn":  epoll ── Forwarder ── Content Store ─┐
//!  Node ── start ─┼─ threads "http": tokio ── proxy ── http::Cache ──────┼── a policy engine per cache
//!                 └─ thread "admin": /metrics, /status ◄── snapshots ────┘
//! ```
//!
//! ```
//! use larder_node::Config;
//!
//! let config = Config::parse("[ndn]\ncontent_store = \"1GiB\"\n", "example").unwrap();
//! assert_eq!(config.ndn.content_store.to_string(), "1GiB");
//! ```
#![deny(unsafe_code)]

mod config;
mod doctor;
mod error;
mod handover;
mod inherited;
pub mod limits;
pub mod log;
mod ndn;
mod node;
mod parts;
mod preflight;
mod privileges;
mod process;
mod reload;
mod supervisor;
mod user_files;

pub use config::{
    AdminConfig, AuthorizeConfig, CertificateError, Config, ConfigError, ConfigSources, DEFAULT,
    FleetTable, GatewayTable, HttpTable, LogConfig, LogFormat, NdnConfig, Origin, OriginTable,
    ProcessConfig, RouteConfig, RouteTarget, RouteTargetError, Scope, StrategyConfig, UnixSetting,
    UpstreamTable, VerifyConfig, explain, reference,
};
pub use doctor::{Finding, Level, Topic, examine};
pub use error::NodeError;
pub use handover::{Handover, HandoverError};
pub use ndn::{NdnError, SocketError};
pub use node::{Node, raise_descriptor_limit};
pub use preflight::{
    Checked, NO_END, check, check_in_time, origin_servers, problems, running_node, warnings,
};
pub use privileges::PrivilegeError;
pub use reload::RunningConfig;
pub use user_files::CreateError;
