//! `Cache-Control` of requests and responses (RFC 9111 §5.2). It is read strictly if leniency would
//! serve a stale or private response.
//!
//! * Names are compared without regard to case; unknown directives are ignored (§5.2.3).
//! * The first of several values of one directive counts (§4.2.1 allows that or stale).
//! * An argument that is not a number (`max-age=abc`, `max-age= 60`, `s-maxage=-1`) counts as 0:
//!   §4.2.1 encourages to treat invalid freshness information as stale. Numbers that are too large
//!   count as 2^31 (§1.2.2). Both `max-age=60` and `max-age="60"` are read (§5.2).
//! * The forms with field names, `private="x"` and `no-cache="x"`, count as the forms without
//!   (§5.2.2.4 and §5.2.2.7 allow it).
//! * A quoted string that does not end may hide a `no-store` after it. Such a response counts as
//!   `no-store`.

use crate::limits;
use crate::rfc::fields::delta_seconds;
use http::HeaderMap;
use http::header::{CACHE_CONTROL, PRAGMA};
use larder_units::Time;
use std::borrow::Cow;

/// The directives of a response for its reuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseDirectives {
    pub no_store: bool,
    pub no_cache: bool,
    pub private: bool,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    /// Seconds.
    pub max_age: Option<u64>,
    /// Seconds.
    pub s_maxage: Option<u64>,
    /// Seconds (RFC 5861 §3).
    pub stale_while_revalidate: Option<u64>,
    /// Seconds (RFC 5861 §4).
    pub stale_if_error: Option<u64>,
    /// RFC 8246: it does not change while it is fresh.
    pub immutable: bool,
    /// Seconds from the receipt, which the host's rules state instead of the response.
    pub ttl: Option<u64>,
    /// The seconds for which another cache of the operator would still use it, negative if it is
    /// stale there: see [`Exchange::set_peer_response`](crate::Exchange::set_peer_response).
    pub left: Option<i64>,
    /// True if the host's rules allow to serve it stale, whatever the effect of `s-maxage` on that.
    pub allows_stale: bool,
    /// True if the host's rules state a lifetime for a response with this status.
    pub names_status: bool,
    /// True if the response comes from its origin without a cache in between: an old `Date` then
    /// shows a clock that is behind.
    pub is_direct: bool,
    /// True if a field for this cache contained these directives (RFC 9213). `Expires` then has no
    /// effect.
    pub targeted: bool,
}

impl ResponseDirectives {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut found = ResponseDirectives::default();
        let whole = each_directive(headers, |name, argument| match name {
            b"no-store" => found.no_store = true,
            b"no-cache" => found.no_cache = true,
            b"private" => found.private = true,
            b"public" => found.public = true,
            b"must-revalidate" => found.must_revalidate = true,
            b"proxy-revalidate" => found.proxy_revalidate = true,
            b"must-understand" => found.must_understand = true,
            b"max-age" => first(&mut found.max_age, &argument),
            b"s-maxage" => first(&mut found.s_maxage, &argument),
            b"stale-while-revalidate" => first(&mut found.stale_while_revalidate, &argument),
            b"stale-if-error" => first(&mut found.stale_if_error, &argument),
            b"immutable" => found.immutable = true,
            _ => {}
        });
        if !whole {
            // Also overrides must-understand, which would overrule no-store.
            found.no_store = true;
            found.must_understand = false;
        }
        found
    }
}

/// The directives of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestDirectives {
    pub no_store: bool,
    pub no_cache: bool,
    pub only_if_cached: bool,
    /// Seconds.
    pub max_age: Option<u64>,
    /// Seconds; [`u64::MAX`] if any staleness is accepted.
    pub max_stale: Option<u64>,
    /// Seconds.
    pub min_fresh: Option<u64>,
    /// Of the host, not of the client: responses that were requested before must be validated. See
    /// [`Cache::trust_since`](crate::Cache::trust_since).
    pub trusted_since: Time,
}

/// The degree to which a client refuses stored responses, the lowest first: a reload of a browser,
/// and a forced one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reload {
    No,
    /// `max-age=0`: an immutable response is accepted.
    Aged,
    /// `no-cache`: only a present response of the origin is accepted.
    Forced,
}

impl RequestDirectives {
    /// Returns the directives of a client without any.
    pub(crate) fn none(trusted_since: Time) -> RequestDirectives {
        RequestDirectives {
            trusted_since,
            ..RequestDirectives::default()
        }
    }

    pub(crate) fn reload(&self) -> Reload {
        match (self.no_cache, self.max_age) {
            (true, _) => Reload::Forced,
            (false, Some(0)) => Reload::Aged,
            _ => Reload::No,
        }
    }

