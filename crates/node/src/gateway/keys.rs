//! The keys of both ends, from files that the configuration names.

use super::limits;
use crate::system_message::system_message;
use larder_packet::{
    Certificate, DigestSigner, HmacSigner, HmacVerifier, Name, Signer, SystemRandom, Verifier, VerifyError,
    signer_from_pem, verifier_from_pem,
};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A key pair's file, or a shared secret's; nothing for digests, by which anybody may have made
/// what comes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFiles {
    /// The far node's private key, or the edge's copy of its public one: PEM, or at the edge a
    /// certificate.
    pub key: Option<PathBuf>,
    /// The same bytes at both ends.
    pub secret: Option<PathBuf>,
}

impl KeyFiles {
    /// The far node's signer; the key is called `PREFIX/KEY/far`.
    ///
    /// # Errors
    /// One line that names the setting under `table` and what is wrong with its file.
    pub(super) fn signer(&self, table: &str, prefix: &Name) -> Result<Box<dyn Signer>, String> {
        let mut name = prefix.clone();
        name.push_generic(b"KEY").push_generic(b"far");
        match (&self.key, &self.secret) {
            (Some(_), Some(_)) => Err(both(table, "key")),
            (Some(path), None) => {
                let text = read(table, "key", path)?;
                signer_from_pem(&String::from_utf8_lossy(&text), name, &SystemRandom::new())
                    .map_err(|error| wrong(table, "key", path, &error))
            }
            (None, Some(path)) => Ok(Box::new(HmacSigner::new(&secret(table, path)?, name))),
            (None, None) => Ok(Box::new(DigestSigner)),
        }
    }

    /// What the edge signs requests in full by, where the two share a secret: of a key pair it has
    /// the public half alone.
    ///
    /// # Errors
    /// As [`KeyFiles::signer`].
    pub(super) fn request_signer(&self, table: &str) -> Result<Option<Arc<dyn Signer>>, String> {
        let mut name = Name::root();
        name.push_generic(b"KEY").push_generic(b"edge");
        self.shared(table, |secret| Arc::new(HmacSigner::new(secret, name)) as _)
    }

    /// What the far node believes such requests by.
    ///
    /// # Errors
    /// As [`KeyFiles::signer`].
    pub(super) fn request_verifier(&self, table: &str) -> Result<Option<Trust>, String> {
        self.shared(table, |secret| Trust::new(HmacVerifier::new(secret)))
    }

    fn shared<T>(&self, table: &str, with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, String> {
        self.secret.as_deref().map(|path| secret(table, path).map(|secret| with(&secret))).transpose()
    }

    /// What the edge believes; `None` where it takes whatever comes.
    ///
    /// # Errors
    /// As [`KeyFiles::signer`]; a certificate that does not hold now is refused.
    pub(super) fn verifier(&self, table: &str) -> Result<Option<Trust>, String> {
        let trust: Arc<dyn Verifier> = match (&self.key, &self.secret) {
            (Some(_), Some(_)) => return Err(both(table, "trust")),
            (None, None) => return Ok(None),
            (None, Some(path)) => Arc::new(HmacVerifier::new(&secret(table, path)?)),
            (Some(path), None) => {
                let text = String::from_utf8_lossy(&read(table, "trust", path)?).into_owned();
                if text.contains("-----BEGIN") {
                    Arc::new(verifier_from_pem(&text).map_err(|error| wrong(table, "trust", path, &error))?)
                } else {
                    let certificate =
                        Certificate::from_base64(&text).map_err(|error| wrong(table, "trust", path, &error))?;
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                    if !certificate.holds_at(now) {
                        return Err(wrong(table, "trust", path, &"the certificate does not hold now"));
                    }
                    Arc::new(certificate)
                }
            }
        };
        Ok(Some(Trust(trust)))
    }
}

/// One key for every fetch.
#[derive(Clone)]
pub struct Trust(Arc<dyn Verifier>);

impl Trust {
    /// Trust in this key.
    pub fn new(verifier: impl Verifier + 'static) -> Trust {
        Trust(Arc::new(verifier))
    }
}

impl Verifier for Trust {
    fn verify(&self, signature_type: u64, portions: &[&[u8]], signature: &[u8]) -> Result<(), VerifyError> {
        self.0.verify(signature_type, portions, signature)
    }
}

fn secret(table: &str, path: &Path) -> Result<Vec<u8>, String> {
    let bytes = read(table, "secret", path)?.trim_ascii().to_vec();
    if bytes.len() < limits::SECRET_BYTES {
        let least = limits::SECRET_BYTES;
        return Err(wrong(
            table,
            "secret",
            path,
            &format!("fewer than {least} bytes; `openssl rand -hex 32` makes one"),
        ));
    }
    Ok(bytes)
}

fn read(table: &str, key: &str, path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| wrong(table, key, path, &system_message(&error)))
}

fn both(table: &str, key: &str) -> String {
    format!("{table}: {key} and secret exclude each other: keep one")
}

fn wrong(table: &str, key: &str, path: &Path, problem: &dyn fmt::Display) -> String {
    format!("{table} {key} = \"{}\": {problem}", path.display())
}
