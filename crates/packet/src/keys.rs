//! Keys for Ed25519, ECDSA on P-256 and HMAC, and RSA keys for verification only, based on `ring`.
//!
//! NDN Packet Format Specification 0.3, section "Signature Types". The functions read the output of
//! `openssl genpkey` and `openssl pkey -pubout`: PEM around PKCS#8 and SubjectPublicKeyInfo. The
//! content of an NDN certificate is a SubjectPublicKeyInfo too.

use crate::der;
use crate::key_error::KeyError;
use crate::name::{Name, NameRef};
use crate::sign::{SignError, Signer, Verifier, VerifyError};
use crate::types;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use ring::{hmac, rand::SystemRandom};
use std::borrow::Cow;

/// Returns the signer with the key in `text`, a PEM "PRIVATE KEY". `key_locator` goes into the
/// packets. `random` is the host's source of entropy for ECDSA.
///
/// # Errors
/// [`KeyError`] if the text holds no Ed25519 or P-256 key.
pub fn signer_from_pem(
    text: &str,
    key_locator: impl Into<Name>,
    random: &SystemRandom,
) -> Result<Box<dyn Signer>, KeyError> {
    let (label, pkcs8) = der::from_pem(text)?;
    if label != "PRIVATE KEY" {
        return Err(KeyError::WrongLabel(label));
    }
    match der::private_key(&pkcs8)?.algorithm {
        der::Algorithm::Ed25519 => Ok(Box::new(Ed25519Signer::from_pkcs8(&pkcs8, key_locator)?)),
        der::Algorithm::EcP256 => Ok(Box::new(EcdsaSigner::from_pkcs8(
            &pkcs8,
            key_locator,
            random,
        )?)),
        der::Algorithm::Rsa => Err(KeyError::UnknownAlgorithm),
    }
}

/// Returns the verifier of the key in `text`: a PEM "PUBLIC KEY", or the public part of a PEM
/// "PRIVATE KEY".
///
/// # Errors
/// [`KeyError`] if the text holds neither, or the algorithm is unknown.
pub fn verifier_from_pem(text: &str) -> Result<PublicKeyVerifier, KeyError> {
    let (algorithm, key) = public_key_of(text)?;
    Ok(PublicKeyVerifier::new(algorithm, &key))
}

/// Returns the public key in `text`, as [`verifier_from_pem`] finds it.
pub(crate) fn public_key_of(text: &str) -> Result<(der::Algorithm, Vec<u8>), KeyError> {
    let (label, bytes) = der::from_pem(text)?;
    match label.as_str() {
        "PUBLIC KEY" => der::public_key(&bytes).map(|(algorithm, key)| (algorithm, key.to_vec())),
        "PRIVATE KEY" => match der::private_key(&bytes)? {
            der::PrivateKey {
                algorithm: der::Algorithm::Ed25519,
                ..
            } => {
                let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&bytes)?;
                Ok((der::Algorithm::Ed25519, pair.public_key().as_ref().to_vec()))
            }
            der::PrivateKey {
                algorithm: der::Algorithm::EcP256,
                public: Some(point),
            } => Ok((der::Algorithm::EcP256, point.to_vec())),
            _ => Err(KeyError::UnknownAlgorithm),
        },
        _ => Err(KeyError::WrongLabel(label)),
    }
}

/// Signs with Ed25519 (RFC 8032).
pub struct Ed25519Signer {
    pair: Ed25519KeyPair,
    key_locator: Name,
}

impl Ed25519Signer {
    /// Reads the key of a PKCS#8 document, with or without its public part.
    ///
    /// # Errors
    /// [`KeyError::Rejected`] if the document holds no such key.
    pub fn from_pkcs8(pkcs8: &[u8], key_locator: impl Into<Name>) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8)?;
        Ok(Ed25519Signer {
            pair,
            key_locator: key_locator.into(),
        })
    }

    /// Returns the 32 bytes of the public key.
    pub fn public_key(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }
}

impl Signer for Ed25519Signer {
    fn signature_type(&self) -> u64 {
        types::ED25519
    }

    fn key_locator(&self) -> Option<NameRef<'_>> {
        Some(self.key_locator.as_name())
    }

    fn sign(&self, portions: &[&[u8]]) -> Result<Vec<u8>, SignError> {
        Ok(self.pair.sign(&joined(portions)).as_ref().to_vec())
    }
}

/// Signs with ECDSA on P-256 and SHA-256, DER-encoded (RFC 3279, section 2.2.3).
pub struct EcdsaSigner {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    key_locator: Name,
}

