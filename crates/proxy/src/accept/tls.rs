//! TLS for clients: rustls with ring, certificates and keys from PEM files, HTTP/2 or HTTP/1.1 by
//! ALPN (RFC 7301), and certificates of clients if they are configured.

use crate::accept::distinguished_name;
use crate::accept::sni::{ACME_TLS, ServerCertificates};
use crate::base::error::{Error, Problem};
use crate::config::tls_config::{CertificateNeed, TlsConfig, TlsVersion};
use ::http::HeaderValue;
use larder_acme_host::Certificates;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ProducesTickets, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use webpki::EndEntityCert;

/// The identity for new connections. It can be replaced while connections run.
pub(crate) struct Identity {
    current: RwLock<Current>,
    /// The certificates by ACME, of all configurations.
    acme: Arc<Certificates>,
}

/// The identities of the node; each is set before the first listener that needs it is applied.
#[derive(Clone, Default)]
pub(crate) struct Identities {
    /// For clients.
    pub(crate) clients: Arc<OnceLock<Arc<Identity>>>,
    /// For the other nodes of the fleet.
    pub(crate) peers: Arc<OnceLock<Arc<Identity>>>,
}

struct Current {
    /// The configuration that the files of `server` come from.
    config: TlsConfig,
    server: Arc<ServerConfig>,
}

impl Identity {
    /// Reads the identity from its files.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn read(config: &TlsConfig, acme: &Arc<Certificates>) -> Result<Identity, Error> {
        Ok(Identity::new(config, read(config, acme)?, acme))
    }

    /// Returns the identity that was read from the files of this configuration.
    pub(crate) fn new(
        config: &TlsConfig,
        server: ServerConfig,
        acme: &Arc<Certificates>,
    ) -> Identity {
        Identity {
            current: RwLock::new(Current {
                config: config.clone(),
                server: Arc::new(server),
            }),
            acme: Arc::clone(acme),
        }
    }

    /// Reads the files of its configuration again.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn read_again(&self, config: &TlsConfig) -> Result<ServerConfig, Error> {
        read(config, &self.acme)
    }

    /// Replaces the identity for new connections. Sessions are resumed across the change, unless
    /// clients show certificates: those would not be verified by the new authorities.
    pub(crate) fn set(&self, config: &TlsConfig, mut server: ServerConfig) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if !current.config.clients.are_verified() && !config.clients.are_verified() {
            server.ticketer = Arc::clone(&current.server.ticketer);
        }
        *current = Current {
            config: config.clone(),
            server: Arc::new(server),
        };
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current.server)
    }

    /// Returns the subject of the client's verified certificate, if the origin is to learn it.
    pub(crate) fn subject(
        &self,
        certificates: Option<&[CertificateDer<'_>]>,
    ) -> Option<HeaderValue> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.config.clients.subject_field()?;
        let certificate = EndEntityCert::try_from(certificates?.first()?).ok()?;
        HeaderValue::try_from(distinguished_name::text(certificate.subject())?).ok()
    }

    pub(crate) fn config(&self) -> TlsConfig {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .config
            .clone()
    }
}

/// The ALPN name of HTTP/2.
pub(crate) const H2: &[u8] = b"h2";

const TLS13_ONLY: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Reads the files. `acme` has the certificates by ACME.
///
/// # Errors
/// One line: the file and its problem.
pub(crate) fn read(config: &TlsConfig, acme: &Arc<Certificates>) -> Result<ServerConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let certificates = ServerCertificates::read(config, &provider, acme)?;
    let of_tls = |error| Error::setting("[http.tls]", Problem::Tls(error));
    let versions = if config.min_version == TlsVersion::Tls13 {
        TLS13_ONLY
    } else {
        rustls::DEFAULT_VERSIONS
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_protocol_versions(versions).map_err(of_tls)?;
    let builder = match &config.clients.authorities {
        Some(authorities) => {
            let need = config.clients.need;
            builder.with_client_cert_verifier(verifier(authorities, need, &provider)?)
        }
        None => builder.with_no_client_auth(),
    };
    let mut server = builder.with_cert_resolver(Arc::new(certificates));
    server.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    if config.acme.is_some() {
        server.alpn_protocols.push(ACME_TLS.to_vec());
    }
    server.ticketer = tickets()?;
    Ok(server)
}

/// Returns the keys of tickets: of one run only, for all threads. They rotate every six hours, and
/// no state is kept per client.
fn tickets() -> Result<Arc<dyn ProducesTickets>, Error> {
    ring::Ticketer::new().map_err(|error| Error::setting("[http.tls]", Problem::NoTickets(error)))
}

/// Reads the authorities of clients' certificates.
fn verifier(
    path: &Path,
    need: Option<CertificateNeed>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    const SETTING: &str = "[http.tls] client_ca";
    let of_file = |error| {
        Error::setting(
            SETTING,
            Problem::Pem {
                path: path.to_owned(),
                error,
            },
        )
    };
    let all = CertificateDer::pem_file_iter(path)
        .map_err(of_file)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(of_file)?;
    let (count, mut roots) = (all.len(), RootCertStore::empty());
    let (_, unusable) = roots.add_parsable_certificates(all);
    let problem = match (count, unusable) {
        (0, _) => Some(Problem::NoCertificate(path.to_owned())),
        (_, 0) => None,
        (all, unusable) => Some(Problem::UnusableCertificates {
            path: path.to_owned(),
            unusable,
            all,
        }),
    };
    if let Some(problem) = problem {
        return Err(Error::setting(SETTING, problem));
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = match need {
        None | Some(CertificateNeed::Required) => builder,
        Some(CertificateNeed::Optional) => builder.allow_unauthenticated(),
    };
    builder
        .build()
        .map_err(|error| Error::setting(SETTING, Problem::Verifier(error)))
}
