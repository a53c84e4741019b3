//! The node's configuration: a TOML file with optional keys. Unknown keys are refused with the line
//! and a suggestion.
//!
//! Each table has one file. The defaults stand in code beside it, and the embedded file states them
//! again key by key; a test compares them.

mod certificates;
mod declared;
mod document;
mod files;
mod fleet;
mod gateway;
mod http;
mod keys;
mod ndn;
mod origin;
mod positions;
mod reference;
mod setting;
mod settings;
mod values;
mod web_origins;
mod wrong;

pub use certificates::CertificateError;
pub(crate) use declared::waiting;
pub use fleet::FleetTable;
pub use gateway::{GatewayTable, UpstreamTable};
pub use http::{HttpTable, OriginTable};
pub use ndn::{
    AuthorizeConfig, NdnConfig, RouteConfig, RouteTarget, RouteTargetError, Scope, StrategyConfig,
    UnixSetting, VerifyConfig,
};
pub use origin::Origin;
pub use reference::{explain, reference};
pub use settings::ConfigSources;
pub(crate) use web_origins::WebOrigins;

use larder_object_host::ObjectStoreConfig;
use larder_policy::Engine;
use larder_proxy::TlsConfig;
use larder_proxy::rules::Rules;
use larder_units::{ByteSize, Streams, parsed};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use values::address;

/// The embedded default configuration; the documentation of every key.
pub const DEFAULT: &str = include_str!("default.toml");

/// The addresses of a process on 64-bit processors with page tables of four levels.
const ADDRESSABLE_BYTES: u64 = 1 << 47;

/// The whole configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The NDN side.
    pub ndn: NdnConfig,
    /// The HTTP cache.
    pub http: HttpTable,
    /// Metrics and status.
    pub admin: AdminConfig,
    /// The fleet that the node belongs to.
    pub fleet: Option<FleetTable>,
    /// Logs.
    pub log: LogConfig,
    /// The process.
    pub process: ProcessConfig,
    /// The file that it comes from; `None` without one.
    #[serde(skip)]
    pub source: Option<PathBuf>,
}

/// `[admin]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminConfig {
    /// The address for metrics and status; `None` if they are off.
    #[serde(deserialize_with = "address")]
    pub listen: Option<SocketAddr>,
    /// The token for purges; `None` disables them.
    #[serde(deserialize_with = "token")]
    pub token: Option<String>,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    #[serde(deserialize_with = "parsed")]
    pub level: tracing::Level,
    /// `text` or `json`.
    pub format: LogFormat,
}

/// `[process]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// The user that the node becomes when its listeners are bound; `None`: it stays what it is.
    #[serde(deserialize_with = "optional_text")]
    pub user: Option<String>,
    /// Its group; `None` for that of the user.
    #[serde(deserialize_with = "optional_text")]
    pub group: Option<String>,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Config {
    /// Reads a configuration. `source` stands before the line number in errors.
    ///
    /// # Errors
    /// One line for each error: the source, the line, the problem, and what was expected.
    pub fn parse(text: &str, source: &str) -> Result<Config, ConfigError> {
        settings::compose(text, source, &[], &[])
            .loaded()
            .map(|loaded| loaded.config)
    }

    /// Returns settings that exclude each other, or have no effect together.
    fn contradictions(&self) -> Vec<String> {
        let mut problems = gateway::contradictions(self);
        problems.extend(fleet::contradictions(self));
        problems.extend(
            self.http
                .proxy
                .tls
                .as_ref()
                .and_then(TlsConfig::contradiction),
        );
        problems.extend(self.http.needless_resolve());
        problems.extend(self.http.half_names());
        problems.extend(self.http.needless_files());
        problems.extend(self.http.needless_redirect());
        problems.extend(self.http.missing_challenge());
        problems.extend(ndn::needlessly_reliable(&self.ndn.routes).map(|route| {
            format!("[[ndn.route]] to = \"{}\": only UDP loses what reliable = true mends: leave it out", route.to)
        }));
        if !self.ndn.enabled && !self.http.enabled {
            problems.push(
                "[ndn] enabled and [http] enabled are both false: keep one of them".to_owned(),
            );
        }
        problems.extend(
            Rules::new(self.http.proxy.rules.clone())
                .err()
                .into_iter()
                .flatten()
                .map(|error| error.to_string()),
        );
        if self.process.group.is_some() && self.process.user.is_none() {
            problems.push("[process] group: it has no effect without user: name one".to_owned());
        }
        // The parameters of a policy are checked together with a capacity.
        let disks = [
            ("[ndn.disk] policy", &self.ndn.disk),
            ("[http.disk] policy", &self.http.proxy.disk),
        ];
        let disks = disks.iter().filter_map(|(place, disk)| {
            disk.as_ref()
                .map(|disk| (*place, &disk.policy, disk.capacity))
        });
        let cache = &self.http.proxy.cache;
        let memory = [
            ("[ndn] policy", &self.ndn.policy, self.ndn.content_store),
            ("[http] policy", &cache.policy, cache.capacity),
        ];
        let keys = ["[ndn] content_store", "[http] cache"];
        for (key, (_, _, capacity)) in keys.into_iter().zip(&memory) {
            if capacity.bytes() > ADDRESSABLE_BYTES {
                let most = ByteSize::from_bytes(ADDRESSABLE_BYTES);
                problems.push(format!(
                    "{key}: {capacity} is more than the {most} that a process can address: set less than the memory \
                     of the machine"
                ));
            }
        }
        for (place, policy, capacity) in memory.into_iter().chain(disks) {
            if let Err(error) = Engine::new(policy, capacity, &Streams::new(0)) {
                problems.push(format!("{place}: {error}"));
            }
        }
        problems
    }
}

