//! Requests of other nodes of the fleet, to the one that owns the object.
//!
//! The node that asks has applied the rules to its client: who may ask, how often, and what the
//! client gets. Here they only say under which URL a response is stored, for how long, and from
//! which origin it comes. The response leaves as the origin sent it, so that they are applied once.

use crate::exchange::outgoing::{Outgoing, plain_error};
use crate::exchange::proxy::Proxy;
use crate::origin::peers::{BEHIND, BUSY, LARDER_MIN, LARDER_PEER};
use ::http::request::Parts;
use ::http::{HeaderValue, Method, Response, StatusCode};
use bytes::Bytes;
use std::sync::atomic::Ordering;

/// Returns the answer to a request that needs no object, or that this node refuses.
pub(crate) fn answer(proxy: &Proxy, parts: &mut Parts) -> Option<Response<Outgoing>> {
    if parts.method == Method::OPTIONS {
        let mut there = Response::new(Outgoing::whole(Bytes::new()));
        *there.status_mut() = StatusCode::NO_CONTENT;
        return Some(there);
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

fn refusal(reason: HeaderValue) -> Response<Outgoing> {
    let text = "larder: this node does not answer for the object now\n";
    let mut refusal = plain_error(StatusCode::SERVICE_UNAVAILABLE, text);
    refusal.headers_mut().insert(LARDER_PEER, reason);
    refusal
}
