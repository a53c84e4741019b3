//! Header fields as wholes: lists of tokens, the fields that belong to one connection, `Via`,
//! `Date` and the compact copy that is stored.

use crate::limits;
use crate::now::Now;
use crate::rfc::date;
use http::header::{AGE, CONNECTION, CONTENT_LENGTH, DATE, HOST, TRAILER, TRANSFER_ENCODING, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// A request with this many own entries in Via or CDN-Loop is treated as a loop. Nobody builds a
/// chain of so many caches. Each round costs a connection on both sides.
const MAX_OWN_ENTRIES: usize = 8;

/// Larder's name in `Via` and `Cache-Status`.
pub const NAME: &str = "larder";

const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// Returns how often our own name occurs in `Via` (RFC 9110 §7.6.3), or in `CDN-Loop` (RFC 8586),
/// which others must not remove: the number of caches with the same name that the request has
/// passed, which may include this one.
pub fn cdn_loop_count(headers: &HeaderMap) -> usize {
    // Most clients' requests have neither. One pass over the names costs less than two lookups.
    if !headers.keys().any(|name| *name == VIA || *name == CDN_LOOP) {
        return 0;
    }
    // A member is the protocol, the name and an optional comment.
    let via = |member: &&[u8]| {
        member
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .nth(1)
            == Some(NAME.as_bytes())
    };
    // A member is the name with optional parameters.
    let in_loop = |member: &&[u8]| {
        member
            .split(|byte| *byte == b';')
            .next()
            .map(<[u8]>::trim_ascii)
            == Some(NAME.as_bytes())
    };
    let passed = list(headers, &VIA).filter(via).count();
    passed.max(list(headers, &CDN_LOOP).filter(in_loop).count())
}

/// Removes the fields of one connection (RFC 9110 §7.6.1): an intermediary MUST remove the fields
/// that `Connection` names, and SHOULD remove these well-known ones even unnamed. The proxy's own
/// authentication fields are removed too (RFC 9111 §3.1 forbids storing them, and no client of a
/// reverse proxy needs them). `Host` stays even if `Connection` names it, because the target
/// depends on it. So does `CDN-Loop`; otherwise a client could send a request into a loop (RFC 8586
/// §2).
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    const ALWAYS: [&str; 10] = [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    if headers.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = list(headers, &CONNECTION)
            .filter_map(|name| HeaderName::from_bytes(name).ok())
            .collect();
        for name in named
            .iter()
            .filter(|name| ![&HOST, &CDN_LOOP].contains(name))
        {
            headers.remove(name);
        }
    }
    // RFC 9112 §6.3: with a transfer coding, a length has no meaning and is not forwarded.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    // Most messages have none of them: one pass over the names costs less than ten lookups.
    while let Some(name) = headers
        .keys()
        .find(|name| ALWAYS.contains(&name.as_str()))
        .cloned()
    {
        headers.remove(name);
    }
}

/// Removes the fields of one connection. With `keeps_trailer`, `Trailer` stays, which belongs to
/// the message (RFC 9110 §6.6.2) and is useless without trailers.
pub(crate) fn strip_hop_by_hop_but_trailer(headers: &mut HeaderMap, keeps_trailer: bool) {
    let trailer = if keeps_trailer {
        headers.remove(TRAILER)
    } else {
        None
    };
    strip_hop_by_hop(headers);
    if let Some(trailer) = trailer {
        headers.insert(TRAILER, trailer);
    }
}

/// Returns the members of a comma-separated list over all lines of a field, without surrounding
/// space. Empty ones are skipped (RFC 9110 §5.6.1). For lists of tokens: it does not handle quoted
/// strings.
pub(crate) fn list<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a [u8]> {
    headers
        .get_all(name)
        .into_iter()
        .flat_map(|line| members(line.as_bytes()))
}

/// Returns the members of one line of such a list.
pub(crate) fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// Returns true if a list of tokens contains `token`, in upper or lower case.
pub(crate) fn has_token(headers: &HeaderMap, name: &HeaderName, token: &[u8]) -> bool {
    list(headers, name).any(|member| member.eq_ignore_ascii_case(token))
}

