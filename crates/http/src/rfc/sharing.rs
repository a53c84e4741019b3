//! Decides whether one client's response may be given to others, and for how long. It is for a
//! gateway to a network whose nodes store passing Data and give the same Data to all simultaneous
//! requests: the gateway has the role of a cache without storing responses.

use crate::now::Now;
use crate::rfc::freshness::Freshness;
use crate::rfc::{fields, storability, targeted};
use http::{HeaderMap, HeaderName, StatusCode};
use std::time::Duration;

/// The clients that may get a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only the client that requested it (RFC 9111 §3).
    Never,
    /// Others, after a validation at the origin (§5.2.2.4, §4.2).
    WhenValidated,
    /// All clients with the same request, for this time from now.
    For(Duration),
}

/// Evaluates a response that was received at `now`, to a GET or HEAD without credentials, and
/// without directives about its age. A 304 is evaluated by its fields for the whole, a 206 as the
/// whole would be; `targets` are response fields for this cache (RFC 9213).
pub fn sharing(
    status: StatusCode,
    headers: &HeaderMap,
    targets: &[HeaderName],
    now: Now,
) -> Sharing {
    let whole = matches!(
        status,
        StatusCode::NOT_MODIFIED | StatusCode::PARTIAL_CONTENT
    );
    let status = if whole { StatusCode::OK } else { status };
    let says = targeted::directives(headers, targets);
    let mut dated = headers.clone();
    fields::ensure_date(&mut dated, now);
    let freshness = Freshness::of(status, &dated, &says, now.time, now);
    // A response that could never be reused is not shared, although nothing forbids that it is
    // public.
    match storability::judge(
        status,
        &dated,
        &says,
        false,
        freshness.has_lifetime(),
        false,
    ) {
        Err(storability::Refusal::Useless) => return Sharing::WhenValidated,
        Err(_) => return Sharing::Never,
        Ok(()) => {}
    }
    match u64::try_from(freshness.ttl_seconds(now.time)) {
        Ok(seconds @ 1..) if freshness.is_reusable(now.time) => {
            Sharing::For(Duration::from_secs(seconds))
        }
        _ => Sharing::WhenValidated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use larder_units::Time;

    /// Failure: every client in an NDN network gets one user's session, or yesterday's page.
    #[test]
    fn only_what_a_shared_cache_may_reuse_is_shared() {
        let now = Now {
            time: Time::from_secs(1000),
            unix_seconds: 784_111_777,
        };
        let of = |status: u16, fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            sharing(
                StatusCode::from_u16(status).unwrap(),
                &headers,
                &[HeaderName::from_static("cdn-cache-control")],
                now,
            )
        };
        let seconds = |seconds| Sharing::For(Duration::from_secs(seconds));
        assert_eq!(of(200, &[("cache-control", "max-age=60")]), seconds(60));
        assert_eq!(
            of(206, &[("cache-control", "max-age=60"), ("age", "50")]),
            seconds(10)
        );
        assert_eq!(of(304, &[("cache-control", "max-age=60")]), seconds(60));
        assert_eq!(
            of(404, &[("cache-control", "s-maxage=5, max-age=60")]),
            seconds(5)
        );
        assert_eq!(
            of(
                200,
                &[
                    ("cdn-cache-control", "max-age=7"),
                    ("cache-control", "no-store")
                ]
            ),
            seconds(7)
        );
        assert_eq!(
            of(200, &[("last-modified", "Sun, 06 Nov 1994 08:47:57 GMT")]),
            seconds(10),
            "by the heuristic"
        );
        for validated in [
            &[][..],
            &[("etag", "\"a\"")],
            &[("cache-control", "no-cache"), ("etag", "\"a\"")],
        ] {
            assert_eq!(of(200, validated), Sharing::WhenValidated, "{validated:?}");
        }
        for never in [
            ("cache-control", "private, max-age=60"),
            ("cache-control", "no-store"),
            ("vary", "*"),
            ("set-cookie", "session=1"),
        ] {
            assert_eq!(
                of(200, &[never, ("etag", "\"a\"")]),
                Sharing::Never,
                "{never:?}"
            );
        }
        assert_eq!(of(401, &[("cache-control", "max-age=60")]), Sharing::Never);
    }
}
