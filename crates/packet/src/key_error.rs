//! The error of keys.

use std::fmt;

/// Bytes that are no key of a kind that is used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// No `-----BEGIN PRIVATE KEY-----` or the like.
    NotPem,
    /// The block has this label, and another is needed.
    WrongLabel(String),
    /// The text or the structure is damaged.
    Malformed,
    /// The key is of another algorithm than Ed25519, ECDSA on P-256 and RSA.
    UnknownAlgorithm,
    /// The key is not that of the certificate with this name.
    OtherKey(String),
    /// The key's numbers are not a key.
    Rejected(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::NotPem => f.write_str("no PEM block (-----BEGIN ...-----)"),
            KeyError::WrongLabel(label) => write!(
                f,
                "the PEM block is a {label:?}; \"PRIVATE KEY\" (openssl genpkey, or openssl pkcs8 -topk8 -nocrypt) or, \
                 to verify only, \"PUBLIC KEY\" (openssl pkey -pubout) is needed"
            ),
            KeyError::Malformed => f.write_str("the key is damaged"),
            KeyError::UnknownAlgorithm => {
                f.write_str("the key's algorithm is not supported (Ed25519, ECDSA on P-256; RSA to verify only)")
            }
            KeyError::OtherKey(certificate) => write!(f, "the certificate {certificate} is that of another key"),
            KeyError::Rejected(why) => write!(f, "the key is refused: {why}"),
        }
    }
}

impl std::error::Error for KeyError {}

impl From<ring::error::KeyRejected> for KeyError {
    fn from(error: ring::error::KeyRejected) -> Self {
        KeyError::Rejected(error.to_string())
    }
}