    /// Returns true if the client states an accepted age.
    pub(crate) fn says_about_age(&self) -> bool {
        self.no_cache
            || self.max_age.is_some()
            || self.min_fresh.is_some()
            || self.max_stale.is_some()
    }

    /// Returns the directives without the reload, because it is being carried out, or is ignored.
    pub(crate) fn without_reload(self) -> Self {
        RequestDirectives {
            no_cache: false,
            max_age: self.max_age.filter(|seconds| *seconds > 0),
            ..self
        }
    }

    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut found = RequestDirectives::default();
        if !headers
            .keys()
            .any(|name| [CACHE_CONTROL, PRAGMA].contains(name))
        {
            return found;
        }
        if !headers.contains_key(CACHE_CONTROL) {
            // The form of HTTP/1.0. RFC 9111 §5.4 deprecates it, but clients still send it with a
            // reload.
            found.no_cache = crate::rfc::fields::has_token(headers, &PRAGMA, b"no-cache");
            return found;
        }
        each_directive(headers, |name, argument| match name {
            b"no-store" => found.no_store = true,
            b"no-cache" => found.no_cache = true,
            b"only-if-cached" => found.only_if_cached = true,
            b"max-age" => first(&mut found.max_age, &argument),
            b"min-fresh" => {
                // Here 0 is the lenient value: an invalid number means the longest time.
                let wish = argument.seconds().unwrap_or(limits::LIFETIME_SECONDS);
                found.min_fresh.get_or_insert(wish);
            }
            b"max-stale" => {
                let wish = if argument == Argument::Absent {
                    u64::MAX
                } else {
                    argument.seconds().unwrap_or(0)
                };
                found.max_stale.get_or_insert(wish);
            }
            _ => {}
        });
        found
    }
}

/// Sets the first value; an invalid number is 0.
fn first(slot: &mut Option<u64>, argument: &Argument<'_>) {
    slot.get_or_insert(argument.seconds().unwrap_or(0));
}

#[derive(Debug, PartialEq, Eq)]
enum Argument<'a> {
    Absent,
    Text(Cow<'a, [u8]>),
    Malformed,
}

impl Argument<'_> {
    /// Parses delta-seconds (RFC 9111 §1.2.2).
    fn seconds(&self) -> Option<u64> {
        match self {
            Argument::Text(text) => delta_seconds(text),
            _ => None,
        }
    }
}

/// Calls `visit` with the lower-case name and the argument of each directive. Returns false if a
/// quoted string does not end.
fn each_directive(headers: &HeaderMap, mut visit: impl FnMut(&[u8], Argument<'_>)) -> bool {
    let mut whole = true;
    for line in headers.get_all(CACHE_CONTROL) {
        let mut rest = line.as_bytes();
        while let Some((name, argument, after)) = next_directive(rest, &mut whole) {
            if !name.is_empty() {
                visit(&name.to_ascii_lowercase(), argument);
            }
            rest = after;
        }
    }
    whole
}

fn next_directive<'a>(
    text: &'a [u8],
    whole: &mut bool,
) -> Option<(&'a [u8], Argument<'a>, &'a [u8])> {
    if text.is_empty() {
        return None;
    }
    let end = text
        .iter()
        .position(|b| matches!(b, b',' | b'='))
        .unwrap_or(text.len());
    let name = text[..end].trim_ascii();
    let Some((b'=', value)) = text[end..]
        .split_first()
        .map(|(first, rest)| (*first, rest))
    else {
        return Some((
            name,
            Argument::Absent,
            text.get(end + 1..).unwrap_or_default(),
        ));
    };
    let (argument, rest) = match value.split_first() {
        Some((b'"', quoted)) => quoted_argument(quoted, whole),
        _ => {
            let end = value.iter().position(|b| *b == b',').unwrap_or(value.len());
            let token = value[..end].trim_ascii_end();
            let sound = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
            let argument = if sound {
                Argument::Text(Cow::Borrowed(token))
            } else {
                Argument::Malformed
            };
            (argument, value.get(end + 1..).unwrap_or_default())
        }
    };
    // `max-age =60`: no space is allowed before the equals sign.
    let spaced = text[..end].last().is_some_and(u8::is_ascii_whitespace);
    Some((
        name,
        if spaced {
            Argument::Malformed
        } else {
            argument
        },
        rest,
    ))
}

