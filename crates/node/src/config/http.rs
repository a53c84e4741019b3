//! `[http]` of the configuration: the listener, the origin, and the cache between them.

use super::files::{EXPECTED_FOLDER, FilesTable, folder, optional_folder};
use super::gateway::UpstreamTable;
use super::origin::{EXPECTED, Origin, ServerEntry, has_name, server};
use http::uri::{Authority, PathAndQuery};
use larder_proxy::static_files::FilesConfig;
use larder_proxy::{
    HostPattern, HttpConfig, OriginProtocol, PoolConfig, PoolServer, TrustedProxies, period,
};
use larder_units::{ByteSize, from_text};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use std::time::Duration;

/// `[http]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTable {
    /// Whether this node serves HTTP.
    pub enabled: bool,
    /// `generated`, or the address of a server.
    #[serde(deserialize_with = "origin")]
    pub origin: Origin,
    /// `[http.files]`; `None` for the usual settings.
    pub files: Option<FilesTable>,
    /// `[http.upstream]`; `None` if the origin is reached by HTTP.
    pub upstream: Option<UpstreamTable>,
    /// `[[http.origins]]`
    #[serde(default)]
    pub origins: Vec<OriginTable>,
    /// The other keys, as the HTTP side has them.
    #[serde(rename = "*proxy")]
    pub proxy: HttpConfig,
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

    /// Returns the problem of a `strip_path` that would cut a name in two.
    pub(super) fn half_names(&self) -> Option<String> {
        let is_half = |table: &OriginTable| table.strip_path && !table.path.ends_with('/');
        let table = self.origins.iter().find(|table| is_half(table))?;
        let path = &table.path;
        Some(format!(
            "[[http.origins]] strip_path: path {path:?} does not end with /; write {:?}",
            format!("{path}/")
        ))
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
        (self.proxy.origin_resolve && !has_name).then(|| problem.to_owned())
    }

    /// Returns the problem of certificates by ACME that no authority can issue, because it cannot
    /// check their hosts.
    pub(super) fn missing_challenge(&self) -> Option<String> {
        let has_hosts = self
            .proxy
            .tls
            .as_ref()
            .is_some_and(|tls| tls.acme.is_some());
        let problem = "[http.tls.acme] challenges: the authority cannot check that the hosts are this node: \
                       \"http-01\" needs an address in [http] listen that port 80 leads to, and \"tls-alpn-01\" needs \
                       a [http.tls] listen without required client_certificates";
        (self.enabled && has_hosts && self.proxy.challenge_kinds().is_empty())
            .then(|| problem.to_owned())
    }

    /// Returns the problem of a `redirect_to_https` without a listener with TLS. A trusted proxy
    /// may have one, and say so in `X-Forwarded-Proto`.
    pub(super) fn needless_redirect(&self) -> Option<String> {
        let has_tls = self
            .proxy
            .tls
            .as_ref()
            .is_some_and(|tls| !tls.listen.is_empty());
        let problem = "[http] redirect_to_https: there is no HTTPS to redirect to: add [http.tls] with listen, \
                       certificate and key, or set it to false";
        let has_proxy = self.proxy.trusted_proxies != TrustedProxies::default();
        (self.enabled && self.proxy.redirect_to_https && !has_tls && !has_proxy)
            .then(|| problem.to_owned())
    }
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
    /// Whether the origin gets the paths without that.
    #[serde(default)]
    pub strip_path: bool,
    /// One or more; none with `origin`.
    #[serde(default, deserialize_with = "servers")]
    pub servers: Vec<PoolServer>,
    /// The folder of the files, in the place of servers.
    #[serde(default, deserialize_with = "optional_folder")]
    pub origin: Option<PathBuf>,
    /// How these files are served.
    #[serde(default)]
    pub files: Option<FilesTable>,
    /// The choice between servers, and their health.
    #[serde(rename = "*pool", default)]
    pub pool: PoolConfig,
    /// The protocol of connections to the servers.
    #[serde(default)]
    pub protocol: OriginProtocol,
    /// Bytes on disk of requests that are received whole before a server gets them; 0: none are.
    #[serde(default)]
    pub buffer_requests: ByteSize,
    /// The path of health checks; `None` for no checks.
    #[serde(default, deserialize_with = "check")]
    pub check: Option<PathAndQuery>,
    /// The interval of checks; at least a second.
    #[serde(default = "check_every", deserialize_with = "period")]
    pub check_every: Duration,
}

impl OriginTable {
    /// Returns its files; `None` if it has servers.
    pub fn files(&self) -> Option<FilesConfig> {
        let root = self.origin.as_ref()?;
        Some(self.files.clone().unwrap_or_default().config(root))
    }
}

fn root() -> String {
    "/".to_owned()
}

