//! One exchange: from the normal form of a request to its response.

pub(crate) mod acme_challenge;
pub(crate) mod assemble;
pub(crate) mod client;
pub(crate) mod disk_body;
pub(crate) mod fill;
pub(crate) mod https_redirect;
pub(crate) mod live;
pub(crate) mod max_forwards;
pub(crate) mod objects;
pub(crate) mod observed;
pub(crate) mod outgoing;
pub(crate) mod peers;
pub(crate) mod proxy;
pub(crate) mod request_rules;
pub(crate) mod service;
pub(crate) mod tunnel;
pub(crate) mod upgrade;
pub(crate) mod upstream;
pub(crate) mod upstream_request;
pub(crate) mod upstream_target;
pub(crate) mod websocket_stream;
