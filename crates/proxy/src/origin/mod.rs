//! Origins: their servers, and connections to them.

pub(crate) mod connections;
pub(crate) mod custom;
pub(crate) mod dial;
pub(crate) mod dns;
pub(crate) mod files;
pub(crate) mod generated_origin;
pub(crate) mod named_server;
pub(crate) mod origin_body;
pub(crate) mod origin_config;
pub(crate) mod origin_http2;
pub(crate) mod send_timeout;
pub(crate) mod server_requests;
pub(crate) mod servers;
pub(crate) mod trust;
