//! `[http]` of the configuration: the listener, the origin, and the cache between them.

use super::values::{address, from_text, known_spec, loopback, parsed};
use larder_policy::Spec;
use larder_units::ByteSize;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::PathBuf;

/// `[http]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpTable {
    /// Where clients connect; `None` where the HTTP side is off.
    #[serde(deserialize_with = "address")]
    pub listen: Option<SocketAddr>,
    /// `[http.tls]`
    pub tls: Option<TlsTable>,
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
    /// The size of the parts in which what is asked for in ranges is stored; 0 for none.
    #[serde(deserialize_with = "parsed")]
    pub slice: ByteSize,
    /// Store responses with `Set-Cookie` where their `Cache-Control` allows it.
    pub share_cookies: bool,
    /// Response fields that speak to this cache, the most telling first.
    #[serde(deserialize_with = "field_names")]
    pub targets: Vec<http::HeaderName>,
}

/// `[http.tls]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TlsTable {
    /// Where clients connect; `None` where TLS is off.
    #[serde(deserialize_with = "address")]
    pub listen: Option<SocketAddr>,
    /// PEM file of the server's certificate and those between it and a root.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
}

/// Where the HTTP cache fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Objects made on the fly, in this process.
    Generated,
    /// An HTTP server.
    Http(http::Uri),
}

impl Default for HttpTable {
    fn default() -> Self {
        HttpTable {
            listen: Some(loopback(8080)),
            tls: None,
            origin: Origin::Generated,
            cache: ByteSize::from_mib(256),
            policy: known_spec("agd"),
            max_object: ByteSize::from_mib(64),
            slice: ByteSize::from_mib(1),
            share_cookies: false,
            targets: vec![http::HeaderName::from_static("cdn-cache-control")],
        }
    }
}

fn field_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<http::HeaderName>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let name =
        |text: String| text.parse().map_err(|_| serde::de::Error::custom(format!("{text:?} is no name of a field")));
    names.into_iter().map(name).collect()
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
