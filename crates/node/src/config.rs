//! The node's configuration: a TOML file, every key optional, unknown keys refused with the line and a suggestion.

use crate::system_message::system_message;
use larder_forwarder::strategy::strategy_by_name;
use larder_forwarder::{Authorized, Rule};
use larder_packet::{Certificate, Name};
use larder_policy::{Engine, Spec};
use larder_units::{ByteSize, Streams};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The embedded default configuration; the documentation of every key.
pub const DEFAULT: &str = include_str!("default.toml");

/// Everything that can be configured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The NDN side.
    #[serde(default)]
    pub ndn: NdnConfig,
    /// The HTTP cache.
    #[serde(default)]
    pub http: HttpTable,
    /// Metrics and status.
    #[serde(default)]
    pub admin: AdminConfig,
    /// Logs.
    #[serde(default)]
    pub log: LogConfig,
}

/// `[ndn]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NdnConfig {
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
    /// Capacity of the Content Store.
    #[serde(deserialize_with = "parsed")]
    pub content_store: ByteSize,
    /// Policy of the Content Store.
    #[serde(deserialize_with = "parsed")]
    pub policy: Spec,
    /// Whether remote applications may register prefixes under `/localhop/nfd`.
    pub localhop_registration: bool,
    /// `[[ndn.authorize]]`
    pub authorize: Vec<AuthorizeConfig>,
    /// `[[ndn.route]]`
    #[serde(rename = "route")]
    pub routes: Vec<RouteConfig>,
    /// `[[ndn.strategy]]`
    #[serde(rename = "strategy")]
    pub strategies: Vec<StrategyConfig>,
}

/// Where the Unix socket goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnixSetting {
    /// `/run/nfd/nfd.sock` where it can be made, else a path of the user's.
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
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorizeConfig {
    /// A file with the certificate of who may command, or `any`.
    pub certificate: String,
    /// Applications on this machine, or on others.
    #[serde(default)]
    pub from: Scope,
    /// `faces`, `fib`, `rib`, `cs`, `strategy-choice`; absent for all.
    #[serde(deserialize_with = "modules", default)]
    pub modules: Option<Vec<String>>,
}

/// Which applications are meant.
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
    /// Who may command the forwarder; reads the certificates.
    ///
    /// # Errors
    /// One line: the file and what is wrong with it.
    pub fn rules(&self) -> Result<Vec<Rule>, String> {
        let mut rules = Vec::new();
        for table in &self.authorize {
            let signer = match table.certificate.as_str() {
                "any" => Authorized::Anybody,
                path => {
                    let wrong =
                        |error: &dyn fmt::Display| format!("[[ndn.authorize]] certificate = \"{path}\": {error}");
                    let text = std::fs::read_to_string(path).map_err(|error| wrong(&system_message(&error)))?;
                    Authorized::Certificate(Box::new(Certificate::from_base64(&text).map_err(|error| wrong(&error))?))
                }
            };
            rules.push(Rule { signer, localhop: table.from == Scope::Localhop, modules: table.modules.clone() });
        }
        let anybody = |localhop| Rule { signer: Authorized::Anybody, localhop, modules: None };
        if !rules.iter().any(|rule| !rule.localhop) {
            rules.push(anybody(false));
        }
        if self.localhop_registration {
            rules.push(anybody(true));
        }
        Ok(rules)
    }
}

/// `[[ndn.route]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// Names under this prefix
    #[serde(deserialize_with = "parsed")]
    pub prefix: Name,
    /// go here;
    #[serde(deserialize_with = "parsed")]
    pub to: RouteTarget,
    /// the cheaper next hop first.
    #[serde(default = "default_cost")]
    pub cost: u64,
}

fn default_cost() -> u64 {
    10
}

