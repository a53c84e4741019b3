//! The configuration of the HTTP host.

pub(crate) mod certificate_validity;
pub(crate) mod compression_config;
pub(crate) mod http_config;
mod listen;
pub(crate) mod peers_config;
pub(crate) mod tls_config;
