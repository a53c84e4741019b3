//! The errors of trace readers: the problem, and where it is.

use crate::limits::{MAX_ARC_BLOCKS, MAX_LINE_BYTES};
use std::error::Error;
use std::{fmt, io};

/// A trace that cannot be read: the file, the line or byte, and the problem. Printed as one line.
#[derive(Debug)]
pub struct TraceError {
    trace: String,
    error: ReadError,
}

/// The error of a format's reader, which does not know the file's name.
#[derive(Debug)]
pub struct ReadError(Box<Cause>);

#[derive(Debug)]
struct Cause {
    place: Place,
    problem: TraceProblem,
    /// True if the lines that follow cannot be read either.
    is_of_all: bool,
}

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The whole file.
    File,
    /// A line, counted from 1.
    Line(u64),
    /// A byte, counted from 0, after decompression.
    Byte(u64),
    /// A row of a table, counted from 1.
    Row(u64),
}

/// The reason why a trace cannot be read. Texts of the trace are shortened and escaped.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceProblem {
    /// The bytes cannot be read or decompressed.
    Io(io::Error),
    /// No format recognises the bytes.
    UnknownFormat {
        /// The formats by name.
        known: Vec<&'static str>,
    },
    /// A line has more than [`MAX_LINE_BYTES`] bytes.
    LongLine,
    /// A line has another form than the format's.
    Line {
        /// The parts that it should have.
        expected: &'static str,
        /// Its text.
        found: String,
    },
    /// A field has another form than a quantity of its kind.
    Field {
        /// The quantity.
        expected: &'static str,
        /// The field's text.
        found: String,
    },
    /// A time in seconds is larger than a clock of nanoseconds in 64 bits.
    LateTime(String),
    /// A field is empty.
    Missing(&'static str),
    /// A line has no such field.
    NoField {
        /// The column.
        column: &'static str,
        /// The line's text.
        line: String,
    },
    /// The first line does not name this column.
    NoColumn(&'static str),
    /// The first line does not name this column, which the caller gave.
    NoColumnCalled {
        /// The column.
        column: String,
        /// The line's text.
        line: String,
    },
    /// The columns have names, but not those of time, object and size.
    Header(String),
    /// The value of a column is wrong.
    Column {
        /// The column's name.
        column: String,
        /// The value's problem.
        problem: Box<TraceProblem>,
    },
    /// A format that is read in any order comes compressed, or through a pipe.
    NotSeekable {
        /// The format.
        format: &'static str,
    },
    /// The number of a request of an ARC trace is too small.
    RequestOrder {
        /// Its number.
        number: u64,
        /// The number of the request before it.
        previous: u64,
    },
    /// A request of an ARC trace has more than [`MAX_ARC_BLOCKS`] blocks.
    TooManyBlocks(u64),
    /// The blocks of a request of an ARC trace have numbers from 2^64.
    BlockNumber {
        /// The first block.
        first: u64,
        /// The number of blocks.
        count: u64,
    },
    /// The trace ends within a record of this many bytes.
    CutRecord(usize),
    /// The file's name is that of an oracleGeneral trace, but its bytes are something else.
    NotOracleGeneral,
    /// So many lines are bad that the file is probably something else.
    BadLines {
        /// Bad lines.
        bad: u64,
        /// All lines so far.
        lines: u64,
        /// The first bad line, with its problem.
        first: String,
    },
    /// The format of a log's lines is not known.
    LogFormat(String),
    /// The problem of a format of another crate.
    Other(Box<dyn Error + Send + Sync>),
}

impl TraceError {
    pub(super) fn new(trace: &str, error: ReadError) -> Self {
        TraceError {
            trace: trace.to_owned(),
            error,
        }
    }

    /// Returns the place of the problem.
    pub fn place(&self) -> Place {
        self.error.place()
    }

    /// Returns the problem.
    pub fn problem(&self) -> &TraceProblem {
        self.error.problem()
    }
}

impl ReadError {
    /// Returns the error of this problem at this place.
    ///
    /// A problem can be a text of one line.
    #[cold]
    pub fn new(place: Place, problem: impl Into<TraceProblem>) -> ReadError {
        let problem = problem.into();
        let is_of_all = matches!(
            problem,
            TraceProblem::Io(_)
                | TraceProblem::UnknownFormat { .. }
                | TraceProblem::BadLines { .. }
        );
        ReadError(Box::new(Cause {
            place,
            problem,
            is_of_all,
        }))
    }

    /// Returns this error as one of the whole trace: a first line that does not tell the columns.
    #[must_use]
    pub fn of_all(mut self) -> ReadError {
        self.0.is_of_all = true;
        self
    }

    /// Returns the place of the problem.
    pub fn place(&self) -> Place {
        self.0.place
    }

    /// Returns the problem.
    pub fn problem(&self) -> &TraceProblem {
        &self.0.problem
    }

    /// Returns true if one line is bad, so the lines after it can be read.
    pub fn is_of_a_line(&self) -> bool {
        matches!(self.place(), Place::Line(_)) && !self.0.is_of_all
    }
}

impl TraceProblem {
    pub(super) fn line(expected: &'static str, found: &[u8]) -> TraceProblem {
        TraceProblem::Line {
            expected,
            found: shown(found),
        }
    }

    /// Returns the kind of the problem, by which bad lines are counted.
    pub fn reason(&self) -> String {
        match self {
            TraceProblem::LongLine => format!("longer than {MAX_LINE_BYTES} bytes"),
            TraceProblem::Line { .. } | TraceProblem::NoField { .. } => {
                "cut, or of another form".to_owned()
            }
            TraceProblem::Field { expected, .. } => format!("a {expected} that is none"),
            TraceProblem::LateTime(_) => "a time after 584 years".to_owned(),
            TraceProblem::Missing(field) => format!("no {field}"),
            TraceProblem::NoColumnCalled { column, .. } => format!("no {column}"),
            TraceProblem::Column { column, problem } => {
                format!("column {column}: {}", problem.reason())
            }
            TraceProblem::RequestOrder { .. } => "a request's number out of order".to_owned(),
            TraceProblem::TooManyBlocks(_) | TraceProblem::BlockNumber { .. } => {
                "block numbers out of range".to_owned()
            }
            other => other.to_string(),
        }
    }

    /// Returns this problem of a value, in the column with this name.
    pub fn in_column(self, column: &str) -> TraceProblem {
        TraceProblem::Column {
            column: shown(column.as_bytes()),
            problem: Box::new(self),
        }
    }

    pub(super) fn field(expected: &'static str, found: &[u8]) -> TraceProblem {
        TraceProblem::Field {
            expected,
            found: shown(found),
        }
    }
}

impl From<io::Error> for TraceProblem {
    fn from(error: io::Error) -> Self {
        TraceProblem::Io(error)
    }
}

impl From<String> for TraceProblem {
    fn from(problem: String) -> Self {
        TraceProblem::Other(problem.into())
    }
}

impl From<&str> for TraceProblem {
    fn from(problem: &str) -> Self {
        TraceProblem::Other(problem.into())
    }
}

/// Returns a text of the trace for an error's line: short, and without control characters.
pub(super) fn shown(text: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(text).chars().take(40).collect();
    text.escape_debug().to_string()
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.place() == Place::File {
            ": "
        } else {
            ", "
        };
        write!(f, "{}{separator}{}", self.trace.escape_debug(), self.error)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            Place::File => self.problem().fmt(f),
            Place::Line(line) => write!(f, "line {line}: {}", self.problem()),
            Place::Byte(byte) => write!(f, "byte {byte}: {}", self.problem()),
            Place::Row(row) => write!(f, "row {row}: {}", self.problem()),
        }
    }
}

