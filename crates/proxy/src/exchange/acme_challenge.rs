//! The requests of ACME's challenge `http-01` (RFC 8555 §8.3), by which an authority checks that a
//! host is this node.
//!
//! They are answered before the redirect to HTTPS, rules, limits of rules and the cache: none of
//! these may keep a host from its certificate. A token that is not one of this node, or of another
//! that shares its folder, passes to the origin.

use crate::exchange::outgoing::{Outgoing, own_answer};
use ::http::header::CACHE_CONTROL;
use ::http::{HeaderValue, Method, Response, StatusCode};
use larder_acme_host::Certificates;

const PATH: &str = "/.well-known/acme-challenge/";

/// Returns true for the target of such a request.
pub(crate) fn is_one(target: &str) -> bool {
    target.starts_with(PATH)
}

/// Returns the answer to a request; `None` if it is not for an open challenge.
pub(crate) fn answer(
    certificates: &Certificates,
    method: &Method,
    target: &str,
) -> Option<Response<Outgoing>> {
    let token = target.strip_prefix(PATH)?;
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let mut response = own_answer(
        StatusCode::OK,
        certificates.answer(token)?,
        "acme-challenge",
    );
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(response)
}
