//! The errors of a fleet, one line each.

use std::path::PathBuf;
use std::{fmt, io};

/// The reason why a node cannot take part in its fleet, or the log cannot be made.
#[derive(Debug)]
pub enum Error {
    /// A file of the folder cannot be used.
    Folder(PathBuf, io::Error),
    /// Another process uses the folder.
    InUse(PathBuf),
    /// The thread does not start.
    Thread(io::Error),
    /// The file of credentials cannot be read.
    Credentials(PathBuf, io::Error),
    /// No server can be reached.
    Connect(String),
    /// The server is too old, with its version.
    Version(String),
    /// The server refuses, or has no JetStream.
    Server(String),
    /// A file cannot be read or written.
    File(PathBuf, io::Error),
    /// Certificates cannot be made.
    Certificates(String),
    /// The log of this fleet exists with other settings than asked for: which ones.
    Differs(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Folder(path, error) => {
                write!(f, "[fleet] folder: {}: {error}", path.display())
            }
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Certificates(reason) => f.write_str(reason),
            Error::InUse(path) => write!(
                f,
                "[fleet] folder: another process uses {}: give each node its own",
                path.display()
            ),
            Error::Thread(error) => write!(f, "[fleet]: its thread does not start: {error}"),
            Error::Credentials(path, error) => {
                write!(f, "[fleet] credentials: {}: {error}", path.display())
            }
            Error::Connect(reason) => write!(f, "[fleet] nats: no server answers: {reason}"),
            Error::Version(version) => write!(
                f,
                "[fleet] nats: the server is nats-server {version}, and 2.11 or later is needed"
            ),
            Error::Server(reason) => write!(f, "[fleet] nats: the server refuses: {reason}"),
            Error::Differs(what) => write!(
                f,
                "the log of this fleet exists with other settings ({what}): change it with NATS' own tools, or \
                 choose another name"
            ),
        }
    }
}

impl std::error::Error for Error {}
