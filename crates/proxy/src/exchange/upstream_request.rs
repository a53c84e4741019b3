//! A request on its way to the origin, and the fields that describe its client.

use crate::exchange::ruled::Ruled;
use crate::exchange::upgrade::Upgrade;
use crate::message::field_names::{X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};
use crate::message::informational::Turn;
use crate::message::normal_request::target;
use crate::origin::server_requests::ServerRequests;
use ::http::header::{HOST, TE};
use ::http::request::Parts;
use ::http::uri::PathAndQuery;
use ::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use larder_http::RequestHead;
use std::net::IpAddr;
use std::sync::Arc;

/// The target of requests for slices, and the client that they serve.
pub(crate) struct UpstreamTarget {
    pub(crate) target: PathAndQuery,
    /// The client's address for `X-Forwarded-For`.
    pub(crate) peer: HeaderValue,
    /// The client, whose places its requests take.
    pub(crate) client: IpAddr,
    /// The scheme of the client's request: `http` or `https`.
    pub(crate) scheme: &'static str,
    /// The host of the request to the origin: as it is keyed, unless a rule sets another one.
    pub(crate) host: HeaderValue,
    /// The host of the client's request, as it is keyed.
    pub(crate) client_host: HeaderValue,
    /// The informational responses that the client may get before its response. Slices have none:
    /// they are requested after the head of the response has left.
    pub(crate) interims: Option<Turn>,
    /// The protocols that the request offers (`Upgrade`).
    pub(crate) protocols: Option<Box<HeaderValue>>,
    /// The rules of the request.
    pub(crate) rules: Option<Arc<Ruled>>,
    /// True if the client accepts trailers (`TE`).
    pub(crate) trailers: bool,
    /// Gets the requests to servers, if the access log names them.
    pub(crate) servers: Option<ServerRequests>,
}

/// A request on its way to the origin, with its client and its target.
pub(crate) struct UpstreamRequest {
    pub(crate) parts: Parts,
    /// The client's address for `X-Forwarded-For`.
    pub(crate) peer: HeaderValue,
    /// The client, whose places it takes.
    pub(crate) client: IpAddr,
    pub(crate) scheme: &'static str,
    /// The host as it is keyed: the response to `EXAMPLE.com:80` is stored for `example.com`.
    pub(crate) host: HeaderValue,
    /// True if the client waits with its body for `100 Continue` (RFC 9110 §10.1.1).
    pub(crate) expects: bool,
    /// The largest body of the request.
    pub(crate) body_bytes: u64,
    /// The informational responses that the client may get before its response.
    pub(crate) interims: Option<Turn>,
    /// Present if the client offers to change the protocol.
    pub(crate) upgrade: Option<Box<Upgrade>>,
    /// The rules of the request.
    pub(crate) rules: Option<Arc<Ruled>>,
}

impl UpstreamRequest {
    pub(crate) fn upstream_target(&self) -> UpstreamTarget {
        let target = self
            .parts
            .uri
            .path_and_query()
            .cloned()
            .unwrap_or_else(|| PathAndQuery::from_static("/"));
        let rewrite = self
            .rules
            .as_ref()
            .map(|rules| rules.rewrite().clone())
            .unwrap_or_default();
        UpstreamTarget {
            target: rewrite.target.unwrap_or(target),
            peer: self.peer.clone(),
            client: self.client,
            scheme: self.scheme,
            host: rewrite.host.unwrap_or_else(|| self.host.clone()),
            client_host: self.host.clone(),
            interims: self.interims.clone(),
            rules: self.rules.clone(),
            trailers: accepts_trailers(&self.parts.headers),
            servers: self.parts.extensions.get().cloned(),
            protocols: self
                .upgrade
                .as_ref()
                .map(|upgrade| Box::new(upgrade.protocols().clone())),
        }
    }

    /// Returns its head, for the cache.
    pub(crate) fn head(&self, has_body: bool) -> RequestHead<'_> {
        // It was created from text.
        head(
            &self.parts,
            self.scheme,
            self.host.to_str().unwrap_or_default(),
            has_body,
        )
    }
}

pub(crate) fn head<'a>(
    parts: &'a Parts,
    scheme: &'a str,
    authority: &'a str,
    has_body: bool,
) -> RequestHead<'a> {
    RequestHead {
        method: &parts.method,
        scheme,
        authority,
        target: target(parts),
        version: parts.version,
        headers: &parts.headers,
        has_body,
    }
}

/// RFC 9110 §10.1.4: `TE` belongs to one connection. This proxy forwards trailers, so it repeats a
/// client's `trailers` to the origin; some servers of gRPC demand it.
pub(crate) fn accepts_trailers(headers: &HeaderMap) -> bool {
    let lines = headers
        .get_all(TE)
        .into_iter()
        .filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .any(|member| member.trim().eq_ignore_ascii_case("trailers"))
}

/// Sets the fields that describe client and target. The client's own are gone, but for the
/// addresses that it names.
pub(crate) fn set_forwarded_headers(headers: &mut HeaderMap, upstream_target: &UpstreamTarget) {
    let mut path: Vec<u8> = Vec::new();
    for line in headers.get_all(X_FORWARDED_FOR) {
        path.extend_from_slice(line.as_bytes());
        path.extend_from_slice(b", ");
    }
    let mut peer = upstream_target.peer.clone();
    if !path.is_empty() {
        path.extend_from_slice(peer.as_bytes());
        peer = HeaderValue::from_maybe_shared(Bytes::from(path)).unwrap_or(peer);
    }
    headers.insert(X_FORWARDED_FOR, peer);
    headers.insert(
        X_FORWARDED_PROTO,
        HeaderValue::from_static(upstream_target.scheme),
    );
    headers.insert(X_FORWARDED_HOST, upstream_target.client_host.clone());
    headers.insert(HOST, upstream_target.host.clone());
}
