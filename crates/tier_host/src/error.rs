//! The errors of a disk tier: each is one line.

use crate::limits;
use larder_disk::GeometryError;
use larder_policy::SpecError;
use larder_units::system_message;
use std::path::PathBuf;
use std::{error, fmt, io};

/// The reason why a disk tier cannot start, or cannot forget records.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A setting cannot be used.
    Setting {
        /// The table and the key, such as `[http.disk] path`.
        setting: String,
        /// The problem.
        problem: Problem,
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
    /// The file cannot be opened, created or locked.
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file is no disk tier.
    Foreign(PathBuf),
    /// The capacity cannot be used.
    Capacity(GeometryError),
    /// The policy cannot be used.
    Policy(SpecError),
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
            Problem::File { path, error } => {
                write!(f, "{}: {}", path.display(), system_message(error))
            }
            Problem::Foreign(path) => {
                write!(
                    f,
                    "{}: it holds something else; name a new file, or remove this one",
                    path.display()
                )
            }
            Problem::Capacity(error) => error.fmt(f),
            Problem::Policy(error) => error.fmt(f),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::Setting { problem, .. } => match problem {
                Problem::File { error, .. } => Some(error),
                Problem::Foreign(_) => None,
                Problem::Capacity(error) => Some(error),
                Problem::Policy(error) => Some(error),
            },
            Error::Thread(error) => Some(error),
            Error::NotSynced(_) | Error::NotEmptied(_) => None,
        }
    }
}
