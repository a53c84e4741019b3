//! The key that signs commands to a forwarder which does not let everybody command it.

use larder_packet::{
    Certificate, CertificateError, KeyError, Signer, SystemRandom, certified_signer,
};
use larder_units::system_message;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The environment variable with the file of the private key.
pub const KEY_VARIABLE: &str = "LARDER_COMMAND_KEY";

/// The environment variable with the file of its certificate.
pub const CERTIFICATE_VARIABLE: &str = "LARDER_COMMAND_CERTIFICATE";

/// The files of a key: the private key (PEM, PKCS#8), and its certificate, as the forwarder's
/// configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandKey {
    /// The private key.
    pub key: PathBuf,
    /// The certificate.
    pub certificate: PathBuf,
}

/// The reason why a key cannot sign commands. One line, with the file.
#[derive(Debug)]
pub struct CommandKeyError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    Read(io::Error),
    Key(KeyError),
    Certificate(CertificateError),
    /// The variable of the other file is not set.
    Alone {
        set: &'static str,
        missing: &'static str,
    },
}

impl fmt::Display for CommandKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::Read(error) => write!(f, "{path}: {}", system_message(error)),
            Problem::Key(error) => write!(f, "{path}: {error}"),
            Problem::Certificate(error) => write!(f, "{path}: {error}"),
            Problem::Alone { set, missing } => {
                write!(f, "{set} names {path}: {missing} must name the other file")
            }
        }
    }
}

impl std::error::Error for CommandKeyError {}

impl CommandKey {
    /// Returns the key that the environment names.
    ///
    /// # Errors
    /// Only one of the variables is set.
    pub fn configured() -> Result<Option<CommandKey>, CommandKeyError> {
        let file = |variable| {
            std::env::var_os(variable)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        };
        let alone = |path, set, missing| CommandKeyError {
            path,
            problem: Problem::Alone { set, missing },
        };
        match (file(KEY_VARIABLE), file(CERTIFICATE_VARIABLE)) {
            (Some(key), Some(certificate)) => Ok(Some(CommandKey { key, certificate })),
            (None, None) => Ok(None),
            (Some(path), None) => Err(alone(path, KEY_VARIABLE, CERTIFICATE_VARIABLE)),
            (None, Some(path)) => Err(alone(path, CERTIFICATE_VARIABLE, KEY_VARIABLE)),
        }
    }

    /// Reads the files. The signer's packets name the certificate.
    ///
    /// # Errors
    /// A file cannot be read, the certificate is not valid now, or it is that of another key.
    pub fn read(&self) -> Result<Box<dyn Signer>, CommandKeyError> {
        let wrong = |path: &Path, problem| CommandKeyError {
            path: path.to_owned(),
            problem,
        };
        let text = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| wrong(path, Problem::Read(error)))
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let certificate = Certificate::from_base64(&text(&self.certificate)?)
            .and_then(|certificate| certificate.check_time(now).map(|()| certificate))
            .map_err(|error| wrong(&self.certificate, Problem::Certificate(error)))?;
        certified_signer(&text(&self.key)?, &certificate, &SystemRandom::new())
            .map_err(|error| wrong(&self.key, Problem::Key(error)))
    }
}
