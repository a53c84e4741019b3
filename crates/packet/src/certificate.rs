//! Certificates: the owner of a key, and the period in which the key is valid.
//!
//! NDN Certificate Format 2.0: Data called `/IDENTITY/KEY/KEY-ID/ISSUER/VERSION`, of content type 2
//! (key), whose content is a SubjectPublicKeyInfo and whose SignatureInfo has a ValidityPeriod.
//! Files hold the Data in base64, as `ndnsec cert-dump` writes it. The signature of the certificate
//! is not checked here: an operator names the trusted certificates.

use crate::calendar::{seconds, time_of};
use crate::data::Data;
use crate::der;
use crate::key_error::KeyError;
use crate::keys::{PublicKeyVerifier, verifier_from_pem};
use crate::name::{Name, NameRef};
use crate::sign::{KeyLocator, Signer, Verifier, VerifyError};
use crate::tlv::{DecodeError, Tlv, TlvReader};
use crate::types;
use std::fmt;

/// The components of a certificate's name after the key's name: issuer and version.
const BEHIND_KEY: usize = 2;

/// A decoded certificate: a key, its name, and its validity.
#[derive(Debug)]
pub struct Certificate {
    name: Name,
    verifier: PublicKeyVerifier,
    /// The first and the last valid second since 1970.
    validity: (u64, u64),
}

/// The reason why bytes are not a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateError {
    /// The text is not base64.
    NotBase64,
    /// Not a Data packet.
    Packet(DecodeError),
    /// The Data does not have the name or the content type of a certificate.
    NotACertificate,
    /// The Data has no ValidityPeriod, or one that does not contain times.
    Validity,
    /// The certificate is not valid at the present time. All times are in seconds since 1970.
    NotValid {
        /// The certificate's name.
        name: Name,
        /// The first valid second.
        from: u64,
        /// The last valid second.
        to: u64,
        /// The present second.
        now: u64,
    },
    /// The text is neither a certificate nor a key.
    NeitherKeyNorCertificate,
    /// The key is of an algorithm that is not supported here.
    Key(KeyError),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateError::NotBase64 => f.write_str("not base64, as `ndnsec cert-dump` writes it"),
            CertificateError::Packet(error) => write!(f, "no Data packet: {error}"),
            CertificateError::NotACertificate => f.write_str(
                "no certificate: it is not called /IDENTITY/KEY/KEY-ID/ISSUER/VERSION, or of content type 2",
            ),
            CertificateError::Validity => f.write_str("the certificate does not say when it holds"),
            CertificateError::NotValid { name, from, now, .. } if now < from => {
                write!(f, "{name} is not valid before {} UTC", time_of(*from))
            }
            CertificateError::NotValid { name, to, .. } => {
                write!(f, "{name} has expired at {} UTC", time_of(*to))
            }
            CertificateError::NeitherKeyNorCertificate => f.write_str(
                "neither a PEM key (-----BEGIN ...-----) nor a certificate in base64, as `ndnsec cert-dump` writes it",
            ),
            CertificateError::Key(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CertificateError {}

impl Certificate {
    /// Reads the certificate in a file: a Data packet in base64, or ndnd's block "NDN CERT".
    ///
    /// # Errors
    /// [`CertificateError`] if the text holds no certificate.
    pub fn from_base64(text: &str) -> Result<Self, CertificateError> {
        let wire = der::from_ndnd(text).or_else(|| der::from_base64(text));
        Certificate::decode(&wire.ok_or(CertificateError::NotBase64)?)
    }

    /// Reads the certificate in a Data packet.
    ///
    /// # Errors
    /// [`CertificateError`] if the Data is not a certificate.
    pub fn decode(wire: &[u8]) -> Result<Self, CertificateError> {
        let data = Data::decode(wire).map_err(CertificateError::Packet)?;
        let components = data.name.component_count();
        let key = components
            .checked_sub(4)
            .and_then(|at| data.name.component(at));
        if key.is_none_or(|key| key.value != b"KEY")
            || data.content_type != Some(types::CONTENT_KEY)
        {
            return Err(CertificateError::NotACertificate);
        }
        let validity = validity(data.signature_info().wire).ok_or(CertificateError::Validity)?;
        let verifier = PublicKeyVerifier::from_spki(data.content).map_err(CertificateError::Key)?;
        Ok(Certificate {
            name: data.name.to_name(),
            verifier,
            validity,
        })
    }

    /// Returns the certificates in a file as bytes. The file holds any number of them in base64,
    /// separated by empty lines.
    ///
    /// # Errors
    /// [`CertificateError::NotBase64`].
    pub fn bundle_from_base64(text: &str) -> Result<Vec<Vec<u8>>, CertificateError> {
        if let Some(wire) = der::from_ndnd(text) {
            return Ok(vec![wire]);
        }
        let mut wires = Vec::new();
        for part in text
            .replace('\r', "")
            .split("\n\n")
            .filter(|part| !part.trim().is_empty())
        {
            wires.push(der::from_base64(part).ok_or(CertificateError::NotBase64)?);
        }
        Ok(wires)
    }

    /// Returns this certificate and the certificates of a bundle that it has signed, directly or
    /// through others of the bundle. Each is signed by an identity above its own, and its validity
    /// ends no later than that of the signing certificate. Certificates without such a chain are
    /// left out.
    ///
    /// # Errors
    /// [`CertificateError`] if something in the bundle is not a certificate.
    pub fn with_chained(self, bundle: &[Vec<u8>]) -> Result<Vec<Certificate>, CertificateError> {
        let mut left = Vec::new();
        for wire in bundle {
            left.push((
                Certificate::decode(wire)?,
                Data::decode(wire).map_err(CertificateError::Packet)?,
            ));
        }
        let mut trusted = vec![self];
        let mut next = 0;
        while let Some(issuer) = trusted.get(next) {
            let signed = |(certificate, data): &(Certificate, Data<'_>)| {
                let named = matches!(data.signature_info().key_locator, Some(KeyLocator::Name(name)) if issuer.is_meant_by(name));
                named
                    && certificate.identity().starts_with(issuer.identity())
                    && data.verify(issuer).is_ok()
            };
            let (of_issuer, others): (Vec<_>, Vec<_>) = left.into_iter().partition(signed);
            let (from, to) = issuer.validity;
            trusted.extend(of_issuer.into_iter().map(|(mut certificate, _)| {
                certificate.validity = (
                    certificate.validity.0.max(from),
                    certificate.validity.1.min(to),
                );
                certificate
            }));
            (left, next) = (others, next + 1);
        }
        Ok(trusted)
    }

    /// Returns the identity that owns the key: the name before `KEY`.
    pub fn identity(&self) -> NameRef<'_> {
        let name = self.name.as_name();
        name.prefix(name.component_count() - BEHIND_KEY - 2)
    }

    /// Returns the certificate's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns true if a KeyLocator with this name means this key: the name of the certificate or
    /// of the key.
    pub fn is_meant_by(&self, locator: NameRef<'_>) -> bool {
        let name = self.name.as_name();
        let key = name.prefix(name.component_count() - BEHIND_KEY);
        locator == key || locator == name || locator == name.without_last()
    }

    /// Returns true if the signer has this key.
    pub fn is_of(&self, signer: &dyn Signer) -> bool {
        const SAMPLE: &[u8] = b"sample";
        let Ok(signature) = signer.sign(&[SAMPLE]) else {
            return false;
        };
        self.verify(signer.signature_type(), &[SAMPLE], &signature)
            .is_ok()
    }

    /// Checks that the certificate is valid at this time, in seconds since 1970.
    ///
    /// # Errors
    /// [`CertificateError::NotValid`].
    pub fn check_time(&self, unix_seconds: u64) -> Result<(), CertificateError> {
        let (from, to) = self.validity;
        if self.holds_at(unix_seconds) {
            Ok(())
        } else {
            Err(CertificateError::NotValid {
                name: self.name.clone(),
                from,
                to,
                now: unix_seconds,
            })
        }
    }

    /// Returns true if the certificate is valid at this time, in seconds since 1970.
    pub fn holds_at(&self, unix_seconds: u64) -> bool {
        (self.validity.0..=self.validity.1).contains(&unix_seconds)
    }
}