/// The other end of a route: `udp://192.0.2.1:6363`, `tcp://…`, `unix:///run/other.sock`. Host names are resolved once, at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RouteTarget {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for RouteTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected udp://HOST:PORT, tcp://HOST:PORT or unix:///PATH";
        let (scheme, rest) = text.split_once("://").ok_or(expected)?;
        let address = || {
            let with_port = if rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
                rest.to_owned()
            } else {
                format!("{rest}:6363")
            };
            let mut found = with_port.to_socket_addrs().map_err(|error| format!("{rest}: {error}"))?;
            found.next().ok_or_else(|| format!("{rest} has no address"))
        };
        match scheme {
            "udp" | "udp4" | "udp6" => address().map(RouteTarget::Udp),
            "tcp" | "tcp4" | "tcp6" => address().map(RouteTarget::Tcp),
            "unix" if rest.starts_with('/') => Ok(RouteTarget::Unix(rest.into())),
            _ => Err(expected.to_owned()),
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
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategyConfig {
    /// Names under this prefix
    #[serde(deserialize_with = "parsed")]
    pub prefix: Name,
    /// are forwarded so.
    #[serde(deserialize_with = "strategy")]
    pub strategy: Name,
}

/// `[http]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpTable {
    /// Where clients connect; `None` where the HTTP side is off.
    #[serde(deserialize_with = "address")]
    pub listen: Option<SocketAddr>,
    /// `generated`, or `http://host:port`.
    #[serde(deserialize_with = "origin")]
    pub origin: Origin,
    /// Capacity of the cache.
    #[serde(deserialize_with = "parsed")]
    pub cache: ByteSize,
    /// Policy of the cache.
    #[serde(deserialize_with = "parsed")]
    pub policy: Spec,
    /// The largest object that is stored.
    #[serde(deserialize_with = "parsed")]
    pub max_object: ByteSize,
    /// Response fields that speak to this cache, the most telling first.
    #[serde(deserialize_with = "field_names")]
    pub targets: Vec<http::HeaderName>,
}

/// Where the HTTP cache fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Objects made on the fly, in this process.
    Generated,
    /// An HTTP server.
    Http(http::Uri),
}

/// `[admin]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Where metrics and status are served; `None` where they are off.
    #[serde(deserialize_with = "address")]
    pub listen: Option<SocketAddr>,
    /// Who has it may purge; `None` where nobody may.
    #[serde(deserialize_with = "token")]
    pub token: Option<String>,
}

/// `[log]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    #[serde(deserialize_with = "parsed")]
    pub level: tracing::Level,
    /// `text` or `json`.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

// The defaults, which the embedded file states again key by key; a test compares the two.

impl Default for NdnConfig {
    fn default() -> Self {
        NdnConfig {
            unix: Some(UnixSetting::Default),
            tcp: Some(everywhere(6363)),
            udp: Some(everywhere(6363)),
            udp_mtu: None,
            websocket: Some(everywhere(9696)),
            content_store: ByteSize::from_mib(64),
            policy: known_spec("filter(theta=2)+fifo"),
            localhop_registration: false,
            authorize: Vec::new(),
            routes: Vec::new(),
            strategies: Vec::new(),
        }
    }
}

impl Default for HttpTable {
    fn default() -> Self {
        HttpTable {
            listen: Some(loopback(8080)),
            origin: Origin::Generated,
            cache: ByteSize::from_mib(256),
            policy: known_spec("agd"),
            max_object: ByteSize::from_mib(64),
            targets: vec![http::HeaderName::from_static("cdn-cache-control")],
        }
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        AdminConfig { listen: Some(loopback(8081)), token: None }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig { level: tracing::Level::INFO, format: LogFormat::Text }
    }
}

fn everywhere(port: u16) -> SocketAddr {
    (std::net::Ipv6Addr::UNSPECIFIED, port).into()
}

fn loopback(port: u16) -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, port).into()
}

#[allow(clippy::expect_used, reason = "two literals, parsed by a test")]
fn known_spec(text: &str) -> Spec {
    text.parse().expect("a spec that a test parses")
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// One line: the file, the line, what is wrong and what was expected.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError(format!("cannot read {}: {}", path.display(), system_message(&error))))?;
        Config::parse(&text, &path.display().to_string())
    }

    /// Reads a configuration; `source` stands before the line number in errors.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(text: &str, source: &str) -> Result<Config, ConfigError> {
        let config: Config = toml::from_str(text).map_err(|error| ConfigError(explain(&error, text, source)))?;
        // What a spec's arguments mean together shows only where they meet a capacity.
        for (place, policy, capacity) in [
            ("[ndn] policy", &config.ndn.policy, config.ndn.content_store),
            ("[http] policy", &config.http.policy, config.http.cache),
        ] {
            Engine::new(policy, capacity, &Streams::new(0))
                .map_err(|error| ConfigError(format!("{source}: {place}: {error}")))?;
        }
        Ok(config)
    }
}

impl Default for Config {
    /// The embedded default configuration.
    fn default() -> Self {
        Config {
            ndn: NdnConfig::default(),
            http: HttpTable::default(),
            admin: AdminConfig::default(),
            log: LogConfig::default(),
        }
    }
}

