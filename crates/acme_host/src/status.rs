//! What is known of the certificate of a host.

use larder_acme::{UnixTime, Validity};

/// The certificate of a host, and its orders since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStatus {
    /// The host.
    pub host: String,
    /// When the authority's certificate is valid; `None` while a self-signed one stands in.
    pub validity: Option<Validity>,
    /// When it is renewed.
    pub renewal: Option<UnixTime>,
    /// Certificates that this node has got from the authority.
    pub orders: u64,
    /// Orders of this node that failed.
    pub failures: u64,
    /// The reason of the last failure, as long as no order has succeeded since.
    pub last_error: Option<String>,
}
