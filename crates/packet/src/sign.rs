//! Signatures: the traits of signers and verifiers, and the signature fields of a packet.
//!
//! NDN Packet Format Specification 0.3, section "Signature". This module has the traits and the one
//! algorithm without a key; the `keys` module has the algorithms with keys.

use crate::name::NameRef;
use crate::tlv::{self, DecodeError, DecodeErrorKind, Tlv, TlvReader};
use crate::types;
use sha2::{Digest, Sha256};
use std::fmt;

/// Makes signatures with one key.
pub trait Signer: Send + Sync {
    /// The SignatureType: see [`types::DIGEST_SHA256`] and its neighbours.
    fn signature_type(&self) -> u64;
    /// The name of the key or of its certificate, which goes into the packet.
    fn key_locator(&self) -> Option<NameRef<'_>>;
    /// Returns the signature over the portions, one after the other.
    ///
    /// # Errors
    /// [`SignError`] if the key cannot sign now.
    fn sign(&self, portions: &[&[u8]]) -> Result<Vec<u8>, SignError>;
}

/// Checks signatures of one key.
pub trait Verifier: Send + Sync {
    /// Checks that `signature`, of this SignatureType, is this key's signature over the portions,
    /// one after the other.
    ///
    /// # Errors
    /// [`VerifyError`] if it is not.
    fn verify(
        &self,
        signature_type: u64,
        portions: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError>;
}

/// The reason why a key could not sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignError;

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key could not sign: no random bytes from the system")
    }
}

impl std::error::Error for SignError {}

/// The reason why a packet's signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyError {
    /// The packet has no signature, or one that does not cover its whole name.
    NotSigned,
    /// The packet is signed with another SignatureType than the key's.
    WrongType {
        /// The SignatureType of the key.
        expected: u64,
        /// The SignatureType of the packet.
        found: u64,
    },
    /// The signature is not this key's over these bytes.
    Mismatch,
}

impl VerifyError {
    /// Returns the error if `found` is not the SignatureType of the key.
    ///
    /// # Errors
    /// [`VerifyError::WrongType`].
    pub(crate) fn check_type(expected: u64, found: u64) -> Result<(), VerifyError> {
        if expected == found {
            Ok(())
        } else {
            Err(VerifyError::WrongType { expected, found })
        }
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyError::NotSigned => f.write_str("the packet is not signed"),
            VerifyError::WrongType { expected, found } => {
                write!(
                    f,
                    "the packet has a signature of type {found}, the key makes type {expected}"
                )
            }
            VerifyError::Mismatch => {
                f.write_str("the signature is not this key's over this packet")
            }
        }
    }
}

impl std::error::Error for VerifyError {}

/// "Signs" with a SHA-256 digest, which proves integrity but not origin.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestSigner;

impl Signer for DigestSigner {
    fn signature_type(&self) -> u64 {
        types::DIGEST_SHA256
    }

    fn key_locator(&self) -> Option<NameRef<'_>> {
        None
    }

    fn sign(&self, portions: &[&[u8]]) -> Result<Vec<u8>, SignError> {
        Ok(digest(portions).to_vec())
    }
}

/// Checks SHA-256 digests.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestVerifier;

impl Verifier for DigestVerifier {
    fn verify(
        &self,
        signature_type: u64,
        portions: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError> {
        VerifyError::check_type(types::DIGEST_SHA256, signature_type)?;
        if digest(portions) == signature {
            Ok(())
        } else {
            Err(VerifyError::Mismatch)
        }
    }
}

fn digest(portions: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for portion in portions {
        hash.update(portion);
    }
    hash.finalize().into()
}

/// The signature fields of a packet.
#[derive(Clone, Copy, Debug)]
pub struct SignatureInfo<'a> {
    /// The algorithm: see [`types::DIGEST_SHA256`] and its neighbours.
    pub signature_type: u64,
    /// The key; `None` if the packet does not name it.
    pub key_locator: Option<KeyLocator<'a>>,
    /// Interests only: random bytes.
    pub nonce: Option<&'a [u8]>,
    /// Interests only: milliseconds since 1970.
    pub time: Option<u64>,
    /// Interests only: an increasing number.
    pub seq_num: Option<u64>,
    /// The whole element.
    pub wire: &'a [u8],
}