impl Config {
    /// Returns the files that a reload reads, each with its setting.
    pub(crate) fn files_read_again(&self) -> Vec<(&'static str, &Path)> {
        let mut files = Vec::new();
        if let Some(tls) = &self.http.proxy.tls {
            if let Some(pair) = &tls.certificate {
                files.push(("[http.tls] certificate", pair.certificate.as_path()));
                files.push(("[http.tls] key", &pair.key));
            }
            let acme = tls.acme.iter().flat_map(|acme| acme.files());
            files.extend(acme.map(|(setting, path)| (setting, path.as_path())));
            let client_ca = tls.clients.authorities.as_deref();
            files.extend(client_ca.map(|path| ("[http.tls] client_ca", path)));
            for table in &tls.certificates {
                let place = "[[http.tls.certificates]]";
                files.extend([
                    (place, table.certificate.as_path()),
                    (place, table.key.as_path()),
                ]);
            }
        }
        let proxy = &self.http.proxy;
        let pages = proxy.rules.iter();
        let pages = pages.filter_map(|rule| rule.error_page.as_deref());
        files.extend(pages.map(|path| ("[[http.rules]] error_page", path)));
        let origin_ca = proxy.origin_ca.as_deref();
        files.extend(origin_ca.map(|path| ("[http] origin_ca", path)));
        let store = proxy.object_store.iter();
        files.extend(store.flat_map(ObjectStoreConfig::files));
        files.extend(self.fleet.iter().flat_map(FleetTable::files));
        for table in &self.ndn.verify {
            files.push(("[[ndn.verify]] anchor", &table.anchor));
            files.extend(
                table
                    .chain
                    .iter()
                    .map(|path| ("[[ndn.verify]] chain", path.as_path())),
            );
        }
        for table in self
            .ndn
            .authorize
            .iter()
            .filter(|table| table.certificate != "any")
        {
            files.push((
                "[[ndn.authorize]] certificate",
                Path::new(&table.certificate),
            ));
            files.extend(
                table
                    .chain
                    .iter()
                    .map(|path| ("[[ndn.authorize]] chain", path.as_path())),
            );
        }
        files
    }
}

impl Default for Config {
    /// The embedded default configuration.
    #[allow(clippy::expect_used, reason = "a constant text, read by a test")]
    fn default() -> Self {
        Config::parse("", "default").expect("a configuration that a test reads")
    }
}

/// The errors of a configuration, one line each.
#[derive(Debug)]
pub struct ConfigError(Vec<String>);

impl ConfigError {
    /// Returns the errors, in the order of the file.
    pub fn problems(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

/// `""` for none.
fn optional_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(deserializer)?).filter(|text| !text.is_empty()))
}

