//! `[http.limits]`: the largest messages, and how many things of a kind there may be at once.

use crate::base::header_limits::HeaderLimits;
use crate::base::limits;
use larder_units::ByteSize;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// `[http.limits]`
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct HttpLimits {
    /// Fields of one header block.
    #[serde(deserialize_with = "header_fields")]
    pub header_fields: usize,
    /// Bytes of one header block, with its first line.
    #[serde(deserialize_with = "header_size")]
    pub header_size: ByteSize,
    /// Bytes of the body of a client's request; 0 for no limit.
    #[serde(deserialize_with = "size")]
    pub client_body_size: ByteSize,
    /// Connections of clients at once. As many requests may be at the origins.
    #[serde(deserialize_with = "connections")]
    pub connections: usize,
    /// Connections of one client at once; 0 for no limit.
    pub connections_per_client: usize,
    /// Requests on one connection of a client; 0 for no limit.
    pub keepalive_requests: usize,
    /// Concurrent requests on one HTTP/2 connection of a client.
    #[serde(deserialize_with = "http2_streams")]
    pub http2_streams: u32,
    /// Requests with a body in progress.
    #[serde(deserialize_with = "uploads")]
    pub uploads: usize,
    /// Connections with another protocol, such as WebSockets.
    #[serde(deserialize_with = "upgrades")]
    pub upgrades: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            header_fields: limits::HEADER_FIELDS,
            header_size: ByteSize::from_bytes(limits::HEADER_BYTES),
            client_body_size: ByteSize::from_bytes(0),
            connections: limits::CONNECTIONS,
            connections_per_client: 0,
            keepalive_requests: 0,
            http2_streams: limits::STREAMS,
            uploads: limits::UPLOADS,
            upgrades: limits::TUNNELS,
        }
    }
}

impl HttpLimits {
    /// Returns the limits of header blocks, which hold for origins too.
    pub(crate) fn headers(&self) -> HeaderLimits {
        HeaderLimits {
            header_fields: self.header_fields,
            header_size: self.header_size,
        }
    }

    /// Returns the bytes of the body of a request, for which a rule may set another size.
    pub(crate) fn body_bytes(&self, by_rule: Option<ByteSize>) -> u64 {
        match by_rule.unwrap_or(self.client_body_size).bytes() {
            0 => u64::MAX,
            bytes => bytes,
        }
    }

    /// Returns the number of connections that one client may have.
    pub(crate) fn connections_per_client(&self) -> usize {
        or_no_limit(self.connections_per_client)
    }

    /// Returns the number of requests of one connection.
    pub(crate) fn keepalive_requests(&self) -> usize {
        or_no_limit(self.keepalive_requests)
    }
}

fn or_no_limit(number: usize) -> usize {
    if number == 0 { usize::MAX } else { number }
}

fn header_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(
        "header_fields",
        usize::deserialize(deserializer)?,
        limits::HEADER_FIELDS_RANGE,
    )
}

fn connections<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(
        "connections",
        usize::deserialize(deserializer)?,
        1..=limits::CONNECTIONS_MOST,
    )
}

fn http2_streams<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(
        "http2_streams",
        u32::deserialize(deserializer)?,
        limits::STREAMS_RANGE,
    )
}

fn uploads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(
        "uploads",
        usize::deserialize(deserializer)?,
        1..=limits::CONNECTIONS_MOST,
    )
}

fn upgrades<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(
        "upgrades",
        usize::deserialize(deserializer)?,
        0..=limits::CONNECTIONS_MOST,
    )
}

fn within<N: PartialOrd + Display, E: Error>(
    key: &str,
    number: N,
    range: RangeInclusive<N>,
) -> Result<N, E> {
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(E::custom(format!(
            "{key}: expected {} to {}, not {number}",
            range.start(),
            range.end()
        )))
    }
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(D::Error::custom)
}

fn header_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let size = size(deserializer)?;
    let [least, most] = limits::HEADER_BYTES_RANGE.map(ByteSize::from_bytes);
    within("header_size", size, least..=most)
}