impl EcdsaSigner {
    /// Reads the key of a PKCS#8 document. It must contain the public part; openssl writes it.
    ///
    /// # Errors
    /// [`KeyError::Rejected`] if the document holds no such key.
    pub fn from_pkcs8(
        pkcs8: &[u8],
        key_locator: impl Into<Name>,
        random: &SystemRandom,
    ) -> Result<Self, KeyError> {
        let pair =
            EcdsaKeyPair::from_pkcs8(&signature::ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, random)?;
        Ok(EcdsaSigner {
            pair,
            random: random.clone(),
            key_locator: key_locator.into(),
        })
    }
}

impl Signer for EcdsaSigner {
    fn signature_type(&self) -> u64 {
        types::SHA256_WITH_ECDSA
    }

    fn key_locator(&self) -> Option<NameRef<'_>> {
        Some(self.key_locator.as_name())
    }

    fn sign(&self, portions: &[&[u8]]) -> Result<Vec<u8>, SignError> {
        let signature = self
            .pair
            .sign(&self.random, &joined(portions))
            .map_err(|_| SignError)?;
        Ok(signature.as_ref().to_vec())
    }
}

/// Signs with HMAC and SHA-256 (RFC 2104).
pub struct HmacSigner {
    key: hmac::Key,
    key_locator: Name,
}

impl HmacSigner {
    /// Creates a signer with this shared secret of 32 bytes or more (RFC 2104, section 3).
    pub fn new(secret: &[u8], key_locator: impl Into<Name>) -> Self {
        HmacSigner {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            key_locator: key_locator.into(),
        }
    }
}

impl Signer for HmacSigner {
    fn signature_type(&self) -> u64 {
        types::HMAC_WITH_SHA256
    }

    fn key_locator(&self) -> Option<NameRef<'_>> {
        Some(self.key_locator.as_name())
    }

    fn sign(&self, portions: &[&[u8]]) -> Result<Vec<u8>, SignError> {
        let mut context = hmac::Context::with_key(&self.key);
        for portion in portions {
            context.update(portion);
        }
        Ok(context.sign().as_ref().to_vec())
    }
}

/// Verifies HMACs of one shared secret.
pub struct HmacVerifier {
    key: hmac::Key,
}

impl HmacVerifier {
    /// Creates a verifier with this shared secret.
    pub fn new(secret: &[u8]) -> Self {
        HmacVerifier {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }
}

impl Verifier for HmacVerifier {
    fn verify(
        &self,
        signature_type: u64,
        portions: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError> {
        VerifyError::check_type(types::HMAC_WITH_SHA256, signature_type)?;
        // `ring` compares in constant time.
        hmac::verify(&self.key, &joined(portions), signature).map_err(|_| VerifyError::Mismatch)
    }
}

/// Verifies the signatures of one public key: Ed25519, ECDSA on P-256 or RSA (PKCS #1 v1.5, 2048 to
/// 8192 bits).
#[derive(Debug)]
pub struct PublicKeyVerifier {
    signature_type: u64,
    key: UnparsedPublicKey<Vec<u8>>,
}

impl PublicKeyVerifier {
    /// Reads the key of a SubjectPublicKeyInfo (DER), such as the content of a certificate.
    ///
    /// # Errors
    /// [`KeyError`] if the bytes hold no key, or its algorithm is unknown.
    pub fn from_spki(spki: &[u8]) -> Result<Self, KeyError> {
        let (algorithm, key) = der::public_key(spki)?;
        Ok(PublicKeyVerifier::new(algorithm, key))
    }

    /// Creates a verifier with this Ed25519 key.
    pub fn ed25519(public_key: &[u8; 32]) -> Self {
        PublicKeyVerifier::new(der::Algorithm::Ed25519, public_key)
    }

    fn new(algorithm: der::Algorithm, key: &[u8]) -> Self {
        let (signature_type, algorithm): (u64, &'static dyn signature::VerificationAlgorithm) =
            match algorithm {
                der::Algorithm::Ed25519 => (types::ED25519, &signature::ED25519),
                der::Algorithm::EcP256 => {
                    (types::SHA256_WITH_ECDSA, &signature::ECDSA_P256_SHA256_ASN1)
                }
                der::Algorithm::Rsa => (
                    types::SHA256_WITH_RSA,
                    &signature::RSA_PKCS1_2048_8192_SHA256,
                ),
            };
        PublicKeyVerifier {
            signature_type,
            key: UnparsedPublicKey::new(algorithm, key.to_vec()),
        }
    }
}

impl Verifier for PublicKeyVerifier {
    fn verify(
        &self,
        signature_type: u64,
        portions: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError> {
        VerifyError::check_type(self.signature_type, signature_type)?;
        self.key
            .verify(&joined(portions), signature)
            .map_err(|_| VerifyError::Mismatch)
    }
}

/// Joins the portions, because `ring` signs contiguous bytes. A Data has one portion, an Interest
/// two.
fn joined<'a>(portions: &[&'a [u8]]) -> Cow<'a, [u8]> {
    match portions {
        [one] => Cow::Borrowed(one),
        _ => Cow::Owned(portions.concat()),
    }
}