/// Marks a request to the origin as having passed a part of Larder that waits for no other request:
/// in `Via`, and in `CDN-Loop` (RFC 8586 §2).
pub fn append_cdn_loop(headers: &mut HeaderMap, version: Version) {
    CdnLoop(HeaderValue::from_static(NAME)).append(headers, version);
}

/// The member that a cache adds to `CDN-Loop` (RFC 8586 §2): its name, and an identifier of this
/// cache. A request that returns with the member is in a loop. With the name alone, two caches
/// could not be chained.
#[derive(Clone, Debug)]
pub struct CdnLoop(HeaderValue);

impl CdnLoop {
    /// Returns the member of the cache with this secret, without revealing the secret.
    pub(crate) fn of(secret: &[u8; 16]) -> CdnLoop {
        let mut hasher = SipHasher13::new_with_key(secret);
        hasher.write(CDN_LOOP.as_str().as_bytes());
        let member = format!("{NAME}{ID}{:016x}", hasher.finish());
        CdnLoop(HeaderValue::try_from(member).expect("a token and digits"))
    }

    /// Marks a request to the origin as having passed this cache.
    pub(crate) fn append(&self, headers: &mut HeaderMap, version: Version) {
        append_via(headers, version);
        headers.append(CDN_LOOP, self.0.clone());
    }

    /// Returns true if the request has passed this cache before (RFC 8586 §2), or if our name
    /// occurs in `Via` (RFC 9110 §7.6.3) or `CDN-Loop` too often, because another host removes the
    /// identifier. One occurrence of the name is no loop: caches may be chained.
    pub fn goes_round(&self, headers: &HeaderMap) -> bool {
        let passed = cdn_loop_count(headers);
        passed >= MAX_OWN_ENTRIES || passed > 0 && self.is_in(headers)
    }

    fn is_in(&self, headers: &HeaderMap) -> bool {
        list(headers, &CDN_LOOP).any(|member| member == self.0.as_bytes())
    }
}

const ID: &str = ";id=";

/// Appends this cache to `Via`, with the version of the received protocol. RFC 9110 §7.6.3: a proxy
/// MUST do this.
pub(crate) fn append_via(headers: &mut HeaderMap, version: Version) {
    let own = match version {
        Version::HTTP_10 => "1.0 larder",
        Version::HTTP_2 => "2 larder",
        Version::HTTP_3 => "3 larder",
        _ => "1.1 larder",
    };
    headers.append(VIA, HeaderValue::from_static(own));
}

/// Removes the last line of a field: what the last cache has added.
pub fn remove_last_line(headers: &mut HeaderMap, name: &HeaderName) {
    let mut lines: Vec<HeaderValue> = headers.get_all(name).into_iter().cloned().collect();
    if lines.pop().is_some() {
        headers.remove(name);
        for line in lines {
            headers.append(name.clone(), line);
        }
    }
}

/// Removes what [`Exchange::upstream_headers`](crate::Exchange::upstream_headers) says of this
/// cache, in a request to another cache of the same operator: both count as one.
pub fn remove_own_hop(headers: &mut HeaderMap) {
    remove_last_line(headers, &VIA);
    remove_last_line(headers, &CDN_LOOP);
}

/// Returns the fields of an interim response that a proxy forwards (RFC 9110 §15.2): without those
/// of the connection, and with `Via`. It MUST NOT have a length (§8.6).
pub fn interim_fields(received: &HeaderMap, version: Version) -> HeaderMap {
    let mut headers = received.clone();
    strip_hop_by_hop(&mut headers);
    headers.remove(CONTENT_LENGTH);
    append_via(&mut headers, version);
    headers
}

/// Adds the time of receipt as `Date` if there is no valid one. RFC 9110 §6.6.1: a recipient with a
/// clock that stores or forwards a response does this.
pub(crate) fn ensure_date(headers: &mut HeaderMap, now: Now) {
    if date::field(headers, &DATE).is_none() {
        headers.insert(DATE, date::format(now.unix_seconds));
    }
}

/// Returns the received `Age` (RFC 9111 §5.1), in seconds: the first member if there are several; 0
/// if it is not a number.
pub(crate) fn age(headers: &HeaderMap) -> u64 {
    let first = headers
        .get(AGE)
        .and_then(|line| line.as_bytes().split(|byte| *byte == b',').next());
    first
        .and_then(|member| delta_seconds(member.trim_ascii()))
        .unwrap_or(0)
}

