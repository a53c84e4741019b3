//! The part of PEM and DER that is needed to find the algorithm and the public part of a key file.
//!
//! RFC 7468 (PEM), RFC 5280 section 4.1 (SubjectPublicKeyInfo), RFC 5958 (PKCS#8), RFC 5915 (EC
//! private keys). `ring` reads the private numbers themselves.

use crate::key_error::KeyError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Ed25519,
    EcP256,
    Rsa,
}

/// Returns the label and the bytes of the first PEM block in `text`.
pub(crate) fn from_pem(text: &str) -> Result<(String, Vec<u8>), KeyError> {
    let (_, rest) = text.split_once("-----BEGIN ").ok_or(KeyError::NotPem)?;
    let (label, rest) = rest.split_once("-----").ok_or(KeyError::NotPem)?;
    let (body, _) = rest
        .split_once(&format!("-----END {label}-----"))
        .ok_or(KeyError::NotPem)?;
    Ok((
        label.to_owned(),
        from_base64(body).ok_or(KeyError::Malformed)?,
    ))
}

/// Returns the bytes of a block "NDN CERT", as ndnd writes it: lines with names and values, an
/// empty line, and base64. `None` if the text has no such block.
pub(crate) fn from_ndnd(text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once("-----BEGIN NDN CERT-----")?;
    let (body, _) = rest.split_once("-----END NDN CERT-----")?;
    let base64: String = body.lines().filter(|line| !line.contains(':')).collect();
    from_base64(&base64)
}

/// Decodes base64 (RFC 4648) and skips white space. Bits that are left over after the last byte are
/// ignored, because DER states its own length.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0);
    for byte in text
        .trim()
        .trim_end_matches('=')
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
    {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held).to_be_bytes()[3]);
        }
    }
    Some(bytes)
}

/// Returns algorithm and key of a SubjectPublicKeyInfo.
pub(crate) fn public_key(spki: &[u8]) -> Result<(Algorithm, &[u8]), KeyError> {
    let mut whole = spki;
    let mut info = expect(&mut whole, SEQUENCE)?;
    let algorithm = algorithm(&mut info)?;
    let key = bit_string(&mut info)?;
    if !whole.is_empty() {
        return Err(KeyError::Malformed);
    }
    Ok((algorithm, key))
}

/// Returns the SubjectPublicKeyInfo of a key, for the algorithms that this crate signs with.
pub(crate) fn subject_public_key_info(
    algorithm: Algorithm,
    key: &[u8],
) -> Result<Vec<u8>, KeyError> {
    let identifiers: &[&[u8]] = match algorithm {
        Algorithm::Ed25519 => &[ED25519],
        Algorithm::EcP256 => &[EC_PUBLIC_KEY, P256],
        Algorithm::Rsa => return Err(KeyError::UnknownAlgorithm),
    };
    let mut identifier = Vec::new();
    for object in identifiers {
        write_element(&mut identifier, OBJECT_IDENTIFIER, object)?;
    }
    let mut info = Vec::new();
    write_element(&mut info, SEQUENCE, &identifier)?;
    write_element(&mut info, BIT_STRING, &[&[0], key].concat())?;
    let mut whole = Vec::new();
    write_element(&mut whole, SEQUENCE, &info)?;
    Ok(whole)
}

/// Appends an element of at most 127 bytes. No element of these algorithms is longer.
fn write_element(out: &mut Vec<u8>, tag: u8, value: &[u8]) -> Result<(), KeyError> {
    let length = u8::try_from(value.len())
        .ok()
        .filter(|length| *length < 0x80)
        .ok_or(KeyError::Malformed)?;
    out.extend_from_slice(&[tag, length]);
    out.extend_from_slice(value);
    Ok(())
}

pub(crate) struct PrivateKey<'a> {
    pub algorithm: Algorithm,
    /// The public point of an EC key, if the document has it.
    pub public: Option<&'a [u8]>,
}

/// Returns the algorithm and the public part of a PKCS#8 document.
pub(crate) fn private_key(mut pkcs8: &[u8]) -> Result<PrivateKey<'_>, KeyError> {
    let mut info = expect(&mut pkcs8, SEQUENCE)?;
    expect(&mut info, INTEGER)?;
    let algorithm = algorithm(&mut info)?;
    let mut inner = expect(&mut info, OCTET_STRING)?;
    let mut public = None;
    if algorithm == Algorithm::EcP256 {
        let mut key = expect(&mut inner, SEQUENCE)?;
        while !key.is_empty() {
            if let (CONTEXT_1, mut point) = element(&mut key)? {
                public = Some(bit_string(&mut point)?);
            }
        }
    }
    Ok(PrivateKey { algorithm, public })
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const CONTEXT_1: u8 = 0xA1;

/// 1.3.101.112
const ED25519: &[u8] = &[0x2B, 0x65, 0x70];
/// 1.2.840.10045.2.1
const EC_PUBLIC_KEY: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01];
/// 1.2.840.10045.3.1.7
const P256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07];
/// 1.2.840.113549.1.1.1
const RSA_ENCRYPTION: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01];

fn algorithm(input: &mut &[u8]) -> Result<Algorithm, KeyError> {
    let mut identifier = expect(input, SEQUENCE)?;
    let algorithm = expect(&mut identifier, OBJECT_IDENTIFIER)?;
    match algorithm {
        ED25519 => Ok(Algorithm::Ed25519),
        RSA_ENCRYPTION => Ok(Algorithm::Rsa),
        EC_PUBLIC_KEY if element(&mut identifier)? == (OBJECT_IDENTIFIER, P256) => {
            Ok(Algorithm::EcP256)
        }
        _ => Err(KeyError::UnknownAlgorithm),
    }
}

fn bit_string<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], KeyError> {
    match expect(input, BIT_STRING)? {
        [0, bytes @ ..] => Ok(bytes),
        _ => Err(KeyError::Malformed),
    }
}

fn expect<'a>(input: &mut &'a [u8], tag: u8) -> Result<&'a [u8], KeyError> {
    match element(input)? {
        (found, value) if found == tag => Ok(value),
        _ => Err(KeyError::Malformed),
    }
}

/// Returns tag and value of the first element, and advances `input` past it. Keys are below 64 KiB.
fn element<'a>(input: &mut &'a [u8]) -> Result<(u8, &'a [u8]), KeyError> {
    let (tag, length, rest) = match input {
        [tag, length @ 0..=0x7F, rest @ ..] => (*tag, usize::from(*length), rest),
        [tag, 0x81, length, rest @ ..] => (*tag, usize::from(*length), rest),
        [tag, 0x82, high, low, rest @ ..] => {
            (*tag, usize::from(u16::from_be_bytes([*high, *low])), rest)
        }
        _ => return Err(KeyError::Malformed),
    };
    let (value, rest) = rest.split_at_checked(length).ok_or(KeyError::Malformed)?;
    *input = rest;
    Ok((tag, value))
}
