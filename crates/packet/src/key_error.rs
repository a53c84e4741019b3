//! The errors of keys.

use std::fmt;

/// The reason why bytes are not a key that this crate can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The text has no `-----BEGIN PRIVATE KEY-----` or similar line.
    NotPem,
    /// The PEM block has this label, and another is needed.
    WrongLabel(String),
    /// The text or the structure is damaged.
    Malformed,
    /// The key's algorithm is not Ed25519, ECDSA on P-256 or RSA.
    UnknownAlgorithm,
    /// The key does not belong to the certificate with this name.
    OtherKey(String),
    /// `ring` rejects the numbers of the key.
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