/// Fields that a cache, or a server that may be one, adds to forwarded responses.
const OF_CACHES: [HeaderName; 8] = [
    AGE,
    VIA,
    HeaderName::from_static("cache-status"),
    HeaderName::from_static("x-cache"),
    HeaderName::from_static("x-cache-status"),
    HeaderName::from_static("x-proxy-cache"),
    HeaderName::from_static("x-varnish"),
    HeaderName::from_static("cf-cache-status"),
];

/// Returns true if no field of a received response shows that a cache has stored it.
pub(crate) fn is_direct(headers: &HeaderMap) -> bool {
    !OF_CACHES.iter().any(|name| headers.contains_key(name))
}

/// Returns the bytes of names and values.
pub(crate) fn bytes(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum()
}

/// Parses a non-negative decimal integer; larger ones count as 2^31. `None` for anything else.
pub(crate) fn delta_seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = text.iter().fold(0u64, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    Some(number.min(limits::LIFETIME_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn connection_takes_what_it_names_but_not_host() {
        let mut found = headers(&[
            ("connection", "close, X-Secret"),
            ("connection", "Host,,Other, b@d"),
            ("x-secret", "1"),
            ("other", "1"),
            ("host", "example.com"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("kept", "1"),
        ]);
        strip_hop_by_hop(&mut found);
        assert_eq!(found, headers(&[("host", "example.com"), ("kept", "1")]));
    }

    #[test]
    fn age_on_input() {
        let most = crate::limits::LIFETIME_SECONDS;
        for (text, seconds) in [
            ("7", 7),
            ("7200, 0", 7200),
            (" 7 , x", 7),
            ("99999999999999999999", most),
            (", 7", 0),
            ("-7", 0),
            ("7.0", 0),
            ("abc, 7", 0),
            ("", 0),
        ] {
            assert_eq!(age(&headers(&[("age", text)])), seconds, "{text}");
        }
        assert_eq!(age(&headers(&[("age", "3"), ("age", "900")])), 3);
        assert_eq!(age(&headers(&[])), 0);
    }

    /// Failure: a request goes round in a loop undetected, or a cache behind another of the same
    /// name refuses every request from it.
    #[test]
    fn a_request_of_another_cache_of_our_name_is_not_taken_for_our_own() {
        let (own, other) = (CdnLoop::of(&[1; 16]), CdnLoop::of(&[2; 16]));
        let mut request = headers(&[
            ("via", "1.1 proxy"),
            ("cdn-loop", "other;id=0000000000000000"),
        ]);
        assert!(!own.is_in(&request));
        other.append(&mut request, Version::HTTP_11);
        append_cdn_loop(&mut request, Version::HTTP_11);
        assert!(!own.is_in(&request) && other.is_in(&request));
        own.append(&mut request, Version::HTTP_11);
        assert!(own.is_in(&request) && other.is_in(&request));
        assert_eq!(cdn_loop_count(&request), 3);
    }

    /// Failure: a loop over hosts that remove `Via`, or a client that has `Via` removed.
    #[test]
    fn a_request_tells_how_often_it_has_passed() {
        let mut request = headers(&[
            ("connection", "cdn-loop"),
            ("cdn-loop", "other; a=b, larder2"),
            ("via", "1.1 x"),
        ]);
        strip_hop_by_hop(&mut request);
        assert_eq!(cdn_loop_count(&request), 0);
        append_cdn_loop(&mut request, Version::HTTP_11);
        append_cdn_loop(&mut request, Version::HTTP_11);
        assert_eq!(request.get_all("cdn-loop").iter().count(), 3);
        for gone in ["via", "cdn-loop"] {
            assert_eq!(cdn_loop_count(&request), 2);
            request.remove(gone);
        }
        assert_eq!(cdn_loop_count(&request), 0);
        assert_eq!(
            cdn_loop_count(&headers(&[("cdn-loop", "larder ; v=1, a,larder;x")])),
            2
        );
    }

    #[test]
    fn via_is_appended() {
        let mut found = headers(&[("via", "1.0 other")]);
        append_via(&mut found, Version::HTTP_11);
        assert_eq!(
            found,
            headers(&[("via", "1.0 other"), ("via", "1.1 larder")])
        );
    }
}
