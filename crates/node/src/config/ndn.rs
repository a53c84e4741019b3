//! `[ndn]` of the configuration: listeners, the Content Store, routes, strategies, and
//! authorization.

use super::certificates::{self, CertificateError};
use super::gateway::GatewayTable;
use super::values::address;
use super::web_origins::{WebOrigins, check_listed};
use crate::limits::{MOST_REMOTE_FACES, PARTIAL_INPUT_LEAST_BYTES};
use larder_client::CommandKey;
use larder_forwarder::limits::SHARDS;
use larder_forwarder::strategy::strategy_by_name;
use larder_forwarder::{Authorized, Rule, VerifyRule};
use larder_packet::Name;
use larder_packet::limits::LARGEST_PACKET_BYTES;
use larder_policy::Spec;
use larder_tier_host::DiskConfig;
use larder_units::{ByteSize, from_text, optional_path, parse_duration, parsed};
use serde::{Deserialize, Deserializer};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, io};

/// `[ndn]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NdnConfig {
    /// Whether this node forwards NDN packets.
    pub enabled: bool,
    /// The Unix socket; `None` where it is off.
    #[serde(deserialize_with = "unix_setting")]
    pub unix: Option<UnixSetting>,
    /// TCP address; `None` where it is off.
    #[serde(deserialize_with = "address")]
    pub tcp: Option<SocketAddr>,
    /// UDP address; `None` where it is off.
    #[serde(deserialize_with = "address")]
    pub udp: Option<SocketAddr>,
    /// The largest UDP frame, bytes; `None` for 1452, and the largest on loopback.
    #[serde(deserialize_with = "udp_mtu")]
    pub udp_mtu: Option<usize>,
    /// WebSocket address; `None` where it is off.
    #[serde(deserialize_with = "address")]
    pub websocket: Option<SocketAddr>,
    /// Web pages that may use the WebSocket besides this machine's own, by their origins.
    #[serde(deserialize_with = "origins")]
    pub websocket_origins: Vec<String>,
    /// Memory for incomplete packets.
    #[serde(deserialize_with = "partial_input")]
    pub partial_input: ByteSize,
    /// Whether local applications may use shared memory.
    pub shared_memory: bool,
    /// The time within which a packet has to be complete. Otherwise its connection is closed.
    #[serde(deserialize_with = "partial_timeout")]
    pub partial_timeout: Duration,
    /// The number of faces to other machines.
    #[serde(deserialize_with = "remote_faces")]
    pub remote_faces: usize,
    /// Interfaces with UDP multicast faces.
    pub udp_multicast: Vec<String>,
    /// Their groups.
    #[serde(deserialize_with = "groups")]
    pub udp_multicast_groups: Vec<SocketAddr>,
    /// Interfaces with Ethernet faces.
    pub ethernet: Vec<String>,
    /// Interfaces whose neighbours may not hear each other.
    pub ad_hoc: Vec<String>,
    /// Threads that forward; 0: one per core.
    #[serde(deserialize_with = "shards")]
    shards: usize,
    /// Capacity of the Content Store.
    pub content_store: ByteSize,
    /// Policy of the Content Store.
    #[serde(deserialize_with = "parsed")]
    pub policy: Spec,
    /// `[ndn.disk]`; `None` for a Content Store in memory only.
    pub disk: Option<DiskConfig>,
    /// Bytes of the largest packet.
    #[serde(deserialize_with = "largest_packet")]
    pub largest_packet: usize,
    /// Try other policies and sizes on a sample of the Interests.
    pub what_if: bool,
    /// The names of the regions that this node is in, where forwarding hints end.
    #[serde(deserialize_with = "names")]
    pub network_region: Vec<Name>,
    /// The routing daemon that learns the prefixes of applications; `None` for none.
    #[serde(deserialize_with = "routing_daemon")]
    pub readvertise: Option<RoutingDaemon>,
    /// Hits and misses are counted by so many components of the names; 0 for not at all.
    pub count_by: usize,
    /// Whether remote applications may register prefixes under `/localhop/nfd`.
    pub localhop_registration: bool,
    /// The private key that signs the commands of this node's own applications.
    #[serde(deserialize_with = "optional_path")]
    pub command_key: Option<PathBuf>,
    /// Its certificate.
    #[serde(deserialize_with = "optional_path")]
    pub command_certificate: Option<PathBuf>,
    /// `[[ndn.authorize]]`
    #[serde(default)]
    pub authorize: Vec<AuthorizeConfig>,
    /// `[[ndn.route]]`
    #[serde(default, rename = "route")]
    pub routes: Vec<RouteConfig>,
    /// `[ndn.gateway]`
    pub gateway: Option<GatewayTable>,
    /// `[[ndn.strategy]]`
    #[serde(default, rename = "strategy")]
    pub strategies: Vec<StrategyConfig>,
    /// `[[ndn.verify]]`
    #[serde(default)]
    pub verify: Vec<VerifyConfig>,
}

