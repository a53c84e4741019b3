//! The clients that the console serves: those with the token, if one is configured, otherwise those
//! of this machine.
//!
//! With a token, loopback is no privilege: behind a proxy on this machine that adds no field (nginx
//! by default), the clients of the whole world come from loopback.
//!
//! A browser on this machine also runs pages of others. So a request has to come from the console's
//! own page (`Origin` of RFC 6454, `Sec-Fetch-Site` of W3C's Fetch Metadata), and to name the node
//! by an address or `localhost`, which no name in the DNS of others can stand for (DNS rebinding).

use crate::token::AdminToken;
use ::http::header::{HOST, ORIGIN};
use ::http::uri::Authority;
use ::http::{HeaderMap, HeaderName};
use larder_host::Peer;
use std::net::IpAddr;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The reason why the console does not serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) enum Refused {
    /// A page of another site has sent it: 403.
    OtherSite,
    /// The client has no token, and one is configured, or it is on another machine or behind a
    /// proxy: 401.
    NoToken,
    /// `Host` is a name that somebody else may own: 421.
    HostName,
}

/// Returns true if the console's own page, or no page, has sent this request.
pub(crate) fn is_of_own_page(headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE).map(|site| site.as_bytes());
    let host = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let origin = headers
        .get(ORIGIN)
        .map(|origin| origin.to_str().unwrap_or_default());
    let is_own = |origin: &str| {
        let authority = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        !host.is_empty() && authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    };
    site.is_none_or(|site| site == b"same-origin" || site == b"none") && origin.is_none_or(is_own)
}

/// Decides about a request that reads.
///
/// # Errors
/// The reason of the refusal.
pub(in crate::console) fn check(
    headers: &HeaderMap,
    peer: Peer,
    token: &AdminToken,
) -> Result<(), Refused> {
    if !is_of_own_page(headers) {
        return Err(Refused::OtherSite);
    }
    if token.is_set() {
        return if token.is_in(headers) {
            Ok(())
        } else {
            Err(Refused::NoToken)
        };
    }
    if headers.keys().any(is_of_proxy) || !is_of_this_machine(peer) {
        return Err(Refused::NoToken);
    }
    if has_safe_host(headers) {
        Ok(())
    } else {
        Err(Refused::HostName)
    }
}

/// Decides about a request for the status page. It needs no token, but names the node's peers, so
/// no page of another site may read it.
///
/// # Errors
/// The reason of the refusal.
pub(in crate::console) fn check_status(
    headers: &HeaderMap,
    token: &AdminToken,
) -> Result<(), Refused> {
    if !is_of_own_page(headers) {
        return Err(Refused::OtherSite);
    }
    if token.is_in(headers) || has_safe_host(headers) {
        Ok(())
    } else {
        Err(Refused::HostName)
    }
}

/// Returns true for a field that a proxy on this machine adds: it passes on requests of others.
fn is_of_proxy(name: &HeaderName) -> bool {
    let of_proxies = [
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "cf-connecting-ip",
        "true-client-ip",
    ];
    name.as_str().starts_with("x-forwarded-") || of_proxies.contains(&name.as_str())
}

fn is_of_this_machine(peer: Peer) -> bool {
    match peer {
        Peer::Unix => true,
        Peer::Tcp(address) => address.ip().to_canonical().is_loopback(),
    }
}

