//! The errors of a start and a reload: each is one line.

use crate::base::limits;
use http::Uri;
use larder_host::ListenError;
use larder_policy::SpecError;
use larder_static_files::RootError;
use larder_units::system_message;
use rustls::pki_types::pem;
use std::path::PathBuf;
use std::{error, fmt, io};

/// The reason why the proxy or the admin server cannot start or reload.
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
    /// A listener cannot be bound.
    Listen(ListenError),
    /// The disk tier cannot start, or cannot forget records.
    Disk(larder_tier_host::Error),
    /// The third tier cannot start.
    ObjectStore(larder_object_host::Error),
    /// Certificates cannot be ordered.
    Acme(larder_acme_host::Error),
}

/// The problem of a setting.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The system refuses an operation on the listener.
    Listener(io::Error),
    /// A file cannot be opened, created or locked.
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
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
    /// A certificate and a key cannot be used together.
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The error of the TLS library.
        error: rustls::Error,
    },
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
    /// The folder of files cannot be served.
    Root(RootError),
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

    /// Returns an error of TLS for clients as one of TLS for other nodes.
    pub(crate) fn of_peers(self) -> Error {
        match self {
            Error::Setting { setting, problem } => Error::Setting {
                setting: setting
                    .replace("[http.tls]", "[fleet.peers]")
                    .replace("client_ca", "ca"),
                problem,
            },
            other => other,
        }
    }
}

impl From<ListenError> for Error {
    fn from(error: ListenError) -> Error {
        Error::Listen(error)
    }
}

impl From<larder_tier_host::Error> for Error {
    fn from(error: larder_tier_host::Error) -> Error {
        Error::Disk(error)
    }
}

impl From<larder_acme_host::Error> for Error {
    fn from(error: larder_acme_host::Error) -> Error {
        Error::Acme(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Setting { setting, problem } => write!(f, "{setting}: {problem}"),
            Error::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Error::Listen(error) => error.fmt(f),
            Error::Disk(error) => error.fmt(f),
            Error::ObjectStore(error) => error.fmt(f),
            Error::Acme(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Listener(error) => error.fmt(f),
            Problem::File { path, error } => write!(f, "{}: {}", path.display(), system_message(error)),
            Problem::Policy(error) => error.fmt(f),
            Problem::Pem { path, error: pem::Error::Io(error) } => {
                write!(f, "{}: {}", path.display(), system_message(error))
            }
            Problem::Pem { path, error: pem::Error::NoItemsFound } => {
                let path = path.display();
                write!(f, "{path}: no private key in it; expected PEM (-----BEGIN PRIVATE KEY-----)")
            }
            Problem::Pem { path, error } => {
                let path = path.display();
                write!(f, "{path}: its PEM text is damaged ({error}); write the file again")
            }
            Problem::NoCertificate(path) => {
                let path = path.display();
                write!(f, "{path}: no certificate in it; expected PEM (-----BEGIN CERTIFICATE-----)")
            }
            Problem::Pair { certificate, key, error } => {
                let (certificate, key) = (certificate.display(), key.display());
                match error {
                    rustls::Error::InconsistentKeys(_) => write!(
                        f,
                        "{key} is not the key of {certificate}: they do not belong together; \
                         name the key with which this certificate was ordered"
                    ),
                    rustls::Error::InvalidCertificate(_) => write!(
                        f,
                        "{certificate}: its first certificate cannot be used ({error}); it has to be whole, \
                         and of X.509 version 3"
                    ),
                    _ => write!(
                        f,
                        "{key}: its private key cannot be used ({error}); it has to be whole, and RSA of \
                         2048 bits or more, ECDSA P-256 or P-384, or Ed25519"
                    ),
                }
            }
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
            Problem::Root(error) => error.fmt(f),
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
            Error::Listen(error) => error.source(),
            Error::Disk(error) => error.source(),
            Error::ObjectStore(error) => error.source(),
            Error::Acme(error) => error.source(),
        }
    }
}

impl Problem {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Problem::Listener(error) | Problem::File { error, .. } => Some(error),
            Problem::Policy(error) => Some(error),
            Problem::Pem { error, .. } => Some(error),
            Problem::Tls(error)
            | Problem::TlsFile { error, .. }
            | Problem::Pair { error, .. }
            | Problem::NoTickets(error) => Some(error),
            Problem::Verifier(error) => Some(error),
            Problem::Root(error) => Some(error),
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
            "[http] x: /x: no certificate in it; expected PEM (-----BEGIN CERTIFICATE-----)"
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
