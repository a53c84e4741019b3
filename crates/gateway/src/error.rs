//! The errors of a start of either end: each is one line.

use crate::limits;
use http::Uri;
use larder_client::{ClientError, CommandKeyError};
use larder_packet::{CertificateError, KeyError};
use larder_units::system_message;
use std::path::PathBuf;
use std::{error, fmt, io};

/// The reason why an end of HTTP over NDN cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A key pair and a shared secret are both configured.
    KeyAndSecret {
        /// The table of the configuration.
        table: &'static str,
        /// The key of the key pair.
        key: &'static str,
    },
    /// The file of a key cannot be used.
    KeyFile {
        /// The table of the configuration.
        table: &'static str,
        /// The key in the table.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: KeyFileError,
    },
    /// The end cannot connect to its forwarder.
    Forwarder {
        /// The table of the configuration.
        table: &'static str,
        /// The problem.
        error: ClientError,
    },
    /// The key that signs commands to the forwarder cannot be used.
    CommandKey(CommandKeyError),
    /// The forwarder refuses the prefix of the egress.
    Prefix(ClientError),
    /// The origin of the egress is not a URI of a host.
    Origin(Uri),
    /// The certificates that verify the origin cannot be used.
    Trust(larder_proxy::Error),
    /// The system refuses an event queue.
    Runtime(io::Error),
    /// The system starts no thread.
    Thread(io::Error),
}

/// The problem of the file of a key.
#[derive(Debug)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It cannot be read.
    Read(io::Error),
    /// It is no key.
    Key(KeyError),
    /// It is neither a key nor a certificate, or a certificate that is not valid.
    Certificate(CertificateError),
    /// The secret has fewer than [`limits::SECRET_BYTES`].
    ShortSecret,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::KeyAndSecret { table, key } => {
                write!(f, "{table}: {key} and secret exclude each other: keep one")
            }
            Error::KeyFile {
                table,
                key,
                path,
                problem,
            } => {
                write!(f, "{table} {key} = \"{}\": {problem}", path.display())
            }
            Error::Forwarder { table, error } => write!(f, "{table}: {error}"),
            Error::Prefix(error) => write!(
                f,
                "[ndn.gateway] prefix: {error}; if [[ndn.authorize]] says who may register, [ndn] command_key must be \
                 one of its keys"
            ),
            Error::CommandKey(error) => write!(f, "[ndn] command_key: {error}"),
            Error::Origin(origin) => {
                write!(
                    f,
                    "[ndn.gateway] origin: expected http://HOST:PORT or https://HOST:PORT, not {origin}"
                )
            }
            Error::Trust(error) => error.fmt(f),
            Error::Runtime(error) => write!(f, "cannot start a runtime: {error}"),
            Error::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyFileError::Read(error) => f.write_str(&system_message(error)),
            KeyFileError::Key(error) => error.fmt(f),
            KeyFileError::Certificate(error) => error.fmt(f),
            KeyFileError::ShortSecret => {
                write!(
                    f,
                    "fewer than {} bytes; `openssl rand -hex 32` makes one",
                    limits::SECRET_BYTES
                )
            }
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::KeyFile { problem, .. } => Some(problem),
            Error::Forwarder { error, .. } | Error::Prefix(error) => Some(error),
            Error::CommandKey(error) => Some(error),
            Error::Trust(error) => Some(error),
            Error::Runtime(error) | Error::Thread(error) => Some(error),
            Error::KeyAndSecret { .. } | Error::Origin(_) => None,
        }
    }
}

impl error::Error for KeyFileError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            KeyFileError::Read(error) => Some(error),
            KeyFileError::Key(error) => Some(error),
            KeyFileError::Certificate(error) => Some(error),
            KeyFileError::ShortSecret => None,
        }
    }
}
