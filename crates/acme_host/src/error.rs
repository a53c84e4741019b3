//! The errors of a start: each is one line with the setting, the problem and the remedy.

use larder_units::system_message;
use rustls::pki_types::pem;
use std::path::PathBuf;
use std::{error, fmt, io};

/// The reason why certificates cannot be ordered by this configuration.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The folder cannot be created, read or written.
    Folder(PathBuf, io::Error),
    /// The file of a key for the authority cannot be read.
    HmacFile(PathBuf, io::Error),
    /// The file has no such key.
    HmacKey(PathBuf),
    /// The file of authorities cannot be read.
    DirectoryCa(PathBuf, pem::Error),
    /// No certificate verifies the authority's own.
    NoTrustAnchor(Option<PathBuf>),
    /// TLS refuses the configuration, or a self-signed certificate.
    Tls(rustls::Error),
    /// A key, or a self-signed certificate, cannot be made.
    Key(rcgen::Error),
    /// The system starts no thread.
    Thread(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Folder(path, error) => write!(
                f,
                "[http.tls.acme] folder: {}: {}; name a folder that the node may write",
                path.display(),
                system_message(error)
            ),
            Error::HmacFile(path, error) => write!(
                f,
                "[http.tls.acme] eab hmac_file: {}: {}",
                path.display(),
                system_message(error)
            ),
            Error::HmacKey(path) => write!(
                f,
                "[http.tls.acme] eab hmac_file: {}: expected the key as the authority shows it, in base64url",
                path.display()
            ),
            Error::DirectoryCa(path, pem::Error::Io(error)) => write!(
                f,
                "[http.tls.acme] directory_ca: {}: {}",
                path.display(),
                system_message(error)
            ),
            Error::DirectoryCa(path, error) => write!(
                f,
                "[http.tls.acme] directory_ca: {}: {error}",
                path.display()
            ),
            Error::NoTrustAnchor(Some(path)) => write!(
                f,
                "[http.tls.acme] directory_ca: {}: no usable certificate in it; expected PEM",
                path.display()
            ),
            Error::NoTrustAnchor(None) => f.write_str(
                "[http.tls.acme] directory_ca: this system has no certificates, so the authority's own cannot be \
                 verified; install them (ca-certificates), or name a PEM file",
            ),
            Error::Tls(error) => write!(f, "[http.tls.acme]: {error}"),
            Error::Key(error) => write!(f, "[http.tls.acme]: cannot make a key: {error}"),
            Error::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::Folder(_, error) | Error::HmacFile(_, error) | Error::Thread(error) => {
                Some(error)
            }
            Error::DirectoryCa(_, error) => Some(error),
            Error::Tls(error) => Some(error),
            Error::Key(error) => Some(error),
            Error::HmacKey(_) | Error::NoTrustAnchor(_) => None,
        }
    }
}
