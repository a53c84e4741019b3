//! The configuration of the HTTP host.

use super::access_log::AccessLogConfig;
use super::dial::OriginProtocol;
use super::disk::DiskConfig;
use super::http_limits::HttpLimits;
use super::listen_address::ListenConfig;
use super::origin::Origin;
use super::request_id::RequestIdSource;
use super::rules::Rule;
use super::servers::PoolConfig;
use super::timeouts::Timeouts;
use super::tls_config::TlsConfig;
use super::trusted_proxies::TrustedProxies;
use larder_http::Codings;
use larder_policy::Spec;
use larder_units::ByteSize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The configuration of the HTTP side.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The listeners for HTTP; none for TLS only.
    pub listen: Vec<ListenConfig>,
    /// The listeners and identity for TLS, if there is one.
    pub tls: Option<TlsConfig>,
    /// Redirects requests without TLS to HTTPS.
    pub redirect_to_https: bool,
    /// The peers whose `X-Forwarded-*` and `Forwarded` are believed.
    pub trusted_proxies: TrustedProxies,
    /// The origin of requests that match none of `origins`.
    pub upstream: Upstream,
    /// The protocol of connections to that origin.
    pub origin_protocol: OriginProtocol,
    /// Whether that origin has a server for each address of its name.
    pub origin_resolve: bool,
    /// See [`OriginGroup::buffer_requests`].
    pub buffer_requests: ByteSize,
    /// The name servers for such names; none: those of the system.
    pub resolver: Vec<SocketAddr>,
    /// Origins for some hosts and paths. The closest match is used; of equal matches, the first.
    pub origins: Vec<OriginGroup>,
    /// The rules, in their order.
    pub rules: Vec<Rule>,
    /// PEM file of the certificates that verify `https://` origins; `None` for the system's.
    pub origin_ca: Option<PathBuf>,
    /// The time limits of a request's steps.
    pub timeouts: Timeouts,
    /// The largest messages, and how many things of a kind there may be.
    pub limits: HttpLimits,
    /// Request threads, up to [`super::limits::THREADS`]; 0: one per core.
    pub threads: usize,
    /// Capacity of the cache.
    pub capacity: ByteSize,
    /// Its policies.
    pub policy: Spec,
    /// Whether other policies and sizes are tried on a sample of the requests.
    pub what_if: bool,
    /// The largest body that is stored.
    pub max_object: ByteSize,
    /// The size of slices: bodies that are requested in ranges are fetched and stored in such
    /// parts. 0: only whole bodies.
    pub slice: ByteSize,
    /// Responses with `Set-Cookie` are stored with it if their `Cache-Control` allows it.
    pub share_cookies: bool,
    /// `s-maxage` forbids to serve a response stale, whatever else it says.
    pub strict_s_maxage: bool,
    /// Most stored variants of one URL.
    pub variants: usize,
    /// The effect of a client's `no-cache`.
    pub client_no_cache: ClientNoCache,
    /// The codings that `Accept-Encoding` of GET and HEAD is reduced to; none: it stays as it is.
    pub accept_encoding: Codings,
    /// Targeted response fields (RFC 9213), the one with the highest priority first.
    pub targets: Vec<::http::HeaderName>,
    /// The disk tier, if there is one.
    pub disk: Option<DiskConfig>,
    /// The access log, if there is one.
    pub access_log: Option<AccessLogConfig>,
    /// The source of request ids.
    pub request_id: RequestIdSource,
}

impl HttpConfig {
    /// Returns the request field for the subject of a client's certificate, if there is one.
    pub(super) fn subject_field(&self) -> Option<&::http::HeaderName> {
        self.tls.as_ref()?.clients.as_ref()?.subject_field.as_ref()
    }
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
    /// `http://host[:port][/path]`, `https://...`, or `unix://localhost/socket[:/path]`.
    Http(::http::Uri),
    /// An origin that the host supplies.
    Custom(Arc<dyn Origin>),
}

/// `[[http.origins]]`: equivalent servers for a host and the paths under a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginGroup {
    /// The host as it is keyed: in lower case, without the scheme's default port. Without a port it
    /// matches every port; `*.` and a domain matches all hosts below. `None` matches all.
    pub host: Option<String>,
    /// The prefix of paths, as they are sent: nothing is decoded.
    pub path: String,
    /// 1 to 64 of them.
    pub servers: Vec<PoolServer>,
    /// The choice between them, and their health.
    pub pool: PoolConfig,
    /// A path that healthy servers answer with a status below 400, and the interval of probes.
    pub check: Option<(::http::uri::PathAndQuery, Duration)>,
    /// The protocol of connections to them.
    pub protocol: OriginProtocol,
    /// Bytes on disk of requests that are received whole before a server gets them; 0: they are
    /// passed on while they arrive.
    pub buffer_requests: ByteSize,
}

impl OriginGroup {
    /// Returns true if both are the first for the same requests, whatever their servers.
    pub(super) fn is_at_place_of(&self, other: &OriginGroup) -> bool {
        (&self.host, &self.path) == (&other.host, &other.path)
    }
}

/// One server of an [`OriginGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolServer {
    /// `http://host:port` or `https://host:port`.
    pub uri: ::http::Uri,
    /// Its share of requests, relative to others, from 1 to [`super::limits::WEIGHT_MOST`].
    pub weight: u32,
    /// True if it gets requests only if no other server can.
    pub is_backup: bool,
    /// The most requests at once; 0: no limit.
    pub max_conns: u32,
    /// Whether each address of its name is a server, with these settings. The name is resolved
    /// again when the TTL of its addresses ends. Without it, each connection resolves the name.
    pub resolve: bool,
}

impl From<::http::Uri> for PoolServer {
    /// A server of weight 1 without a limit.
    fn from(uri: ::http::Uri) -> Self {
        PoolServer { uri, weight: 1, is_backup: false, max_conns: 0, resolve: false }
    }
}
