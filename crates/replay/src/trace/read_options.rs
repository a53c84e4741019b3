//! How a trace is read, if its file does not tell.

use super::format::Format;
use super::options::{LineOptions, LogOptions};
use super::table::ColumnNames;
use larder_units::Ratio;
use std::time::Duration;

/// The least number of bad lines that can end the reading of a trace by their share. Of ten lines,
/// one bad line is a tenth, but it says little about the file.
pub(super) const FEW_BAD_LINES: u64 = 10;

/// How a trace is read. By default the file itself tells everything, and its first bad line is an
/// error.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format; `None`: by the name and the first bytes.
    pub format: Option<Format>,
    /// The columns of time, object and size.
    pub columns: Option<ColumnNames>,
    /// The bad lines that are skipped; `None`: none, the first is an error.
    pub bad_lines: Option<BadLines>,
    /// What is said about the lines of a log, and what of it counts.
    pub log: LogOptions,
    /// The time for which a copy of an object is fresh. A later request needs another copy.
    pub lifetime: Option<Duration>,
}

/// The bad lines that are skipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadLines {
    /// The largest share of all lines. It counts from the eleventh bad line on.
    pub most: Ratio,
}

impl ReadOptions {
    /// Returns what the reader of lines needs.
    pub(super) fn of_lines(&self) -> LineOptions {
        LineOptions {
            columns: self.columns.clone(),
            log: self.log.clone(),
        }
    }
}
