//! A WebSocket on a stream of HTTP/2 (extended CONNECT, RFC 8441), which becomes an `Upgrade` of
//! HTTP/1.1 at the origin.
//!
//! HTTP/2 needs no handshake of its own, so the key and its answer (RFC 6455 §4.1) are between this
//! proxy and the origin.

use crate::exchange::outgoing::{Outgoing, own_answer};
use ::http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY};
use ::http::request::Parts;
use ::http::{HeaderValue, Method, Response, StatusCode};
use h2::ext::Protocol;
use std::any::Any;
use std::sync::Arc;
use tungstenite::handshake::client::generate_key;
use tungstenite::handshake::derive_accept_key;

/// Keeps a connection from being taken for idle while it exists.
#[derive(Clone)]
pub(crate) struct KeptBusy {
    _busy: Arc<dyn Any + Send + Sync>,
}

impl KeptBusy {
    /// The connection is busy until the last copy of this is dropped.
    pub(crate) fn new(busy: impl Any + Send + Sync) -> KeptBusy {
        KeptBusy {
            _busy: Arc::new(busy),
        }
    }
}

/// The request of a stream for a WebSocket.
pub(crate) struct WebSocketStream {
    key: String,
    /// Keeps the connection of the stream from being taken for idle.
    _busy: Option<KeptBusy>,
}

impl WebSocketStream {
    /// Turns the request of a stream for a WebSocket into the GET of its handshake. `None` for
    /// other protocols.
    pub(crate) fn of(parts: &mut Parts) -> Option<WebSocketStream> {
        let protocol = parts.extensions.remove::<Protocol>()?;
        if protocol.as_str() != "websocket" {
            return None;
        }
        let key = generate_key();
        parts.method = Method::GET;
        parts
            .headers
            .insert(SEC_WEBSOCKET_KEY, HeaderValue::try_from(&key).ok()?);
        Some(WebSocketStream {
            key,
            _busy: parts.extensions.remove(),
        })
    }

    /// Turns the 101 of the origin into the response to the stream. Returns false if the origin has
    /// not answered the key.
    pub(crate) fn accept(&self, response: &mut Response<Outgoing>) -> bool {
        let accepted = response.headers_mut().remove(SEC_WEBSOCKET_ACCEPT);
        *response.status_mut() = StatusCode::OK;
        accepted.is_some_and(|accepted| accepted == derive_accept_key(self.key.as_bytes()))
    }
}

/// Returns the response to a stream whose origin has answered, but not with a 101: a success would
/// open the WebSocket.
pub(crate) fn not_opened() -> Response<Outgoing> {
    own_answer(
        StatusCode::BAD_GATEWAY,
        "larder: the origin does not open a WebSocket\n",
        "no-websocket",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::Request;

    /// The example of RFC 6455 §1.3.
    #[test]
    fn another_answer_than_that_to_the_key_opens_a_websocket() {
        let stream = WebSocketStream {
            key: "dGhlIHNhbXBsZSBub25jZQ==".to_owned(),
            _busy: None,
        };
        let answer = |accept: Option<&'static str>| {
            let mut response = own_answer(StatusCode::SWITCHING_PROTOCOLS, "", "test");
            accept.map(|accept| {
                response
                    .headers_mut()
                    .insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::from_static(accept))
            });
            stream.accept(&mut response)
        };
        assert!(answer(Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")));
        assert!(!answer(Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo")));
        assert!(!answer(None));
        // Without the protocol, it is no such request.
        assert!(WebSocketStream::of(&mut Request::new(()).into_parts().0).is_none());
    }
}
