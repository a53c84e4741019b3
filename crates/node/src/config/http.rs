//! `[http]` of the configuration: the listener, the origin, and the cache between them.

use super::access_log::AccessLogTable;
use super::files::{EXPECTED_FOLDER, FilesTable, folder, optional_folder};
use super::gateway::UpstreamTable;
use super::listen::listeners;
use super::origin::{EXPECTED, Origin, ServerEntry, has_name, server};
use super::values::{from_text, known_spec, loopback, optional_path, parsed};
use http::uri::{Authority, PathAndQuery};
use larder_host::ListenConfig;
use larder_http::Codings;
use larder_policy::Spec;
use larder_proxy::limits::{DISK_QUEUE_LEAST_BYTES, DISK_QUEUE_SHARE};
use larder_proxy::rules::Rule;
use larder_proxy::static_files::FilesConfig;
use larder_proxy::{
    Balance, CertificateFiles, ClientCertificates, ClientNoCache, CompressionConfig, HostPattern,
    HttpLimits, OriginProtocol, PoolConfig, PoolServer, RequestIdSource, Timeouts, TlsConfig,
    TrustedFields, TrustedProxies,
};
use larder_tier_host::DiskConfig;
use larder_units::ByteSize;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// `[http]`
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpTable {
    /// Whether this node serves HTTP.
    pub enabled: bool,
    /// The listeners for HTTP; none if it is off.
    #[serde(deserialize_with = "listeners")]
    pub listen: Vec<ListenConfig>,
    /// `[http.tls]`
    pub tls: Option<TlsTable>,
    /// Redirect requests without TLS to HTTPS.
    pub redirect_to_https: bool,
    /// The peers whose `X-Forwarded-*` and `Forwarded` are believed.
    #[serde(deserialize_with = "trusted_proxies")]
    pub trusted_proxies: TrustedProxies,
    /// The fields of these that are believed.
    #[serde(deserialize_with = "trusted_headers")]
    pub trusted_headers: TrustedFields,
    /// `generated`, or the address of a server.
    #[serde(deserialize_with = "origin")]
    pub origin: Origin,
    /// The protocol of connections to the origin.
    pub origin_protocol: OriginProtocol,
    /// Whether each address of the origin's name is a server.
    pub origin_resolve: bool,
    /// Bytes on disk of requests that are received whole before the origin gets them; 0: none are.
    #[serde(deserialize_with = "parsed")]
    pub buffer_requests: ByteSize,
    /// The name servers for such names; none: those of the system.
    #[serde(deserialize_with = "name_servers")]
    pub resolver: Vec<SocketAddr>,
    /// `[http.files]`; `None` for the usual settings.
    pub files: Option<FilesTable>,
    /// `[http.upstream]`; `None` if the origin is reached by HTTP.
    pub upstream: Option<UpstreamTable>,
    /// `[[http.origins]]`
    pub origins: Vec<OriginTable>,
    /// `[[http.rules]]`
    pub rules: Vec<Rule>,
    /// PEM file of the certificates that verify `https://` origins; `None` for the system's.
    #[serde(deserialize_with = "optional_path")]
    pub origin_ca: Option<PathBuf>,
    /// `[http.timeouts]`
    pub timeouts: Timeouts,
    /// `[http.limits]`
    pub limits: HttpLimits,
    /// Request threads; 0: one per core.
    #[serde(deserialize_with = "threads")]
    pub threads: usize,
    /// Capacity of the cache.
    #[serde(deserialize_with = "parsed")]
    pub cache: ByteSize,
    /// Policy of the cache.
    #[serde(deserialize_with = "parsed")]
    pub policy: Spec,
    /// Try other policies and sizes on a sample of the requests.
    pub what_if: bool,
    /// The largest object that is stored in one piece.
    #[serde(deserialize_with = "parsed")]
    pub max_object: ByteSize,
    /// The size of slices for ranges; 0 for none.
    #[serde(deserialize_with = "parsed")]
    pub slice: ByteSize,
    /// Store responses with `Set-Cookie` if their `Cache-Control` allows it.
    pub share_cookies: bool,
    /// `s-maxage` forbids to serve a response stale, whatever else it says.
    pub strict_s_maxage: bool,
    /// Most stored variants of one URL.
    #[serde(deserialize_with = "variants")]
    pub variants: usize,
    /// The effect of a client's `no-cache`.
    pub client_no_cache: ClientNoCache,
    /// The codings that `Accept-Encoding` of GET and HEAD is reduced to; none: it stays as it is.
    #[serde(deserialize_with = "codings")]
    pub accept_encoding: Codings,
    /// `[http.compression]`
    pub compression: CompressionConfig,
    /// Targeted response fields, the one with the highest priority first.
    #[serde(deserialize_with = "field_names")]
    pub targets: Vec<http::HeaderName>,
    /// `[http.disk]`; `None` for a cache in memory only.
    pub disk: Option<DiskTable>,
    /// `[http.access_log]`; `None` for no log.
    pub access_log: Option<AccessLogTable>,
    /// The source of request ids.
    pub request_id: RequestIdSource,
}

