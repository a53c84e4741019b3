//! May this response be stored in a shared cache? (RFC 9111 §3, §3.5)

use crate::limits;
use crate::rfc::directives::ResponseDirectives;
use crate::rfc::{fields, freshness};
use http::header::{ETAG, LAST_MODIFIED, SET_COOKIE, VARY};
use http::{HeaderMap, StatusCode};

/// Why a response is not stored; its name goes into `Cache-Status` as `detail` and into the
/// counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request's method, target or body is not one the cache works with.
    Request,
    /// `no-store` in the request or the response.
    NoStore,
    /// `private` in the response.
    Private,
    /// The request carried `Authorization` and the response does not allow to share it (§3.5).
    Authorization,
    /// `must-understand` with a status that this cache does not understand; partial content; a
    /// status that speaks of the request.
    Status,
    /// Neither fresh nor possible to validate, so it could never be used.
    Useless,
    /// `Vary: *`, more names than [`limits::VARY_NAMES`], or one that differs with every client.
    Vary,
    /// A cookie, which is for one client unless the operator says otherwise.
    SetCookie,
    /// More header bytes or a larger body than the limits allow.
    TooLarge,
    /// The room for bodies under way is used up.
    Busy,
    /// Its length fields contradict each other, or its transfer coding is unknown.
    Unframed,
    /// The policy did not admit it.
    NotAdmitted,
    /// Trailers are announced, which the cache does not keep (RFC 9110 §6.5.1).
    Trailers,
    /// Its target was invalidated, or a later request's response was stored, during the fetch.
    Invalidated,
}

impl Refusal {
    /// All of them, for tables of counters.
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

    /// A token.
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

/// Statuses whose caching rules this cache implements, for `must-understand` (§5.2.2.3).
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

/// Returns true for errors that one client can cause for a URL, by what is not in the key. If such
/// a response were stored because it has a lifetime, which a server may add to all of its
/// responses, one odd request would take the page from everybody (cache-poisoned denial of service,
/// Nguyen et al., CCS 2019). Only a rule that names the status stores them.
///
/// * 400: the request is malformed, for this server; a header block that is too large, too.
/// * 402, 403, 451: the client, its address or its country may not have it.
/// * 406: nothing suits the client's `Accept` fields, without a `Vary` that says so.
/// * 409, 422, 423, 424: the state or the content of one request.
/// * 500: a cookie or a field that the application does not expect, more often than the page.
/// * 505 to 508, 510: the version, the negotiation, the way or an extension of the request.
///
/// Not among them: 404 and 410, which are about the target; 405 and 501, which are about its
/// methods (a host removes the fields that override the method of a GET); 414, whose cause is in
/// the key; 502, 503 and 504, which are about the origin at this time, and which it may want stored
/// for some seconds.
fn is_of_some_requests(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        400 | 402 | 403 | 406 | 409 | 422 | 423 | 424 | 451 | 500 | 505 | 506 | 507 | 508 | 510
    )
}

/// Judges the response to a GET that did not itself forbid storage. `authorized`: the request had
/// `Authorization`.
pub(crate) fn judge(
    status: StatusCode,
    headers: &HeaderMap,
    says: &ResponseDirectives,
    authorized: bool,
    has_lifetime: bool,
    share_cookies: bool,
) -> Result<(), Refusal> {
    // §3: the status is final; 206 and 304 need rules of their own. A Content-Range elsewhere means
    // nothing (RFC 9110 §14.4).
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
        // §5.2.2.3: it overrules no-store where the status is understood.
        if !is_understood(status) {
            return Err(Refusal::Status);
        }
    } else if says.no_store {
        return Err(Refusal::NoStore);
    }
    if says.private {
        return Err(Refusal::Private);
    }
    // §3.5: not without must-revalidate, public or s-maxage. A rule's lifetime takes the place of
    // must-revalidate, and of an s-maxage that lets nobody reuse the response.
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
    // §7.3: a cookie does not forbid storage; an origin that minds says so. Many do not, and send
    // `public`, `s-maxage` or a targeted field with a session: a framework adds the lifetime, and
    // another part of it the cookie. So only the operator makes a cookie shared.
    if headers.contains_key(SET_COOKIE) && !share_cookies {
        return Err(Refusal::SetCookie);
    }
    let vary = fields::list(headers, &VARY);
    // The host writes X-Forwarded-For, after the client's value that a selector would hold: it
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
