//! The host of the HTTP cache: a caching reverse proxy with one thread per core, and the admin
//! server on a thread of its own. The rules of caching are in `larder-http`. Read [`Http`] first,
//! then [`HttpConfig`] and the trait [`Origin`].
//!
//! ```text
//!  clients ──► listen ──► proxy ──► larder_http::Cache (one lookup; a hit copies no body;
//!                           │                           `plain` answers plain hits before hyper)
//!                           ├─ miss ─► upstream ─► a server (connections), an egress over NDN,
//!                           │            │         or the generated origin
//!                           │            └─ collect: the body into the cache and to all followers
//!                           └─ the same miss again: follow
//! ```
//!
//! Each thread runs a single-threaded runtime. A connection stays with the thread that accepted it,
//! and so do the connections to the origin that its requests use (`threads.rs`, `connections.rs`).
//! There is one cache of many shards, each behind a lock (`shards/`), over one policy engine. So
//! purges, tags, the disk tier, followers and the policy are the same for any number of threads.
//! Long work of the policy (AdaptSize's search) runs on the runtime's blocking threads.
//!
//! # Fields of requests to the origin
//! `Host` is the client's, as it is keyed: in lower case, without port 80. The client's address is
//! appended to `X-Forwarded-For`, so its last entry is trustworthy. `X-Forwarded-Host` and
//! `X-Forwarded-Proto` are overwritten: with the host and scheme of the key, which a trusted proxy
//! may have named (`trusted_proxies.rs`). Other fields that frameworks use as the target are
//! removed (a list in `upstream_request.rs`): they are not part of the key, so the responses that
//! they select must not be stored under it.
//!
//! A request that comes back to this cache by `CDN-Loop`, or that has our name eight times there or
//! in `Via`, is in a loop and gets 508 (`loop_detection.rs`). `Max-Forwards` of OPTIONS and TRACE
//! is decremented (`max_forwards.rs`).
//!
//! `Accept-Encoding` of GET and HEAD has the codings of the configuration that the client accepts,
//! in one spelling (`larder_http::Codings`).
//!
//! # What is missing
//! Protocol upgrades by requests with a body, and over HTTP/2 others than WebSocket (RFC 8441); a
//! WebSocket over HTTP/2 to an origin; informational responses from origins over HTTP/2 (hyper's
//! client passes none); trailers to a client of HTTP/1.1 that the origin has not announced.
#![deny(unsafe_code)]

mod accept;
pub mod access_log;
mod admin;
mod base;
mod cache;
mod client;
mod coding;
mod config;
mod exchange;
mod http_side;
mod message;
mod origin;
mod report;
pub mod rules;

pub use accept::generated_server::OriginServer;
pub use accept::listeners::{Bound, InheritedListener, ListenerKind, Listeners};
pub use accept::running_listeners::HttpListenerSocket;
pub use access_log::AccessLogConfig;
pub use admin::purger::Purger;
pub use admin::reach::{Reach, reach_servers};
pub use admin::server::Admin;
pub use base::fleet::{Fleet, Owner, Publishing, Unpublished, Wait};
pub use base::header_limits::HeaderLimits;
pub use base::http_limits::HttpLimits;
pub use base::limits;
pub use base::proxy_protocol;
pub use base::timeouts::Timeouts;
pub use cache::shards;
pub use config::certificate_validity::certificate_validity;
pub use config::peers_config::PeersConfig;
pub use config::tls_config::{
    CertificateFiles, CertificateNeed, ClientCertificates, TlsConfig, TlsVersion,
};
pub use exchange::request_rules::NormalUrl;
pub use larder_acme_host::{AcmeConfig, CertificateHost, ChallengeKind};
pub use message::authority::normal_authority;
pub use message::field_names::remove_unkeyed;
pub use message::request_id::RequestIdSource;
pub use message::target::{Target, normal_target};

pub use base::error::{Error, Problem};
pub use config::compression_config::CompressionConfig;
pub use config::http_config::HttpConfig;
pub use http_side::{Http, HttpReload, check, origin_servers, redirected_to_https};
pub use larder_http::ClientNoCache;
pub use larder_static_files as static_files;
pub use message::body::BodyError;
pub use message::host_pattern::HostPattern;
pub use message::network::Network;
pub use message::trusted_proxies::{Forwarded, TrustedFields, TrustedProxies};
pub use message::upload::Upload;
pub use origin::connections::{ConnectionVerdict, Failed, ReceivedBody, Server};
pub use origin::custom::{Origin, OriginFuture, OriginRequest};
pub use origin::dial::OriginProtocol;
pub use origin::origin_body::OriginBody;
pub use origin::origin_config::{OriginGroup, PoolServer, Upstream};
pub use origin::servers::{Balance, PoolConfig, period};
pub use origin::trust::Trust;
