//! The errors of a start: each is one line.

use larder_units::system_message;
use std::path::PathBuf;
use std::{error, fmt, io};

/// The reason why the third tier cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    File {
        /// The key that names it.
        setting: &'static str,
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file without an access key and its secret.
    NoCredentials(PathBuf),
    /// A file without a certificate.
    NoCertificate(PathBuf),
    /// The settings cannot be used.
    Store(object_store::Error),
    /// The system starts no thread.
    Thread(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File {
                setting,
                path,
                error,
            } => {
                let (path, message) = (path.display(), system_message(error));
                write!(f, "[http.object_store] {setting}: {path}: {message}")
            }
            Error::NoCredentials(path) => write!(
                f,
                "[http.object_store] credentials: {}: it has no lines aws_access_key_id = ... and \
                 aws_secret_access_key = ...",
                path.display()
            ),
            Error::NoCertificate(path) => write!(
                f,
                "[http.object_store] ca: {}: it has no certificate in PEM",
                path.display()
            ),
            Error::Store(error) => write!(f, "[http.object_store]: {error}"),
            Error::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl error::Error for Error {}
