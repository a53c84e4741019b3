//! `Max-Forwards` (RFC 9110 §7.6.2): OPTIONS and TRACE name with it the hop that answers. An
//! intermediary has to obey it for these two methods, and for no other.

use crate::exchange::outgoing::Outgoing;
use ::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, MAX_FORWARDS,
    PROXY_AUTHORIZATION,
};
use ::http::request::Parts;
use ::http::{HeaderValue, Method, Response};
use bytes::Bytes;

/// Decrements the value. At zero, returns this hop's answer. A value that is no number passes
/// unchanged.
pub(crate) fn spend(parts: &mut Parts) -> Option<Response<Outgoing>> {
    if parts.method != Method::OPTIONS && parts.method != Method::TRACE {
        return None;
    }
    let left = hops(parts.headers.get(MAX_FORWARDS)?)?;
    let Some(left) = left.checked_sub(1) else {
        return Some(if parts.method == Method::TRACE {
            reflection(parts)
        } else {
            nothing()
        });
    };
    parts.headers.insert(MAX_FORWARDS, HeaderValue::from(left));
    None
}

/// A value above the type's range is larger than any number of hops.
fn hops(value: &HeaderValue) -> Option<u64> {
    let digits = value
        .to_str()
        .ok()
        .filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))?;
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// The answer to OPTIONS: empty.
fn nothing() -> Response<Outgoing> {
    answer(Bytes::new())
}

/// The answer to TRACE: the request, without its secret fields (RFC 9110 §9.3.8).
fn reflection(parts: &Parts) -> Response<Outgoing> {
    let mut text = format!("{} {} {:?}\r\n", parts.method, parts.uri, parts.version).into_bytes();
    for (name, value) in &parts.headers {
        if ![AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].contains(name) {
            text.extend_from_slice(
                &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat(),
            );
        }
    }
    text.extend_from_slice(b"\r\n");
    let mut response = answer(Bytes::from(text));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("message/http"));
    response
}

fn answer(text: Bytes) -> Response<Outgoing> {
    let length = HeaderValue::from(text.len());
    let mut response = Response::new(Outgoing::whole(text));
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
