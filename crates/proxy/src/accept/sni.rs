//! The server's certificates, by the name that a client asks for (SNI, RFC 6066 §3). Their names
//! are those of the certificates themselves. A host with a certificate by ACME gets that one.

use crate::base::error::{Error, Problem};
use crate::config::tls_config::{CertificateFiles, TlsConfig};
use foldhash::HashMap;
use larder_acme_host::Certificates;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::Path;
use std::sync::Arc;
use webpki::EndEntityCert;

/// All certificates of the server.
#[derive(Debug)]
pub(crate) struct ServerCertificates {
    /// For clients that name no host, or an unknown one; `None`: the first of `acme`.
    fallback: Option<Arc<CertifiedKey>>,
    /// By host in lower case; `*.example.com` for all hosts one level below.
    by_name: HashMap<String, Arc<CertifiedKey>>,
    /// Those by ACME, which change while this stays.
    acme: Arc<Certificates>,
}

/// The ALPN name of ACME's challenge in a handshake (RFC 8737 §6.2).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

impl ServerCertificates {
    /// Reads the files.
    ///
    /// # Errors
    /// One line: the file and its problem.
    pub(crate) fn read(
        config: &TlsConfig,
        provider: &CryptoProvider,
        acme: &Arc<Certificates>,
    ) -> Result<ServerCertificates, Error> {
        let mut by_name = HashMap::default();
        let fallback = config.certificate.as_ref();
        let fallback = fallback
            .map(|files| read("[http.tls]", files, provider).map(Arc::new))
            .transpose()?;
        if let Some(fallback) = &fallback {
            add(&mut by_name, fallback);
        }
        for files in &config.certificates {
            add(
                &mut by_name,
                &Arc::new(read("[[http.tls.certificates]]", files, provider)?),
            );
        }
        Ok(ServerCertificates {
            fallback,
            by_name,
            acme: Arc::clone(acme),
        })
    }

    /// Returns the certificate of a host. A self-signed one, which stands in for that of an
    /// authority, is worse than any file that names the host.
    fn of_name(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let own = match self.acme.of_name(&name) {
            Some((issued, true)) => return Some(issued),
            own => own.map(|(self_signed, _)| self_signed),
        };
        let below = || self.by_name.get(&format!("*.{}", name.split_once('.')?.1));
        let of_file = self.by_name.get(&name).or_else(below);
        of_file.cloned().or(own).or_else(|| self.fallback())
    }

    fn fallback(&self) -> Option<Arc<CertifiedKey>> {
        self.fallback.clone().or_else(|| self.acme.fallback())
    }
}

impl ResolvesServerCert for ServerCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // RFC 8737 §3: the authority offers nothing else. It gets no certificate of a host, and a
        // client that offers this name among others gets no answer to a challenge.
        let mut offered = hello.alpn().into_iter().flatten();
        if (offered.next(), offered.next()) == (Some(ACME_TLS), None) {
            return self.acme.challenge(hello.server_name()?);
        }
        match hello.server_name() {
            Some(name) => self.of_name(name),
            None => self.fallback(),
        }
    }
}

/// Adds the names of a certificate that no earlier one has.
fn add(by_name: &mut HashMap<String, Arc<CertifiedKey>>, certificate: &Arc<CertifiedKey>) {
    // A certificate that this parser refuses has no names, and may still be the fallback.
    let Some(Ok(parsed)) = certificate.cert.first().map(EndEntityCert::try_from) else {
        return;
    };
    for name in parsed.valid_dns_names() {
        by_name
            .entry(name.to_ascii_lowercase())
            .or_insert_with(|| Arc::clone(certificate));
    }
}

fn read(
    table: &str,
    files: &CertificateFiles,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let (certificate, key) = (format!("{table} certificate"), format!("{table} key"));
    let of_file = |setting: &str, path: &Path, error: pem::Error| {
        Error::setting(
            setting,
            Problem::Pem {
                path: path.to_owned(),
                error,
            },
        )
    };
    let of_certificate = |error| of_file(&certificate, &files.certificate, error);
    let chain = CertificateDer::pem_file_iter(&files.certificate).map_err(of_certificate)?;
    let chain = chain
        .collect::<Result<Vec<_>, _>>()
        .map_err(of_certificate)?;
    if chain.is_empty() {
        return Err(Error::setting(
            certificate,
            Problem::NoCertificate(files.certificate.clone()),
        ));
    }
    let private = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| of_file(&key, &files.key, error))?;
    CertifiedKey::from_der(chain, private, provider).map_err(|error| {
        Error::setting(
            format!("{table} certificate and key"),
            Problem::Pair {
                certificate: files.certificate.clone(),
                key: files.key.clone(),
                error,
            },
        )
    })
}
