//! HTTP servers as origins.

use larder_proxy::PoolServer;
use larder_proxy::limits::WEIGHT_MOST;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The origin of the HTTP cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Objects generated in this process.
    Generated,
    /// An HTTP server.
    Http(http::Uri),
    /// The files below this folder.
    Files(PathBuf),
}

/// What a server's address has to be.
pub(super) const EXPECTED: &str =
    "expected \"http://HOST:PORT\", \"https://HOST:PORT\" or \"unix:/SOCKET\", perhaps with a path";

/// `http://HOST[:PORT][/PATH]`, or with `https`, or `unix:/SOCKET[:/PATH]`.
pub(super) fn server(text: &str) -> Option<http::Uri> {
    if let Some(socket) = text.strip_prefix("unix:") {
        let is_path =
            socket.starts_with('/') && !socket.starts_with("//") && !socket.contains(['?', '#']);
        return is_path
            .then(|| format!("unix://localhost{socket}").parse().ok())
            .flatten();
    }
    let uri: Option<http::Uri> = text.parse().ok();
    uri.filter(|uri| {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let (_, after_host) = authority.rsplit_once(']').unwrap_or(("", authority));
        let port_is_right = !after_host.contains(':') || uri.port_u16().is_some();
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && !authority.contains('@')
            && port_is_right
            && uri.query().is_none()
    })
}

/// Returns true if a server has a name, which can be resolved: no address, and no socket.
pub(super) fn has_name(uri: &http::Uri) -> bool {
    let is_address = |host: &str| host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok();
    uri.scheme_str() != Some("unix") && uri.host().is_some_and(|host| !is_address(host))
}

/// An element of `servers`: a URL, or a table with more.
pub(super) struct ServerEntry(pub(super) PoolServer);

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerTable {
    /// `http://host:port` or `https://host:port`.
    url: String,
    /// Its share, relative to others.
    #[serde(default = "one")]
    weight: u32,
    /// Whether it gets requests only if no other server can.
    #[serde(default)]
    backup: bool,
    /// The most requests at once; 0: no limit.
    #[serde(default)]
    max_conns: u32,
    /// Whether each address of the name is a server.
    #[serde(default)]
    resolve: bool,
}

fn one() -> u32 {
    1
}

impl<'de> Deserialize<'de> for ServerEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = ServerEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a URL such as \"http://10.0.0.5:8000\", or { url = \"...\", weight = 2 }")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ServerEntry, E> {
        let expected = || E::custom(format!("{text:?}: {EXPECTED}"));
        server(text)
            .map(|uri| ServerEntry(uri.into()))
            .ok_or_else(expected)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ServerEntry, A::Error> {
        let table = ServerTable::deserialize(MapAccessDeserializer::new(map))?;
        let ServerEntry(server) = self.visit_str(&table.url)?;
        if !(1..=WEIGHT_MOST).contains(&table.weight) {
            return Err(A::Error::custom(format!(
                "weight: expected 1 to {WEIGHT_MOST}, not {}",
                table.weight
            )));
        }
        if table.resolve && !has_name(&server.uri) {
            return Err(A::Error::custom(format!(
                "{:?}: resolve = true needs the name of a host",
                table.url
            )));
        }
        let ServerTable {
            weight,
            backup,
            max_conns,
            resolve,
            ..
        } = table;
        Ok(ServerEntry(PoolServer {
            weight,
            is_backup: backup,
            max_conns,
            resolve,
            ..server
        }))
    }
}
