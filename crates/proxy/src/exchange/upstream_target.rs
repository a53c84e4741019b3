//! The target of a request to the origin, and the fields that describe its client.

use crate::exchange::peers::{LARDER_CLIENT, Owned};
use crate::exchange::request_rules::Ruled;
use crate::message::field_names::{X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};
use crate::message::informational::Turn;
use crate::origin::server_requests::ServerRequests;
use ::http::header::HOST;
use ::http::uri::PathAndQuery;
use ::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use larder_http::remove_own_hop;
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
    /// The other nodes of the fleet that are asked before the origin.
    pub(crate) owned: Option<Box<Owned>>,
    /// True for slices of a representation that is known: nothing else is of use.
    pub(crate) is_of_slices: bool,
    /// True if another node asks. It has added its client to `X-Forwarded-For` already.
    pub(crate) is_of_peer: bool,
}

impl UpstreamTarget {
    /// Returns it for a request of which the client learns nothing.
    pub(crate) fn without_client(&self) -> UpstreamTarget {
        UpstreamTarget {
            target: self.target.clone(),
            peer: self.peer.clone(),
            client: self.client,
            scheme: self.scheme,
            host: self.host.clone(),
            client_host: self.client_host.clone(),
            interims: None,
            protocols: None,
            rules: None,
            trailers: false,
            servers: None,
            owned: None,
            is_of_slices: self.is_of_slices,
            is_of_peer: self.is_of_peer,
        }
    }
}

/// Sets the fields of a request to another node: the client's host, and who it is.
pub(crate) fn set_peer_headers(headers: &mut HeaderMap, upstream_target: &UpstreamTarget) {
    remove_own_hop(headers);
    set_forwarded_headers(headers, upstream_target);
    headers.remove(X_FORWARDED_HOST);
    headers.remove(X_FORWARDED_PROTO);
    headers.insert(HOST, upstream_target.client_host.clone());
    let UpstreamTarget { scheme, client, .. } = upstream_target;
    // It is visible ASCII.
    if let Ok(client) = HeaderValue::try_from(format!("{scheme} {client}")) {
        headers.insert(LARDER_CLIENT, client);
    }
}

/// Sets the fields that describe client and target. The client's own are gone, but for the
/// addresses that it names.
pub(crate) fn set_forwarded_headers(headers: &mut HeaderMap, upstream_target: &UpstreamTarget) {
    if !upstream_target.is_of_peer {
        add_client(headers, &upstream_target.peer);
    }
    headers.insert(
        X_FORWARDED_PROTO,
        HeaderValue::from_static(upstream_target.scheme),
    );
    headers.insert(X_FORWARDED_HOST, upstream_target.client_host.clone());
    headers.insert(HOST, upstream_target.host.clone());
}

/// Appends the client's address to `X-Forwarded-For`.
fn add_client(headers: &mut HeaderMap, peer: &HeaderValue) {
    let mut path: Vec<u8> = Vec::new();
    for line in headers.get_all(X_FORWARDED_FOR) {
        path.extend_from_slice(line.as_bytes());
        path.extend_from_slice(b", ");
    }
    let mut peer = peer.clone();
    if !path.is_empty() {
        path.extend_from_slice(peer.as_bytes());
        peer = HeaderValue::from_maybe_shared(Bytes::from(path)).unwrap_or(peer);
    }
    headers.insert(X_FORWARDED_FOR, peer);
}
