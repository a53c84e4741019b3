//! Decides whether a response may be stored in a shared cache (RFC 9111 §3, §3.5).

use crate::limits;
use crate::rfc::directives::ResponseDirectives;
use crate::rfc::{fields, freshness};
use http::header::{ETAG, LAST_MODIFIED, SET_COOKIE, VARY};
use http::{HeaderMap, StatusCode};

/// The reason why a response is not stored. Its name goes into `Cache-Status` as `detail` and into
/// the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The cache does not support the request's method, target or body.
    Request,
    /// `no-store` in the request or the response.
    NoStore,
    /// `private` in the response.
    Private,
    /// The request has `Authorization` and the response does not allow to share it (§3.5).
    Authorization,
    /// `must-understand` with a status that this cache does not understand; partial content; a
    /// status that concerns the request.
    Status,
    /// The response is neither fresh nor can it be validated, so it could never be used.
    Useless,
    /// `Vary: *`, more names than [`limits::VARY_NAMES`], or a name that differs with every client.
    Vary,
    /// A cookie, which is for one client unless the operator configures otherwise.
    SetCookie,
    /// More header bytes or a larger body than the limits allow.
    TooLarge,
    /// The memory for bodies in progress is used up.
    Busy,
    /// Its length fields contradict each other, or its transfer coding is unknown.
    Unframed,
    /// The policy did not admit it.
    NotAdmitted,
    /// The response announces trailers, which the cache does not store (RFC 9110 §6.5.1).
    Trailers,
    /// Its target was invalidated, or a later request's response was stored, during the fetch.
    Invalidated,
}

impl Refusal {
    /// All reasons, for tables of counters.
    pub const ALL: [Refusal; 14] = [
        Refusal::Request,
        Refusal::NoStore,
        Refusal::Private,
        Refusal::Authorization,
        Refusal::Status,
        Refusal::Useless,
        Refusal::Vary,
        Refusal::SetCookie,
        Refusal::TooLarge,
        Refusal::Busy,
        Refusal::Unframed,
        Refusal::NotAdmitted,
        Refusal::Trailers,
        Refusal::Invalidated,
    ];

    /// Returns the token.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::Request => "request",
            Refusal::NoStore => "no-store",
            Refusal::Private => "private",
            Refusal::Authorization => "authorization",
            Refusal::Status => "status",
            Refusal::Useless => "no-freshness",
            Refusal::Vary => "vary",
            Refusal::SetCookie => "set-cookie",
            Refusal::TooLarge => "too-large",
            Refusal::Busy => "busy",
            Refusal::Unframed => "unframed",
            Refusal::NotAdmitted => "not-admitted",
            Refusal::Trailers => "trailers",
            Refusal::Invalidated => "invalidated",
        }
    }
}

/// Returns true for statuses whose caching rules this cache implements, for `must-understand`
/// (§5.2.2.3).
fn is_understood(status: StatusCode) -> bool {
    freshness::is_heuristically_cacheable(status) || matches!(status.as_u16(), 302 | 303 | 307)
}

/// Returns true for statuses that depend on the request's fields, body, time or connection, which
/// are not in the key. If such a response were stored, one client's unusual request would determine
/// the answer for all clients, however long the origin allows its storing. RFC 6585 §3 to §6 says
/// so about 428, 429, 431 and 511.
fn is_of_the_request(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        401 | 407
            | 408
            | 411
            | 412
            | 413
            | 415
            | 416
            | 417
            | 421
            | 425
            | 426
            | 428
            | 429
            | 431
            | 511
    )
}

/// Returns true for errors that one client can cause for a URL, by parts of its request that are
/// not in the key. A server may add a lifetime to all of its responses. If such a response were
/// stored because of it, one unusual request would replace the page for all clients (cache-poisoned
/// denial of service, Nguyen et al., CCS 2019). Only a rule that names the status stores them.
///
/// * 400: the request is malformed, for this server; a header block that is too large, too.
/// * 402, 403, 451: the client, its address or its country may not have it.
/// * 406: nothing suits the client's `Accept` fields, without a `Vary` that says so.
/// * 409, 422, 423, 424: the state or the content of one request.
/// * 500: a cookie or a field that the application does not expect, more often than the page.
/// * 505 to 508, 510: the version, the negotiation, the way or an extension of the request.
///
/// Not among them: 404 and 410, which concern the target; 405 and 501, which concern its methods (a
/// host removes the fields that override the method of a GET); 414, whose cause is in the key; 502,
/// 503 and 504, which concern the origin at this time, and which it may want stored for some
/// seconds.
fn is_of_some_requests(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        400 | 402 | 403 | 406 | 409 | 422 | 423 | 424 | 451 | 500 | 505 | 506 | 507 | 508 | 510
    )
}

