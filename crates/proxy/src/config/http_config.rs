//! The configuration of the HTTP host.

use crate::access_log::AccessLogConfig;
use crate::base::fleet::Fleet;
use crate::base::http_limits::HttpLimits;
use crate::base::limits;
use crate::base::timeouts::Timeouts;
use crate::config::compression_config::CompressionConfig;
use crate::config::listen::listeners;
use crate::config::peers_config::PeersConfig;
use crate::config::tls_config::TlsConfig;
use crate::message::request_id::RequestIdSource;
use crate::message::trusted_proxies::TrustedProxies;
use crate::origin::dial::OriginProtocol;
use crate::origin::origin_config::{OriginGroup, Upstream};
use crate::rules::Rule;
use larder_acme_host::ChallengeKind;
use larder_host::ListenConfig;
use larder_http::Codings;
use larder_object_host::ObjectStoreConfig;
use larder_tier_host::DiskConfig;
use larder_units::{ByteSize, optional_path};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// The configuration of the HTTP side: most keys of `[http]`. The keys of a field whose name in the
/// file starts with `*` stand in `[http]` itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// The listeners for HTTP; none for TLS only.
    #[serde(deserialize_with = "listeners")]
    pub listen: Vec<ListenConfig>,
    /// `[http.tls]`: the listeners and identity for TLS, if there is one.
    pub tls: Option<TlsConfig>,
    /// Redirects requests without TLS to HTTPS.
    pub redirect_to_https: bool,
    /// The peers whose `X-Forwarded-*` and `Forwarded` are believed.
    #[serde(rename = "*trusted")]
    pub trusted_proxies: TrustedProxies,
    /// The origin of requests that match none of `origins`.
    #[serde(skip)]
    pub upstream: Upstream,
    /// The protocol of connections to that origin.
    pub origin_protocol: OriginProtocol,
    /// Whether that origin has a server for each address of its name.
    pub origin_resolve: bool,
    /// See [`OriginGroup::buffer_requests`].
    pub buffer_requests: ByteSize,
    /// The name servers for such names; none: those of the system.
    #[serde(deserialize_with = "name_servers")]
    pub resolver: Vec<SocketAddr>,
    /// Origins for some hosts and paths. The closest match is used; of equal matches, the first.
    #[serde(skip)]
    pub origins: Vec<OriginGroup>,
    /// The rules, in their order.
    pub rules: Vec<Rule>,
    /// PEM file of the certificates that verify `https://` origins; `None` for the system's.
    #[serde(deserialize_with = "optional_path")]
    pub origin_ca: Option<PathBuf>,
    /// The time limits of a request's steps.
    pub timeouts: Timeouts,
    /// The largest messages, and how many things of a kind there may be.
    pub limits: HttpLimits,
    /// Request threads, up to [`limits::THREADS`]; 0: one per core.
    #[serde(deserialize_with = "threads")]
    pub threads: usize,
    /// The cache.
    #[serde(rename = "*cache")]
    pub cache: larder_http::Config,
    /// Whether other policies and sizes are tried on a sample of the requests.
    pub what_if: bool,
    /// The codings that `Accept-Encoding` of GET and HEAD is reduced to; none: it stays as it is.
    #[serde(deserialize_with = "codings")]
    pub accept_encoding: Codings,
    /// `[http.compression]`: the responses that get a content coding.
    pub compression: CompressionConfig,
    /// `[http.disk]`: the disk tier, if there is one.
    pub disk: Option<DiskConfig>,
    /// `[http.object_store]`: the third tier, if there is one.
    pub object_store: Option<ObjectStoreConfig>,
    /// `[http.access_log]`: the access log, if there is one.
    pub access_log: Option<AccessLogConfig>,
    /// The source of request ids.
    pub request_id: RequestIdSource,
    /// The fleet that the node belongs to. A reload does not change it.
    #[serde(skip)]
    pub fleet: Option<Arc<dyn Fleet>>,
    /// `[fleet.peers]`: where the node answers the other nodes of the fleet, if it does. A reload
    /// does not change it.
    #[serde(skip)]
    pub peers: Option<PeersConfig>,
}

impl HttpConfig {
    /// Returns the challenges of ACME that this configuration can answer: `http-01` needs a
    /// listener without TLS, and the authority shows no certificate in a handshake.
    pub fn challenge_kinds(&self) -> Vec<ChallengeKind> {
        let Some(tls) = &self.tls else {
            return Vec::new();
        };
        let can_answer = |kind: &ChallengeKind| match kind {
            ChallengeKind::Http01 => !self.listen.is_empty(),
            ChallengeKind::TlsAlpn01 => !tls.clients.are_required(),
        };
        let kinds = tls.acme.iter().flat_map(|acme| &acme.challenges);
        kinds.copied().filter(can_answer).collect()
    }

    /// Returns the request field for the subject of a client's certificate, if there is one.
    pub(crate) fn subject_field(&self) -> Option<&::http::HeaderName> {
        self.tls.as_ref()?.clients.subject_field()
    }
}

impl HttpConfig {
    /// Returns the configuration of the cache.
    pub(crate) fn cache_config(&self) -> larder_http::Config {
        larder_http::Config {
            compression: self.compression.compression(),
            ..self.cache.clone()
        }
    }
}

impl Default for HttpConfig {
    /// The defaults of a node, with the generated origin.
    fn default() -> HttpConfig {
        HttpConfig {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)).into()],
            tls: None,
            redirect_to_https: false,
            trusted_proxies: TrustedProxies::default(),
            upstream: Upstream::Generated,
            origin_protocol: OriginProtocol::Http1,
            origin_resolve: false,
            buffer_requests: ByteSize::from_bytes(0),
            resolver: Vec::new(),
            origins: Vec::new(),
            rules: Vec::new(),
            origin_ca: None,
            timeouts: Timeouts::default(),
            limits: HttpLimits::default(),
            threads: 0,
            cache: larder_http::Config::default(),
            what_if: true,
            accept_encoding: Codings::OF_BROWSERS,
            compression: CompressionConfig::default(),
            disk: None,
            object_store: None,
            access_log: None,
            request_id: RequestIdSource::Off,
            fleet: None,
            peers: None,
        }
    }
}

fn codings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Codings, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    Codings::of(names.iter().map(String::as_str)).map_err(|name| {
        let known = Codings::NAMES.join(", ");
        D::Error::custom(format!(
            "accept_encoding: {name:?}: expected one of {known}"
        ))
    })
}

fn threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let (threads, most) = (usize::deserialize(deserializer)?, limits::THREADS);
    if threads > most {
        return Err(D::Error::custom(format!(
            "expected up to {most}, or 0 for one a core"
        )));
    }
    Ok(threads)
}

fn name_servers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let most = limits::NAME_SERVERS;
    if texts.len() > most {
        return Err(D::Error::custom(format!(
            "resolver: expected up to {most} name servers, not {}",
            texts.len()
        )));
    }
    let server = |text: &String| {
        let address = text.parse().ok().or_else(|| {
            text.parse()
                .ok()
                .map(|address: IpAddr| (address, 53).into())
        });
        let expected =
            "expected the address of a name server, such as \"10.0.0.2\" or \"[::1]:5353\"";
        address.ok_or_else(|| D::Error::custom(format!("{text:?}: {expected}")))
    };
    texts.iter().map(server).collect()
}
