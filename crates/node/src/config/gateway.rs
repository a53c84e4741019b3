//! `[http.upstream]` and `[ndn.gateway]`: the two ends of HTTP over NDN (`larder-gateway`).

use super::Config;
use super::origin::{Origin, server};
use larder_gateway::KeyFiles;
use larder_gateway::egress::LEAST_MEMORY;
use larder_packet::Name;
use larder_units::{ByteSize, from_text, parse_duration, parsed};
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use std::time::Duration;

/// `[http.upstream]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct UpstreamTable {
    /// The egress's prefix.
    #[serde(deserialize_with = "parsed")]
    pub ndn: Name,
    /// The egress's public key or certificate.
    pub trust: Option<PathBuf>,
    /// The file of the shared secret.
    pub secret: Option<PathBuf>,
}

/// `[ndn.gateway]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct GatewayTable {
    /// The prefix that it answers.
    #[serde(deserialize_with = "parsed")]
    pub prefix: Name,
    /// `http://host:port` or `https://host:port`.
    #[serde(deserialize_with = "origin")]
    pub origin: http::Uri,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// The file of the shared secret.
    pub secret: Option<PathBuf>,
    /// Bytes of answers and bodies at once.
    #[serde(default = "memory")]
    pub memory: ByteSize,
    /// The longest freshness of answers for caches on the path.
    #[serde(deserialize_with = "duration", default = "shared_for")]
    pub shared_for: Duration,
}

impl UpstreamTable {
    /// Returns the files that the ingress trusts.
    pub fn trust(&self) -> KeyFiles {
        KeyFiles {
            key: self.trust.clone(),
            secret: self.secret.clone(),
        }
    }
}

impl GatewayTable {
    /// Returns the files that the egress signs with.
    pub fn key(&self) -> KeyFiles {
        KeyFiles {
            key: self.key.clone(),
            secret: self.secret.clone(),
        }
    }
}

/// Returns settings of these tables that exclude others, or that need others.
pub(super) fn contradictions(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    let tables = [
        (
            "[http.upstream]",
            config
                .http
                .upstream
                .as_ref()
                .map(|table| ("ndn", &table.ndn)),
        ),
        (
            "[ndn.gateway]",
            config
                .ndn
                .gateway
                .as_ref()
                .map(|table| ("prefix", &table.prefix)),
        ),
    ];
    for (table, found) in tables {
        let Some((key, name)) = found else { continue };
        if !config.ndn.enabled {
            problems.push(format!(
                "{table}: it needs this node's forwarder, and [ndn] enabled is false"
            ));
        } else if config.ndn.unix.is_none() {
            problems.push(format!(
                "{table}: it reaches this node's forwarder by [ndn] unix, which is off: leave that out, or set a path"
            ));
        }
        if name.as_bytes().is_empty() || name.as_bytes().len() > LONGEST_PREFIX {
            problems.push(format!(
                "{table} {key}: expected a name of 1 to {LONGEST_PREFIX} bytes, such as \"/far\""
            ));
        }
    }
    if config.ndn.command_key.is_some() != config.ndn.command_certificate.is_some() {
        problems.push(
            "[ndn] command_key and command_certificate need each other: set both, or none"
                .to_owned(),
        );
    }
    if config.http.upstream.is_some() && config.http.origin != Origin::Generated {
        problems.push(
            "[http.upstream]: [http] origin names another way to the same: keep one".to_owned(),
        );
    }
    if config
        .ndn
        .gateway
        .as_ref()
        .is_some_and(|gateway| gateway.memory < LEAST_MEMORY)
    {
        problems.push(format!(
            "[ndn.gateway] memory: expected {LEAST_MEMORY} or more, the room of two large bodies"
        ));
    }
    problems
}

/// The longest prefix in bytes: every name under it carries it.
const LONGEST_PREFIX: usize = 500;

fn memory() -> ByteSize {
    ByteSize::from_mib(256)
}

fn shared_for() -> Duration {
    Duration::from_secs(10)
}

fn origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<http::Uri, D::Error> {
    let expected = || "expected \"http://HOST:PORT\" or \"https://HOST:PORT\"".to_owned();
    let is_bare = |uri: &http::Uri| uri.scheme_str() != Some("unix") && uri.path() == "/";
    from_text(deserializer, |text| {
        server(text).filter(is_bare).ok_or_else(expected)
    })
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text(deserializer, parse_duration)
}
