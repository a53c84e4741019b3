//! What a request may be: the methods, hosts, paths and fields that an ingress sends. The egress
//! passes nothing else to its origin, because anyone on the network can make an Interest.

use super::message;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST, TRANSFER_ENCODING, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::net::Ipv6Addr;

/// Registered methods (IANA, "HTTP Method Registry"), without those that are about a connection or
/// show the request to its sender: CONNECT, TRACE and PRI. Caches in front of origins obey PURGE
/// and BAN of whoever is near.
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

/// Fields from which programs take a target, a scheme, a host, a method or a file other than those
/// of the request, or by which they skip checks. Nothing selects a response by them.
const UNKEYED: [&str; 23] = [
    "cf-visitor",
    "cloudfront-forwarded-proto",
    "front-end-https",
    "http2-settings",
    "proxy",
    "script-name",
    "x-arr-ssl",
    "x-host",
    "x-http-method",
    "x-http-method-override",
    "x-https",
    "x-invoke-path",
    "x-invoke-query",
    "x-matched-path",
    "x-method-override",
    "x-proto",
    "x-proxy-url",
    "x-request-uri",
    "x-scheme",
    "x-script-name",
    "x-sendfile-type",
    "x-ssl",
    "x-url-scheme",
];

/// The same, for all fields that begin so.
const UNKEYED_PREFIXES: [&str; 7] =
    ["forwarded", "x-accel-", "x-envoy-", "x-forwarded", "x-middleware-", "x-original-", "x-rewrite-"];

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
const CLIENT_PREFIXES: [&str; 5] =
    ["ssl-client-", "x-auth-request-", "x-client-cert", "x-client-subject", "x-ssl-client-"];

/// Fields that the nodes and the origin read themselves. In another spelling, CGI, WSGI and PHP
/// take them for these.
static SPELT_SO: [HeaderName; 9] =
    [AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST, TRANSFER_ENCODING, VIA];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Returns true if requests with this method pass.
pub(super) fn is_method(method: &Method) -> bool {
    METHODS.contains(&method.as_str())
}

/// Returns true for a host as it is keyed, with or without a port: small letters, digits, `-`, `_`
/// and dots between labels, or an IPv6 address in brackets.
pub(super) fn is_authority(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if address.parse::<Ipv6Addr>().is_ok() => ("v6", port),
        Some(_) => return false,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        !label.is_empty()
            && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
    };
    let is_port = match port.strip_prefix(':') {
        Some(digits) => digits.parse::<u16>().is_ok_and(|port| port.to_string() == digits),
        None => port.is_empty(),
    };
    is_port && host.split('.').all(is_label)
}

/// Returns true for a path and query that have one meaning. The path has no dot segments, however
/// they are encoded, and no fragment follows.
pub(super) fn is_target(target: &str) -> bool {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_printed = target.bytes().all(|byte| byte.is_ascii_graphic()) && !path.contains('#');
    // A fragment after a query is a part of no request.
    if !is_printed || !path.starts_with('/') || query.contains('#') {
        return false;
    }
    let Some(decoded) = decoded(path) else { return false };
    let is_dots = |segment: &[u8]| segment == b"." || segment == b"..";
    !decoded.split(|byte| b"/\\".contains(byte)).any(is_dots)
}

/// Returns the bytes of a path without its percent-encoding; `None` if that is malformed.
fn decoded(path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = after.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

/// Removes the fields that no ingress sends, and sets those that describe client and host. Only a
/// request that an ingress has signed says who its client is; otherwise the client is unknown (RFC
/// 7239, section 6.2), so that the origin does not take it for a program on this machine.
pub(super) fn set_fields(headers: &mut HeaderMap, authority: &str, is_signed: bool) {
    message::strip_connection(headers);
    let of_client =
        |name: &str| CLIENT.contains(&name) || CLIENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names {
        let spelt = name.as_str().replace(['_', '.'], "-");
        let is_own = [X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO].contains(&name);
        let is_unkeyed = !is_own
            && (UNKEYED.contains(&spelt.as_str()) || UNKEYED_PREFIXES.iter().any(|prefix| spelt.starts_with(prefix)));
        let is_other_spelling =
            spelt != name.as_str() && (SPELT_SO.iter().any(|own| own.as_str() == spelt) || of_client(&spelt));
        if is_unkeyed || is_other_spelling || (!is_signed && of_client(&spelt)) {
            headers.remove(name);
        }
    }
    if !is_signed || !headers.contains_key(X_FORWARDED_FOR) {
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("unknown"));
    }
    if headers.contains_key(X_FORWARDED_HOST) {
        headers.remove(X_FORWARDED_HOST);
        headers.extend(HeaderValue::from_str(authority).ok().map(|host| (X_FORWARDED_HOST, host)));
    }
    let mut schemes = headers.get_all(X_FORWARDED_PROTO).iter();
    let is_scheme = schemes.next().is_some_and(|scheme| scheme == "http" || scheme == "https");
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
        for authority in ["a", "a.b-c_d.test", "127.0.0.1:80", "[::1]", "[2001:db8::1]:8080", "a:0"] {
            assert!(is_authority(authority), "{authority}");
        }
        for authority in [
            "", ".", "a.", "a..b", "A", "a:", "a:080", "a:65536", "a:+1", "[a]", "[::1", "[::1]a", "::1", "a,b", "a@b",
            "%61", "a b",
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
            prop_assert_eq!(is_target(&target), !climbs);
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
