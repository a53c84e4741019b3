//! Verification of `https://` origins, by the system's certificates or by those of a file.

use crate::base::error::{Error, Problem};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use std::path::Path;
use std::sync::Arc;

/// The setting of the file.
const ORIGIN_CA: &str = "[http] origin_ca";

/// The certificates that verify an origin's, and the TLS configuration with them.
pub struct Trust {
    roots: Vec<CertificateDer<'static>>,
    /// The configuration of connections to such servers.
    pub config: Arc<ClientConfig>,
}

impl Trust {
    /// Uses the certificates in the PEM file `ca`, or the system's without one.
    ///
    /// # Errors
    /// A certificate cannot be read or used.
    pub fn read(ca: Option<&Path>) -> Result<Trust, Error> {
        Trust::read_for(ORIGIN_CA, ca)
    }

    /// As [`Trust::read`], for another setting, which errors name.
    ///
    /// # Errors
    /// As [`Trust::read`].
    pub fn read_for(setting: &'static str, ca: Option<&Path>) -> Result<Trust, Error> {
        let roots = match ca {
            Some(path) => {
                let of_file = |error| {
                    Error::setting(
                        setting,
                        Problem::Pem {
                            path: path.to_owned(),
                            error,
                        },
                    )
                };
                let read = CertificateDer::pem_file_iter(path).map_err(of_file)?;
                let roots = read.collect::<Result<Vec<_>, _>>().map_err(of_file)?;
                if roots.is_empty() {
                    return Err(Error::setting(
                        setting,
                        Problem::NoCertificate(path.to_owned()),
                    ));
                }
                roots
            }
            None => rustls_native_certs::load_native_certs().certs,
        };
        let mut store = RootCertStore::empty();
        let (added, ignored) = store.add_parsable_certificates(roots.iter().cloned());
        // The system may have certificates that rustls cannot read. A file was named for its
        // certificates.
        if let Some(path) = ca.filter(|_| ignored > 0) {
            let (path, all) = (path.to_owned(), roots.len());
            return Err(Error::setting(
                setting,
                Problem::UnusableCertificates {
                    path,
                    unusable: ignored,
                    all,
                },
            ));
        }
        if added == 0 {
            return Err(Error::setting(setting, Problem::NoTrustAnchor));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::setting(setting, Problem::Tls(error)))?;
        let mut config = match ca {
            None => builder.with_root_certificates(store).with_no_client_auth(),
            Some(_) => {
                let verifier = Listed::new(setting, roots.clone(), store)?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(verifier))
                    .with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Trust {
            roots,
            config: Arc::new(config),
        })
    }

    /// Returns true if both verify the same.
    pub(crate) fn is_same(&self, other: &Trust) -> bool {
        self.roots == other.roots
    }
}

/// Accepts certificates that a certificate of the file verifies, and a server's certificate that
/// stands in the file itself. A self-signed one is often marked as an authority's, and webpki
/// accepts no such certificate as a server's.
#[derive(Debug)]
struct Listed {
    certificates: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl Listed {
    fn new(
        setting: &'static str,
        certificates: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
    ) -> Result<Listed, Error> {
        let provider = Arc::new(ring::default_provider());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Listed {
            certificates,
            chains: chains.map_err(|error| Error::setting(setting, Problem::Verifier(error)))?,
        })
    }
}

impl ServerCertVerifier for Listed {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self
            .chains
            .verify_server_cert(server, between, name, ocsp, now)
        {
            // webpki checks the period first: a certificate with one of these errors is valid now.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::Other(_) | CertificateError::UnknownIssuer,
            )) if self.certificates.contains(server) => {
                verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains
            .verify_tls12_signature(message, server, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains
            .verify_tls13_signature(message, server, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