/// Returns true if `Host` is an address, or `localhost` or a name below it (RFC 6761 §6.3).
fn has_safe_host(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else {
        return false;
    };
    let name = authority.host();
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    let name = name.to_ascii_lowercase();
    address.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::HeaderValue;

    const TOKEN: &str = "0123456789abcdef";

    fn decide(token: Option<&str>, peer: &str, fields: &[(&str, &str)]) -> Result<(), Refused> {
        let headers: HeaderMap = fields
            .iter()
            .map(|(name, value)| {
                (
                    name.parse::<HeaderName>().unwrap(),
                    value.parse::<HeaderValue>().unwrap(),
                )
            })
            .collect();
        check(
            &headers,
            Peer::Tcp(format!("{peer}:1").parse().unwrap()),
            &AdminToken::new(token),
        )
    }

    /// Failure: a page of another site, another machine, or a name that leads here shows the
    /// console.
    #[test]
    fn a_stranger_sees_the_console() {
        let local = [
            ("127.0.0.1:8081", true),
            ("localhost:8081", true),
            ("LOCALHOST", true),
            ("console.localhost", true),
            ("[::1]:8081", true),
            ("192.0.2.7", true),
            ("evil.example:8081", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.nip.example", false),
            ("user@127.0.0.1", true),
            ("", false),
        ];
        for (host, is_served) in local {
            let decided = decide(None, "127.0.0.1", &[("host", host)]);
            assert_eq!(decided.is_ok(), is_served, "{host}: {decided:?}");
        }
        let host = ("host", "127.0.0.1:8081");
        assert_eq!(decide(None, "127.0.0.1", &[]), Err(Refused::HostName));
        assert_eq!(
            decide(None, "127.0.0.1", &[host, ("host", "127.0.0.1")]),
            Err(Refused::HostName)
        );
        assert_eq!(decide(None, "[::ffff:127.0.0.1]", &[host]), Ok(()));
        assert_eq!(decide(None, "192.0.2.1", &[host]), Err(Refused::NoToken));
        for (name, value) in [
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-host", "node.example"),
            ("x-forwarded-proto", "https"),
            ("x-real-ip", "192.0.2.1"),
            ("cf-connecting-ip", "192.0.2.1"),
            ("forwarded", "for=192.0.2.1"),
            ("via", "1.1 proxy"),
        ] {
            assert_eq!(
                decide(None, "127.0.0.1", &[host, (name, value)]),
                Err(Refused::NoToken),
                "{name}"
            );
        }
        for (name, value, is_served) in [
            ("origin", "http://127.0.0.1:8081", true),
            ("origin", "https://127.0.0.1:8081", true),
            ("origin", "http://127.0.0.1:8080", false),
            ("origin", "http://evil.example", false),
            ("origin", "null", false),
            ("sec-fetch-site", "same-origin", true),
            ("sec-fetch-site", "none", true),
            ("sec-fetch-site", "same-site", false),
            ("sec-fetch-site", "cross-site", false),
        ] {
            let decided = decide(None, "127.0.0.1", &[host, (name, value)]);
            assert_eq!(
                decided,
                if is_served {
                    Ok(())
                } else {
                    Err(Refused::OtherSite)
                },
                "{name}: {value}"
            );
            // The token does not make up for it.
            let bearer = format!("Bearer {TOKEN}");
            let decided = decide(
                Some(TOKEN),
                "192.0.2.1",
                &[host, (name, value), ("authorization", &bearer)],
            );
            assert_eq!(decided.is_ok(), is_served, "{name}: {value}");
        }
    }

    /// Failure: with a token, a client of a proxy on this machine sees the console without it, or
    /// the token is believed in another place than `Authorization`.
    #[test]
    fn loopback_replaces_the_token() {
        let (host, bearer) = (("host", "node.example"), format!("Bearer {TOKEN}"));
        for peer in ["127.0.0.1", "[::1]", "192.0.2.1"] {
            let refused = Err(Refused::NoToken);
            assert_eq!(
                decide(Some(TOKEN), peer, &[("host", "127.0.0.1:8081")]),
                refused,
                "{peer}"
            );
            assert_eq!(
                decide(
                    Some(TOKEN),
                    peer,
                    &[host, ("authorization", "Bearer 0123456789abcdee")]
                ),
                refused
            );
            assert_eq!(
                decide(Some(TOKEN), peer, &[host, ("cookie", &bearer)]),
                refused
            );
            assert_eq!(
                decide(Some(TOKEN), peer, &[host, ("authorization", &bearer)]),
                Ok(()),
                "{peer}"
            );
        }
    }
}