/// `[http.disk]`, and `[ndn.disk]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskTable {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    #[serde(deserialize_with = "parsed")]
    pub capacity: ByteSize,
    /// Policy of the disk tier.
    #[serde(deserialize_with = "parsed", default = "fifo")]
    pub policy: Spec,
}

impl DiskTable {
    /// Returns the configuration of a tier behind a cache in memory of this size.
    pub fn behind(&self, cache: ByteSize) -> DiskConfig {
        let queue = (cache.bytes() / DISK_QUEUE_SHARE).clamp(DISK_QUEUE_LEAST_BYTES, 1 << 30);
        DiskConfig {
            path: self.path.clone(),
            capacity: self.capacity,
            policy: self.policy.clone(),
            queue: ByteSize::from_bytes(queue),
        }
    }
}

fn fifo() -> Spec {
    known_spec("fifo")
}

/// `[http.tls]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TlsTable {
    /// The listeners for TLS; none if it is off.
    #[serde(deserialize_with = "listeners")]
    pub listen: Vec<ListenConfig>,
    /// PEM file of the server's certificate and those between it and a root.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
    /// `[[http.tls.certificates]]`: further certificates, for the hosts that they name.
    #[serde(default)]
    pub certificates: Vec<CertificateTable>,
    /// PEM file of the authorities of clients' certificates; `None` if clients need none.
    #[serde(default, deserialize_with = "optional_path")]
    pub client_ca: Option<PathBuf>,
    /// Whether a client without a certificate gets a connection.
    pub client_certificates: Option<ClientCertificateUse>,
    /// The request field that tells the origin the subject of a client's certificate.
    #[serde(default, deserialize_with = "optional_field")]
    pub client_subject: Option<http::HeaderName>,
    /// The oldest version of TLS.
    #[serde(default)]
    pub min_version: TlsVersion,
}

/// `[[http.tls.certificates]]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct CertificateTable {
    /// PEM file of a certificate.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
}

/// Whether clients need a certificate.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificateUse {
    /// A client without one gets no connection.
    Required,
    /// A client may have none.
    Optional,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// RFC 8446
    #[serde(rename = "1.3")]
    Tls13,
}

impl TlsTable {
    /// Returns the configuration of the listeners.
    pub fn config(&self) -> TlsConfig {
        let clients = self
            .client_ca
            .clone()
            .map(|authorities| ClientCertificates {
                authorities,
                are_required: self.client_certificates != Some(ClientCertificateUse::Optional),
                subject_field: self.client_subject.clone(),
            });
        let files = |certificate: &PathBuf, key: &PathBuf| CertificateFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        TlsConfig {
            listen: self.listen.clone(),
            certificate: files(&self.certificate, &self.key),
            certificates: self
                .certificates
                .iter()
                .map(|table| files(&table.certificate, &table.key))
                .collect(),
            clients,
            is_tls13_only: self.min_version == TlsVersion::Tls13,
        }
    }

    /// Returns a setting that has no effect.
    pub(super) fn contradiction(&self) -> Option<String> {
        let key = match self {
            TlsTable {
                client_ca: Some(_), ..
            } => return None,
            TlsTable {
                client_certificates: Some(_),
                ..
            } => "client_certificates",
            TlsTable {
                client_subject: Some(_),
                ..
            } => "client_subject",
            _ => return None,
        };
        Some(format!(
            "[http.tls] {key}: it needs client_ca, the authorities that sign the clients' certificates"
        ))
    }
}

impl HttpTable {
    /// Returns settings of files that have no effect.
    pub(super) fn needless_files(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.files.is_some() && !matches!(self.origin, Origin::Files(_)) {
            problems.push(format!(
                "[http.files]: it needs [http] origin = {EXPECTED_FOLDER}; \
                 those of [[http.origins]] have `files` of their own"
            ));
        }
        for table in &self.origins {
            if table.origin.is_some() && !table.servers.is_empty() {
                problems.push(
                    "[[http.origins]] origin: servers are another origin: keep one of them"
                        .to_owned(),
                );
            }
            if table.origin.is_none() && table.files.is_some() {
                problems.push(format!(
                    "[[http.origins]] files: it needs origin = {EXPECTED_FOLDER}"
                ));
            }
        }
        problems
    }

    /// Returns the problem of an origin without servers. If other values are wrong, they are
    /// missing here, so this one counts alone.
    pub(super) fn missing_servers(&self) -> Option<String> {
        let is_empty = |table: &OriginTable| table.origin.is_none() && table.servers.is_empty();
        let problem =
            || format!("[[http.origins]]: expected servers, or origin = {EXPECTED_FOLDER}");
        self.origins.iter().any(is_empty).then(problem)
    }

