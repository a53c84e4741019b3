//! How a command fails: one line, and an exit status.

use std::fmt;

/// A command that failed.
#[derive(Debug)]
pub struct Failure {
    /// One line that names the thing, the place and the way out.
    pub message: String,
    /// The exit status: 2 for what was typed or configured wrong, 1 for what went wrong, 130 where
    /// a signal ended it.
    pub code: u8,
}

/// As shells give it to SIGINT.
const INTERRUPTED: u8 = 130;

impl Failure {
    /// What was typed, or a file that was named, is wrong: exit status 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure { message: message.into(), code: 2 }
    }

    /// It went wrong: exit status 1.
    pub fn runtime(message: impl Into<String>) -> Self {
        Failure { message: message.into(), code: 1 }
    }

    /// A signal ended it before it was done, which is as far as `what`: exit status 130.
    pub fn interrupted(what: &str) -> Self {
        Failure { message: format!("interrupted: {what}"), code: INTERRUPTED }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