impl fmt::Display for TraceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceProblem::Io(error) => f.write_str(error.to_string().split(" (os error").next().unwrap_or_default()),
            TraceProblem::UnknownFormat { known } => {
                write!(f, "cannot tell the format, give one of {}", known.join(", "))
            }
            TraceProblem::LongLine => write!(f, "longer than {MAX_LINE_BYTES} bytes"),
            TraceProblem::Line { expected, found } => write!(f, "{expected} expected, found `{found}`"),
            TraceProblem::Field { expected, found } => write!(f, "`{found}` is not a {expected}"),
            TraceProblem::LateTime(found) => {
                write!(f, "`{found}` is not a time in seconds: times end after 2^64 nanoseconds, 584 years")
            }
            TraceProblem::Missing(field) => write!(f, "the {field} is missing"),
            TraceProblem::NoField { column, line } => write!(f, "no {column} in `{line}`"),
            TraceProblem::NoColumn(column) => write!(f, "the first line names no column `{column}`"),
            TraceProblem::NoColumnCalled { column, line } => write!(f, "no column is called `{column}` in `{line}`"),
            TraceProblem::Header(line) => write!(
                f,
                "no columns are called `time`, `object` and `size` in `{line}`; give --columns time=…,id=…,size=…"
            ),
            TraceProblem::Column { column, problem } => write!(f, "column `{column}`: {problem}"),
            TraceProblem::NotSeekable { format } => {
                write!(f, "{format} is read in any order, so it must be an uncompressed file, and no pipe")
            }
            TraceProblem::RequestOrder { number, previous } => write!(f, "request {number} after request {previous}"),
            TraceProblem::TooManyBlocks(count) => {
                write!(f, "{count} blocks in one request, more than {MAX_ARC_BLOCKS}")
            }
            TraceProblem::BlockNumber { first, count } => write!(f, "block {first} and {count} more pass 2^64"),
            TraceProblem::CutRecord(bytes) => write!(f, "the trace ends within a record of {bytes} bytes"),
            TraceProblem::NotOracleGeneral => f.write_str(
                "no record of oracle-general as the file's name says, its next access is no request's number; \
                 to read it all the same give --format oracle-general",
            ),
            TraceProblem::BadLines { bad, lines, first } => write!(
                f,
                "{bad} of {lines} lines are bad, more than --max-bad allows; the first: {first}; --log-format, --format or --columns says how to read it"
            ),
            TraceProblem::LogFormat(error) => f.write_str(error),
            TraceProblem::Other(error) => error.fmt(f),
        }
    }
}

impl Error for TraceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.problem().source()
    }
}

impl Error for TraceProblem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            TraceProblem::Io(error) => error.source(),
            TraceProblem::Other(error) => error.source(),
            _ => None,
        }
    }
}
