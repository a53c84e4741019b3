//! The configuration of the HTTP host.

use crate::access_log::AccessLogConfig;
use crate::base::http_limits::HttpLimits;
use crate::base::timeouts::Timeouts;
use crate::config::compression_config::CompressionConfig;
use crate::config::tls_config::TlsConfig;
use crate::message::request_id::RequestIdSource;
use crate::message::trusted_proxies::TrustedProxies;
use crate::origin::dial::OriginProtocol;
use crate::origin::origin_config::{OriginGroup, Upstream};
use crate::rules::Rule;
use larder_host::ListenConfig;
use larder_http::Codings;
use larder_policy::Spec;
use larder_tier_host::DiskConfig;
use larder_units::ByteSize;
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// Request threads, up to [`crate::base::limits::THREADS`]; 0: one per core.
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
    /// The responses that get a content coding.
    pub compression: CompressionConfig,
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
    pub(crate) fn subject_field(&self) -> Option<&::http::HeaderName> {
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
