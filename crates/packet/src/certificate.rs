//! Certificates: the owner of a key, and the period in which the key is valid.
//!
//! NDN Certificate Format 2.0: Data called `/IDENTITY/KEY/KEY-ID/ISSUER/VERSION`, of content type 2
//! (key), whose content is a SubjectPublicKeyInfo and whose SignatureInfo has a ValidityPeriod.
//! Files hold the Data in base64, as `ndnsec cert-dump` writes it. The signature of the certificate
//! is not checked here: an operator names the trusted certificates.

use crate::data::Data;
use crate::der;
use crate::key_error::KeyError;
use crate::keys::PublicKeyVerifier;
use crate::name::{Name, NameRef};
use crate::sign::{KeyLocator, Verifier, VerifyError};
use crate::tlv::{DecodeError, Tlv, TlvReader};
use crate::types;
use std::fmt;

/// Components of a certificate's name behind those of its key's: issuer and version.
const BEHIND_KEY: usize = 2;

/// A decoded certificate: a key, its name, and its validity.
#[derive(Debug)]
pub struct Certificate {
    name: Name,
    verifier: PublicKeyVerifier,
    /// Seconds since 1970, both included.
    validity: (u64, u64),
}

/// The reason why bytes are not a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateError {
    /// The text is no base64.
    NotBase64,
    /// Not a Data packet.
    Packet(DecodeError),
    /// The Data has not the name or the content type of a certificate.
    NotACertificate,
    /// It has no ValidityPeriod, or one that is not a time.
    Validity,
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
            CertificateError::Key(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CertificateError {}

impl Certificate {
    /// Reads the certificate in a file: a Data packet in base64.
    ///
    /// # Errors
    /// [`CertificateError`] if it is not one.
    pub fn from_base64(text: &str) -> Result<Self, CertificateError> {
        Certificate::decode(&der::from_base64(text).ok_or(CertificateError::NotBase64)?)
    }

    /// Reads the certificate in a Data packet.
    ///
    /// # Errors
    /// [`CertificateError`] if it is not one.
    pub fn decode(wire: &[u8]) -> Result<Self, CertificateError> {
        let data = Data::decode(wire).map_err(CertificateError::Packet)?;
        let components = data.name.component_count();
        let key = components.checked_sub(4).and_then(|at| data.name.component(at));
        if key.is_none_or(|key| key.value != b"KEY") || data.content_type != Some(types::CONTENT_KEY) {
            return Err(CertificateError::NotACertificate);
        }
        let validity = validity(data.signature_info().wire).ok_or(CertificateError::Validity)?;
        let verifier = PublicKeyVerifier::from_spki(data.content).map_err(CertificateError::Key)?;
        Ok(Certificate { name: data.name.to_name(), verifier, validity })
    }

    /// Returns the certificates in a file as bytes: any number of them in base64, with an empty
    /// line between two.
    ///
    /// # Errors
    /// [`CertificateError::NotBase64`].
    pub fn bundle_from_base64(text: &str) -> Result<Vec<Vec<u8>>, CertificateError> {
        let mut wires = Vec::new();
        for part in text.replace('\r', "").split("\n\n").filter(|part| !part.trim().is_empty()) {
            wires.push(der::from_base64(part).ok_or(CertificateError::NotBase64)?);
        }
        Ok(wires)
    }

    /// Returns this certificate and those of a bundle that it has signed, directly or through
    /// others of them. Each is signed by an identity above its own, and is valid no longer than the
    /// certificate of that identity. The others have no chain, and are left out.
    ///
    /// # Errors
    /// [`CertificateError`] if something in the bundle is not a certificate.
    pub fn with_chained(self, bundle: &[Vec<u8>]) -> Result<Vec<Certificate>, CertificateError> {
        let mut left = Vec::new();
        for wire in bundle {
            left.push((Certificate::decode(wire)?, Data::decode(wire).map_err(CertificateError::Packet)?));
        }
        let mut trusted = vec![self];
        let mut next = 0;
        while let Some(issuer) = trusted.get(next) {
            let signed = |(certificate, data): &(Certificate, Data<'_>)| {
                let named = matches!(data.signature_info().key_locator, Some(KeyLocator::Name(name)) if issuer.is_meant_by(name));
                named && certificate.identity().starts_with(issuer.identity()) && data.verify(issuer).is_ok()
            };
            let (of_issuer, others): (Vec<_>, Vec<_>) = left.into_iter().partition(signed);
            let (from, to) = issuer.validity;
            trusted.extend(of_issuer.into_iter().map(|(mut certificate, _)| {
                certificate.validity = (certificate.validity.0.max(from), certificate.validity.1.min(to));
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

    /// Its name.
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

    /// Returns true if it is valid at this time, in seconds since 1970.
    pub fn holds_at(&self, unix_seconds: u64) -> bool {
        (self.validity.0..=self.validity.1).contains(&unix_seconds)
    }
}

impl Verifier for Certificate {
    fn verify(&self, signature_type: u64, portions: &[&[u8]], signature: &[u8]) -> Result<(), VerifyError> {
        self.verifier.verify(signature_type, portions, signature)
    }
}

/// The ValidityPeriod in a SignatureInfo.
fn validity(signature_info: &[u8]) -> Option<(u64, u64)> {
    let info = TlvReader::new(signature_info).next()?.ok()?;
    let period = child(&info, types::VALIDITY_PERIOD)?;
    Some((seconds(child(&period, types::NOT_BEFORE)?.value)?, seconds(child(&period, types::NOT_AFTER)?.value)?))
}

fn child<'a>(element: &Tlv<'a>, typ: u32) -> Option<Tlv<'a>> {
    element.children().flatten().find(|child| child.typ == typ)
}

/// `YYYYMMDDThhmmss` (ISO 8601, UTC) as seconds since 1970; a time before 1970 is 1970.
fn seconds(text: &[u8]) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0i64, |n, d| n * 10 + i64::from(d - b'0')))
    };
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let (hour, minute, second) = (number(9..11)?, number(11..13)?, number(13..15)?);
    if text.len() != 15 || text[8] != b'T' || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 in the Gregorian calendar, years counted from March so that the leap day is
    // the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    Some(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, expected) in [
            ("19700101T000000", 0),
            ("20000229T235959", 951_868_799),
            ("20000301T000000", 951_868_800),
            ("20261122T013000", 1_795_311_000),
            ("00010101T000000", 0),
        ] {
            assert_eq!(seconds(text.as_bytes()), Some(expected), "{text}");
        }
        for wrong in ["", "20261122", "20261322T000000", "2026112xT000000", "20261122 000000", "20261122T0000001"] {
            assert_eq!(seconds(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