fn check_every() -> Duration {
    Duration::from_secs(5)
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

#[cfg(test)]
mod tests {
    use super::super::Config;

    /// Failure: a listener is dropped, or a wrong one is not refused with its remedy.
    #[test]
    fn listeners_are_misread() {
        let read = |listen: &str| {
            let config = Config::parse(&format!("[http]\nlisten = {listen}"), "t")
                .map_err(|error| error.to_string())?;
            let shown = |listen: &larder_host::ListenConfig| match listen.address.tcp() {
                Some(address) => address.to_string(),
                None => format!("{} {:o}", listen.address, listen.mode),
            };
            Ok::<_, String>(
                config
                    .http
                    .proxy
                    .listen
                    .iter()
                    .map(shown)
                    .collect::<Vec<_>>(),
            )
        };
        let config = Config::parse(
            "[http]\nlisten = { address = \"[::]:80\", proxy_protocol = true }",
            "t",
        );
        assert!(
            config
                .unwrap_or_else(|error| panic!("{error}"))
                .http
                .proxy
                .listen[0]
                .proxy_protocol
        );
        assert_eq!(read("\"\""), Ok(vec![]));
        assert_eq!(read("[]"), Ok(vec![]));
        assert_eq!(read("\"[::]:80\""), Ok(vec!["[::]:80".into()]));
        assert_eq!(
            read("[\"127.0.0.1:0\", \"127.0.0.1:0\"]").map(|all| all.len()),
            Ok(2)
        );
        assert_eq!(
            read("[\"127.0.0.1:80\", \"unix:/a\", { address = \"unix:/b\", mode = \"0600\" }]"),
            Ok(vec![
                "127.0.0.1:80".into(),
                "unix:/a 660".into(),
                "unix:/b 600".into()
            ])
        );
        for (listen, parts) in [
            ("80", vec!["t:2", "127.0.0.1:8080"]),
            ("\"80\"", vec!["t:2", "\"80\"", "127.0.0.1:8080"]),
            ("[\"\"]", vec!["t:2", "127.0.0.1:8080"]),
            ("[\"unix:a\"]", vec!["t:2", "unix:a", "whole path"]),
            (
                "[\"127.0.0.1:80\", \"127.0.0.1:80\"]",
                vec!["t:2", "127.0.0.1:80", "twice"],
            ),
            (
                "{ adress = \"127.0.0.1:80\" }",
                vec!["t:2", "did you mean `address`?"],
            ),
            (
                "{ address = \"unix:/a\", mode = \"rw\" }",
                vec!["t:2", "rw", "0660"],
            ),
            (
                "{ address = \"127.0.0.1:80\", mode = \"0660\" }",
                vec!["t:2", "mode", "127.0.0.1:80"],
            ),
        ] {
            let refused = read(listen).unwrap_err();
            assert!(
                parts.iter().all(|part| refused.contains(part)),
                "{listen}: {refused}"
            );
        }
    }

    /// Failure: certificates by ACME are refused, or a wrong setting is found when an order fails.
    #[test]
    fn certificates_are_ordered_that_no_authority_issues() {
        let read = |tls: &str, acme: &str| {
            let text =
                format!("[http.tls]\nlisten = \"[::]:443\"\n{tls}\n[http.tls.acme]\n{acme}\n");
            Config::parse(&text, "t").map_err(|error| error.to_string())
        };
        let hosts = "hosts = [\"Example.com\", \"192.0.2.1\"]";
        let config = read("", hosts).unwrap_or_else(|error| panic!("{error}"));
        let acme = config.http.proxy.tls.unwrap().acme.unwrap();
        assert_eq!(acme.hosts[0].as_str(), "example.com");
        assert!(acme.directory.contains("letsencrypt") && acme.eab.is_none());
        assert!(read("certificate = \"/a\"\nkey = \"/b\"", hosts).is_ok());
        for (tls, acme, parts) in [
            ("", "hosts = [\"*.example.com\"]", vec!["t:5", "dns-01"]),
            ("", "hosts = []", vec!["t:5", "1 to 1000"]),
            ("", "hosts = [\"a.b\", \"A.b\"]", vec!["t:5", "twice"]),
            ("", "email = \"a@b.c\"", vec!["hosts"]),
            (
                "",
                "hosts = [\"a.b\"]\ndirectory = \"http://a\"",
                vec!["t:6", "https://"],
            ),
            (
                "",
                "hosts = [\"a.b\"]\nchallenges = [\"dns-01\"]",
                vec!["t:6", "dns-01", "http-01"],
            ),
            (
                "",
                "hosts = [\"a.b\"]\neab = { key_id = \"a\", hmac = \"b\" }",
                vec!["t:6", "hmac_file"],
            ),
            (
                "certificate = \"/a\"",
                "hosts = [\"a.b\"]",
                vec!["certificate and key need each other"],
            ),
            (
                "client_ca = \"/a\"",
                "hosts = [\"a.b\"]\nchallenges = [\"tls-alpn-01\"]",
                vec!["[http.tls.acme] challenges", "port 80"],
            ),
        ] {
            let refused = read(tls, acme).unwrap_err();
            assert!(
                parts.iter().all(|part| refused.contains(part)),
                "{tls} {acme}: {refused}"
            );
        }
        let none = Config::parse("[http.tls]\nlisten = \"[::]:443\"", "t").unwrap_err();
        let none = none.to_string();
        assert!(
            none.contains("certificate and key") && none.contains("[http.tls.acme]"),
            "{none}"
        );
    }
}
