//! An origin that is no HTTP server: a trait that a host implements.

use crate::message::upload::Upload;
use crate::origin::origin_body::OriginBody;
use ::http::uri::PathAndQuery;
use ::http::{HeaderMap, Method, Response};
use larder_http::UpstreamFailure;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// An origin of the requests that match none of `[[http.origins]]`, in the place of an HTTP server.
/// HTTP over NDN is one (`larder-gateway`).
///
/// A response of unknown length without its own framing has the version HTTP/1.1: its body ends
/// with its connection, so it may have been cut. A response of HTTP/2 has no such doubt.
pub trait Origin: fmt::Debug + Send + Sync {
    /// Returns its name for the status page.
    fn name(&self) -> String;

    /// Sends a request. The future ends with the head of the response.
    fn ask<'a>(&'a self, request: OriginRequest) -> OriginFuture<'a>;
}

/// The future of [`Origin::ask`].
pub type OriginFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Response<OriginBody>, UpstreamFailure>> + Send + 'a>>;

/// A request to an [`Origin`].
pub struct OriginRequest {
    /// The method.
    pub method: Method,
    /// The object's authority, as it is keyed.
    pub authority: String,
    /// Path and query, or the `*` of OPTIONS.
    pub target: PathAndQuery,
    /// The fields, complete, with `Host`.
    pub headers: HeaderMap,
    /// The body, as the client sends it.
    pub body: Upload,
}
