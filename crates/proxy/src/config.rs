//! The configuration of the HTTP host.

use super::disk::DiskConfig;
use super::header_limits::HeaderLimits;
use super::origin::Origin;
use super::timeouts::Timeouts;
use super::tls::TlsConfig;
use larder_policy::Spec;
use larder_units::ByteSize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The configuration of the HTTP side.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The address for HTTP; port 0 takes a free one. `None` for TLS only.
    pub listen: Option<SocketAddr>,
    /// The address and identity for TLS, if there is one.
    pub tls: Option<TlsConfig>,
    /// The origin of requests that match none of `origins`.
    pub upstream: Upstream,
    /// Origins for some hosts and paths. The closest match is used; of equal matches, the first.
    pub origins: Vec<OriginGroup>,
    /// PEM file of the certificates that verify `https://` origins; `None` for the system's.
    pub origin_ca: Option<PathBuf>,
    /// The time limits of a request's steps.
    pub timeouts: Timeouts,
    /// The limits of a header block.
    pub header_limits: HeaderLimits,
    /// Request threads, up to [`super::limits::THREADS`]; 0: one per core.
    pub threads: usize,
    /// Capacity of the cache.
    pub capacity: ByteSize,
    /// Its policies.
    pub policy: Spec,
    /// The largest body that is stored.
    pub max_object: ByteSize,
    /// The size of slices: bodies that are requested in ranges are fetched and stored in such
    /// parts. 0: only whole bodies.
    pub slice: ByteSize,
    /// Responses with `Set-Cookie` are stored if their `Cache-Control` allows it.
    pub share_cookies: bool,
    /// The effect of a client's `no-cache`.
    pub client_no_cache: ClientNoCache,
    /// Targeted response fields (RFC 9213), the one with the highest priority first.
    pub targets: Vec<::http::HeaderName>,
    /// The disk tier, if there is one.
    pub disk: Option<DiskConfig>,
}

/// The effect of a client's `Cache-Control: no-cache` or `max-age=0` (a reload).
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ClientNoCache {
    /// The request goes to the origin (RFC 9111 §5.2.1).
    #[default]
    Obey,
    /// A fresh stored response answers it.
    Ignore,
}

/// An origin of responses.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// Objects generated in this process.
    Generated,
    /// `http://host:port`, or with `https`.
    Http(::http::Uri),
    /// An origin that the host supplies.
    Custom(Arc<dyn Origin>),
}

/// `[[http.origins]]`: equivalent servers for a host and the paths under a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginGroup {
    /// The host as it is keyed: in lower case, without the scheme's default port. Without a port it
    /// matches every port; `*.` and a domain matches all hosts below. `None` matches all.
    pub host: Option<String>,
    /// The prefix of paths, as they are sent: nothing is decoded.
    pub path: String,
    /// `http://host:port` or `https://host:port`, 1 to 64 of them.
    pub servers: Vec<::http::Uri>,
    /// A path that healthy servers answer with a status below 400, and the interval of probes.
    pub check: Option<(::http::uri::PathAndQuery, Duration)>,
}
