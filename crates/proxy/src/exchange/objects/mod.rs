//! The third tier: objects of a store that nodes share, asked before the origin.
//!
//! A fresh object is the response. Another one is confirmed by the origin first, with a request
//! that has no body in its answer: then the fields are those of the confirmation, and the body is
//! the object's. Whatever else the origin answers is the response. If an object does not come, the
//! origin is asked as if there were none; if its body breaks off, the rest comes from the origin.

mod object_body;

use crate::origin::origin_body::OriginBody;
use ::http::Response;
use larder_http::{FreshObject, ObjectHead};
use larder_object_host::Found;
use object_body::ObjectBody;
use std::sync::atomic::AtomicU64;

/// Says that a response is an object; with what is known of a fresh one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromObject(pub(crate) Option<FreshObject>);

/// What objects came to.
#[derive(Default)]
pub(crate) struct ObjectCounters {
    /// Responses without the origin.
    pub(crate) fresh: AtomicU64,
    /// Responses that the origin has confirmed.
    pub(crate) confirmed: AtomicU64,
    /// Objects that the origin has not confirmed.
    pub(crate) outdated: AtomicU64,
    /// Bytes that the origin did not send.
    pub(crate) saved_bytes: AtomicU64,
}

/// Returns the response that is an object.
pub(crate) fn response(
    head: ObjectHead,
    fresh: Option<FreshObject>,
    found: Found,
) -> Response<OriginBody> {
    let body = OriginBody::new(ObjectBody::new(found.body, head.body_bytes));
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response.extensions_mut().insert(FromObject(fresh));
    response
}