/// A routing daemon on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingDaemon {
    /// NLSR, or another one that takes its commands, such as `ndnd dv`.
    Nlsr,
}

/// The place of the Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnixSetting {
    /// `/run/nfd/nfd.sock` if it can be created, otherwise a path of the user.
    Default,
    /// This path.
    Path(PathBuf),
}

impl UnixSetting {
    /// The configured path.
    pub fn path(&self) -> Option<&Path> {
        match self {
            UnixSetting::Default => None,
            UnixSetting::Path(path) => Some(path),
        }
    }
}

/// `[[ndn.authorize]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorizeConfig {
    /// A file with an authorized certificate, or `any`.
    pub certificate: String,
    /// A file with certificates that lead to it: their keys are authorized too.
    #[serde(default)]
    pub chain: Option<PathBuf>,
    /// Applications on this machine, or on others.
    #[serde(default)]
    pub from: Scope,
    /// `faces`, `fib`, `rib`, `cs`, `strategy-choice`; absent for all.
    #[serde(deserialize_with = "modules", default)]
    pub modules: Option<Vec<String>>,
}

/// The applications that a rule applies to.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// On this machine: `/localhost/nfd`.
    #[default]
    Localhost,
    /// On others: `/localhop/nfd`.
    Localhop,
}

impl NdnConfig {
    /// Returns the number of forwarding threads.
    pub fn shards(&self) -> usize {
        let cores = || {
            std::thread::available_parallelism()
                .map_or(1, std::num::NonZero::get)
                .min(SHARDS)
        };
        if self.shards == 0 {
            cores()
        } else {
            self.shards
        }
    }

    /// The web pages that may use the WebSocket.
    pub(crate) fn origins(&self) -> WebOrigins {
        let host_name = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        WebOrigins::new(&self.websocket_origins, host_name)
    }

    /// Returns the rules of authorization. Reads the certificates.
    ///
    /// # Errors
    /// One line: the file and its problem.
    pub fn rules(&self) -> Result<Vec<Rule>, CertificateError> {
        let mut rules = Vec::new();
        for table in &self.authorize {
            let signers = match table.certificate.as_str() {
                "any" => vec![Authorized::Anybody],
                path => {
                    let trusted = certificates::read(
                        "ndn.authorize",
                        "certificate",
                        Path::new(path),
                        table.chain.as_deref(),
                    )?;
                    trusted
                        .into_iter()
                        .map(|certificate| Authorized::Certificate(Box::new(certificate)))
                        .collect()
                }
            };
            rules.extend(signers.into_iter().map(|signer| Rule {
                signer,
                localhop: table.from == Scope::Localhop,
                modules: table.modules.clone(),
            }));
        }
        let anybody = |localhop| Rule {
            signer: Authorized::Anybody,
            localhop,
            modules: None,
        };
        if !rules.iter().any(|rule| !rule.localhop) {
            rules.push(anybody(false));
        }
        if self.localhop_registration {
            rules.push(anybody(true));
        }
        Ok(rules)
    }
}

impl NdnConfig {
    /// Returns the files of the key that signs the commands of this node's own applications.
    pub fn command_key(&self) -> Option<CommandKey> {
        let (key, certificate) = (self.command_key.clone()?, self.command_certificate.clone()?);
        Some(CommandKey { key, certificate })
    }

