//! Whom to believe that it is an origin: TLS towards `https://` servers, by the system's certificates or by those of a file.

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// The certificates that lead to an origin's, and how to connect with them.
pub(crate) struct Trust {
    roots: Vec<CertificateDer<'static>>,
    pub(crate) config: Arc<ClientConfig>,
}

impl Trust {
    /// By the certificates in the PEM file `ca`; without one, by the system's.
    ///
    /// # Errors
    /// One line: what could not be read, and the way out.
    pub(crate) fn read(ca: Option<&Path>) -> Result<Trust, String> {
        let roots = match ca {
            Some(path) => {
                let wrong = |error: &dyn std::fmt::Display| format!("[http] origin_ca: {}: {error}", path.display());
                let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
                let roots = read.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
                if roots.is_empty() {
                    return Err(wrong(&"no certificate in it; expected PEM"));
                }
                roots
            }
            None => rustls_native_certs::load_native_certs().certs,
        };
        let mut store = RootCertStore::empty();
        let (added, ignored) = store.add_parsable_certificates(roots.iter().cloned());
        // The system's may hold some that rustls does not read; a file was named for what is in it.
        if let Some(path) = ca.filter(|_| ignored > 0) {
            let (path, all) = (path.display(), roots.len());
            return Err(format!(
                "[http] origin_ca: {path}: {ignored} of its {all} certificates cannot be used; take them out, or renew them"
            ));
        }
        if added == 0 {
            let text = "[http] origin_ca: no usable certificate, so that no https:// origin could be believed";
            return Err(format!("{text}; install the system's (ca-certificates), or name a PEM file"));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder =
            builder.with_safe_default_protocol_versions().map_err(|error| format!("[http] origin_ca: {error}"))?;
        let mut config = builder.with_root_certificates(store).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Trust { roots, config: Arc::new(config) })
    }

    /// Whether both believe the same.
    pub(super) fn is_same(&self, other: &Trust) -> bool {
        self.roots == other.roots
    }
}
