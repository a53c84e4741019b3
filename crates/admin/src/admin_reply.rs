//! Responses of the admin server.

use crate::admin_body::AdminBody;
use ::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::{HeaderValue, Response, StatusCode};
use bytes::Bytes;

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

/// Returns a page of this content type.
pub(crate) fn page(status: StatusCode, kind: &'static str, text: String) -> Response<AdminBody> {
    of_body(status, kind, AdminBody::whole(Bytes::from(text)))
}

/// Returns a response with this body.
pub(crate) fn of_body(
    status: StatusCode,
    kind: &'static str,
    body: AdminBody,
) -> Response<AdminBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Returns a 503 for a state that passes.
pub(crate) fn unready(line: &str) -> Response<AdminBody> {
    let mut response = page(StatusCode::SERVICE_UNAVAILABLE, TEXT, line.to_owned());
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Returns a 405 with the methods that are allowed.
pub(crate) fn not_allowed(methods: &'static str, line: &str) -> Response<AdminBody> {
    let mut response = page(StatusCode::METHOD_NOT_ALLOWED, TEXT, line.to_owned());
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// Returns a 401 that asks for the token.
pub(crate) fn unauthorized(line: &str) -> Response<AdminBody> {
    let mut response = page(StatusCode::UNAUTHORIZED, TEXT, line.to_owned());
    response
        .headers_mut()
        .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
