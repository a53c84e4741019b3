//! The description of a trace format, which each format's file has.

use super::error::ReadError;
use super::options::LineOptions;
use super::requests::Requests;
use super::table::ColumnNames;
use std::fs::File;
use std::io::BufRead;

/// The decompressed bytes of a trace. The first [`BufRead::fill_buf`] returns
/// [`SNIFFED_BYTES`](crate::limits::SNIFFED_BYTES), or all bytes if there are fewer.
pub type TraceBytes = Box<dyn BufRead + Send>;

/// The reader of a trace.
pub type TraceReader = Box<dyn Requests + Send>;

/// A trace format: its name, its detection and its reader.
#[derive(Debug)]
pub struct FormatEntry {
    /// The name, as `--format` takes it: lower-case letters, digits and `-`.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Ends of file names, in lower case and without the compression's, that show the format.
    pub suffixes: &'static [&'static str],
    /// Returns true if a file with this name (in lower case, without the compression's end) and
    /// these first bytes has the format. It is called if no format has a suffix of the file's name.
    pub detect: fn(name: &str, start: &[u8]) -> bool,
    /// Creates the reader.
    pub open: Open,
}

/// What the reader of a format needs.
#[derive(Clone, Copy, Debug)]
pub enum Open {
    /// The bytes in order.
    Bytes(fn(TraceBytes) -> TraceReader),
    /// The bytes in order, and what the caller says about them.
    Options(fn(TraceBytes, &LineOptions) -> TraceReader),
    /// The bytes in order, and what the caller says about them, with the names of the columns.
    Columns(fn(TraceBytes, &LineOptions) -> TraceReader),
    /// A file, which it reads in any order, and the names of the columns if the caller gives them.
    /// Such a trace is not decompressed.
    File(fn(File, Option<ColumnNames>) -> Result<TraceReader, ReadError>),
}

impl Open {
    /// Returns true if the caller can name the columns.
    pub(super) fn takes_columns(self) -> bool {
        !matches!(self, Open::Bytes(_) | Open::Options(_))
    }
}

/// Returns true if bytes are text: they have no control characters except tabs and line ends.
pub(super) fn is_text(start: &[u8]) -> bool {
    start
        .iter()
        .all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..))
}

/// Returns the first line, without its end.
pub(super) fn first_line(start: &[u8]) -> &[u8] {
    start
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default()
        .trim_ascii_end()
}
