//! `Cache-Status` (RFC 9211): reports the cache's result in the response itself. `larder; hit;
//! ttl=58`, `larder; fwd=uri-miss; fwd-status=200; stored`.

use crate::rfc::fields::{self, NAME};
use crate::rfc::storability::Refusal;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::fmt::Write as _;

pub(crate) const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The reason why a request went to the origin (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// The request bypasses the cache, by configuration or by its form: a body in a GET,
    /// preconditions for the origin, a target that is too long.
    Bypass,
    /// The method is neither GET nor HEAD.
    Method,
    /// No response is stored for this target.
    UriMiss,
    /// Only other variants are stored.
    VaryMiss,
    /// The client requires it (`no-cache`, `max-age`, `min-fresh`), although the stored response
    /// could have been used.
    Request,
    /// The stored response needs validation.
    Stale,
    /// Only a part of the requested range is stored.
    Partial,
}

impl ForwardReason {
    /// All reasons, for tables of counters.
    pub const ALL: [ForwardReason; 7] = [
        ForwardReason::Bypass,
        ForwardReason::Method,
        ForwardReason::UriMiss,
        ForwardReason::VaryMiss,
        ForwardReason::Request,
        ForwardReason::Stale,
        ForwardReason::Partial,
    ];

    /// Returns the token of RFC 9211.
    pub const fn name(self) -> &'static str {
        match self {
            ForwardReason::Bypass => "bypass",
            ForwardReason::Method => "method",
            ForwardReason::UriMiss => "uri-miss",
            ForwardReason::VaryMiss => "vary-miss",
            ForwardReason::Request => "request",
            ForwardReason::Stale => "stale",
            ForwardReason::Partial => "partial",
        }
    }
}

/// The member of the list for this cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheStatus {
    /// Answered from the store.
    Hit { ttl_seconds: i64 },
    /// Answered from the second tier.
    TierHit { ttl_seconds: i64 },
    /// Answered from the store in part, and with slices that the origin is asked for.
    Partial { ttl_seconds: i64 },
    /// Answered with the origin's response, or with an error in its place.
    Forwarded {
        reason: ForwardReason,
        status: Option<StatusCode>,
        stored: bool,
        collapsed: bool,
        refusal: Option<Refusal>,
        /// The seconds for which it is fresh, if it came from the object tier.
        object: Option<i64>,
    },
    /// Answered from the store with a stale response, because the origin failed.
    Stale {
        reason: ForwardReason,
        status: Option<StatusCode>,
        ttl_seconds: i64,
    },
    /// Validated by the origin, then answered from the store.
    Validated {
        reason: ForwardReason,
        ttl_seconds: i64,
        /// It was fresh, and might have been purged in the node's fleet.
        is_untrusted: bool,
    },
    /// Answered by the cache itself: only-if-cached without a stored response.
    Unsatisfied,
}

/// Returns the seconds for which the last cache would have used the response without validation,
/// negative for a stale one. `None` if it does not say that: it has the response from its origin.
pub(crate) fn ttl(headers: &HeaderMap) -> Option<i64> {
    let last = fields::list(headers, &CACHE_STATUS).last()?;
    let last = std::str::from_utf8(last).ok()?;
    let mut parameters = last.split(';').map(str::trim);
    let seconds = parameters.find_map(|one| one.strip_prefix("ttl="))?;
    seconds.parse().ok()
}

/// Returns whether a response with this head is one of an origin, stored or new, by the member of
/// this cache in `Cache-Status`: the other ones are errors that the cache has made itself.
pub fn is_of_origin(headers: &HeaderMap) -> bool {
    let last = fields::list(headers, &CACHE_STATUS).last();
    let last = last.and_then(|last| std::str::from_utf8(last).ok());
    last.is_some_and(|last| {
        let is_own = last.split(';').next().map(str::trim) == Some(NAME);
        let mut parameters = last.split(';').map(str::trim);
        is_own
            && parameters.any(|one| {
                one == "hit" || one.starts_with("fwd-status=") || one.starts_with("ttl=")
            })
    })
}

/// Says in `Cache-Status` why the node has answered by itself, without its cache and its origin
/// (RFC 9211 §2.8, `detail`). `why` is a token.
pub fn name_own_answer(headers: &mut HeaderMap, why: &'static str) {
    if let Ok(value) = HeaderValue::try_from(format!("{NAME}; detail={why}")) {
        headers.insert(CACHE_STATUS, value);
    }
}

