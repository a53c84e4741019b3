//! The errors of a start, a reload and a disk tier: each is one line.

use crate::base::limits;
use crate::base::listen_address::ListenAddress;
use http::Uri;
use larder_disk::GeometryError;
use larder_policy::SpecError;
use larder_units::system_message;
use rustls::pki_types::pem;
use std::path::PathBuf;
use std::{error, fmt, io};

/// The reason why the proxy cannot start or reload, or a disk tier cannot forget records.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A setting cannot be used.
    Setting {
        /// The table and the key, such as `[http] listen`.
        setting: String,
        /// The problem.
        problem: Box<Problem>,
    },
    /// The system starts no thread.
    Thread(io::Error),
    /// The disk has not synced in time: a crash now may bring back what was removed.
    NotSynced(PathBuf),
    /// The disk has failed, and its file cannot be emptied.
    NotEmptied(PathBuf),
}

/// The problem of a setting.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// Another program listens on the address.
    InUse(ListenAddress),
    /// The system refuses the address.
    Listen {
        /// The address.
        address: ListenAddress,
        /// The system's error.
        error: io::Error,
    },
    /// The system refuses an operation on the listener.
    Listener(io::Error),
    /// A file cannot be opened, created or locked.
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file is no disk tier.
    Foreign(PathBuf),
    /// The capacity of a disk tier cannot be used.
    Capacity(GeometryError),
    /// The policy cannot be used.
    Policy(SpecError),
    /// A PEM file cannot be read.
    Pem {
        /// Its path.
        path: PathBuf,
        /// The reader's error.
        error: pem::Error,
    },
    /// A PEM file has no certificate.
    NoCertificate(PathBuf),
    /// Some certificates of a file cannot be used.
    UnusableCertificates {
        /// Its path.
        path: PathBuf,
        /// The number of unusable ones.
        unusable: usize,
        /// The number of all.
        all: usize,
    },
    /// There is no certificate to verify origins with.
    NoTrustAnchor,
    /// TLS refuses the certificates or the key.
    Tls(rustls::Error),
    /// TLS refuses the file of certificates or of a key.
    TlsFile {
        /// Its path.
        path: PathBuf,
        /// The error of TLS.
        error: rustls::Error,
    },
    /// TLS refuses the certificates that verify origins.
    Verifier(rustls::client::VerifierBuilderError),
    /// TLS cannot create session tickets.
    NoTickets(rustls::Error),
    /// An origin is a listener of this cache.
    OwnListener {
        /// The origin.
        origin: Uri,
        /// The setting of the listener.
        listener: &'static str,
    },
    /// Too many request threads of former configurations have connections.
    ThreadsBusy,
    /// A group of origins has no server, or too many.
    ServerCount,
    /// A server is not a URI of a host.
    NotAServer(Uri),
    /// Rules contradict themselves: one text for all of them.
    Rules(String),
    /// A host pattern has a `*` at a wrong position.
    Wildcard,
}

impl Error {
    /// Returns the error of a setting.
    pub(crate) fn setting(setting: impl Into<String>, problem: Problem) -> Error {
        Error::Setting {
            setting: setting.into(),
            problem: Box::new(problem),
        }
    }