/// Reads a token that is hard to guess. `""` for none.
fn token<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let sound = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic());
    match text.as_str() {
        "" => Ok(None),
        _ if sound => Ok(Some(text)),
        // The message does not contain the text, which is a secret.
        _ => Err(serde::de::Error::custom(
            "token: expected 16 or more visible characters, such as openssl rand -hex 16 makes, or \"\" for none",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_proxy::HttpConfig;
    use proptest::prelude::*;

    fn refusal(text: &str) -> String {
        Config::parse(text, "larder.toml")
            .expect_err("a refusal")
            .to_string()
    }

    #[test]
    fn errors_come_in_another_order_than_the_file() {
        let refused = refusal("[ndn]\nunknown = 1\npolicy = \"none such\"\nunix = 3\n[htpt]");
        let lines: Vec<_> = refused.lines().map(|line| &line[..14]).collect();
        assert_eq!(
            lines,
            [
                "larder.toml:2:",
                "larder.toml:3:",
                "larder.toml:4:",
                "larder.toml:5:"
            ],
            "{refused}"
        );
    }

    /// Failure: the default of a key that other programs use the HTTP side with is not that of the
    /// embedded file.
    #[test]
    fn the_embedded_file_has_other_defaults_than_the_http_side() {
        let proxy = Config::default().http.proxy;
        assert_eq!(
            format!("{proxy:#?}"),
            format!("{:#?}", HttpConfig::default())
        );
    }

    /// Wrong configurations, and parts of the message about each.
    const WRONG: &[(&str, &[&str])] = &[
        (
            "[ndn]\nunx = \"/a\"",
            &["larder.toml:2", "unx", "did you mean `unix`?"],
        ),
        (
            "[htpp]\n",
            &["larder.toml:1", "htpp", "did you mean `http`?"],
        ),
        (
            "[ndn]\ncontent_store = \"12 parsecs\"",
            &["larder.toml:2", "12 parsecs", "64MiB"],
        ),
        (
            "[http]\n\npolicy = \"lur\"",
            &["larder.toml:3", "lur", "lru"],
        ),
        (
            "[ndn]\npartial_input = \"1KiB\"",
            &["larder.toml:2", "1KiB", "256KiB"],
        ),
        (
            "[ndn]\nwebsocket_origins = [\"app.example\"]",
            &["larder.toml:2", "app.example", "https://"],
        ),
        (
            "[ndn]\ntcp = \"localhost\"",
            &["larder.toml:2", "localhost", "127.0.0.1:6363"],
        ),
        (
            "[[ndn.route]]\nprefix = \"/a\"\nto = \"http://a\"",
            &["larder.toml:3", "http://a", "udp://HOST:PORT"],
        ),
        (
            "[[ndn.route]]\nprefix = \"/a\"\nto = \"tcp://127.0.0.1\"\nreliable = true",
            &["larder.toml", "tcp://127.0.0.1:6363", "only UDP"],
        ),
        (
            "[[ndn.strategy]]\nprefix = \"/\"\nstrategy = \"best\"",
            &["larder.toml:3", "best", "best-route, multicast"],
        ),
        (
            "[[ndn.authorize]]\ncertificate = \"any\"\nmodules = [\"facets\"]",
            &["larder.toml:3", "facets", "strategy-choice"],
        ),
        (
            "[[ndn.authorize]]\ncertificate = \"any\"\nfrom = \"mars\"",
            &["larder.toml:3", "mars", "localhop"],
        ),
        (
            "[http]\norigin = \"https://a/b?c\"",
            &[
                "larder.toml:2",
                "https://a/b?c",
                "generated",
                "unix:/SOCKET",
            ],
        ),
        (
            "[http]\norigin = \"unix:run/app\"",
            &["larder.toml:2", "unix:run/app", "unix:/SOCKET"],
        ),
        (
            "[http]\norigin_protocol = \"h2\"",
            &["larder.toml:2", "h2", "http2"],
        ),
        ("[http]\nthreads = 65", &["larder.toml:2", "up to 64"]),
        (
            "[http]\norigin = \"http://a:99999\"",
            &["larder.toml:2", "http://a:99999", "http://HOST:PORT"],
        ),
        (
            "[http]\norigin = \"http://u:p@a\"",
            &["larder.toml:2", "http://HOST:PORT"],
        ),
        (
            "[http]\norigin = \"file://host/a\"",
            &["larder.toml:2", "file:///FOLDER"],
        ),
        (
            "[http]\norigin = \"http://a\"\n[http.files]\ncheck = \"1s\"",
            &["[http.files]", "file:///FOLDER"],
        ),
        (
            "[http]\norigin = \"/srv\"\n[http.files]\ncheck = \"1500ms\"",
            &["larder.toml:4", "whole seconds"],
        ),
        (
            "[http]\norigin = \"/srv\"\n[http.files]\ntry = [\"index.html\"]",
            &["larder.toml:4", "index.html", "$uri/"],
        ),
        (
            "[http]\norigin = \"/srv\"\n[http.files]\nprecompressed = [\"lzma\"]",
            &["larder.toml:4", "lzma", "br, zstd, gzip"],
        ),
        (
            "[http]\norigin = \"/srv\"\n[http.files]\nindx = [\"a\"]",
            &["larder.toml:4", "did you mean `index`?"],
        ),
        (
            "[[http.origins]]\nhost = \"a\"",
            &["[[http.origins]]", "servers", "file:///FOLDER"],
        ),
        (
            "[[http.origins]]\norigin = \"/srv\"\nservers = [\"http://a\"]",
            &["[[http.origins]] origin", "keep one"],
        ),
        (
            "[[http.origins]]\norigin = \"http://a\"",
            &["larder.toml:2", "file:///FOLDER", "servers"],
        ),
        (
            "[[http.origins]]\nservers = [\"http://a\"]\nfiles = { check = \"1s\" }",
            &["[[http.origins]] files", "file:///FOLDER"],
        ),
        (
            "[[http.origins]]\nservers = []",
            &["larder.toml:2", "servers", "1 to 64"],
        ),
        (
            "[[http.origins]]\nservers = [\"ftp://a\"]",
            &["larder.toml:2", "ftp://a", "http://HOST:PORT"],
        ),
        (
            "[[http.origins]]\nservers = [{ url = \"http://a\", wieght = 2 }]",
            &["larder.toml:2", "wieght", "did you mean `weight`?"],
        ),
        (
            "[[http.origins]]\nservers = [\"http://b\", { url = \"a\" }]",
            &["larder.toml:2", "\"a\"", "http://HOST:PORT"],
        ),
        (
            "[[http.origins]]\nservers = [\"http://b\", { url = \"http://a\", weight = 0 }]",
            &["larder.toml:2", "weight", "1 to 1000"],
        ),
        (
            "[[http.origins]]\nservers = [\"http://b\", { url = \"http://10.0.0.5:80\", resolve = true }]",
            &[
                "larder.toml:2",
                "http://10.0.0.5:80",
                "resolve",
                "name of a host",
            ],
        ),
        (
            "[http]\norigin = \"unix:/run/app.sock\"\norigin_resolve = true",
            &["larder.toml", "origin_resolve", "name of a host"],
        ),
        (
            "[http]\naccept_encoding = [\"gzip\", \"brotli\"]",
            &["larder.toml:2", "\"brotli\"", "br, compress"],
        ),
        (
            "[http]\nresolver = [\"dns.example\"]",
            &["larder.toml:2", "dns.example", "[::1]:5353"],
        ),
        (
            "[[http.origins]]\nservers = [7]",
            &["larder.toml:2", "a URL such as"],
        ),
        (
            "[[http.origins]]\nservers = [\"http://a\"]\nbalance = \"lest\"",
            &["larder.toml:3", "lest", "least_outstanding"],
        ),
        (
            "[[http.origins]]\nservers = [\"http://a\"]\nretry_budget = \"200%\"",
            &["larder.toml:3", "200%", "0% to 100%"],
        ),
        (
            "[[http.origins]]\nhost = \"a/b\"\nservers = [\"http://a\"]",
            &["larder.toml:2", "a/b", "img.example.com"],
        ),
        (
            "[[http.origins]]\nhost = \"a.*.b\"\nservers = [\"http://a\"]",
            &["larder.toml:2", "a.*.b", "*.example.com"],
        ),
        (
            "[[http.rules]]\npth = \"/a\"",
            &["larder.toml:2", "pth", "did you mean `path`?"],
        ),
        ("[[http.rules]]\npath = \"a\"", &["larder.toml:2", "/img/*"]),
        (
            "[[http.rules]]\nhost = \"a.*.b\"",
            &["larder.toml:2", "a.*.b", "*.example.com"],
        ),
        (
            "[[http.rules]]\nmethod = []",
            &["larder.toml:2", "leave the key out"],
        ),
        (
            "[[http.rules]]\nclient = \"10.0.0.0/33\"",
            &["larder.toml:2", "10.0.0.0/33", "10.0.0.0/8"],
        ),
        (
            "[[http.rules]]\nstatus = 99",
            &["larder.toml:2", "99", "5xx"],
        ),
        (
            "[[http.rules]]\nredirect = \"$hots\"",
            &["larder.toml:2", "$hots", "$host"],
        ),
        (
            "[[http.rules]]\nredirect = \"/\"\nredirect_status = 200",
            &["larder.toml:3", "200", "308"],
        ),
        (
            "[[http.rules]]\nttl = \"1 fortnight\"",
            &["larder.toml:2", "fortnight", "10ms"],
        ),
        (
            "[[http.rules]]\nrate_limit = { rate = \"10/s\" }",
            &["larder.toml:2", "10/s", "10r/s"],
        ),
        (
            "[[http.rules]]\nrate_limit = { rate = \"1r/s\", by = \"x\" }",
            &["larder.toml:2", "header:NAME"],
        ),
        (
            "[[http.rules]]\nttl = \"10ms\"",
            &["larder.toml:2", "whole seconds"],
        ),
        (
            "[[http.rules]]\nignore = [\"cookies\"]",
            &["larder.toml:2", "cookies", "set-cookie"],
        ),
        (
            "[[http.rules]]\nstatus = 404\nredirect = \"/\"",
            &["[[http.rules]] number 1", "status"],
        ),
        (
            "[[http.rules]]\nrequest_headers = { set = { Host = \"a\" } }",
            &["larder.toml:2", "rewrite_host"],
        ),
        (
            "[[http.rules]]\nresponse_headers = { remove = [\"Content-Length\"] }",
            &["larder.toml:2", "itself"],
        ),
        (
            "[[http.origins]]\npath = \"b\"\nservers = [\"http://a\"]",
            &["larder.toml:2", "starts with /"],
        ),
        (
            "[[http.origins]]\ncheck_every = \"1ms\"\nservers = [\"http://a\"]",
            &["larder.toml:2", "1ms", "at least 1s"],
        ),
        (
            "[ndn]\npolicy = \"filter(window=9999,table=1024)+lru\"",
            &["larder.toml", "[ndn] policy", "table=1024"],
        ),
        (
            "[http]\npolicy = \"lookahead+lru\"",
            &[
                "larder.toml",
                "[http] policy",
                "only `larder replay` can run it",
            ],
        ),
        ("[http.disk]\npath = \"/a\"", &["larder.toml:1", "capacity"]),
        ("[ndn.disk]\npath = \"/a\"", &["larder.toml:1", "capacity"]),
        (
            "[http.disk]\npath = \"/a\"\ncapacity = \"1GiB\"\npolicy = \"lookahead+lru\"",
            &["larder.toml", "[http.disk] policy"],
        ),
        ("[ndn]\nshards = 65", &["larder.toml:2", "64"]),
        (
            "[ndn]\nshards = -1",
            &["larder.toml:2", "-1", "a whole number, 0 or more"],
        ),
        (
            "[http]\nthreads = \"many\"",
            &["larder.toml:2", "many", "a whole number, 0 or more"],
        ),
        (
            "[[ndn.route]]\ncost = -2",
            &["larder.toml:", "-2", "0 or more"],
        ),
        (
            "[ndn]\nlargest_packet = \"1MiB\"",
            &["larder.toml:2", "64KiB"],
        ),
        (
            "[ndn]\nudp_multicast_groups = [\"192.0.2.1:6363\"]",
            &["larder.toml:2", "192.0.2.1", "224.0.23.170:56363"],
        ),
        (
            "[[ndn.verify]]\nprefix = \"/a\"",
            &["larder.toml:1", "anchor"],
        ),
        ("[ndn]\nudp_mtu = 10", &["larder.toml:2", "10", "576"]),
        (
            "[http.timeouts]\norigin_read = \"1ms\"",
            &["larder.toml:2", "1ms", "10ms to 30d"],
        ),
        (
            "[http.timeouts]\norigin_raed = \"1s\"",
            &["larder.toml:2", "did you mean `origin_read`?"],
        ),
        (
            "[http.limits]\nheader_fields = 5",
            &["larder.toml:2", "16 to 4096"],
        ),
        (
            "[http.limits]\nconnections = 0",
            &["larder.toml:2", "connections: expected 1 to 1000000, not 0"],
        ),
        (
            "[http.limits]\nhttp2_streams = 5000",
            &["larder.toml:2", "expected 1 to 1000"],
        ),
        (
            "[http.limits]\nclient_body_size = 10",
            &["larder.toml:2", "10", "expected a string"],
        ),
        (
            "[http.limits]\nheader_size = \"1KiB\"",
            &["larder.toml:2", "1KiB", "8KiB to 1MiB"],
        ),
        (
            "[http]\ntrusted_proxies = [\"10.0.0.1/8\"]",
            &["larder.toml:2", "10.0.0.1/8", "write 10.0.0.0/8"],
        ),
        (
            "[http.tls]\nlisten = \"[::]:443\"\ncertificate = \"/a\"\nkey = \"/b\"\nclient_subject = \"X-Subject\"",
            &["larder.toml", "[http.tls] client_subject", "client_ca"],
        ),
        (
            "[http.tls]\nlisten = \"[::]:443\"\ncertificate = \"/a\"\nkey = \"/b\"\nmin_version = \"1.1\"",
            &["larder.toml:5", "1.1", "1.2"],
        ),
        (
            "[http]\ntrusted_headers = [\"X-Real-IP\"]",
            &["larder.toml:2", "X-Real-IP", "X-Forwarded-For"],
        ),
        (
            "[http]\ntrusted_proxies = [\"lb\"]",
            &["larder.toml:2", "lb", "192.0.2.1"],
        ),
        (
            "[http]\ntargets = [\"a b\"]",
            &["larder.toml:2", "a b", "field"],
        ),
        (
            "[admin]\ntoken = \"secret\"",
            &["larder.toml:2", "16 or more", "openssl rand -hex 16"],
        ),
        (
            "[http.upstream]\nndn = \"far\"",
            &["larder.toml:2", "far", "a name starts with"],
        ),
        (
            "[http.upstream]\nndn = \"/far\"\ntrsut = \"/a\"",
            &["larder.toml:3", "trsut", "did you mean `trust`?"],
        ),
        (
            "[http]\norigin = \"http://a\"\n[http.upstream]\nndn = \"/far\"",
            &["[http.upstream]", "origin"],
        ),
        (
            "[ndn]\nunix = \"\"\n[http.upstream]\nndn = \"/far\"",
            &["[http.upstream]", "[ndn] unix"],
        ),
        (
            "[ndn.gateway]\nprefix = \"/far\"",
            &["larder.toml:1", "origin"],
        ),
        (
            "[ndn.gateway]\nprefix = \"/\"\norigin = \"http://a\"",
            &["[ndn.gateway]", "prefix"],
        ),
        (
            "[ndn.gateway]\nprefix = \"/f\"\norigin = \"ftp://a\"",
            &["larder.toml:3", "https://HOST:PORT"],
        ),
        (
            "[ndn.gateway]\nprefix = \"/f\"\norigin = \"http://a\"\nmemory = \"1MiB\"",
            &["[ndn.gateway]", "memory"],
        ),
        (
            "[ndn]\nreadvertise = \"dv\"",
            &["larder.toml:2", "dv", "nlsr"],
        ),
        (
            "[http]\nrequest_id = \"on\"",
            &["larder.toml:2", "on", "accept"],
        ),
        (
            "[http.access_log]\npath = \"\"",
            &["larder.toml:2", "stdout"],
        ),
        (
            "[http.access_log]\nformat = \"json\"",
            &["larder.toml:1", "path"],
        ),
        (
            "[http.access_log]\npath = \"a\"\nformat = \"$requst_time\"",
            &["larder.toml:", "did you mean $request_time?"],
        ),
        (
            "[http.access_log]\npath = \"a\"\nformat = \"jsn\"",
            &["larder.toml:", "\"json\""],
        ),
        (
            "[http.access_log]\npath = \"a\"\nsample = 0.0",
            &["larder.toml:3", "above 0"],
        ),
        (
            "[http.access_log]\npath = \"a\"\nmax_size = \"1KiB\"",
            &["larder.toml:3", "1MiB"],
        ),
        (
            "[http.access_log]\npath = \"a\"\nkeep = 0",
            &["larder.toml:3", "1 to 1000"],
        ),
        (
            "[http.access_log]\npath = \"stdout\"\nmax_size = \"1MiB\"",
            &["larder.toml:", "only a file"],
        ),
        (
            "[http.access_log]\npath = \"a\"\nsampel = 0.1",
            &["larder.toml:3", "did you mean `sample`?"],
        ),
        ("[process]\ngroup = \"www\"", &["[process] group", "user"]),
        ("[log]\nformat = \"jsn\"", &["larder.toml:2", "jsn", "json"]),
        ("[ndn", &["larder.toml:1"]),
        (
            "[htpt]\nx = 1\n[htpt.y]\nz = 2",
            &["larder.toml:1", "htpt", "`http`"],
        ),
        (
            "[[htpt]]\nx = 1\n[[htpt]]\nx = 2",
            &["larder.toml:1", "htpt", "`http`"],
        ),
        (
            "[http.lmits]\nx = 1\ny = 2",
            &["larder.toml:1", "[http]", "`limits`"],
        ),
        (
            "[http]\n\"*cache\" = 3",
            &["larder.toml:2", "[http] has no key `*cache`"],
        ),
        (
            "[[http.rules]]\nrate_limit = { rat = 3 }",
            &[
                "larder.toml:2",
                "[http.rules.rate_limit] has no key `rat`",
                "`rate`",
            ],
        ),
        (
            "[http]\nredirect_to_https = true",
            &[
                "larder.toml: [http] redirect_to_https",
                "[http.tls]",
                "false",
            ],
        ),
        (
            "[http]\nredirect_to_https = true\n[http.tls]\nlisten = \"\"\ncertificate = \"a\"\nkey = \"b\"",
            &["[http] redirect_to_https", "[http.tls]"],
        ),
        (
            "[http]\ncache = \"129TiB\"",
            &["[http] cache", "129TiB", "128TiB"],
        ),
        (
            "[ndn]\ncontent_store = \"1000TiB\"",
            &["[ndn] content_store", "1000TiB"],
        ),
    ];

    /// Failure: a wrong key hides another problem, or causes one that goes with it.
    #[test]
    fn a_wrong_key_hides_or_causes_another_problem() {
        let refused = refusal(
            "[http]\nslice = 3\npolicy = \"lookahead+lru\"\nredirect_to_https = true\n[http.tls]\n\
             listen = \"[::]:443\"\ncertificate = 3\nkey = \"k\"\n[process]\nuser = 3\ngroup = \"www\"\n\
             [ndn.disk]\ncapacity = 1\n",
        );
        let begin = |line: &str| {
            line.split([':', ']'])
                .take(4)
                .map(str::to_owned)
                .collect::<String>()
        };
        let lines: Vec<String> = refused.lines().map(begin).collect();
        assert_eq!(
            lines,
            [
                "larder.toml2 [http slice",
                "larder.toml7 [http.tls certificate",
                "larder.toml10 [process user",
                "larder.toml13 [ndn.disk capacity",
                "larder.toml [http policy policy `lookahead+lru`, byte 0",
            ],
            "{refused}"
        );
    }

    #[test]
    fn a_refusal_names_the_line_and_the_way_out() {
        for (text, parts) in WRONG {
            let said = refusal(text);
            assert!(
                parts.iter().all(|part| said.contains(part)),
                "{text:?} gave {said:?}"
            );
            assert!(!said.contains('\n'), "{said:?}");
        }
    }

    #[test]
    fn a_listener_can_be_switched_off() {
        let config = Config::parse("[ndn]\ntcp = \"\"\nunix = \"\"\n[http]\nlisten = \"\"", "t")
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            (config.ndn.tcp, config.ndn.unix, config.http.proxy.listen),
            (None, None, Vec::new())
        );
        assert!(config.ndn.udp.is_some());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[\\PC\n]{0,200}") {
            let _ = Config::parse(&text, "t");
        }
    }
}
