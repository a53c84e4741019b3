//! The failure of a command: one line, and an exit status.

use std::fmt;

/// A command that failed.
#[derive(Debug)]
pub struct Failure {
    /// One line that names the object, the place and the remedy.
    pub message: String,
    /// The exit status: 2 for wrong arguments or configuration, 1 for a failure at run time, 130 if
    /// a signal ended the command, 3 if not all nodes of a fleet have executed a purge or follow
    /// their log.
    pub code: u8,
}

/// The exit status that shells report for SIGINT.
const INTERRUPTED: u8 = 130;

impl Failure {
    /// Wrong arguments, or a wrong file that they name: exit status 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure {
            message: message.into(),
            code: 2,
        }
    }

    /// Arguments that a crate below refused with `error`: exit status 2.
    pub fn refused(error: impl fmt::Display) -> Self {
        Failure::usage(error.to_string())
    }

    /// A failure at run time: exit status 1.
    pub fn runtime(message: impl Into<String>) -> Self {
        Failure {
            message: message.into(),
            code: 1,
        }
    }

    /// A signal ended the command early; `what` is the progress: exit status 130.
    pub fn interrupted(what: &str) -> Self {
        Failure {
            message: format!("interrupted: {what}"),
            code: INTERRUPTED,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
