//! The normal form of a request, the client that it comes from, and bodies.

pub(crate) mod authority;
pub(crate) mod body;
pub(crate) mod buffered_upload;
pub(crate) mod channel_body;
pub(crate) mod client_body;
pub(crate) mod field_names;
pub(crate) mod first_bytes;
pub(crate) mod host_pattern;
pub(crate) mod informational;
pub(crate) mod loop_detection;
pub(crate) mod network;
pub(crate) mod normal_request;
pub(crate) mod request_id;
pub(crate) mod target;
pub(crate) mod trusted_proxies;
pub(crate) mod upload;
