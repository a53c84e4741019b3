//! A request on its way to the origin.

use crate::exchange::live::Live;
use crate::exchange::request_rules::Ruled;
use crate::exchange::upgrade::Upgrade;
use crate::exchange::upstream_target::UpstreamTarget;
use crate::message::informational::Turn;
use crate::message::normal_request::target;
use ::http::header::TE;
use ::http::request::Parts;
use ::http::uri::PathAndQuery;
use ::http::{HeaderMap, HeaderValue};
use larder_http::{ContentCoding, RequestHead};
use std::net::IpAddr;
use std::sync::Arc;

/// The target of requests for slices, and the configuration of the client's request, which they
/// keep.
pub(crate) struct LiveTarget {
    pub(crate) live: Arc<Live>,
    pub(crate) target: UpstreamTarget,
}

/// A request on its way to the origin, with its client and its target.
pub(crate) struct UpstreamRequest {
    /// The configuration when it began.
    pub(crate) live: Arc<Live>,
    pub(crate) parts: Parts,
    /// The client's address for `X-Forwarded-For`.
    pub(crate) peer: HeaderValue,
    /// The client, whose places it takes.
    pub(crate) client: IpAddr,
    pub(crate) scheme: &'static str,
    /// The content coding that the client gets, where a response may have one.
    pub(crate) coding: Option<ContentCoding>,
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
    /// True if another node of the fleet asks: this one then asks no third one.
    pub(crate) is_of_peer: bool,
}

impl UpstreamRequest {
    pub(crate) fn upstream_target(&self) -> LiveTarget {
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
        let target = UpstreamTarget {
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
            owned: None,
            is_of_slices: false,
            is_of_peer: self.is_of_peer,
            protocols: self
                .upgrade
                .as_ref()
                .map(|upgrade| Box::new(upgrade.protocols().clone())),
        };
        LiveTarget {
            live: Arc::clone(&self.live),
            target,
        }
    }

    /// Returns the client's own target, and the URL under which the response is stored.
    pub(crate) fn stored_url(&self) -> (PathAndQuery, String) {
        let keyed = target(&self.parts);
        let host = self.host.to_str().unwrap_or_default();
        let own = self.rules.as_ref().map_or(keyed, |rules| rules.target());
        let own = own.parse();
        let own = own.unwrap_or_else(|_| PathAndQuery::from_static("/"));
        (own, format!("{}://{host}{keyed}", self.scheme))
    }

    /// Returns its head, for the cache.
    pub(crate) fn head(&self, has_body: bool) -> RequestHead<'_> {
        // It was created from text.
        head(
            &self.parts,
            self.scheme,
            self.host.to_str().unwrap_or_default(),
            self.coding,
            has_body,
        )
    }
}

pub(crate) fn head<'a>(
    parts: &'a Parts,
    scheme: &'a str,
    authority: &'a str,
    coding: Option<ContentCoding>,
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
        coding,
        confirmed: None,
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
