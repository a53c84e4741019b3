//! The error of a topology file that cannot be read.

use std::fmt;

/// A topology file that cannot be read, with the line and the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError {
    /// The line from 1, or 0 for the whole file.
    pub line: usize,
    /// One line of text.
    pub problem: String,
}

impl TopologyError {
    /// Escapes line breaks, which quoted text of the file may contain.
    pub(super) fn new(line: usize, problem: impl Into<String>) -> Self {
        let problem: String = problem.into();
        let problem = problem.chars().flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        });
        TopologyError {
            line,
            problem: problem.collect(),
        }
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.problem),
            line => write!(f, "line {line}: {}", self.problem),
        }
    }
}

impl std::error::Error for TopologyError {}
