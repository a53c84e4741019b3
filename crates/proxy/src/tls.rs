//! TLS for clients: rustls with ring, certificate and key from PEM files, HTTP/2 or HTTP/1.1 by
//! ALPN (RFC 7301).

use crate::error::{Error, Problem};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
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
    pub(super) fn read(config: &TlsConfig) -> Result<Identity, Error> {
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
pub(super) fn read(config: &TlsConfig) -> Result<ServerConfig, Error> {
    let (certificate, key) = ("[http.tls] certificate", "[http.tls] key");
    let of_file = |setting: &'static str, path: &Path| {
        let path = path.to_owned();
        move |error| Error::setting(setting, Problem::Pem { path: path.clone(), error })
    };
    let of_certificate = of_file(certificate, &config.certificate);
    let chain = CertificateDer::pem_file_iter(&config.certificate).map_err(&of_certificate)?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(&of_certificate)?;
    if chain.is_empty() {
        return Err(Error::setting(certificate, Problem::NoCertificate(config.certificate.clone())));
    }
    let private = PrivateKeyDer::from_pem_file(&config.key).map_err(of_file(key, &config.key))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::setting(key, Problem::TlsFile { path: config.key.clone(), error }))?;
    let mut server = builder
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| Error::setting("[http.tls] certificate and key", Problem::Tls(error)))?;
    server.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    // Tickets of one run only: their keys rotate every six hours, and no state is kept per client.
    server.ticketer = ring::Ticketer::new().map_err(|error| Error::setting("[http.tls]", Problem::NoTickets(error)))?;
    Ok(server)
}
