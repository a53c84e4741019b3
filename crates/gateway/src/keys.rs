//! The keys of both ends, from the files that the configuration names.

use super::error::{Error, KeyFileError};
use super::limits;
use larder_packet::{
    CertificateServer, DigestSigner, HmacSigner, HmacVerifier, Name, Signer, SystemRandom,
    Verifier, VerifyError, self_signed, signer_from_pem, verifier_from_file,
};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The file of a key pair, or of a shared secret. Without either, digests protect against damage
/// only, and anyone could have made the Data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFiles {
    /// The egress's private key, or the ingress's copy of the public one: PEM, or at the ingress a
    /// certificate.
    pub key: Option<PathBuf>,
    /// A secret, the same bytes at both ends.
    pub secret: Option<PathBuf>,
}

impl KeyFiles {
    /// Returns the egress's signer; the name of the key is `PREFIX/KEY/far`.
    ///
    /// # Errors
    /// One line that names the setting under `table` and the problem of its file.
    pub(super) fn signer(
        &self,
        table: &'static str,
        prefix: &Name,
    ) -> Result<Box<dyn Signer>, Error> {
        let name = key_name(prefix);
        match (&self.key, &self.secret) {
            (Some(_), Some(_)) => Err(Error::KeyAndSecret { table, key: "key" }),
            (Some(path), None) => {
                let text = read(table, "key", path)?;
                signer_from_pem(&String::from_utf8_lossy(&text), name, &SystemRandom::new())
                    .map_err(|error| wrong(table, "key", path, KeyFileError::Key(error)))
            }
            (None, Some(path)) => Ok(Box::new(HmacSigner::new(&secret(table, path)?, name))),
            (None, None) => Ok(Box::new(DigestSigner)),
        }
    }

    /// Returns the self-signed certificate of the egress's key pair, for those who validate its
    /// Data without a copy of the key. A shared secret has none.
    ///
    /// # Errors
    /// As [`KeyFiles::signer`].
    pub(super) fn certificates(
        &self,
        table: &'static str,
        prefix: &Name,
    ) -> Result<CertificateServer, Error> {
        let Some(path) = &self.key else {
            return Ok(CertificateServer::default());
        };
        let bad = |error| wrong(table, "key", path, KeyFileError::Certificate(error));
        let pem = read(table, "key", path)?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let text = String::from_utf8_lossy(&pem);
        // As short as that of metadata: it must not answer for the prefix from a cache for long.
        let freshness = larder_transfer::limits::METADATA_FRESHNESS;
        let wire = self_signed(
            &text,
            &key_name(prefix),
            now,
            freshness,
            &SystemRandom::new(),
        )
        .map_err(bad)?;
        CertificateServer::new(vec![wire]).map_err(bad)
    }

    /// Returns a digest that differs between keys, and is the same after a restart.
    ///
    /// # Errors
    /// As [`KeyFiles::signer`].
    pub(super) fn fingerprint(&self, table: &'static str) -> Result<[u8; 32], Error> {
        let (kind, bytes) = match (&self.key, &self.secret) {
            (Some(path), _) => (&b"key"[..], read(table, "key", path)?),
            (None, Some(path)) => (&b"secret"[..], secret(table, path)?),
            (None, None) => (&b"digest"[..], Vec::new()),
        };
        Ok(Sha256::new()
            .chain_update(kind)
            .chain_update(bytes)
            .finalize()
            .into())
    }

    /// Returns the ingress's signer of requests in full, if the two share a secret. Of a key pair,
    /// the ingress has only the public half.
    ///
    /// # Errors
    /// As [`KeyFiles::signer`].
    pub(super) fn request_signer(
        &self,
        table: &'static str,
    ) -> Result<Option<Arc<dyn Signer>>, Error> {
        let mut name = Name::root();
        name.push_generic(b"KEY").push_generic(b"edge");
        self.shared(table, |secret| Arc::new(HmacSigner::new(secret, name)) as _)
    }

    /// Returns the egress's verifier of such requests.
    ///
    /// # Errors
    /// As [`KeyFiles::signer`].
    pub(super) fn request_verifier(&self, table: &'static str) -> Result<Option<Trust>, Error> {
        self.shared(table, |secret| Trust::new(HmacVerifier::new(secret)))
    }

    fn shared<T>(
        &self,
        table: &'static str,
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, Error> {
        self.secret
            .as_deref()
            .map(|path| secret(table, path).map(|secret| with(&secret)))
            .transpose()
    }

    /// Returns the ingress's verifier; `None` if it accepts all Data.
    ///
    /// # Errors
    /// As [`KeyFiles::signer`]. A certificate that is not valid now is refused.
    pub(super) fn verifier(&self, table: &'static str) -> Result<Option<Trust>, Error> {
        let trust: Arc<dyn Verifier> = match (&self.key, &self.secret) {
            (Some(_), Some(_)) => {
                return Err(Error::KeyAndSecret {
                    table,
                    key: "trust",
                });
            }
            (None, None) => return Ok(None),
            (None, Some(path)) => Arc::new(HmacVerifier::new(&secret(table, path)?)),
            (Some(path), None) => {
                let bytes = read(table, "trust", path)?;
                let now = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |since| since.as_secs());
                verifier_from_file(&bytes, now)
                    .map_err(|error| wrong(table, "trust", path, KeyFileError::Certificate(error)))?
                    .into()
            }
        };
        Ok(Some(Trust(trust)))
    }
}

/// A key that verifies every fetch.
#[derive(Clone)]
pub struct Trust(Arc<dyn Verifier>);

impl Trust {
    /// Trusts this key.
    pub fn new(verifier: impl Verifier + 'static) -> Trust {
        Trust(Arc::new(verifier))
    }
}

impl Verifier for Trust {
    fn verify(
        &self,
        signature_type: u64,
        portions: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError> {
        self.0.verify(signature_type, portions, signature)
    }
}

fn key_name(prefix: &Name) -> Name {
    let mut name = prefix.clone();
    name.push_generic(b"KEY").push_generic(b"far");
    name
}

fn secret(table: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = read(table, "secret", path)?.trim_ascii().to_vec();
    if bytes.len() < limits::SECRET_BYTES {
        return Err(wrong(table, "secret", path, KeyFileError::ShortSecret));
    }
    Ok(bytes)
}

fn read(table: &'static str, key: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| wrong(table, key, path, KeyFileError::Read(error)))
}

fn wrong(table: &'static str, key: &'static str, path: &Path, problem: KeyFileError) -> Error {
    Error::KeyFile {
        table,
        key,
        path: path.to_owned(),
        problem,
    }
}