    /// Returns the folders of files, each with its setting.
    pub(crate) fn folders(&self) -> impl Iterator<Item = (&'static str, FilesConfig)> {
        let own = match &self.origin {
            Origin::Files(root) => Some((
                "[http] origin",
                self.files.clone().unwrap_or_default().config(root),
            )),
            _ => None,
        };
        let others = self
            .origins
            .iter()
            .filter_map(|table| Some(("[[http.origins]] origin", table.files()?)));
        own.into_iter().chain(others)
    }

    /// Returns the problem of an `origin_resolve` without a name.
    pub(super) fn needless_resolve(&self) -> Option<String> {
        let has_name = matches!(&self.origin, Origin::Http(uri) if has_name(uri));
        let problem = "[http] origin_resolve: it needs an origin with the name of a host";
        (self.origin_resolve && !has_name).then(|| problem.to_owned())
    }
}

fn optional_field<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<http::HeaderName>, D::Error> {
    from_text(deserializer, |text| match text {
        "" => Ok(None),
        _ => text
            .parse()
            .map(Some)
            .map_err(|_| "it is no name of a field"),
    })
}

/// `[[http.origins]]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct OriginTable {
    /// Requests for this host; `None` for all.
    #[serde(default, deserialize_with = "host")]
    pub host: Option<String>,
    /// Requests whose path begins so.
    #[serde(default = "root", deserialize_with = "path")]
    pub path: String,
    /// One or more; none with `origin`.
    #[serde(default, deserialize_with = "servers")]
    pub servers: Vec<PoolServer>,
    /// The folder of the files, in the place of servers.
    #[serde(default, deserialize_with = "optional_folder")]
    pub origin: Option<PathBuf>,
    /// How these files are served.
    #[serde(default)]
    pub files: Option<FilesTable>,
    /// The choice between servers.
    #[serde(default)]
    pub balance: Balance,
    /// Failed requests in a row after which a server is left out; 0: it never is.
    #[serde(default = "max_fails")]
    pub max_fails: u32,
    /// The longest time for which it is left out.
    #[serde(default = "fail_timeout", deserialize_with = "period")]
    pub fail_timeout: Duration,
    /// The time in which its share grows after that; 0: it has all at once.
    #[serde(default, deserialize_with = "slow_start")]
    pub slow_start: Duration,
    /// Retries for each 100 requests.
    #[serde(default = "retry_percent", deserialize_with = "percent")]
    pub retry_budget: u32,
    /// The protocol of connections to the servers.
    #[serde(default)]
    pub protocol: OriginProtocol,
    /// Bytes on disk of requests that are received whole before a server gets them; 0: none are.
    #[serde(default = "no_bytes", deserialize_with = "parsed")]
    pub buffer_requests: ByteSize,
    /// The path of health checks; `None` for no checks.
    #[serde(default, deserialize_with = "check")]
    pub check: Option<PathAndQuery>,
    /// The interval of checks; at least a second.
    #[serde(default = "check_every", deserialize_with = "period")]
    pub check_every: Duration,
}

fn no_bytes() -> ByteSize {
    ByteSize::from_bytes(0)
}

fn root() -> String {
    "/".to_owned()
}

fn check_every() -> Duration {
    Duration::from_secs(5)
}

impl OriginTable {
    /// Returns its files; `None` if it has servers.
    pub fn files(&self) -> Option<FilesConfig> {
        let root = self.origin.as_ref()?;
        Some(self.files.clone().unwrap_or_default().config(root))
    }

    /// Returns the settings of its pool.
    pub fn pool(&self) -> PoolConfig {
        let OriginTable {
            balance,
            max_fails,
            fail_timeout,
            slow_start,
            retry_budget,
            ..
        } = *self;
        PoolConfig {
            balance,
            max_fails,
            fail_timeout,
            slow_start,
            retry_percent: retry_budget,
        }
    }
}

fn max_fails() -> u32 {
    PoolConfig::default().max_fails
}

fn fail_timeout() -> Duration {
    PoolConfig::default().fail_timeout
}

fn retry_percent() -> u32 {
    PoolConfig::default().retry_percent
}