    /// Returns true if this node's own applications may register prefixes. Reads the certificates.
    ///
    /// # Errors
    /// One line: the file and its problem.
    pub fn lets_itself_register(&self) -> Result<bool, CertificateError> {
        let signer = self.command_key().and_then(|key| key.read().ok());
        for rule in self.rules()? {
            let covers = rule
                .modules
                .is_none_or(|modules| modules.iter().any(|module| module == "rib"));
            let is_of_key = match &rule.signer {
                Authorized::Anybody => true,
                Authorized::Certificate(certificate) => signer.as_ref().is_some_and(|signer| {
                    certificate.is_of(signer.as_ref())
                        && signer
                            .key_locator()
                            .is_some_and(|name| certificate.is_meant_by(name))
                }),
            };
            if !rule.localhop && covers && is_of_key {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a line for each certificate that is not valid at this time, in seconds since 1970.
    ///
    /// # Errors
    /// One line: the file and its problem.
    pub fn invalid_certificates(&self, unix_seconds: u64) -> Result<Vec<String>, CertificateError> {
        let mut problems = Vec::new();
        for table in self
            .authorize
            .iter()
            .filter(|table| table.certificate != "any")
        {
            let path = Path::new(&table.certificate);
            let read =
                certificates::read("ndn.authorize", "certificate", path, table.chain.as_deref())?;
            problems.extend(certificates::not_valid(
                "ndn.authorize",
                "certificate",
                path,
                &read,
                unix_seconds,
            ));
        }
        for table in &self.verify {
            let read = certificates::read(
                "ndn.verify",
                "anchor",
                &table.anchor,
                table.chain.as_deref(),
            )?;
            problems.extend(certificates::not_valid(
                "ndn.verify",
                "anchor",
                &table.anchor,
                &read,
                unix_seconds,
            ));
        }
        Ok(problems)
    }

    /// Returns the signatures that Data needs to be cached. Reads the certificates.
    ///
    /// # Errors
    /// One line: the file and its problem.
    pub fn verification(&self) -> Result<Vec<VerifyRule>, CertificateError> {
        let rule = |table: &VerifyConfig| {
            let certificates = certificates::read(
                "ndn.verify",
                "anchor",
                &table.anchor,
                table.chain.as_deref(),
            )?;
            Ok(VerifyRule {
                prefix: table.prefix.clone(),
                certificates,
            })
        };
        self.verify.iter().map(rule).collect()
    }
}

/// `[[ndn.verify]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyConfig {
    /// The prefix of Data that needs a signature to be cached.
    #[serde(deserialize_with = "parsed")]
    pub prefix: Name,
    /// The file with the certificate whose key may sign it.
    pub anchor: PathBuf,
    /// A file with certificates that lead to that one. Their keys may sign it too.
    #[serde(default)]
    pub chain: Option<PathBuf>,
}

/// `[[ndn.route]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// The prefix.
    #[serde(deserialize_with = "parsed")]
    pub prefix: Name,
    /// The upstream.
    #[serde(deserialize_with = "parsed")]
    pub to: RouteTarget,
    /// The cost: cheaper next hops come first.
    #[serde(default = "default_cost")]
    pub cost: u64,
    /// Over UDP: the ends of the link repeat what it loses (NDNLPv2, "Link Reliability").
    #[serde(default)]
    pub reliable: bool,
}

fn default_cost() -> u64 {
    10
}

/// The other end of a route: `udp://192.0.2.1:6363`, `tcp://…`, `unix:///run/other.sock`. Host
/// names are resolved once, at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RouteTarget {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Returns the first route that is `reliable` without UDP: a stream loses nothing.
pub(super) fn needlessly_reliable(routes: &[RouteConfig]) -> Option<&RouteConfig> {
    routes
        .iter()
        .find(|route| route.reliable && !matches!(route.to, RouteTarget::Udp(_)))
}

/// The error of a text that is no [`RouteTarget`].
#[derive(Debug)]
#[non_exhaustive]
pub enum RouteTargetError {
    /// It has another form.
    Form,
    /// The host is not found.
    Resolve {
        /// Host and port.
        host: String,
        /// The system's error.
        error: io::Error,
    },
    /// The host has no address.
    NoAddress(String),
}

impl fmt::Display for RouteTargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteTargetError::Form => {
                f.write_str("expected udp://HOST:PORT, tcp://HOST:PORT or unix:///PATH")
            }
            RouteTargetError::Resolve { host, error } => write!(f, "{host}: {error}"),
            RouteTargetError::NoAddress(host) => write!(f, "{host} has no address"),
        }
    }
}

impl std::error::Error for RouteTargetError {}

impl FromStr for RouteTarget {
    type Err = RouteTargetError;

    fn from_str(text: &str) -> Result<Self, RouteTargetError> {
        let (scheme, rest) = text.split_once("://").ok_or(RouteTargetError::Form)?;
        let address = || {
            let with_port = if rest
                .rsplit_once(':')
                .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
            {
                rest.to_owned()
            } else {
                format!("{rest}:6363")
            };
            let host = || rest.to_owned();
            let found = with_port.to_socket_addrs();
            let mut found = found.map_err(|error| RouteTargetError::Resolve {
                host: host(),
                error,
            })?;
            found
                .next()
                .ok_or_else(|| RouteTargetError::NoAddress(host()))
        };
        match scheme {
            "udp" | "udp4" | "udp6" => address().map(RouteTarget::Udp),
            "tcp" | "tcp4" | "tcp6" => address().map(RouteTarget::Tcp),
            "unix" if rest.starts_with('/') => Ok(RouteTarget::Unix(rest.into())),
            _ => Err(RouteTargetError::Form),
        }
    }
}