/// A configuration that cannot be read, in one line.
#[derive(Debug)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// One line out of a TOML error: place, message, and for an unknown key the nearest known one.
fn explain(error: &toml::de::Error, text: &str, source: &str) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let place = line.map_or(source.to_owned(), |line| format!("{source}:{line}"));
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    let mut quoted = message.split('`').skip(1).step_by(2);
    let suggestion = match quoted.next() {
        Some(unknown) if message.starts_with("unknown field") || message.starts_with("unknown variant") => quoted
            .max_by(|a, b| strsim::jaro(a, unknown).total_cmp(&strsim::jaro(b, unknown)))
            .filter(|best| strsim::jaro(best, unknown) > 0.7)
            .map_or(String::new(), |best| format!("; did you mean `{best}`?")),
        _ => String::new(),
    };
    format!("{place}: {message}{suggestion}")
}

// ---- Values ----

/// A string that parses.
fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(deserializer: D) -> Result<T, D::Error> {
    from_text(deserializer, |text| text.parse().map_err(|error: T::Err| error.to_string()))
}

fn from_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    read(&text).map_err(|error| match error.contains(&text) {
        true => serde::de::Error::custom(error),
        false => serde::de::Error::custom(format!("{text:?}: {error}")),
    })
}

/// `""` turns a listener off.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    from_text(deserializer, |text| match text {
        "" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| {
            "expected an address and a port, such as \"127.0.0.1:6363\" or \"[::]:6363\", or \"\" for none".to_owned()
        }),
    })
}

fn field_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<http::HeaderName>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let name =
        |text: String| text.parse().map_err(|_| serde::de::Error::custom(format!("{text:?} is no name of a field")));
    names.into_iter().map(name).collect()
}

/// `""` for none. A word that cannot be guessed.
fn token<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let sound = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic());
    match text.as_str() {
        "" => Ok(None),
        _ if sound => Ok(Some(text)),
        // The text itself is a secret.
        _ => Err(serde::de::Error::custom(
            "token: expected 16 or more visible characters, such as openssl rand -hex 16 makes, or \"\" for none",
        )),
    }
}

fn unix_setting<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<UnixSetting>, D::Error> {
    from_text(deserializer, |text| match text {
        "" => Ok(None),
        "default" => Ok(Some(UnixSetting::Default)),
        _ if text.starts_with('/') => Ok(Some(UnixSetting::Path(text.into()))),
        _ => Err("expected an absolute path, \"default\", or \"\" for none".to_owned()),
    })
}

fn udp_mtu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let bytes = u64::deserialize(deserializer)?;
    match bytes {
        0 => Ok(None),
        576..=65_507 => Ok(Some(bytes as usize)),
        _ => Err(serde::de::Error::custom(format!("{bytes} is not between 576 and 65507, nor 0 for the default"))),
    }
}

fn strategy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    from_text(deserializer, |text| strategy_by_name(text).map_err(|error| error.to_string()))
}

fn modules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    const MODULES: [&str; 5] = ["faces", "fib", "rib", "cs", "strategy-choice"];
    let modules = Vec::<String>::deserialize(deserializer)?;
    match modules.iter().find(|module| !MODULES.contains(&module.as_str())) {
        Some(unknown) => {
            Err(serde::de::Error::custom(format!("{unknown:?} is no module; there are {}", MODULES.join(", "))))
        }
        None => Ok(Some(modules)),
    }
}

