//! Names of fields that programs take for others, and fields of a client that do not reach the
//! origin.

use ::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use ::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use hyper::body::Frame;

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(crate) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(crate) const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
pub(crate) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Fields from which programs take a target, a scheme, a host, a method or a file other than those
/// of the request, or by which they skip checks. They are not part of the cache key, so a client
/// could choose with them what others get (web cache poisoning). They are removed, in every
/// spelling.
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

/// The same, for all fields that begin so, but for those that the node sets anew.
const UNKEYED_PREFIXES: [&str; 7] = [
    "forwarded",
    "x-accel-",
    "x-envoy-",
    "x-forwarded",
    "x-middleware-",
    "x-original-",
    "x-rewrite-",
];

/// Fields that nodes and origins read themselves, and those that the node sets anew. Only their own
/// spelling is theirs; another one, such as `content_length` or `x.forwarded.host`, is removed.
static OWN: [HeaderName; 17] = [
    AUTHORIZATION,
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    COOKIE,
    EXPECT,
    HOST,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    VIA,
    X_FORWARDED_FOR,
    X_FORWARDED_HOST,
    X_FORWARDED_PROTO,
];

/// Options of `Connection` that the node reads itself. The fields of that name stay until then.
const READ_OPTIONS: [HeaderName; 2] = [TE, UPGRADE];

/// Fields that stay although `Connection` names them: a request is nothing without its host, and a
/// client must not hide where the request has been (RFC 8586 §2), or whom a proxy speaks for.
const KEPT: [&str; 8] = [
    "cdn-loop",
    "content-length",
    "forwarded",
    "host",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// Returns true if programs that read fields as variables (RFC 3875 §4.1.18) take one name for the
/// other: some replace only hyphens by underscores, others everything but letters and digits.
pub(crate) fn is_one_variable(one: &str, other: &str) -> bool {
    let variable = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            byte
        } else {
            b'-'
        }
    };
    one.len() == other.len() && one.bytes().map(variable).eq(other.bytes().map(variable))
}

/// Removes the fields with such a name, in one pass over the names.
pub(crate) fn remove_where(headers: &mut HeaderMap, is_removed: impl Fn(&HeaderName) -> bool) {
    let removed: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_removed(name))
        .cloned()
        .collect();
    for name in removed {
        headers.remove(name);
    }
}

/// Removes the other spellings of a field.
pub(crate) fn remove_variable(headers: &mut HeaderMap, name: &HeaderName) {
    remove_where(headers, |other| {
        other != name && is_one_variable(other.as_str(), name.as_str())
    });
}

/// Removes from a request what `Connection` names (RFC 9110 §7.6.1). What the node sets later
/// stays: `Connection` names only options that it reads itself after that.
pub(crate) fn remove_named(headers: &mut HeaderMap) {
    if !headers.contains_key(CONNECTION) {
        return;
    }
    let mut options: Vec<HeaderName> = Vec::new();
    for line in headers.get_all(CONNECTION) {
        let members = line
            .as_bytes()
            .split(|byte| *byte == b',')
            .map(<[u8]>::trim_ascii);
        options.extend(members.filter_map(|member| HeaderName::from_bytes(member).ok()));
    }
    headers.remove(CONNECTION);
    for option in options {
        if READ_OPTIONS.contains(&option) {
            headers.append(
                CONNECTION,
                HeaderValue::from_str(option.as_str()).unwrap_or(HeaderValue::from_static("")),
            );
        } else if !KEPT.contains(&option.as_str()) {
            headers.remove(option);
        }
    }
}

/// Removes the fields of a client that must not reach the origin, nor any rule: those from which
/// programs take a target, a scheme, a host or a method other than the request's, and other
/// spellings of fields that frame or route a message.
pub fn remove_unkeyed(headers: &mut HeaderMap) {
    // Nearly no request has one of them: one pass over the names costs less than many lookups.
    remove_where(headers, |name| is_removed(name.as_str()));
}

fn is_removed(name: &str) -> bool {
    let is_own = |own: &HeaderName| own.as_str() == name;
    let is_other_spelling = |own: &HeaderName| is_one_variable(name, own.as_str());
    if UNKEYED.iter().any(|other| is_one_variable(name, other)) {
        return true;
    }
    let is_odd = name
        .bytes()
        .any(|byte| !byte.is_ascii_alphanumeric() && byte != b'-');
    let begins = |prefix: &&str| {
        name.get(..prefix.len())
            .is_some_and(|start| is_one_variable(start, prefix))
    };
    (UNKEYED_PREFIXES.iter().any(begins) && !OWN.iter().any(is_own))
        || is_odd && OWN.iter().any(is_other_spelling)
}

/// Fields that no trailer may be (RFC 9110 §6.5.1): they frame the message, route it, or say what
/// it is. The recipient would have to merge them with the head, or to break off.
const NO_TRAILERS: [&str; 30] = [
    "age",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expect",
    "expires",
    "host",
    "http2-settings",
    "keep-alive",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "retry-after",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "www-authenticate",
];

/// Returns a frame of a body without the trailers that are not passed on.
pub(crate) fn without_forbidden_trailers(frame: Frame<Bytes>) -> Frame<Bytes> {
    if frame.is_data() {
        return frame;
    }
    match frame.into_trailers() {
        Ok(mut trailers) => {
            remove_where(&mut trailers, |name| {
                NO_TRAILERS.contains(&name.as_str())
                    || is_removed(name.as_str())
                    || is_of_node(name)
            });
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}

/// Returns true for fields that the node sets in requests.
fn is_of_node(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "cdn-loop" | "via" | "x-forwarded-for" | "x-forwarded-host" | "x-forwarded-proto"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variable_has_several_names() {
        for (one, other) in [("x-a", "x_a"), ("x.a", "x-a"), ("x~a", "x_a")] {
            assert!(is_one_variable(one, other), "{one} {other}");
        }
        assert!(!is_one_variable("x-a", "xa") && !is_one_variable("x-a", "x-b"));
        for name in [
            "x-scheme",
            "x_scheme",
            "forwarded",
            "content_length",
            "x-original-uri",
            "x_forwarded_for",
            "x-forwarded",
        ] {
            assert!(is_removed(name), "{name}");
        }
        for name in [
            "te",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-real-ip",
            "accept",
            "x-f",
        ] {
            assert!(!is_removed(name), "{name}");
        }
    }

    #[test]
    fn connection_names_what_the_node_reads() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, TE, x-a"),
            ("connection", "host,x-forwarded-for, ,upgrade"),
            ("te", "trailers"),
            ("x-a", "1"),
            ("host", "a"),
            ("x-forwarded-for", "192.0.2.1"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        remove_named(&mut headers);
        let options: Vec<_> = headers.get_all(CONNECTION).iter().collect();
        assert_eq!(options, ["te", "upgrade"]);
        assert!(!headers.contains_key("x-a") && headers.contains_key("te"));
        assert!(headers.contains_key("host") && headers.contains_key("x-forwarded-for"));
    }
}
