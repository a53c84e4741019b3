//! How a command fails: one line, and an exit status.

use std::fmt;

/// A command that failed.
#[derive(Debug)]
pub struct Failure {
    /// One line that names the thing, the place and the way out.
    pub message: String,
    /// The exit status: 2 for what was typed or configured wrong, 1 for what went wrong.
    pub code: u8,
}

impl Failure {
    /// What was typed, or a file that was named, is wrong: exit status 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure { message: message.into(), code: 2 }
    }

    /// It went wrong: exit status 1.
    pub fn runtime(message: impl Into<String>) -> Self {
        Failure { message: message.into(), code: 1 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
