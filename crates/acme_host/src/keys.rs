//! Keys and certificates that this node makes: the request for a certificate, the self-signed one
//! that stands in until the first comes, and the one that answers `tls-alpn-01`.

use crate::error::Error;
use larder_acme::{CertificateFacts, CertificateHost, UnixTime, Validity};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// A new key, and the request for a certificate with it.
pub(crate) struct Request {
    /// The key in PEM (PKCS #8).
    pub(crate) key_pem: String,
    /// The request in DER (RFC 2986).
    pub(crate) der: Vec<u8>,
}

/// A certificate of an authority with its key, from a file.
pub(crate) struct Issued {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) facts: CertificateFacts,
}

/// Makes a key (ECDSA with P-256) and a request for this host.
pub(crate) fn request(host: &CertificateHost) -> Result<Request, Error> {
    let key = KeyPair::generate().map_err(Error::Key)?;
    let request = params(host)?.serialize_request(&key).map_err(Error::Key)?;
    Ok(Request {
        key_pem: key.serialize_pem(),
        der: request.der().to_vec(),
    })
}

/// Makes a certificate that no client believes.
pub(crate) fn self_signed(host: &CertificateHost) -> Result<Arc<CertifiedKey>, Error> {
    sign(params(host)?)
}

/// Makes the certificate that answers `tls-alpn-01` (RFC 8737 §3). `digest` is the SHA-256 digest
/// of the key authorization.
pub(crate) fn challenge(
    host: &CertificateHost,
    digest: &[u8; 32],
) -> Result<Arc<CertifiedKey>, Error> {
    let mut params = params(host)?;
    let extension = CustomExtension::new_acme_identifier(digest);
    params.custom_extensions = vec![extension];
    sign(params)
}

/// Reads the key and the certificates of a file; `None` if it has none that can be used.
pub(crate) fn read(pem: &[u8]) -> Option<Issued> {
    let key = PrivateKeyDer::from_pem_slice(pem).ok()?;
    let chain = CertificateDer::pem_slice_iter(pem);
    let chain = chain.collect::<Result<Vec<_>, _>>().ok()?;
    let facts = CertificateFacts::read(chain.first()?)?;
    let key = CertifiedKey::from_der(chain, key, &ring::default_provider()).ok()?;
    Some(Issued {
        key: Arc::new(key),
        facts,
    })
}

/// Reads what an authority has issued for this host, with its key.
///
/// # Errors
/// Why no client would accept it.
pub(crate) fn read_for(
    host: &CertificateHost,
    pem: &[u8],
    now: UnixTime,
) -> Result<Issued, &'static str> {
    let issued = read(pem).ok_or("it cannot be read, or is for another key")?;
    let Validity {
        not_before,
        not_after,
    } = issued.facts.validity;
    if not_after <= not_before {
        return Err("it is never valid");
    }
    if not_after < now {
        return Err("it has expired, or the clock of this node is wrong");
    }
    let name = match host.address() {
        Some(address) => ServerName::IpAddress(address.into()),
        None => ServerName::try_from(host.as_str()).map_err(|_| "its host has no valid name")?,
    };
    let leaf = issued.key.end_entity_cert().ok();
    let leaf = leaf.and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
    let leaf = leaf.ok_or("it cannot be read")?;
    verify_server_name(&leaf, &name).map_err(|_| "it is for another host")?;
    Ok(issued)
}

fn params(host: &CertificateHost) -> Result<CertificateParams, Error> {
    let names = vec![host.as_str().to_owned()];
    let mut params = CertificateParams::new(names).map_err(Error::Key)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params)
}

fn sign(params: CertificateParams) -> Result<Arc<CertifiedKey>, Error> {
    let key = KeyPair::generate().map_err(Error::Key)?;
    let certificate = params.self_signed(&key).map_err(Error::Key)?;
    let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let chain = vec![certificate.der().clone()];
    // Not `from_der`: webpki refuses the extension of a challenge.
    let key = rustls::crypto::ring::sign::any_supported_type(&private).map_err(Error::Tls)?;
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}
