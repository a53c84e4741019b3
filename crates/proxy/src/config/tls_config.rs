//! The configuration of TLS for clients.

use ::http::HeaderName;
use larder_host::ListenConfig;
use std::path::{Path, PathBuf};

/// `[http.tls]`: the listeners for TLS, and the identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The listeners.
    pub listen: Vec<ListenConfig>,
    /// The certificate for clients that name no host, or an unknown one.
    pub certificate: CertificateFiles,
    /// Certificates for the hosts that they name. Of several for one host, the first is used.
    pub certificates: Vec<CertificateFiles>,
    /// Certificates that clients show; `None` if they are not asked for one.
    pub clients: Option<ClientCertificates>,
    /// True if only TLS 1.3 is served.
    pub is_tls13_only: bool,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM file: the server's certificate first, then those that lead to a root.
    pub certificate: PathBuf,
    /// PEM file: its private key, as PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
}

/// The certificates of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// PEM file of the authorities that sign them.
    pub authorities: PathBuf,
    /// True if a client without a certificate gets no connection.
    pub are_required: bool,
    /// The request field that tells the origin the subject of the verified certificate.
    pub subject_field: Option<HeaderName>,
}

impl TlsConfig {
    /// Returns the configuration for one certificate.
    pub fn new(listen: Vec<ListenConfig>, certificate: CertificateFiles) -> TlsConfig {
        TlsConfig {
            listen,
            certificate,
            certificates: Vec::new(),
            clients: None,
            is_tls13_only: false,
        }
    }

    /// Returns all its files.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let pairs = std::iter::once(&self.certificate).chain(&self.certificates);
        let pairs = pairs.flat_map(|pair| [&*pair.certificate, &*pair.key]);
        pairs
            .chain(self.clients.iter().map(|clients| &*clients.authorities))
            .collect()
    }
}