    /// Returns the error of an address that cannot be bound.
    pub(crate) fn listen(setting: &str, address: &ListenAddress, error: io::Error) -> Error {
        let address = address.clone();
        let problem = match error.kind() {
            io::ErrorKind::AddrInUse => Problem::InUse(address),
            _ => Problem::Listen { address, error },
        };
        Error::setting(setting, problem)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Setting { setting, problem } => write!(f, "{setting}: {problem}"),
            Error::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Error::NotSynced(path) => {
                let (path, patience) = (path.display(), limits::DISK_PATIENCE);
                write!(
                    f,
                    "{path} has not synced within {patience:?}: a crash now may bring back what was removed"
                )
            }
            Error::NotEmptied(path) => {
                write!(
                    f,
                    "{} has failed and cannot be emptied: remove it before the next start",
                    path.display()
                )
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::InUse(address) => {
                write!(f, "{address} is in use; stop the other program or set another {}", address.kind())
            }
            Problem::Listen { address, error } => write!(f, "cannot listen on {address}: {}", system_message(error)),
            Problem::Listener(error) => error.fmt(f),
            Problem::File { path, error } => write!(f, "{}: {}", path.display(), system_message(error)),
            Problem::Foreign(path) => {
                write!(f, "{}: it holds something else; name a new file, or remove this one", path.display())
            }
            Problem::Capacity(error) => error.fmt(f),
            Problem::Policy(error) => error.fmt(f),
            Problem::Pem { path, error } => write!(f, "{}: {error}", path.display()),
            Problem::NoCertificate(path) => write!(f, "{}: no certificate in it; expected PEM", path.display()),
            Problem::UnusableCertificates { path, unusable, all } => {
                let path = path.display();
                write!(f, "{path}: {unusable} of its {all} certificates cannot be used; take them out, or renew them")
            }
            Problem::NoTrustAnchor => f.write_str(
                "no usable certificate, so that no https:// origin could be believed; \
                 install the system's (ca-certificates), or name a PEM file",
            ),
            Problem::Tls(error) => error.fmt(f),
            Problem::TlsFile { path, error } => write!(f, "{}: {error}", path.display()),
            Problem::Verifier(error) => error.fmt(f),
            Problem::NoTickets(error) => write!(f, "no tickets: {error}"),
            Problem::OwnListener { origin, listener } => {
                write!(f, "{origin} is {listener} itself; set it to the server behind this cache")
            }
            Problem::ThreadsBusy => f.write_str(
                "too many threads of former reloads still have connections: reload again when these have ended",
            ),
            Problem::ServerCount => write!(f, "expected 1 to {}", limits::SERVERS),
            Problem::NotAServer(uri) => {
                write!(f, "expected http://HOST:PORT, https://HOST:PORT or unix:/SOCKET, not {uri}")
            }
            Problem::Rules(text) => f.write_str(text),
            Problem::Wildcard => f.write_str("a * stands only before a domain"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::Setting { problem, .. } => problem.source(),
            Error::Thread(error) => Some(error),
            Error::NotSynced(_) | Error::NotEmptied(_) => None,
        }
    }
}

impl Problem {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Problem::Listen { error, .. }
            | Problem::Listener(error)
            | Problem::File { error, .. } => Some(error),
            Problem::Capacity(error) => Some(error),
            Problem::Policy(error) => Some(error),
            Problem::Pem { error, .. } => Some(error),
            Problem::Tls(error) | Problem::TlsFile { error, .. } | Problem::NoTickets(error) => {
                Some(error)
            }
            Problem::Verifier(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(problem: Problem) -> String {
        Error::setting("[http] x", problem).to_string()
    }

    /// Failure: an error does not say which setting is wrong, or what to do.
    #[test]
    fn an_error_names_the_setting_and_the_remedy() {
        let address = ListenAddress::Tcp(([127, 0, 0, 1], 80).into());
        let refused =
            |kind| Error::listen("[http] listen", &address, io::Error::from(kind)).to_string();
        assert_eq!(
            refused(io::ErrorKind::AddrInUse),
            "[http] listen: 127.0.0.1:80 is in use; stop the other program or set another port"
        );
        assert!(
            refused(io::ErrorKind::PermissionDenied)
                .starts_with("[http] listen: cannot listen on 127.0.0.1:80: ")
        );
        let path = PathBuf::from("/x");
        assert_eq!(
            text(Problem::UnusableCertificates {
                path: path.clone(),
                unusable: 1,
                all: 2
            }),
            "[http] x: /x: 1 of its 2 certificates cannot be used; take them out, or renew them"
        );
        assert_eq!(
            text(Problem::NoCertificate(path.clone())),
            "[http] x: /x: no certificate in it; expected PEM"
        );
        assert_eq!(
            text(Problem::ServerCount),
            format!("[http] x: expected 1 to {}", limits::SERVERS)
        );
        let file = Problem::File {
            path,
            error: io::Error::from_raw_os_error(2),
        };
        assert_eq!(text(file), "[http] x: /x: No such file or directory");
    }

    #[test]
    fn the_cause_is_lost() {
        let error = Error::setting(
            "[http.disk] path",
            Problem::Listener(io::Error::other("broken")),
        );
        assert_eq!(
            error::Error::source(&error).expect("a cause").to_string(),
            "broken"
        );
    }
}
