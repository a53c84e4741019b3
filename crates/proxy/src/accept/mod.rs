//! Listeners, TLS, and the threads that serve connections.

pub(crate) mod certificate_watch;
pub(crate) mod distinguished_name;
pub(crate) mod generated_server;
#[cfg(feature = "http3")]
pub(crate) mod http3_listener;
pub(crate) mod listen;
pub(crate) mod listeners;
pub(crate) mod peer_identity;
pub(crate) mod request_threads;
pub(crate) mod running_listeners;
pub(crate) mod serving;
pub(crate) mod sni;
pub(crate) mod tls;
pub(crate) mod udp_sockets;
