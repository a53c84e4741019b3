//! What all other parts use: limits, errors, sockets, time limits, shares of places.

pub(crate) mod alt_svc;
pub(crate) mod client_shares;
pub(crate) mod drain;
pub(crate) mod error;
pub(crate) mod fair_places;
pub(crate) mod fleet;
pub(crate) mod header_limits;
pub(crate) mod http_limits;
pub mod limits;
pub(crate) mod live_limits;
pub(crate) mod places;
pub mod proxy_protocol;
pub(crate) mod slow_client;
pub(crate) mod sockets;
pub(crate) mod threads;
pub(crate) mod timeouts;
