//! The certificates of a node that asks others of its fleet, and those that it believes.

use crate::base::error::{Error, Problem};
use crate::config::peers_config::PeersConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// Returns the TLS of connections to other nodes: version 1.3, with certificates on both sides that
/// the fleet's authority has signed.
///
/// # Errors
/// One line: the file and its problem.
pub(crate) fn client_config(config: &PeersConfig) -> Result<Arc<ClientConfig>, Error> {
    const TABLE: &str = "[fleet.peers]";
    let mut roots = RootCertStore::empty();
    for authority in certificates("[fleet.peers] ca", &config.ca)? {
        let added = roots.add(authority);
        added.map_err(|error| Error::setting("[fleet.peers] ca", Problem::Tls(error)))?;
    }
    let files = &config.certificate;
    let chain = certificates("[fleet.peers] certificate", &files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| of_file("[fleet.peers] key", &files.key, error))?;
    let of_tls = |error| Error::setting(TABLE, Problem::Tls(error));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(of_tls)?;
    let mut tls = builder
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| {
            Error::setting(
                TABLE,
                Problem::Pair {
                    certificate: files.certificate.clone(),
                    key: files.key.clone(),
                    error,
                },
            )
        })?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}

fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| of_file(setting, path, error))?;
    if read.is_empty() {
        return Err(Error::setting(
            setting,
            Problem::NoCertificate(path.to_owned()),
        ));
    }
    Ok(read)
}

fn of_file(setting: &str, path: &Path, error: pem::Error) -> Error {
    let path = path.to_owned();
    Error::setting(setting, Problem::Pem { path, error })
}