impl fmt::Display for RouteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteTarget::Udp(address) => write!(f, "udp://{address}"),
            RouteTarget::Tcp(address) => write!(f, "tcp://{address}"),
            RouteTarget::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

/// `[[ndn.strategy]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategyConfig {
    /// The prefix.
    #[serde(deserialize_with = "parsed")]
    pub prefix: Name,
    /// The strategy.
    #[serde(deserialize_with = "strategy")]
    pub strategy: Name,
}

fn unix_setting<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<UnixSetting>, D::Error> {
    from_text(deserializer, |text| match text {
        "" => Ok(None),
        "default" => Ok(Some(UnixSetting::Default)),
        _ if text.starts_with('/') => Ok(Some(UnixSetting::Path(text.into()))),
        _ => Err("expected an absolute path, \"default\", or \"\" for none".to_owned()),
    })
}

fn routing_daemon<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<RoutingDaemon>, D::Error> {
    from_text(deserializer, |text| match text {
        "" => Ok(None),
        "nlsr" => Ok(Some(RoutingDaemon::Nlsr)),
        _ => Err("expected \"nlsr\" (NLSR, or ndnd dv), or \"\" for none".to_owned()),
    })
}

fn udp_mtu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let bytes = u64::deserialize(deserializer)?;
    match bytes {
        0 => Ok(None),
        576..=65_507 => Ok(Some(bytes as usize)),
        _ => Err(serde::de::Error::custom(format!(
            "{bytes} is not between 576 and 65507, nor 0 for the default"
        ))),
    }
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Name>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let mut names = Vec::new();
    for text in texts {
        names.push(
            text.parse()
                .map_err(|error| serde::de::Error::custom(format!("{text:?}: {error}")))?,
        );
    }
    Ok(names)
}

fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let origins = Vec::<String>::deserialize(deserializer)?;
    match origins.iter().try_for_each(|origin| check_listed(origin)) {
        Ok(()) => Ok(origins),
        Err(wrong) => Err(serde::de::Error::custom(wrong)),
    }
}

fn partial_input<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    from_text(deserializer, |text| {
        let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
        if size.bytes() >= PARTIAL_INPUT_LEAST_BYTES {
            Ok(size)
        } else {
            Err(format!(
                "less than {}",
                ByteSize::from_bytes(PARTIAL_INPUT_LEAST_BYTES)
            ))
        }
    })
}

fn partial_timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text(deserializer, |text| {
        match parse_duration(text).map_err(|error| error.to_string())? {
            timeout if timeout >= Duration::from_secs(1) => Ok(timeout),
            _ => Err("less than 1s".to_owned()),
        }
    })
}

fn remote_faces<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let faces = usize::deserialize(deserializer)?;
    if (4..=MOST_REMOTE_FACES).contains(&faces) {
        Ok(faces)
    } else {
        Err(serde::de::Error::custom(format!(
            "{faces}: from 4 to {MOST_REMOTE_FACES}"
        )))
    }
}

fn shards<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let shards = usize::deserialize(deserializer)?;
    if shards <= SHARDS {
        Ok(shards)
    } else {
        Err(serde::de::Error::custom(format!(
            "{shards} shards are more than {SHARDS}"
        )))
    }
}

fn largest_packet<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    from_text(deserializer, |text| {
        let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
        match size.bytes() {
            bytes if (8800..=LARGEST_PACKET_BYTES as u64).contains(&bytes) => Ok(bytes as usize),
            bytes => Err(format!(
                "{bytes} bytes are not between 8800, which every node takes, and 64KiB"
            )),
        }
    })
}

fn groups<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    let groups = Vec::<SocketAddr>::deserialize(deserializer)?;
    match groups
        .iter()
        .find(|group| !group.ip().is_multicast() || group.port() == 0)
    {
        Some(wrong) => Err(serde::de::Error::custom(format!(
            "{wrong} is no multicast group and port, such as 224.0.23.170:56363"
        ))),
        None => Ok(groups),
    }
}

fn strategy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    from_text(deserializer, |text| {
        strategy_by_name(text).map_err(|error| error.to_string())
    })
}

fn modules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    const MODULES: [&str; 5] = ["faces", "fib", "rib", "cs", "strategy-choice"];
    let modules = Vec::<String>::deserialize(deserializer)?;
    match modules
        .iter()
        .find(|module| !MODULES.contains(&module.as_str()))
    {
        Some(unknown) => Err(serde::de::Error::custom(format!(
            "{unknown:?} is no module; there are {}",
            MODULES.join(", ")
        ))),
        None => Ok(Some(modules)),
    }
}
