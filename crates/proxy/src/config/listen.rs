//! `listen` of `[http]` and `[http.tls]`: one listener, or an array of them.

use larder_host::{ListenAddress, ListenConfig, SOCKET_MODE};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// The most listeners of one table: each is a socket on every thread.
const MOST: usize = 64;

/// Reads a string, a table `{ address = "...", mode = "0660" }`, or an array of them. `""` and `[]`
/// are no listener.
pub(crate) fn listeners<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ListenConfig>, D::Error> {
    deserializer.deserialize_any(Listeners)
}

struct Listeners;

impl<'de> Visitor<'de> for Listeners {
    type Value = Vec<ListenConfig>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address such as \"127.0.0.1:8080\", or an array of addresses")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text {
            "" => Ok(Vec::new()),
            _ => One.visit_str(text).map(|one| vec![one]),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        One.visit_map(map).map(|one| vec![one])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Element(one)) = elements.next_element()? {
            if all.iter().any(|other: &ListenConfig| {
                other.address == one.address && !has_free_port(&one.address)
            }) {
                return Err(Error::custom(format!("{} is there twice", one.address)));
            }
            all.push(one);
        }
        match all.len() {
            0..=MOST => Ok(all),
            count => Err(Error::custom(format!(
                "expected up to {MOST} listeners, not {count}"
            ))),
        }
    }
}

/// Port 0 is another port each time.
fn has_free_port(address: &ListenAddress) -> bool {
    address.tcp().is_some_and(|address| address.port() == 0)
}

/// An element of the array.
struct Element(ListenConfig);

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Element, D::Error> {
        deserializer.deserialize_any(One).map(Element)
    }
}

struct One;

impl<'de> Visitor<'de> for One {
    type Value = ListenConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address such as \"127.0.0.1:8080\", or { address = \"unix:/PATH\", mode = \"0660\" }")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse()
            .map(|address: ListenAddress| address.into())
            .map_err(|error| E::custom(format!("{text:?}: {error}")))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let table = ListenTable::deserialize(MapAccessDeserializer::new(map))?;
        let ListenConfig { address, .. } = One.visit_str(&table.address)?;
        let mode = table
            .mode
            .as_deref()
            .map(mode)
            .transpose()
            .map_err(A::Error::custom)?;
        if mode.is_some() && address.tcp().is_some() {
            return Err(A::Error::custom(format!(
                "mode: only the file of a Unix socket has one, and {address} is none"
            )));
        }
        Ok(ListenConfig {
            address,
            mode: mode.unwrap_or(SOCKET_MODE),
            proxy_protocol: table.proxy_protocol,
        })
    }
}

/// A listener as a table.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListenTable {
    address: String,
    /// The permissions of a socket file, in octal.
    mode: Option<String>,
    /// Each connection begins with a header of the PROXY protocol.
    #[serde(default)]
    proxy_protocol: bool,
}

fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| format!("mode {text:?}: expected permissions in octal, such as \"0660\""))
}