impl Default for HttpTable {
    fn default() -> Self {
        HttpTable {
            enabled: true,
            listen: vec![loopback(8080).into()],
            tls: None,
            redirect_to_https: false,
            trusted_proxies: TrustedProxies::default(),
            trusted_headers: TrustedFields::default(),
            origin: Origin::Generated,
            origin_protocol: OriginProtocol::Http1,
            origin_resolve: false,
            buffer_requests: ByteSize::from_bytes(0),
            resolver: Vec::new(),
            files: None,
            upstream: None,
            origins: Vec::new(),
            rules: Vec::new(),
            origin_ca: None,
            timeouts: Timeouts::default(),
            limits: HttpLimits::default(),
            threads: 0,
            cache: ByteSize::from_mib(256),
            policy: known_spec("agd"),
            max_object: ByteSize::from_mib(64),
            slice: ByteSize::from_mib(1),
            share_cookies: false,
            strict_s_maxage: false,
            variants: 1000,
            what_if: true,
            client_no_cache: ClientNoCache::Obey,
            accept_encoding: Codings::OF_BROWSERS,
            compression: CompressionConfig::default(),
            targets: vec![http::HeaderName::from_static("cdn-cache-control")],
            disk: None,
            access_log: None,
            request_id: RequestIdSource::Off,
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

fn variants<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        most @ 1..=100_000 => Ok(most),
        most => Err(D::Error::custom(format!(
            "variants: {most}: expected 1 to 100000"
        ))),
    }
}

fn field_names<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<http::HeaderName>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let name = |text: String| {
        text.parse()
            .map_err(|_| serde::de::Error::custom(format!("{text:?} is no name of a field")))
    };
    names.into_iter().map(name).collect()
}

fn trusted_headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TrustedFields, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    TrustedFields::of(names.iter().map(String::as_str)).map_err(|name| {
        let known = TrustedFields::NAMES.join(", ");
        D::Error::custom(format!(
            "trusted_headers: {name:?}: expected one of {known}"
        ))
    })
}

fn trusted_proxies<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TrustedProxies, D::Error> {
    let elements = Vec::<String>::deserialize(deserializer)?;
    let most = larder_proxy::limits::TRUSTED_PROXIES;
    if elements.len() > most {
        return Err(D::Error::custom(format!(
            "trusted_proxies: expected up to {most}, not {}",
            elements.len()
        )));
    }
    TrustedProxies::parse(elements.iter().map(String::as_str)).map_err(D::Error::custom)
}

fn name_servers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let most = larder_proxy::limits::NAME_SERVERS;
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

fn threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let (threads, most) = (
        usize::deserialize(deserializer)?,
        larder_proxy::limits::THREADS,
    );
    if threads > most {
        return Err(D::Error::custom(format!(
            "expected up to {most}, or 0 for one a core"
        )));
    }
    Ok(threads)
}

fn origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Origin, D::Error> {
    from_text(deserializer, |text| match text {
        "generated" => Ok(Origin::Generated),
        _ if let Some(folder) = folder(text) => Ok(Origin::Files(folder)),
        _ => server(text)
            .map(Origin::Http)
            .ok_or_else(|| format!("{EXPECTED}; {EXPECTED_FOLDER}; or \"generated\"")),
    })
}

fn servers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PoolServer>, D::Error> {
    let entries = Vec::<ServerEntry>::deserialize(deserializer)?;
    let most = larder_proxy::limits::SERVERS;
    if entries.is_empty() || entries.len() > most {
        return Err(D::Error::custom(format!(
            "servers: expected 1 to {most}, not {}",
            entries.len()
        )));
    }
    Ok(entries
        .into_iter()
        .map(|ServerEntry(server)| server)
        .collect())
}

fn host<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    from_text(deserializer, |text| {
        let authority = text
            .parse::<Authority>()
            .ok()
            .filter(|_| !text.contains('@'));
        let keyed = authority
            .map(|authority| larder_http::keyed_authority("http", authority.as_str()).into_owned())
            .filter(|host| HostPattern::parse(host).is_some());
        let expected = "expected a host as clients name it, such as \"img.example.com\", or all below a domain, \"*.example.com\"";
        keyed.map(Some).ok_or_else(|| expected.to_owned())
    })
}

fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    from_text(deserializer, |text| {
        if text.starts_with('/') {
            Ok(text.to_owned())
        } else {
            Err("expected a path that starts with /".to_owned())
        }
    })
}

fn check<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathAndQuery>, D::Error> {
    from_text(deserializer, |text| match text.parse() {
        Ok(path) if text.starts_with('/') => Ok(Some(path)),
        _ if text.is_empty() => Ok(None),
        _ => Err("expected a path that starts with /, or \"\" for no checks".to_owned()),
    })
}

fn slow_start<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text(deserializer, |text| {
        larder_units::parse_duration(text).map_err(|error| error.to_string())
    })
}

fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    from_text(deserializer, |text| {
        let percent = text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse().ok());
        percent
            .filter(|percent| *percent <= 100)
            .ok_or("expected 0% to 100%")
    })
}

fn period<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text(deserializer, |text| {
        let period = larder_units::parse_duration(text).map_err(|error| error.to_string())?;
        if period < Duration::from_secs(1) {
            Err("expected at least 1s".to_owned())
        } else {
            Ok(period)
        }
    })
}