/// Parses a quoted-string after its opening quote (RFC 9110 §5.6.4), up to and including the next
/// comma.
fn quoted_argument<'a>(text: &'a [u8], whole: &mut bool) -> (Argument<'a>, &'a [u8]) {
    let mut content = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                let after = &text[at + 1..];
                let end = after.iter().position(|b| *b == b',').unwrap_or(after.len());
                let clean = after[..end].trim_ascii().is_empty();
                let argument = if clean {
                    Argument::Text(Cow::Owned(content))
                } else {
                    Argument::Malformed
                };
                return (argument, after.get(end + 1..).unwrap_or_default());
            }
            b'\\' => {
                content.extend(text.get(at + 1));
                at += 2;
            }
            _ => {
                content.push(byte);
                at += 1;
            }
        }
    }
    *whole = false;
    (Argument::Malformed, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn response(lines: &[&'static str]) -> ResponseDirectives {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(CACHE_CONTROL, HeaderValue::from_static(line));
        }
        ResponseDirectives::of(&headers)
    }

    #[test]
    fn ages_as_origins_write_them() {
        for (text, expected) in [
            ("max-age=60", Some(60)),
            ("MAX-AGE=60", Some(60)),
            ("public,max-age=60", Some(60)),
            ("max-age=\"60\"", Some(60)),
            ("max-age=0060", Some(60)),
            ("max-age=60, max-age=5", Some(60)),
            ("max-age=99999999999999999999", Some(1 << 31)),
            ("max-age=", Some(0)),
            ("max-age", Some(0)),
            ("max-age=-1", Some(0)),
            ("max-age=60.5", Some(0)),
            ("max-age=60a", Some(0)),
            ("max-age='60'", Some(0)),
            ("max-age= 60", Some(0)),
            ("max-age =60", Some(0)),
            ("max-age=\"60\"x", Some(0)),
            ("extension=\"max-age=3600\", max-age=1", Some(1)),
            ("extension=\"a\\\"max-age=3600\", max-age=1", Some(1)),
            ("s-max-age=60", None),
            ("", None),
            (",,,", None),
        ] {
            assert_eq!(response(&[text]).max_age, expected, "{text}");
        }
    }

    #[test]
    fn directives_on_several_lines_and_odd_spacing() {
        let found = response(&[
            "public ,  s-maxage=5",
            "Must-Revalidate , , NO-CACHE=\"set-cookie\"",
            "private=\"x\"",
        ]);
        assert!(
            found.public
                && found.must_revalidate
                && found.no_cache
                && found.private
                && !found.no_store
        );
        assert_eq!((found.s_maxage, found.max_age), (Some(5), None));
    }

    #[test]
    fn an_open_quote_hides_nothing() {
        let found = response(&["max-age=60, must-understand, extension=\"oops, private"]);
        assert!(found.no_store && !found.must_understand);
    }

    fn request(name: &'static str, text: &'static str) -> RequestDirectives {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(text));
        RequestDirectives::of(&headers)
    }

    #[test]
    fn wishes_of_clients() {
        assert!(request("pragma", "no-cache").no_cache);
        assert!(!request("pragma", "no-cached").no_cache);
        assert_eq!(
            request("cache-control", "max-stale").max_stale,
            Some(u64::MAX)
        );
        assert_eq!(request("cache-control", "max-stale=7").max_stale, Some(7));
        assert_eq!(request("cache-control", "max-stale=x").max_stale, Some(0));
        assert_eq!(
            request("cache-control", "min-fresh=x").min_fresh,
            Some(1 << 31)
        );
        assert_eq!(
            request("cache-control", "max-age=0, only-if-cached").max_age,
            Some(0)
        );
    }

    /// Failure: a reload that is being carried out, or is ignored, still refuses stored responses,
    /// or the client's other directives are lost with it.
    #[test]
    fn a_reload_stays_or_takes_other_directives_with_it() {
        for (text, left) in [
            ("no-cache", ""),
            ("max-age=0", ""),
            ("max-age=x", ""),
            ("no-cache, max-age=0", ""),
            ("max-age=1", "max-age=1"),
            ("no-cache, max-age=60", "max-age=60"),
            (
                "max-age=0, max-stale=7, min-fresh=5",
                "max-stale=7, min-fresh=5",
            ),
            (
                "no-store, no-cache, only-if-cached, max-stale",
                "no-store, only-if-cached, max-stale",
            ),
        ] {
            let without = request("cache-control", text).without_reload();
            assert_eq!(without, request("cache-control", left), "{text}");
            assert_eq!(without.reload(), Reload::No, "{text}");
        }
        assert_eq!(
            request("pragma", "no-cache").without_reload(),
            RequestDirectives::default()
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let mut headers = HeaderMap::new();
                headers.insert(CACHE_CONTROL, value);
                ResponseDirectives::of(&headers);
                RequestDirectives::of(&headers);
            }
        }

        /// no-store counts anywhere outside of a quoted string.
        #[test]
        fn no_store_is_found_among_anything(before in "[a-z=, 0-9]{0,20}", after in "[a-z=, 0-9\"]{0,20}") {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, HeaderValue::try_from(format!("{before},no-store,{after}")).unwrap());
            prop_assert!(ResponseDirectives::of(&headers).no_store);
        }
    }
}
