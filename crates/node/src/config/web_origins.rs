//! The web pages that may open a WebSocket of the NDN side.
//!
//! A browser lets every page connect to every WebSocket, also to one on loopback, and names the
//! page in Origin (RFC 6455, section 10.2). Without a check, a foreign page could register prefixes
//! as a local application. So a handshake with an Origin is accepted only from this machine's own
//! pages, or if the configuration lists the Origin. A page whose name resolves to this machine's
//! address (DNS rebinding) still has its own name in Origin, so the only accepted names are
//! `localhost` and the machine's host name. A handshake without Origin comes from a program, which
//! could also use TCP.

use std::fmt;
use std::net::IpAddr;

/// The web pages that may connect besides this machine's own: `[ndn] websocket_origins`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WebOrigins {
    listed: Vec<String>,
    host_name: String,
}

impl WebOrigins {
    /// Takes the list in lower case.
    pub(crate) fn new(listed: &[String], host_name: String) -> Self {
        let listed = listed
            .iter()
            .map(|origin| origin.to_ascii_lowercase())
            .collect();
        WebOrigins {
            listed,
            host_name: host_name.to_ascii_lowercase(),
        }
    }

    /// Returns true if a page of this Origin may connect to our address `local`.
    pub(crate) fn allow(&self, origin: &str, local: IpAddr) -> bool {
        let origin = origin.to_ascii_lowercase();
        if self
            .listed
            .iter()
            .any(|listed| *listed == origin || listed == "*")
        {
            return true;
        }
        let Some(host) = host(&origin) else {
            return false;
        };
        let local = local.to_canonical();
        match host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>()
        {
            Ok(address) => {
                address.to_canonical() == local || (address.is_loopback() && local.is_loopback())
            }
            Err(_) if host == "localhost" => local.is_loopback(),
            Err(_) => host == self.host_name,
        }
    }
}

/// Returns the host of an origin: `scheme://host` or `scheme://host:port`.
fn host(origin: &str) -> Option<&str> {
    let (scheme, authority) = origin.split_once("://")?;
    if !matches!(scheme, "http" | "https") || authority.contains(['/', '@']) {
        return None;
    }
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            port.parse::<u16>().ok()?;
            host
        }
        _ => authority,
    };
    (!host.is_empty()).then_some(host)
}

/// The error of a text that is not the origin of a web page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OriginError(String);

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no origin, such as \"https://app.example\" or \"null\", and not \"*\"",
            self.0
        )
    }
}

/// Checks one entry of `[ndn] websocket_origins`.
pub(crate) fn check_listed(origin: &str) -> Result<(), OriginError> {
    let is_origin = origin.split_once("://").is_some_and(|(scheme, authority)| {
        !scheme.is_empty() && !authority.is_empty() && !authority.contains(['/', '*', ' '])
    });
    if is_origin || origin == "null" || origin == "*" {
        Ok(())
    } else {
        Err(OriginError(origin.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_no_browser_sends_is_taken() {
        for origin in [
            "null",
            "*",
            "https://app.example",
            "http://[::1]:80",
            "moz-extension://a-b",
        ] {
            assert_eq!(check_listed(origin), Ok(()), "{origin}");
        }
        for origin in [
            "",
            "app.example",
            "https://",
            "https://app.example/",
            "https://*.example",
            "Null",
        ] {
            assert!(check_listed(origin).is_err(), "{origin}");
        }
    }
}
