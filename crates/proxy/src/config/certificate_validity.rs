//! The time for which the certificate of a file is valid.

use larder_acme_host::{CertificateFacts, Validity};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;

/// Returns the time for which the first certificate of a PEM file is valid; `None` if it cannot be
/// read.
pub fn certificate_validity(path: &Path) -> Option<Validity> {
    let first = CertificateDer::pem_file_iter(path).ok()?.next()?.ok()?;
    CertificateFacts::read(&first).map(|facts| facts.validity)
}
