//! The columns of a trace: their names, as the caller gives them or as they usually are.

use crate::trace::error::{TraceProblem, shown};
use std::fmt;
use std::str::FromStr;

/// The columns of a trace that does not name them `time`, `object` and `size`:
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
                return Err(ColumnNamesError::Twice {
                    text: text.to_owned(),
                    column: what.to_owned(),
                });
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
            ColumnNamesError::Unknown(column) => {
                write!(f, "`{column}` is no column to read: time, id or size")
            }
            ColumnNamesError::Twice { text, column } => {
                write!(f, "`{text}` names the {column} twice")
            }
            ColumnNamesError::NoId(text) => write!(f, "`{text}` does not name the id"),
        }
    }
}

impl std::error::Error for ColumnNamesError {}

/// The places of the columns, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnPlaces {
    /// The time in seconds; without it, all requests have time 0.
    pub time: Option<usize>,
    /// The object.
    pub object: usize,
    /// The size in bytes; without it, every object has one byte.
    pub size: Option<usize>,
}

impl ColumnPlaces {
    /// Returns the places of the columns in a trace with columns of these names: those that `asked`
    /// names, else those with the usual names, such as `time`, `id` and `size`.
    ///
    /// # Errors
    /// [`TraceProblem`] if one is missing.
    pub fn find(
        asked: Option<&ColumnNames>,
        names: &[&[u8]],
    ) -> Result<ColumnPlaces, TraceProblem> {
        let line = || shown(&names.join(&b','));
        let Some(asked) = asked else {
            return match usual(names) {
                [time @ Some(_), Some(object), size @ Some(_)] => {
                    Ok(ColumnPlaces { time, object, size })
                }
                _ => Err(TraceProblem::Header(line())),
            };
        };
        let find = |column: &Column| match column {
            Column::Number(number) => Ok(*number),
            Column::Name(name) => {
                let found = names
                    .iter()
                    .position(|field| field.eq_ignore_ascii_case(name.as_bytes()));
                found.ok_or_else(|| TraceProblem::NoColumnCalled {
                    column: shown(name.as_bytes()),
                    line: line(),
                })
            }
        };
        let time = asked.time.as_ref().map(find).transpose()?;
        let size = asked.size.as_ref().map(find).transpose()?;
        Ok(ColumnPlaces {
            time,
            object: find(&asked.object)?,
            size,
        })
    }
}

/// The usual names of columns, for each the surest first.
const TIMES: &[&str] = &[
    "time",
    "timestamp",
    "ts",
    "op_time",
    "relative_unix",
    "relative_time",
    "arrival_time",
    "time_ms",
    "time_us",
    "time_ns",
    "timestamp_ms",
    "timestamp_us",
    "timestamp_ns",
    "ts_ms",
    "ts_us",
    "ts_ns",
];
const OBJECTS: &[&str] = &[
    "object",
    "obj",
    "obj_id",
    "object_id",
    "objectid",
    "id",
    "key",
    "cachekey",
    "cache_key",
    "hashed_path_query",
    "hashed_host_path_query",
    "hashed_host_and_path_query",
    "url",
    "lba",
    "lbn",
    "block",
    "block_id",
    "sector",
    "offset",
];
const SIZES: &[&str] = &[
    "size",
    "obj_size",
    "object_size",
    "objectsize",
    "response_size",
    "size_bytes",
    "bytes",
    "length",
    "len",
];
/// Returns the first of the usual names' places.
pub(super) fn place_of(usual: &[&str], names: &[String]) -> Option<usize> {
    usual
        .iter()
        .find_map(|usual| names.iter().position(|name| name == usual))
}

/// Returns a name in lower case, without what stands in brackets, and with `_` for blanks.
pub(super) fn plain(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let outside = name.split(['(', '[']).next().unwrap_or_default();
    outside.trim().replace([' ', '-'], "_")
}

/// Returns the places of the columns of time, object and size that have a usual name.
pub(super) fn usual_plain(names: &[String]) -> [Option<usize>; 3] {
    [TIMES, OBJECTS, SIZES].map(|usual| place_of(usual, names))
}

/// The same for names as they are written.
pub(super) fn usual(names: &[&[u8]]) -> [Option<usize>; 3] {
    let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
    usual_plain(&names)
}

impl ColumnNames {
    /// Returns true if a column is given by its name.
    pub(super) fn has_name(&self) -> bool {
        let is_name = |column: &Column| matches!(column, Column::Name(_));
        [&self.time, &self.size]
            .into_iter()
            .flatten()
            .chain([&self.object])
            .any(is_name)
    }
}
