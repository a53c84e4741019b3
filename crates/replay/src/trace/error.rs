//! What is wrong with a trace, and where.

use std::fmt;

/// A trace that cannot be read: the file, the line or byte, and the problem. Printed as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    trace: String,
    place: Place,
    problem: String,
}

/// Where in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    File,
    /// From 1.
    Line(u64),
    /// From 0, after decompression.
    Byte(u64),
}

impl TraceError {
    pub(super) fn new(trace: &str, place: Place, problem: String) -> Self {
        TraceError { trace: trace.to_owned(), place, problem }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace = self.trace.escape_debug();
        match self.place {
            Place::File => write!(f, "{trace}: {}", self.problem),
            Place::Line(line) => write!(f, "{trace}, line {line}: {}", self.problem),
            Place::Byte(byte) => write!(f, "{trace}, byte {byte}: {}", self.problem),
        }
    }
}

impl std::error::Error for TraceError {}