/// The name of the key that signed a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLocator<'a> {
    /// The name of the key or of its certificate.
    Name(NameRef<'a>),
    /// A digest of the key.
    Digest(&'a [u8]),
}

impl<'a> SignatureInfo<'a> {
    /// Decodes a SignatureInfo or an InterestSignatureInfo element by itself: older signed
    /// Interests carry one as a name component.
    ///
    /// # Errors
    /// [`DecodeError`] with the offset in `wire` if it is not one of them.
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let typ = if wire.first() == Some(&(types::short(types::INTEREST_SIGNATURE_INFO))) {
            types::INTEREST_SIGNATURE_INFO
        } else {
            types::SIGNATURE_INFO
        };
        SignatureInfo::of_element(&Tlv::only(wire, typ)?)
    }

    pub(crate) fn of_element(element: &Tlv<'a>) -> Result<Self, DecodeError> {
        SignatureInfo::read(element.children(), element.wire)
    }

    /// Decodes the fields from these elements; `wire` is all of their bytes.
    pub(crate) fn read(mut elements: TlvReader<'a>, wire: &'a [u8]) -> Result<Self, DecodeError> {
        let signature_type = elements
            .require(types::SIGNATURE_TYPE, "SignatureType")?
            .number()?;
        let mut info = SignatureInfo {
            signature_type,
            key_locator: None,
            nonce: None,
            time: None,
            seq_num: None,
            wire,
        };
        let mut last = 0;
        for element in elements {
            let element = element?;
            let rank = match element.typ {
                types::SIGNATURE_TYPE => 0,
                types::KEY_LOCATOR => 1,
                types::SIGNATURE_NONCE => 2,
                types::SIGNATURE_TIME => 3,
                types::SIGNATURE_SEQ_NUM => 4,
                types::VALIDITY_PERIOD => 5,
                _ => {
                    element.skip(false)?;
                    continue;
                }
            };
            if rank <= last {
                element.skip(true)?;
                continue;
            }
            last = rank;
            match element.typ {
                types::KEY_LOCATOR => info.key_locator = read_key_locator(&element)?,
                types::SIGNATURE_NONCE => info.nonce = Some(element.value),
                types::SIGNATURE_TIME => info.time = Some(element.number()?),
                types::SIGNATURE_SEQ_NUM => info.seq_num = Some(element.number()?),
                // A field of certificates. The code that checks certificates reads it from `wire`.
                _ => {}
            }
        }
        Ok(info)
    }
}

/// Reads a KeyLocator. Some libraries write an empty one for a digest; this counts as no
/// KeyLocator.
fn read_key_locator<'a>(element: &Tlv<'a>) -> Result<Option<KeyLocator<'a>>, DecodeError> {
    let mut found = None;
    for element in element.children() {
        let element = element?;
        match element.typ {
            types::NAME if found.is_none() => {
                found = Some(KeyLocator::Name(
                    NameRef::validate(element.value, element.value_offset())?.0,
                ));
            }
            types::KEY_DIGEST if found.is_none() => found = Some(KeyLocator::Digest(element.value)),
            types::NAME | types::KEY_DIGEST => {
                return Err(DecodeErrorKind::OutOfOrder(element.typ).at(element.offset));
            }
            _ => element.skip(false)?,
        }
    }
    Ok(found)
}

/// The elements of an Interest's signature that prevent replay. The specification leaves the choice
/// to the application; NFD requires a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignatureFreshness<'a> {
    /// Random bytes, at least one.
    pub nonce: Option<&'a [u8]>,
    /// Milliseconds since 1970.
    pub time: Option<u64>,
    /// An increasing number.
    pub seq_num: Option<u64>,
}

pub(crate) fn write_signature_info(
    out: &mut Vec<u8>,
    typ: u32,
    signer: &dyn Signer,
    freshness: SignatureFreshness<'_>,
) {
    tlv::write_nested(out, typ, 0, |out| {
        tlv::write_nni(out, types::SIGNATURE_TYPE, signer.signature_type());
        if let Some(key) = signer.key_locator() {
            tlv::write_header(
                out,
                types::KEY_LOCATOR,
                tlv::tlv_len(types::NAME, key.as_bytes().len()),
            );
            tlv::write_tlv(out, types::NAME, key.as_bytes());
        }
        if let Some(nonce) = freshness.nonce {
            tlv::write_tlv(out, types::SIGNATURE_NONCE, nonce);
        }
        if let Some(time) = freshness.time {
            tlv::write_nni(out, types::SIGNATURE_TIME, time);
        }
        if let Some(seq_num) = freshness.seq_num {
            tlv::write_nni(out, types::SIGNATURE_SEQ_NUM, seq_num);
        }
    });
}