/// Decides about the response to a GET that did not itself forbid storing. `authorized`: the
/// request had `Authorization`.
pub(crate) fn judge(
    status: StatusCode,
    headers: &HeaderMap,
    says: &ResponseDirectives,
    authorized: bool,
    has_lifetime: bool,
    share_cookies: bool,
) -> Result<(), Refusal> {
    // §3: the status is final; 206 and 304 need rules of their own. A Content-Range with another
    // status has no meaning (RFC 9110 §14.4).
    if status.is_informational()
        || matches!(status.as_u16(), 206 | 304)
        || is_of_the_request(status)
    {
        return Err(Refusal::Status);
    }
    if is_of_some_requests(status) && !says.names_status {
        return Err(Refusal::Status);
    }
    if says.must_understand {
        // §5.2.2.3: it overrules no-store if the status is understood.
        if !is_understood(status) {
            return Err(Refusal::Status);
        }
    } else if says.no_store {
        return Err(Refusal::NoStore);
    }
    if says.private {
        return Err(Refusal::Private);
    }
    // §3.5: only with must-revalidate, public or s-maxage. A rule's lifetime replaces
    // must-revalidate, and an s-maxage that allows no reuse.
    let is_shared = match says.ttl {
        None => says.must_revalidate || says.public || says.s_maxage.is_some(),
        Some(_) => says.public || says.s_maxage.is_some_and(|seconds| seconds > 0),
    };
    if authorized && !is_shared {
        return Err(Refusal::Authorization);
    }
    let explicit = freshness::is_explicit(headers, says);
    if !(explicit || says.public || freshness::is_heuristically_cacheable(status)) {
        return Err(Refusal::Status);
    }
    // §7.3: a cookie does not forbid storing; the origin should. Many origins do not, and send
    // `public`, `s-maxage` or a targeted field with a session: a framework adds the lifetime, and
    // another part of it the cookie. So only the operator can allow to share a cookie.
    if headers.contains_key(SET_COOKIE) && !share_cookies {
        return Err(Refusal::SetCookie);
    }
    let vary = fields::list(headers, &VARY);
    // The host writes X-Forwarded-For after a selector would have read the client's value, so it
    // differs from client to client.
    let unselectable = |name: &[u8]| name == b"*" || name.eq_ignore_ascii_case(b"x-forwarded-for");
    if vary
        .enumerate()
        .any(|(position, name)| unselectable(name) || position >= limits::VARY_NAMES)
    {
        return Err(Refusal::Vary);
    }
    if !has_lifetime && !headers.contains_key(ETAG) && !headers.contains_key(LAST_MODIFIED) {
        return Err(Refusal::Useless);
    }
    if fields::bytes(headers) > limits::STORED_HEADER_BYTES {
        return Err(Refusal::TooLarge);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::CACHE_CONTROL;

    /// Failure: a header block as long as the limit allows is refused, or a longer one is stored.
    #[test]
    fn the_longest_header_block() {
        let judged = |excess: usize| {
            let mut headers =
                HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static("max-age=60"))]);
            let filler =
                limits::STORED_HEADER_BYTES + excess - fields::bytes(&headers) - "x-filler".len();
            headers.insert(
                "x-filler",
                HeaderValue::from_str(&"x".repeat(filler)).unwrap(),
            );
            judge(
                StatusCode::OK,
                &headers,
                &ResponseDirectives::of(&headers),
                false,
                true,
                false,
            )
        };
        assert_eq!((judged(0), judged(1)), (Ok(()), Err(Refusal::TooLarge)));
    }
}
