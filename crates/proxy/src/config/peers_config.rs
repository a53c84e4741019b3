//! `[fleet.peers]`: where a node answers the other nodes of its fleet, and as whom.

use crate::config::tls_config::{CertificateFiles, ClientCertificates, TlsConfig, TlsVersion};
use larder_host::ListenConfig;
use std::path::PathBuf;

/// What a node needs to share its responses with the other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersConfig {
    /// The listener for them.
    pub listen: ListenConfig,
    /// PEM file of the fleet's authority: it signs the certificates of all nodes.
    pub ca: PathBuf,
    /// The node's certificate, in which its name stands, and its key.
    pub certificate: CertificateFiles,
}

impl PeersConfig {
    /// Returns the TLS of the listener: version 1.3, and only with a certificate of the fleet.
    pub(crate) fn tls(&self) -> TlsConfig {
        TlsConfig {
            clients: ClientCertificates {
                authorities: Some(self.ca.clone()),
                ..ClientCertificates::default()
            },
            min_version: TlsVersion::Tls13,
            http3: false,
            ..TlsConfig::new(Vec::new(), self.certificate.clone())
        }
    }
}
