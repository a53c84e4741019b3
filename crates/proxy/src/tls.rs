//! TLS for clients: rustls with ring, certificate and key from PEM files, HTTP/2 or HTTP/1.1 by
//! ALPN (RFC 7301).

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// `[http.tls]`: the address for TLS, and the identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// PEM file: the server's certificate first, then those that lead to a root.
    pub certificate: PathBuf,
    /// PEM file: its private key, as PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
}

/// The identity for new connections. It can be replaced while connections run.
pub(super) struct Identity(RwLock<Arc<ServerConfig>>);

impl Identity {
    /// Reads the identity from its files.
    ///
    /// # Errors
    /// As [`read`].
    pub(super) fn read(config: &TlsConfig) -> Result<Identity, String> {
        Ok(Identity(RwLock::new(Arc::new(read(config)?))))
    }

    /// Replaces the identity for new connections.
    pub(super) fn set(&self, config: ServerConfig) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    pub(super) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The ALPN name of HTTP/2.
pub(super) const H2: &[u8] = b"h2";

/// Reads the files.
///
/// # Errors
/// One line: the file and its problem.
pub(super) fn read(config: &TlsConfig) -> Result<ServerConfig, String> {
    fn wrong<E: fmt::Display>(key: &str, path: &Path) -> impl Fn(E) -> String {
        let place = format!("[http.tls] {key}: {}", path.display());
        move |error| format!("{place}: {error}")
    }
    let at_certificate = wrong("certificate", &config.certificate);
    let chain = CertificateDer::pem_file_iter(&config.certificate).map_err(&at_certificate)?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(&at_certificate)?;
    if chain.is_empty() {
        return Err(wrong("certificate", &config.certificate)("no certificate in it; expected PEM"));
    }
    let key = PrivateKeyDer::from_pem_file(&config.key).map_err(wrong("key", &config.key))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(wrong("key", &config.key))?;
    let mut server = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("[http.tls] certificate and key: {error}"))?;
    server.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    // Tickets of one run only: their keys rotate every six hours, and no state is kept per client.
    server.ticketer = ring::Ticketer::new().map_err(|error| format!("[http.tls]: no tickets: {error}"))?;
    Ok(server)
}
