//! Errors of traces, with their places.

use std::fmt;

/// A trace that cannot be read: the file, the place and the problem. It prints as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    trace: String,
    error: ReadError,
}

/// An error of a format's reader. [`TraceError`] adds the file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Where the problem is.
    pub place: Place,
    /// The problem, in one line.
    pub problem: String,
}

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0, after decompression.
    Byte(u64),
}

impl ReadError {
    /// Creates an error. The problem is one line.
    pub fn new(place: Place, problem: impl Into<String>) -> Self {
        ReadError { place, problem: problem.into() }
    }
}

impl TraceError {
    pub(super) fn new(trace: &str, error: ReadError) -> Self {
        TraceError { trace: trace.to_owned(), error }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::File => write!(f, "{}", self.problem),
            Place::Line(line) => write!(f, "line {line}: {}", self.problem),
            Place::Byte(byte) => write!(f, "byte {byte}: {}", self.problem),
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.error.place == Place::File { ":" } else { "," };
        write!(f, "{}{separator} {}", self.trace.escape_debug(), self.error)
    }
}

impl std::error::Error for ReadError {}

impl std::error::Error for TraceError {}
