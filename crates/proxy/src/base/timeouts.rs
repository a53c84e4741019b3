//! `[http.timeouts]`: the time limits of a request's steps.
//!
//! Each limit applies to one party. A slow client never counts against a server: the time for a
//! response begins at the end of the request's body.

use crate::base::limits;
use larder_units::parse_duration;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// `[http.timeouts]`
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// From the first byte of a request to the end of its header block; on a new connection, from
    /// its start.
    #[serde(deserialize_with = "time")]
    pub client_header: Duration,
    /// The time for a client's TLS handshake.
    #[serde(deserialize_with = "time")]
    pub tls_handshake: Duration,
    /// Between two reads of an upload.
    #[serde(deserialize_with = "time")]
    pub client_body: Duration,
    /// The longest time in which a client reads nothing of its response.
    #[serde(deserialize_with = "time")]
    pub client_send: Duration,
    /// Between two requests of a connection.
    #[serde(deserialize_with = "time")]
    pub keepalive: Duration,
    /// The longest time for which a connection of HTTP/1.1 to a server stays idle.
    #[serde(deserialize_with = "time")]
    pub origin_keepalive: Duration,
    /// The time for a connection to a server, with its TLS handshake.
    #[serde(deserialize_with = "time")]
    pub origin_connect: Duration,
    /// The longest time in which a server accepts nothing of a request.
    #[serde(deserialize_with = "time")]
    pub origin_send: Duration,
    /// From the end of a request's body to the head of the response.
    #[serde(deserialize_with = "time")]
    pub origin_response: Duration,
    /// The longest silence within a response's body; [`limits::RELAY_SILENCE`] times as long if no
    /// other request waits for the body.
    #[serde(deserialize_with = "time")]
    pub origin_read: Duration,
    /// The longest silence of both sides after a change of protocol, such as to WebSocket.
    #[serde(deserialize_with = "time")]
    pub upgrade: Duration,
    /// The time for requests in progress at a stop.
    #[serde(deserialize_with = "time")]
    pub shutdown: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            client_header: limits::HEADER_READ,
            tls_handshake: limits::HANDSHAKE,
            client_body: limits::UPLOAD_SILENCE,
            client_send: limits::WRITE_STALL,
            keepalive: limits::KEEPALIVE,
            origin_keepalive: limits::ORIGIN_IDLE,
            origin_connect: limits::CONNECT,
            origin_send: limits::ORIGIN_SEND,
            origin_response: limits::RESPONSE,
            origin_read: limits::BODY_STALL,
            upgrade: limits::TUNNEL_IDLE,
            shutdown: limits::STOP_GRACE,
        }
    }
}

impl Timeouts {
    /// Returns the longest silence within a body that no other request waits for.
    pub(crate) fn origin_relay(&self) -> Duration {
        self.origin_read.saturating_mul(limits::RELAY_SILENCE)
    }

    /// Returns the longest time in which a client reads nothing of one of several streams: twice as
    /// long, because a stream waits for its turn.
    pub(crate) fn client_stream(&self) -> Duration {
        self.client_send.saturating_mul(2)
    }
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = parse_duration(&text).map_err(D::Error::custom)?;
    if (limits::TIMEOUT_LEAST..=limits::TIMEOUT_LONGEST).contains(&time) {
        Ok(time)
    } else {
        Err(D::Error::custom(format!(
            "{text:?}: expected a time from 10ms to 30d"
        )))
    }
}
