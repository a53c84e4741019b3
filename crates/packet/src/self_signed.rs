//! Certificates that a key signs for itself. Such a file makes a key known to others.
//!
//! NDN Certificate Format 2.0, with the issuer `self`. The content is the key's
//! SubjectPublicKeyInfo (RFC 5280, section 4.1; RFC 8410 for Ed25519, RFC 5480 for P-256).

use crate::calendar::time_of;
use crate::certificate::{Certificate, CertificateError};
use crate::der;
use crate::key_error::KeyError;
use crate::keys::{public_key_of, signer_from_pem};
use crate::name::Name;
use crate::sign::Signer;
use crate::{tlv, types};
use ring::rand::SystemRandom;
use std::time::Duration;

/// The usual FreshnessPeriod of a certificate; `ndnsec` uses the same.
pub const CERTIFICATE_FRESHNESS: Duration = Duration::from_secs(3600);

/// The validity of a self-signed certificate: 20 years, as in `ndnsec`.
const VALIDITY_SECONDS: u64 = 20 * 365 * 86_400;

/// Returns a self-signed certificate as a Data packet. `pem` is the private key, `key` the name of
/// the key, which ends in `KEY` and an identifier.
///
/// # Errors
/// [`CertificateError`] if `pem` is not a key that signs, or `key` is not the name of a key.
pub fn self_signed(
    pem: &str,
    key: &Name,
    unix_seconds: u64,
    freshness: Duration,
    random: &SystemRandom,
) -> Result<Vec<u8>, CertificateError> {
    let components = key.as_name().component_count();
    let marker = components
        .checked_sub(2)
        .and_then(|at| key.as_name().component(at));
    if marker.is_none_or(|marker| marker.value != b"KEY") {
        return Err(CertificateError::NotACertificate);
    }
    let signer = signer_from_pem(pem, key.clone(), random).map_err(CertificateError::Key)?;
    let (algorithm, public_key) = public_key_of(pem).map_err(CertificateError::Key)?;
    let content =
        der::subject_public_key_info(algorithm, &public_key).map_err(CertificateError::Key)?;
    let mut name = key.clone();
    name.push_generic(b"self").push_version(unix_seconds * 1000);
    let mut signed = Vec::new();
    tlv::write_tlv(&mut signed, types::NAME, name.as_name().as_bytes());
    tlv::write_nested(&mut signed, types::META_INFO, 0, |out| {
        tlv::write_nni(out, types::CONTENT_TYPE, types::CONTENT_KEY);
        tlv::write_nni(
            out,
            types::FRESHNESS_PERIOD,
            u64::try_from(freshness.as_millis()).unwrap_or(u64::MAX),
        );
    });
    tlv::write_tlv(&mut signed, types::CONTENT, &content);
    tlv::write_nested(&mut signed, types::SIGNATURE_INFO, 0, |out| {
        tlv::write_nni(out, types::SIGNATURE_TYPE, signer.signature_type());
        tlv::write_nested(out, types::KEY_LOCATOR, 0, |out| {
            tlv::write_tlv(out, types::NAME, key.as_name().as_bytes());
        });
        tlv::write_nested(out, types::VALIDITY_PERIOD, 0, |out| {
            tlv::write_tlv(out, types::NOT_BEFORE, time_of(unix_seconds).as_bytes());
            tlv::write_tlv(
                out,
                types::NOT_AFTER,
                time_of(unix_seconds + VALIDITY_SECONDS).as_bytes(),
            );
        });
    });
    let rejected =
        |error: crate::SignError| CertificateError::Key(KeyError::Rejected(error.to_string()));
    let signature = signer.sign(&[&signed]).map_err(rejected)?;
    tlv::write_tlv(&mut signed, types::SIGNATURE_VALUE, &signature);
    let mut wire = Vec::new();
    tlv::write_tlv(&mut wire, types::DATA, &signed);
    Ok(wire)
}

/// Returns a signer with a certificate's private key. Its packets name the certificate.
///
/// # Errors
/// [`KeyError`] if `pem` is not a key that signs, or is the key of another certificate.
pub fn certified_signer(
    pem: &str,
    certificate: &Certificate,
    random: &SystemRandom,
) -> Result<Box<dyn Signer>, KeyError> {
    let signer = signer_from_pem(pem, certificate.name().clone(), random)?;
    if certificate.is_of(signer.as_ref()) {
        Ok(signer)
    } else {
        Err(KeyError::OtherKey(certificate.name().to_string()))
    }
}

/// Returns base64 in lines of 64 characters, as `ndnsec cert-dump` writes it.
pub fn to_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for (at, group) in bytes.chunks(3).enumerate() {
        if at > 0 && at % 16 == 0 {
            text.push('\n');
        }
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= group.len() {
                char::from(DIGITS[value as usize])
            } else {
                '='
            });
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;

    const KEYS: [&str; 2] = [
        include_str!("../tests/keys/ed25519.pem"),
        include_str!("../tests/keys/p256.pem"),
    ];
    const NOW: u64 = 1_795_311_000;

    #[test]
    fn a_certificate_does_not_read_back_or_does_not_verify_itself() {
        let key: Name = "/alice/KEY/1".parse().unwrap();
        for pem in KEYS {
            let wire =
                self_signed(pem, &key, NOW, CERTIFICATE_FRESHNESS, &SystemRandom::new()).unwrap();
            let certificate = Certificate::from_base64(&to_base64(&wire)).unwrap();
            assert_eq!(
                certificate.name().to_string(),
                "/alice/KEY/1/self/v=1795311000000"
            );
            assert!(certificate.holds_at(NOW) && !certificate.holds_at(NOW - 1));
            assert!(!certificate.holds_at(NOW + VALIDITY_SECONDS + 1));
            let data = Data::decode(&wire).unwrap();
            assert!(
                data.verify(&certificate).is_ok() && data.freshness == Some(CERTIFICATE_FRESHNESS)
            );
            assert!(certificate.is_meant_by(key.as_name()));
            assert!(certified_signer(pem, &certificate, &SystemRandom::new()).is_ok());
        }
        let [ed25519, p256] = KEYS.map(|pem| {
            self_signed(pem, &key, NOW, CERTIFICATE_FRESHNESS, &SystemRandom::new()).unwrap()
        });
        let other = Certificate::decode(&ed25519).unwrap();
        let refused = certified_signer(KEYS[1], &other, &SystemRandom::new()).err();
        assert!(matches!(refused, Some(KeyError::OtherKey(_))));
        assert!(Data::decode(&p256).unwrap().verify(&other).is_err());
    }

    #[test]
    fn a_name_without_a_key_gets_a_certificate() {
        for name in ["/", "/alice", "/alice/KEY", "/alice/1"] {
            let made = self_signed(
                KEYS[0],
                &name.parse().unwrap(),
                NOW,
                CERTIFICATE_FRESHNESS,
                &SystemRandom::new(),
            );
            assert_eq!(made, Err(CertificateError::NotACertificate), "{name}");
        }
    }

    #[test]
    fn base64_does_not_read_back() {
        for length in 0..100u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            assert_eq!(der::from_base64(&to_base64(&bytes)), Some(bytes));
        }
    }
}