impl CacheStatus {
    fn write(self, text: &mut String) {
        text.push_str(NAME);
        // Writing into a String cannot fail.
        let _ = match self {
            CacheStatus::Hit { ttl_seconds } => write!(text, "; hit; ttl={ttl_seconds}"),
            CacheStatus::TierHit { ttl_seconds } => {
                write!(text, "; hit; ttl={ttl_seconds}; detail=recalled")
            }
            CacheStatus::Validated {
                reason,
                ttl_seconds,
                is_untrusted,
            } => {
                let detail = if is_untrusted {
                    "; detail=purges-unknown"
                } else {
                    ""
                };
                write!(
                    text,
                    "; fwd={}; fwd-status=304; ttl={ttl_seconds}{detail}",
                    reason.name()
                )
            }
            CacheStatus::Partial { ttl_seconds } => {
                write!(text, "; fwd=partial; ttl={ttl_seconds}")
            }
            CacheStatus::Unsatisfied => write!(text, "; detail=only-if-cached"),
            CacheStatus::Stale {
                reason,
                status,
                ttl_seconds,
            } => {
                let _ = write!(text, "; fwd={}", reason.name());
                if let Some(status) = status {
                    let _ = write!(text, "; fwd-status={}", status.as_u16());
                }
                write!(text, "; ttl={ttl_seconds}; detail=stale-if-error")
            }
            CacheStatus::Forwarded {
                reason,
                status,
                stored,
                collapsed,
                refusal,
                object,
            } => {
                let _ = write!(text, "; fwd={}", reason.name());
                if let Some(status) = status {
                    let _ = write!(text, "; fwd-status={}", status.as_u16());
                }
                if stored {
                    text.push_str("; stored");
                }
                if collapsed {
                    text.push_str("; collapsed");
                }
                if let Some(ttl_seconds) = object {
                    let _ = write!(text, "; ttl={ttl_seconds}");
                }
                match (object, refusal) {
                    (Some(_), _) => write!(text, "; detail=object-store"),
                    (None, Some(refusal)) => write!(text, "; detail={}", refusal.name()),
                    (None, None) => Ok(()),
                }
            }
        };
    }

    /// Returns the whole field: the members of caches nearer to the origin (RFC 9211 §2: in order,
    /// the one nearest to the client last), then this one.
    pub(crate) fn after(self, earlier: &str) -> HeaderValue {
        // The value of most misses, built once.
        const STORED: CacheStatus = CacheStatus::Forwarded {
            reason: ForwardReason::UriMiss,
            status: Some(StatusCode::OK),
            stored: true,
            collapsed: false,
            refusal: None,
            object: None,
        };
        if earlier.is_empty() && self == STORED {
            return HeaderValue::from_static("larder; fwd=uri-miss; fwd-status=200; stored");
        }
        if earlier.is_empty() && self == (CacheStatus::Hit { ttl_seconds: 0 }) {
            return HeaderValue::from_static("larder; hit; ttl=0");
        }
        let mut text = String::with_capacity(earlier.len() + 48);
        if !earlier.is_empty() {
            text.push_str(earlier);
            text.push_str(", ");
        }
        self.write(&mut text);
        HeaderValue::try_from(text).expect("a header value with tokens and numbers after it")
    }

    /// Sets the field.
    pub(crate) fn set(self, headers: &mut HeaderMap) {
        let earlier = earlier(headers);
        headers.insert(CACHE_STATUS, self.after(&earlier));
    }
}

/// Returns the `Cache-Status` of other caches as one line, without bytes that are not visible
/// ASCII.
pub(crate) fn earlier(headers: &HeaderMap) -> String {
    if !headers.contains_key(CACHE_STATUS) {
        return String::new();
    }
    let lines: Vec<&str> = headers
        .get_all(CACHE_STATUS)
        .into_iter()
        .filter_map(|line| line.to_str().ok())
        .collect();
    lines.join(", ")
}

/// Appends the value of a hit, as [`CacheStatus::after`] returns it for [`CacheStatus::Hit`].
pub(crate) fn append_hit(ttl_seconds: i64, earlier: &str, line: &mut Vec<u8>) {
    if !earlier.is_empty() {
        line.extend_from_slice(earlier.as_bytes());
        line.extend_from_slice(b", ");
    }
    line.extend_from_slice(NAME.as_bytes());
    line.extend_from_slice(b"; hit; ttl=");
    line.extend_from_slice(itoa::Buffer::new().format(ttl_seconds).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a plain hit states another `Cache-Status` than any other hit.
    #[test]
    fn a_hit_is_written_in_two_ways() {
        for earlier in ["", "edge; hit", "a; fwd=miss, b; hit"] {
            for ttl_seconds in [i64::MIN, -1, 0, 7, 86_400, i64::MAX] {
                let mut line = Vec::new();
                append_hit(ttl_seconds, earlier, &mut line);
                assert_eq!(
                    line,
                    CacheStatus::Hit { ttl_seconds }.after(earlier).as_bytes()
                );
            }
        }
    }
}
