//! Connections of clients, in each version of HTTP.

pub(crate) mod client_connections;
pub(crate) mod client_stream;
pub(crate) mod framing;
pub(crate) mod http2;
pub(crate) mod http2_stream;
#[cfg(feature = "http3")]
pub(crate) mod http3;
pub(crate) mod partial_heads;
pub(crate) mod plain;
pub(crate) mod request_counter;
pub(crate) mod stream_activity;
