//! Lines of time, object and size: most public traces.
//!
//! Times are seconds, with a fraction or without. Objects are numbers, or names, which are hashed:
//! SipHash with a fixed key, so that an object is the same number in every run and on every machine
//! (foldhash promises neither), and only chosen names collide.

use super::entry::{FormatEntry, is_text};
use super::error::{ReadError, TraceProblem, shown};
use super::lines::{Lines, time_of, time_of_seconds, whole};
use super::requests::Requests;
use crate::Access;
use larder_units::Time;
use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;
use std::time::Duration;

/// See [`Format::COLUMNS`](super::Format::COLUMNS).
pub(super) const ENTRY: FormatEntry = FormatEntry {
    name: "columns",
    summary: "lines of time, object and size: libCacheSim's CSV, webcachesim's text, Tencent's block traces",
    suffixes: &[],
    detect: |_, start| is_text(start),
    open: |bytes| Box::new(Columns::new(Lines::new(bytes), None)),
};

pub(super) struct Columns {
    lines: Lines,
    names: Option<ColumnNames>,
    /// The layout, which the first line states.
    layout: Option<Layout>,
}

/// The columns of a trace whose first line does not name them `time`, `object` and `size`:
/// `time=ts,id=key,size=bytes`, each by its name in the first line or by its number from 1. Without
/// a time, all requests have time 0; without a size, every object has one byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnNames {
    time: Option<Column>,
    object: Column,
    size: Option<Column>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    /// In lower case.
    Name(String),
    /// Counted from 0.
    Number(usize),
}

impl FromStr for ColumnNames {
    type Err = ColumnNamesError;

    fn from_str(text: &str) -> Result<ColumnNames, ColumnNamesError> {
        let expected = || ColumnNamesError::NoColumns(text.to_owned());
        let (mut time, mut object, mut size) = (None, None, None);
        for part in text.split(',') {
            let (what, column) = part.split_once('=').ok_or_else(expected)?;
            let column = match column.trim().parse() {
                Ok(0) => return Err(ColumnNamesError::Zero(part.to_owned())),
                Ok(number) => Column::Number(number - 1),
                Err::<usize, _>(_) => Column::Name(column.trim().to_ascii_lowercase()),
            };
            let known = match what.trim() {
                "time" => &mut time,
                "id" | "object" => &mut object,
                "size" => &mut size,
                _ => return Err(ColumnNamesError::Unknown(what.to_owned())),
            };
            if known.replace(column).is_some() {
                return Err(ColumnNamesError::Twice { text: text.to_owned(), column: what.to_owned() });
            }
        }
        let object = object.ok_or_else(|| ColumnNamesError::NoId(text.to_owned()))?;
        Ok(ColumnNames { time, object, size })
    }
}

/// A text that is no [`ColumnNames`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnNamesError {
    /// This text has another form than `time=1,id=key,size=3`.
    NoColumns(String),
    /// This part has the column number 0.
    Zero(String),
    /// This is not a column that a reader needs.
    Unknown(String),
    /// A text names a column twice.
    Twice {
        /// The text.
        text: String,
        /// The column.
        column: String,
    },
    /// This text does not name the column of the object.
    NoId(String),
}

impl fmt::Display for ColumnNamesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnNamesError::NoColumns(text) => {
                write!(f, "`{text}` names no columns, such as time=1,id=key,size=3")
            }
            ColumnNamesError::Zero(part) => write!(f, "`{part}`: columns are counted from 1"),
            ColumnNamesError::Unknown(column) => write!(f, "`{column}` is no column to read: time, id or size"),
            ColumnNamesError::Twice { text, column } => write!(f, "`{text}` names the {column} twice"),
            ColumnNamesError::NoId(text) => write!(f, "`{text}` does not name the id"),
        }
    }
}

impl std::error::Error for ColumnNamesError {}

impl ColumnNames {
    /// Returns the layout, and whether `line` is a header.
    fn layout(&self, line: &[u8]) -> Result<(Layout, bool), TraceProblem> {
        let separator = separator_of(line);
        let names = line.strip_prefix(b"#");
        let mut is_header = names.is_some() || !line.iter().any(u8::is_ascii_digit);
        let mut find = |column: &Column| match column {
            Column::Number(number) => Ok(*number),
            Column::Name(name) => {
                is_header = true;
                let (mut at, mut found) = (0, None);
                each_field(names.unwrap_or(line), separator, |field| {
                    found = field.eq_ignore_ascii_case(name.as_bytes()).then_some(at);
                    at += 1;
                    found.is_none()
                });
                found.ok_or_else(|| TraceProblem::NoColumnCalled { column: shown(name.as_bytes()), line: shown(line) })
            }
        };
        let time = self.time.as_ref().map(&mut find).transpose()?;
        let size = self.size.as_ref().map(&mut find).transpose()?;
        let object = find(&self.object)?;
        Ok((Layout { separator, time, object, size }, is_header))
    }
}

#[derive(Clone, Copy)]
struct Layout {
    separator: Separator,
    time: Option<usize>,
    object: usize,
    size: Option<usize>,
}

#[derive(Clone, Copy)]
enum Separator {
    Byte(u8),
    Blanks,
}

impl Columns {
    pub fn new(lines: Lines, names: Option<ColumnNames>) -> Self {
        Columns { lines, names, layout: None }
    }
}

