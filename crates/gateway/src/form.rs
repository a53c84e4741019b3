//! The form of a request: shared, so that equal requests get the same answer, or in full.
//!
//! The shared form is for GET and HEAD without a body, credentials, cookies, or directives about
//! the response's age. The fields that select a representation pass ([`SELECTING`]). The other
//! fields identify one client (`User-Agent`, `Referer`, `X-Forwarded-For`), and would give one page
//! as many names as there are clients. This loses nothing: a response whose `Vary` names a field
//! that did not pass is not given in this form ([`is_enough`]), nor one that a shared cache may not
//! reuse.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, COOKIE, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, ORIGIN, PRAGMA, RANGE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// Fields that pass in the shared form.
pub static SELECTING: [HeaderName; 11] = [
    ACCEPT,
    ACCEPT_ENCODING,
    ACCEPT_LANGUAGE,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    ORIGIN,
    RANGE,
    // Pages redirect clients to https, and the name of an object does not have the scheme.
    HeaderName::from_static("x-forwarded-proto"),
];

/// Returns the fields of the shared form; `None` if the request has to be sent in full. `headers`
/// are those for the origin.
pub fn shared(method: &Method, has_body: bool, headers: &HeaderMap) -> Option<HeaderMap> {
    let plain = matches!(*method, Method::GET | Method::HEAD) && !has_body;
    let own = ABSENT.iter().any(|name| headers.contains_key(name));
    // A request in a loop has to be detected.
    if !plain || own || larder_http::cdn_loop_count(headers) > 1 {
        return None;
    }
    let mut fields = HeaderMap::new();
    for name in &SELECTING {
        for value in headers.get_all(name) {
            fields.append(name.clone(), value.clone());
        }
    }
    Some(fields)
}

/// Fields that no request in the shared form has: a response that varies by them is decided too.
static ABSENT: [HeaderName; 4] = [AUTHORIZATION, COOKIE, CACHE_CONTROL, PRAGMA];

/// Returns true if the fields of the shared form decide on this response: its `Vary` names no
/// other.
pub fn is_enough(response: &HeaderMap) -> bool {
    let lines = response
        .get_all(VARY)
        .into_iter()
        .map(HeaderValue::as_bytes);
    let mut names = lines
        .flat_map(|line| line.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii);
    let known = || SELECTING.iter().chain(&ABSENT);
    names.all(|name| {
        name.is_empty() || known().any(|known| name.eq_ignore_ascii_case(known.as_str().as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            _ = headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    /// Failure: two names for one page because there are two clients; or one client's page for
    /// another.
    #[test]
    fn clients_differ_and_pages_do_not() {
        let form = |fields: &[_]| shared(&Method::GET, false, &map(fields));
        let one = form(&[
            ("accept", "*/*"),
            ("user-agent", "a"),
            ("x-forwarded-for", "10.0.0.1"),
            ("via", "1.1 larder"),
        ]);
        let other = form(&[
            ("user-agent", "b"),
            ("accept", "*/*"),
            ("via", "2 larder"),
            ("referer", "x"),
        ]);
        assert_eq!(one, other);
        assert_eq!(one.unwrap().len(), 1);
        for own in ["cookie", "authorization", "cache-control", "pragma"] {
            assert_eq!(form(&[(own, "x")]), None, "{own}");
        }
        assert_eq!(form(&[("via", "1.1 larder, 1.1 larder")]), None);
        assert_eq!(shared(&Method::POST, false, &map(&[])), None);
        assert_eq!(shared(&Method::GET, true, &map(&[])), None);
    }

    #[test]
    fn a_response_that_varies_by_more_is_not_shared() {
        for (vary, enough) in [
            ("Accept-Encoding, ORIGIN", true),
            ("", true),
            ("accept,,range, Cookie", true),
            ("user-agent", false),
            ("*", false),
        ] {
            assert_eq!(is_enough(&map(&[("vary", vary)])), enough, "{vary}");
        }
        assert!(!is_enough(&map(&[("vary", "accept"), ("vary", "referer")])));
    }
}
