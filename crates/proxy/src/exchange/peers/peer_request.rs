//! Requests of other nodes of the fleet, to the one that owns the object.
//!
//! The node that asks has applied the rules to its client: who may ask, how often, what the origin
//! learns, and what the client gets. Here they only say under which URL a response is stored, for
//! how long, and from which origin it comes. The response leaves before the rules for clients, so
//! that each of them is applied once.
//!
//! A response of the origin, new or stored, is marked ([`mark`]). What is not, this node has made
//! itself, and it is no answer: the other node asks the origin then.

use crate::exchange::outgoing::{Outgoing, own_answer};
use crate::exchange::peers::{
    BEHIND, BUSY, LARDER_CLIENT, LARDER_MIN, LARDER_PEER, LATE, RESPONSE,
};
use crate::exchange::proxy::Proxy;
use ::http::request::Parts;
use ::http::{HeaderValue, Method, Response, StatusCode};
use bytes::Bytes;
use larder_http::is_of_origin;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

/// Says that the origin did not answer in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OriginIsLate;

/// Why this node does not answer: the value of [`LARDER_PEER`].
#[derive(Clone, Debug)]
struct Refusal(HeaderValue);

/// Returns the scheme and the address of the client for which another node asks.
pub(crate) fn take_client(parts: &mut Parts) -> (&'static str, Option<IpAddr>) {
    let said = parts.headers.remove(LARDER_CLIENT);
    let said = said.as_ref().and_then(|value| value.to_str().ok());
    let (scheme, client) = said
        .and_then(|said| said.split_once(' '))
        .unwrap_or_default();
    let scheme = if scheme == "https" { "https" } else { "http" };
    let client = client.parse().ok();
    (
        scheme,
        client.filter(|client: &IpAddr| !client.is_unspecified()),
    )
}

/// Returns the answer to a request that needs no object, or that this node refuses.
pub(crate) fn answer(proxy: &Proxy, parts: &mut Parts) -> Option<Response<Outgoing>> {
    if parts.method == Method::OPTIONS {
        let mut there = Response::new(Outgoing::whole(Bytes::new()));
        *there.status_mut() = StatusCode::NO_CONTENT;
        return Some(there);
    }
    if parts.method != Method::GET {
        let text = "larder: nodes ask each other by GET\n";
        return Some(own_answer(StatusCode::METHOD_NOT_ALLOWED, text, "peer"));
    }
    if let Some(peers) = proxy.peers() {
        peers.counters().received.fetch_add(1, Ordering::Relaxed);
    }
    let minimum = parts.headers.remove(LARDER_MIN);
    let minimum = minimum.as_ref().and_then(|value| value.to_str().ok());
    let fleet = proxy.shards().fleet();
    let has_applied = |position| fleet.is_some_and(|fleet| fleet.has_applied(position));
    if !minimum.is_some_and(has_applied) {
        return Some(refusal(BEHIND));
    }
    None
}

/// Returns the answer to a request for which there is no place. It does not wait for one: the other
/// node holds a place meanwhile, for which a request of this node may wait.
pub(crate) fn busy() -> Response<Outgoing> {
    refusal(BUSY)
}

/// Marks an answer of the origin, and one that did not come in time.
pub(crate) fn mark(response: &mut Response<Outgoing>) {
    let refused = response.extensions_mut().remove::<Refusal>();
    let is_late = response.extensions_mut().remove::<OriginIsLate>().is_some();
    let headers = response.headers_mut();
    // The origin may say what it likes.
    headers.remove(LARDER_PEER);
    if let Some(Refusal(reason)) = refused {
        headers.insert(LARDER_PEER, reason);
    } else if is_of_origin(headers) {
        headers.insert(LARDER_PEER, RESPONSE);
    } else if is_late {
        headers.insert(LARDER_PEER, LATE);
    }
}

fn refusal(reason: HeaderValue) -> Response<Outgoing> {
    let text = "larder: this node does not answer for the object now\n";
    let mut refusal = own_answer(StatusCode::SERVICE_UNAVAILABLE, text, "peer");
    refusal.extensions_mut().insert(Refusal(reason));
    refusal
}
