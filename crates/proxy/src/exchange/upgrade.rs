//! Requests for another protocol on their connection (`Upgrade`, RFC 9110 §7.8), such as WebSocket
//! (RFC 6455).
//!
//! The origin decides. If it answers `101 Switching Protocols`, the bytes of both connections are
//! copied from then on (`tunnel.rs`); any other response is an ordinary one. Such a request is
//! forwarded by itself: nothing stored answers it, its response is not stored, and no other request
//! follows it.
//!
//! Request smuggling by an upgrade needs a proxy and a server that disagree whether the protocol
//! has changed. Here, it has changed after a 101 whose `Upgrade` names only protocols that this
//! request has offered, and never otherwise:
//!
//! - The stream below hyper holds back what the client sends after such a request, until that is
//!   decided (`client_stream.rs`). After a refusal, these bytes are inspected as HTTP.
//! - `h2c` is never offered to an origin: requests within HTTP/2 would pass without inspection.
//!   Neither are other versions of HTTP, and TLS.
//! - `Upgrade` counts only with HTTP/1.1, named by `Connection`, in a request without a body.
//!   Otherwise it is removed, and the request goes on as HTTP.
//!
//! A stream of HTTP/2 may ask for a WebSocket too (`websocket_stream.rs`).

use crate::exchange::outgoing::Outgoing;
use crate::exchange::tunnel::{ClientEnd, OpeningTunnel, Tunnel, TunnelPlace};
use crate::exchange::websocket_stream::{WebSocketStream, not_opened};
use crate::origin::origin_body::OriginBody;
use ::http::header::{CONNECTION, UPGRADE};
use ::http::request::Parts;
use ::http::{HeaderMap, HeaderName, HeaderValue, Response, Version};
use hyper::upgrade::OnUpgrade;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The change of protocol of one client connection.
#[derive(Clone, Default)]
pub(crate) struct Switch(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// True from the 101 on: what the client sends is no HTTP.
    has_switched: AtomicBool,
    /// Runs when hyper has written the 101.
    tunnel: Mutex<Option<Tunnel>>,
}

impl Switch {
    /// Returns true after a request's upgrade was accepted.
    pub(crate) fn has_switched(&self) -> bool {
        self.0.has_switched.load(Ordering::Relaxed)
    }

    /// Returns the tunnel of the connection, after its last response.
    pub(crate) fn take(&self) -> Option<Tunnel> {
        self.0
            .tunnel
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn set(&self, tunnel: Tunnel) {
        *self.0.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
        self.0.has_switched.store(true, Ordering::Relaxed);
    }
}

/// A client's offer to change the protocol.
pub(crate) struct Offer {
    /// The offered protocols.
    protocols: HeaderValue,
    client: ClientEnd,
    /// Present if a stream of HTTP/2 offers it.
    stream: Option<WebSocketStream>,
}

impl Offer {
    /// Returns the offer of a request, if it may be passed on.
    pub(crate) fn of(parts: &mut Parts, has_body: bool) -> Option<Offer> {
        if let Some(opening) = parts.extensions.remove::<Arc<OpeningTunnel>>() {
            let client = ClientEnd::Stream(Arc::into_inner(opening)?);
            let stream = Some(WebSocketStream::of(parts)?);
            return Some(Offer {
                protocols: HeaderValue::from_static("websocket"),
                client,
                stream,
            });
        }
        // hyper has put it there because of `Upgrade`, or CONNECT.
        let client = ClientEnd::Connection(parts.extensions.remove::<OnUpgrade>()?);
        let is_asked =
            names(&parts.headers, &CONNECTION).any(|name| name.eq_ignore_ascii_case("upgrade"));
        if has_body || !is_asked || parts.version != Version::HTTP_11 {
            return None;
        }
        let protocols: Vec<&str> = names(&parts.headers, &UPGRADE)
            .filter(|name| is_passed_on(name))
            .collect();
        let protocols = HeaderValue::try_from(protocols.join(", "))
            .ok()
            .filter(|all| !all.is_empty())?;
        Some(Offer {
            protocols,
            client,
            stream: None,
        })
    }
}

/// An offer that is on its way to the origin.
pub(crate) struct Upgrade {
    offer: Offer,
    switch: Switch,
    place: TunnelPlace,
}

impl Upgrade {
    pub(crate) fn new(offer: Offer, switch: &Switch, place: TunnelPlace) -> Upgrade {
        Upgrade {
            offer,
            switch: switch.clone(),
            place,
        }
    }

    /// Returns the offered protocols.
    pub(crate) fn protocols(&self) -> &HeaderValue {
        &self.offer.protocols
    }

    /// Returns true if a stream of HTTP/2 offers it: for that, a success is an acceptance.
    pub(crate) fn is_of_stream(&self) -> bool {
        self.offer.stream.is_some()
    }

    /// Opens the tunnel to an origin that has accepted. Returns the response to the client. `body`
    /// is that of the 101, and holds the place at the origin's server.
    pub(crate) fn accept(
        self,
        (accepted, body): (Accepted, OriginBody),
        idle: Duration,
        mut response: Response<Outgoing>,
    ) -> Response<Outgoing> {
        let Accepted { origin, protocol } = accepted;
        let Offer { client, stream, .. } = self.offer;
        if let Some(stream) = stream {
            if !stream.accept(&mut response) {
                return not_opened();
            }
            let tunnel = Tunnel {
                client,
                origin,
                idle,
                place: self.place,
                _body: body,
                _stream: Some(stream),
            };
            tokio::spawn(tunnel.run());
            return response;
        }
        self.switch.set(Tunnel {
            client,
            origin,
            idle,
            place: self.place,
            _body: body,
            _stream: None,
        });
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().insert(UPGRADE, protocol);
        response
    }
}

/// An origin's change of protocol.
#[derive(Clone)]
pub(crate) struct Accepted {
    origin: OnUpgrade,
    protocol: HeaderValue,
}

impl Accepted {
    /// Returns the change of a 101, if it names only protocols that were offered.
    pub(crate) fn of(
        response: &mut Response<impl Sized>,
        offered: Option<&HeaderValue>,
    ) -> Option<Accepted> {
        let origin = response.extensions_mut().remove::<OnUpgrade>()?;
        let offered = offered?.to_str().ok()?;
        let accepted: Vec<&str> = names(response.headers(), &UPGRADE).collect();
        let is_offered =
            |name: &&str| list(offered).any(|offered| offered.eq_ignore_ascii_case(name));
        if accepted.is_empty() || !accepted.iter().all(is_offered) {
            return None;
        }
        let protocol = HeaderValue::try_from(accepted.join(", ")).ok()?;
        Some(Accepted { origin, protocol })
    }
}

/// Returns false for protocols within which requests would pass without inspection.
fn is_passed_on(protocol: &str) -> bool {
    let name = protocol.split('/').next().unwrap_or_default().trim();
    !["h2c", "h2", "h3", "http", "tls"]
        .iter()
        .any(|hidden| name.eq_ignore_ascii_case(hidden))
}

/// Returns the members of a field. A line with other characters than visible ASCII has none.
fn names<'a>(headers: &'a HeaderMap, field: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(field)
        .into_iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(list)
}

fn list(line: &str) -> impl Iterator<Item = &str> {
    line.split(',')
        .map(str::trim)
        .filter(|member| !member.is_empty())
}
