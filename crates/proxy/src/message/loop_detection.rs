//! Detects requests that come back to this cache: an origin that is the cache itself, and loops
//! over other hosts.

use ::http::uri::Uri;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns true if `origin` names the listener at `local`, as far as one can know without a
/// resolver or the list of interfaces: the same port, and the same address or one that leads to it
/// on this machine.
pub(crate) fn leads_to(origin: &Uri, local: SocketAddr) -> bool {
    // A Unix socket.
    if origin.scheme_str() == Some("unix") {
        return false;
    }
    let host = origin.host().unwrap_or("");
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let targets: Vec<IpAddr> = match bare.parse() {
        Ok(address) => vec![address],
        Err(_) if is_localhost(host) => {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        }
        Err(_) => return false,
    };
    let reaches = |target: IpAddr| {
        let (target, local) = (connected(target), local.ip().to_canonical());
        target == local
            || target.is_loopback()
                && local.is_unspecified()
                && (local.is_ipv6() || target.is_ipv4())
    };
    let own = if origin.scheme_str() == Some("https") {
        443
    } else {
        80
    };
    origin.port_u16().unwrap_or(own) == local.port() && targets.into_iter().any(reaches)
}

fn is_localhost(host: &str) -> bool {
    host.trim_end_matches('.').eq_ignore_ascii_case("localhost")
}

/// Returns the destination of a connection to the address. The unspecified address leads to this
/// machine.
fn connected(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::proxy::Proxy;
    use ::http::header::VIA;
    use ::http::{HeaderMap, HeaderValue};

    /// Failure: the cache requests from itself until it is out of descriptors; or a valid
    /// configuration is refused.
    #[test]
    fn an_origin_that_is_the_cache_itself() {
        let round = [
            ("127.0.0.1:80", "http://127.0.0.1"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
            ("127.0.0.1:8080", "http://LocalHost:8080"),
            ("127.0.0.1:8080", "http://0.0.0.0:8080"),
            ("127.0.0.1:8080", "http://[::ffff:127.0.0.1]:8080"),
            ("0.0.0.0:8080", "http://127.0.0.2:8080"),
            ("0.0.0.0:8080", "http://localhost.:8080"),
            ("[::]:8080", "http://127.0.0.1:8080"),
            ("[::]:8080", "http://[::1]:8080"),
            ("[::1]:8080", "http://[::]:8080"),
            ("192.0.2.1:8080", "http://192.0.2.1:8080"),
        ];
        for (local, origin) in round {
            assert!(
                leads_to(&origin.parse().unwrap(), local.parse().unwrap()),
                "{local} {origin}"
            );
        }
        let sound = [
            ("127.0.0.1:8080", "http://127.0.0.1:8081"),
            ("127.0.0.1:8080", "http://127.0.0.1"),
            ("127.0.0.1:8080", "http://127.0.0.2:8080"),
            ("127.0.0.1:8080", "http://[::1]:8080"),
            ("0.0.0.0:8080", "http://[::1]:8080"),
            ("0.0.0.0:8080", "http://192.0.2.1:8080"),
            ("192.0.2.1:8080", "http://localhost:8080"),
            ("127.0.0.1:80", "http://example.com"),
        ];
        for (local, origin) in sound {
            assert!(
                !leads_to(&origin.parse().unwrap(), local.parse().unwrap()),
                "{local} {origin}"
            );
        }
    }

    #[test]
    fn our_own_name_in_via_is_counted_over_all_lines() {
        let via = |lines: &[&str]| {
            lines.iter().fold(HeaderMap::new(), |mut headers, line| {
                headers.append(VIA, HeaderValue::from_str(line).unwrap());
                headers
            })
        };
        let goes_round = |headers| Proxy::generated().shards().cdn_loop().goes_round(&headers);
        assert!(!goes_round(HeaderMap::new()));
        assert!(!goes_round(via(&["1.1 larder"; 7])));
        assert!(goes_round(via(&["1.1 larder"; 8])));
        assert!(goes_round(via(&[
            "1.1 larder, 1.0  larder (a), HTTP/1.1\tlarder,1.1 larder",
            "1.1 larder,,1.1 larder, 2 larder, 1.1 larder"
        ])));
        assert!(!goes_round(via(
            &["1.1 other, larder 1.1, 1.1 larder2, larder"; 20]
        )));
    }
}
