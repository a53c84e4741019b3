//! Values of the file, and parsers for them.

use larder_policy::Spec;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A string that parses.
pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    from_text(deserializer, str::parse)
}

/// A string that `read` accepts. The error names the string if the problem does not.
pub(super) fn from_text<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    read(&text)
        .map_err(|error| error.to_string())
        .map_err(|error| {
            if error.contains(&text) {
                serde::de::Error::custom(error)
            } else {
                serde::de::Error::custom(format!("{text:?}: {error}"))
            }
        })
}

/// `""` turns a listener off.
pub(super) fn address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    from_text(deserializer, |text| {
        match text {
        "" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| {
            "expected an address and a port, such as \"127.0.0.1:6363\" or \"[::]:6363\", or \"\" for none".to_owned()
        }),
    }
    })
}

pub(super) fn loopback(port: u16) -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, port).into()
}

#[allow(clippy::expect_used, reason = "two literals, parsed by a test")]
pub(super) fn known_spec(text: &str) -> Spec {
    text.parse().expect("a spec that a test parses")
}

/// A path, or nothing for an empty text.
pub(super) fn optional_path<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    Ok(Some(PathBuf::deserialize(deserializer)?).filter(|path| !path.as_os_str().is_empty()))
}