fn origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Origin, D::Error> {
    from_text(deserializer, |text| {
        if text == "generated" {
            return Ok(Origin::Generated);
        }
        let uri: Option<http::Uri> = text.parse().ok();
        let plain = uri.filter(|uri| {
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            let (_, after_host) = authority.rsplit_once(']').unwrap_or(("", authority));
            let port_is_right = !after_host.contains(':') || uri.port_u16().is_some();
            uri.scheme_str() == Some("http")
                && uri.host().is_some_and(|host| !host.is_empty())
                && !authority.contains('@')
                && port_is_right
                && uri.path() == "/"
                && uri.query().is_none()
        });
        plain.map(Origin::Http).ok_or_else(|| "expected \"generated\" or \"http://HOST:PORT\"".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> String {
        Config::parse(text, "larder.toml").err().expect("a refusal").to_string()
    }

    #[test]
    fn the_embedded_file_says_what_the_defaults_are() {
        let file = Config::parse(DEFAULT, "default").unwrap_or_else(|error| panic!("{error}"));
        let code = Config::default();
        assert_eq!(file.ndn.unix, code.ndn.unix);
        assert_eq!((file.ndn.tcp, file.ndn.udp, file.ndn.websocket), (code.ndn.tcp, code.ndn.udp, code.ndn.websocket));
        assert_eq!((file.ndn.udp_mtu, file.ndn.content_store), (code.ndn.udp_mtu, code.ndn.content_store));
        assert_eq!(file.ndn.policy.to_string(), code.ndn.policy.to_string());
        assert_eq!(file.ndn.localhop_registration, code.ndn.localhop_registration);
        assert_eq!((file.http.listen, file.http.origin), (code.http.listen, code.http.origin));
        assert_eq!((file.http.cache, file.http.max_object), (code.http.cache, code.http.max_object));
        assert_eq!(file.http.targets, code.http.targets);
        assert_eq!(file.http.policy.to_string(), code.http.policy.to_string());
        assert_eq!((file.admin.listen, file.admin.token), (code.admin.listen, code.admin.token));
        assert_eq!((file.log.level, file.log.format), (code.log.level, code.log.format));
        // Every key of the file stands there, so that it documents all of them.
        let keys = DEFAULT.lines().filter(|line| line.contains('=')).count();
        assert!(keys >= 18, "{keys}");
    }

    #[test]
    fn a_refusal_names_the_line_and_the_way_out() {
        for (text, parts) in [
            ("[ndn]\nunx = \"/a\"", &["larder.toml:2", "unx", "did you mean `unix`?"][..]),
            ("[htpp]\n", &["larder.toml:1", "htpp", "did you mean `http`?"]),
            ("[ndn]\ncontent_store = \"12 parsecs\"", &["larder.toml:2", "12 parsecs", "64MiB"]),
            ("[http]\n\npolicy = \"lur\"", &["larder.toml:3", "lur", "lru"]),
            ("[ndn]\ntcp = \"localhost\"", &["larder.toml:2", "localhost", "127.0.0.1:6363"]),
            ("[[ndn.route]]\nprefix = \"/a\"\nto = \"http://a\"", &["larder.toml:3", "http://a", "udp://HOST:PORT"]),
            (
                "[[ndn.strategy]]\nprefix = \"/\"\nstrategy = \"best\"",
                &["larder.toml:3", "best", "best-route, multicast"],
            ),
            (
                "[[ndn.authorize]]\ncertificate = \"any\"\nmodules = [\"facets\"]",
                &["larder.toml:3", "facets", "strategy-choice"],
            ),
            ("[[ndn.authorize]]\ncertificate = \"any\"\nfrom = \"mars\"", &["larder.toml:3", "mars", "localhop"]),
            ("[http]\norigin = \"https://a/\"", &["larder.toml:2", "https://a/", "generated"]),
            ("[http]\norigin = \"http://a:99999\"", &["larder.toml:2", "http://a:99999", "http://HOST:PORT"]),
            ("[http]\norigin = \"http://u:p@a\"", &["larder.toml:2", "http://HOST:PORT"]),
            ("[ndn]\npolicy = \"filter(window=9999,table=1024)+lru\"", &["larder.toml", "[ndn] policy", "table=1024"]),
            (
                "[http]\npolicy = \"lookahead+lru\"",
                &["larder.toml", "[http] policy", "only `larder replay` can run it"],
            ),
            ("[ndn]\nudp_mtu = 10", &["larder.toml:2", "10", "576"]),
            ("[http]\ntargets = [\"a b\"]", &["larder.toml:2", "a b", "field"]),
            ("[admin]\ntoken = \"secret\"", &["larder.toml:2", "16 or more", "openssl rand -hex 16"]),
            ("[log]\nformat = \"jsn\"", &["larder.toml:2", "jsn", "json"]),
            ("[ndn", &["larder.toml:1"]),
        ] {
            let said = refusal(text);
            assert!(parts.iter().all(|part| said.contains(part)), "{text:?} gave {said:?}");
            assert!(!said.contains('\n'), "{said:?}");
        }
    }

    #[test]
    fn a_listener_can_be_switched_off() {
        let config = Config::parse("[ndn]\ntcp = \"\"\nunix = \"\"\n[http]\nlisten = \"\"", "t")
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((config.ndn.tcp, config.ndn.unix, config.http.listen), (None, None, None));
        assert!(config.ndn.udp.is_some());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[\\PC\n]{0,200}") {
            let _ = Config::parse(&text, "t");
        }
    }
}