/// Returns the verifier of the key in a file. The file holds PEM as [`verifier_from_pem`] reads it,
/// or a certificate that is valid at this time, in base64 or as a packet.
///
/// # Errors
/// [`CertificateError`] if the file holds neither, or the certificate is not valid.
pub fn verifier_from_file(
    bytes: &[u8],
    unix_seconds: u64,
) -> Result<Box<dyn Verifier>, CertificateError> {
    let text = String::from_utf8_lossy(bytes);
    let certificate = match bytes {
        [0x06, ..] => Certificate::decode(bytes),
        _ => Certificate::from_base64(&text),
    };
    match certificate {
        Ok(certificate) => {
            certificate.check_time(unix_seconds)?;
            Ok(Box::new(certificate))
        }
        Err(_) if text.contains("-----BEGIN") => verifier_from_pem(&text)
            .map(|key| Box::new(key) as _)
            .map_err(CertificateError::Key),
        Err(CertificateError::NotBase64 | CertificateError::Packet(_)) => {
            Err(CertificateError::NeitherKeyNorCertificate)
        }
        Err(error) => Err(error),
    }
}

impl Verifier for Certificate {
    fn verify(
        &self,
        signature_type: u64,
        portions: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError> {
        self.verifier.verify(signature_type, portions, signature)
    }
}

/// Returns the ValidityPeriod in a SignatureInfo.
fn validity(signature_info: &[u8]) -> Option<(u64, u64)> {
    let info = TlvReader::new(signature_info).next()?.ok()?;
    let period = child(&info, types::VALIDITY_PERIOD)?;
    Some((
        seconds(child(&period, types::NOT_BEFORE)?.value)?,
        seconds(child(&period, types::NOT_AFTER)?.value)?,
    ))
}

fn child<'a>(element: &Tlv<'a>, typ: u32) -> Option<Tlv<'a>> {
    element.children().flatten().find(|child| child.typ == typ)
}