impl Requests for Columns {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        loop {
            let Some(line) = self.lines.next_line()? else { return Ok(None) };
            let layout = match self.layout {
                Some(layout) => layout,
                None => {
                    let layout = self.names.as_ref().map_or_else(|| Layout::of(line), |names| names.layout(line));
                    let (layout, is_header) = match layout {
                        Ok(found) => found,
                        Err(problem) => return Err(self.lines.error(problem)),
                    };
                    self.layout = Some(layout);
                    if is_header {
                        continue;
                    }
                    layout
                }
            };
            return layout.access(line).map(Some).map_err(|problem| self.lines.error(problem));
        }
    }
}

impl Layout {
    /// Returns the layout that the first line shows, and whether that line is a header. A comment
    /// that names no column is ignored.
    fn of(line: &[u8]) -> Result<(Layout, bool), TraceProblem> {
        let separator = separator_of(line);
        let layout = Layout { separator, time: Some(0), object: 1, size: Some(2) };
        let names = line.strip_prefix(b"#");
        if names.is_none() && line.iter().any(u8::is_ascii_digit) {
            return Ok((layout, false));
        }
        let (mut time, mut object, mut size) = (None, None, None);
        let mut column = 0;
        each_field(names.unwrap_or(line), separator, |name| {
            match name.to_ascii_lowercase().as_slice() {
                b"time" | b"timestamp" => time = Some(column),
                b"object" | b"obj" | b"obj_id" | b"object_id" | b"id" | b"key" => object = Some(column),
                b"size" | b"obj_size" | b"object_size" | b"bytes" => size = Some(column),
                _ => {}
            }
            column += 1;
            true
        });
        match (time, object, size) {
            (None, None, None) if names.is_some() => Ok((layout, true)),
            (Some(_), Some(object), Some(_)) => Ok((Layout { separator, time, object, size }, true)),
            _ => Err(TraceProblem::Header(shown(line))),
        }
    }

    fn access(&self, line: &[u8]) -> Result<Access, TraceProblem> {
        let (mut time, mut object, mut size) = (None, None, None);
        let last = self.object.max(self.time.unwrap_or(0)).max(self.size.unwrap_or(0));
        let mut column = 0;
        each_field(line, self.separator, |field| {
            if Some(column) == self.time {
                time = Some(field);
            }
            if column == self.object {
                object = Some(field);
            }
            if Some(column) == self.size {
                size = Some(field);
            }
            column += 1;
            column <= last
        });
        let is_short = (self.time.is_some() && time.is_none()) || (self.size.is_some() && size.is_none());
        let (false, Some(object)) = (is_short, object) else {
            return Err(TraceProblem::line("time, object and size", line));
        };
        let now = time.map_or(Ok(Time::ZERO), seconds)?;
        if object.is_empty() {
            return Err(TraceProblem::Missing("object"));
        }
        let id = whole(object).unwrap_or_else(|| name_hash(object));
        let size = size.map_or(Ok(1), |size| whole(size).ok_or_else(|| TraceProblem::field("size in bytes", size)))?;
        Ok(Access { id, size, now })
    }
}

fn separator_of(line: &[u8]) -> Separator {
    match [b',', b'\t'].into_iter().find(|byte| line.contains(byte)) {
        Some(byte) => Separator::Byte(byte),
        None => Separator::Blanks,
    }
}

/// Calls `take` with each field, without the blanks around it, until `take` returns false.
fn each_field<'a>(line: &'a [u8], separator: Separator, mut take: impl FnMut(&'a [u8]) -> bool) {
    match separator {
        Separator::Byte(separator) => {
            let _ = line.split(|byte| *byte == separator).all(|field| take(field.trim_ascii()));
        }
        Separator::Blanks => {
            let _ = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).all(take);
        }
    }
}

/// Reads a time in seconds, whole or not: exact to the nanosecond in decimals, and as a float with
/// an exponent.
fn seconds(text: &[u8]) -> Result<Time, TraceProblem> {
    if let Some(seconds) = whole(text) {
        return time_of_seconds(seconds, text);
    }
    let point = text.iter().position(|byte| *byte == b'.');
    if let Some((whole_part, [_, decimals @ ..])) = point.map(|point| text.split_at(point))
        && (1..=9).contains(&decimals.len())
        && let (Some(seconds), Some(decimals_read)) = (whole(whole_part), whole(decimals))
    {
        let nanos = (decimals.len()..9).fold(decimals_read, |nanos, _| nanos * 10);
        return time_of(Duration::new(seconds, 0) + Duration::from_nanos(nanos), text);
    }
    let seconds = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    match seconds.filter(|seconds| *seconds >= 0.0).map(Duration::try_from_secs_f64) {
        None => Err(TraceProblem::field("time in seconds", text)),
        Some(Ok(since_start)) => time_of(since_start, text),
        Some(Err(_)) => Err(TraceProblem::LateTime(shown(text))),
    }
}

/// Returns the number of an object with a name.
pub(super) fn name_hash(name: &[u8]) -> u64 {
    // The fractional digits of the golden ratio: nothing up the sleeve.
    let mut hasher = SipHasher24::new_with_keys(0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834);
    hasher.write(name);
    hasher.finish()
}
