//! What a request may be: the methods, hosts, paths and fields that an ingress sends. The egress
//! passes nothing else to its origin, because anyone on the network can make an Interest.

use super::message;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use larder_proxy::{normal_authority, normal_target};

/// Registered methods (IANA, "HTTP Method Registry"), without those that are about a connection or
/// show the request to its sender: CONNECT, TRACE and PRI. Caches in front of origins obey PURGE
/// and BAN of every client near them.
const METHODS: [&str; 37] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "QUERY",
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PROPFIND",
    "PROPPATCH",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// Fields by which a proxy says who the client is.
const CLIENT: [&str; 21] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "client-cert",
    "client-cert-chain",
    "client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "remote-addr",
    "remote-user",
    "true-client-ip",
    "x-appengine-user-ip",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-originating-ip",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-remote-user",
];

/// The same, for all fields that begin so.
const CLIENT_PREFIXES: [&str; 5] = [
    "ssl-client-",
    "x-auth-request-",
    "x-client-cert",
    "x-client-subject",
    "x-ssl-client-",
];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Returns true if requests with this method pass.
pub(super) fn is_method(method: &Method) -> bool {
    METHODS.contains(&method.as_str())
}

/// Returns true for a host in its normal form, in which an ingress sends it.
pub(super) fn is_authority(authority: &str) -> bool {
    ["http", "https"]
        .iter()
        .any(|scheme| normal_authority(scheme, authority).is_ok_and(|normal| normal == authority))
}

/// Returns true for a path and query in their normal form, in which an ingress sends them.
pub(super) fn is_target(target: &str) -> bool {
    target.starts_with('/') && normal_target(target).is_ok_and(|normal| normal == target)
}

/// Removes the fields that no ingress sends, and sets those that describe client and host. Only a
/// request that an ingress has signed says who its client is; otherwise the client is unknown (RFC
/// 7239, section 6.2), so that the origin does not take it for a program on this machine.
pub(super) fn set_fields(headers: &mut HeaderMap, authority: &str, is_signed: bool) {
    message::strip_connection(headers);
    larder_proxy::remove_unkeyed(headers);
    let of_client = |name: &str| {
        CLIENT.contains(&name)
            || CLIENT_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
    };
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names {
        let spelt: String = name
            .as_str()
            .replace(|byte: char| !byte.is_ascii_alphanumeric(), "-");
        if of_client(&spelt) && (!is_signed || spelt != name.as_str()) {
            headers.remove(name);
        }
    }
    if !is_signed || !headers.contains_key(X_FORWARDED_FOR) {
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("unknown"));
    }
    if headers.contains_key(X_FORWARDED_HOST) {
        headers.remove(X_FORWARDED_HOST);
        headers.extend(
            HeaderValue::from_str(authority)
                .ok()
                .map(|host| (X_FORWARDED_HOST, host)),
        );
    }
    let mut schemes = headers.get_all(X_FORWARDED_PROTO).iter();
    let is_scheme = schemes
        .next()
        .is_some_and(|scheme| scheme == "http" || scheme == "https");
    if !is_scheme || schemes.next().is_some() {
        headers.remove(X_FORWARDED_PROTO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_host_has_two_spellings() {
        for authority in [
            "a",
            "a.b-c_d.test",
            "127.0.0.1:80",
            "[::1]",
            "[2001:db8::1]:8080",
            "a:0",
        ] {
            assert!(is_authority(authority), "{authority}");
        }
        for authority in [
            "", ".", "a.", "a..b", "A", "a:", "a:080", "a:65536", "a:+1", "[a]", "[::1", "[::1]a",
            "::1", "a,b", "a@b", "%61", "a b",
        ] {
            assert!(!is_authority(authority), "{authority}");
        }
    }

    proptest! {
        /// Failure: a path climbs, in a spelling that was not thought of.
        #[test]
        fn a_path_climbs(segments in proptest::collection::vec("(\\.|%2e|%2E|a){0,3}", 0..4), slash in "(/|%2f|%2F|\\\\|%5c)") {
            let target = format!("/{}", segments.join(&slash));
            let plain = segments.iter().map(|segment| segment.to_lowercase().replace("%2e", "."));
            let climbs = plain.into_iter().any(|segment| segment == "." || segment == "..");
            prop_assert!(!climbs || !is_target(&target));
            prop_assert!(climbs || target.contains("//") || target.contains('\\') || is_target(&target));
        }

        /// Failure: the fields that an ingress sends are changed again at each node.
        #[test]
        fn what_is_set_is_set_again(names in proptest::collection::vec("(x[-_.])?(forwarded|original|real|client|a)([-_.](for|host|ip|proto))?", 0..6), is_signed: bool) {
            let mut headers = HeaderMap::new();
            for name in &names {
                headers.append(HeaderName::try_from(name.as_str()).unwrap(), HeaderValue::from_static("https"));
            }
            set_fields(&mut headers, "a.test", is_signed);
            let mut again = headers.clone();
            set_fields(&mut again, "a.test", is_signed);
            prop_assert_eq!(headers, again);
        }
    }
}
