//! The columns of a trace: their names, as the caller gives them or as they usually are.

use super::columns::Layout;
use super::error::{TraceProblem, shown};
use super::fields::{Fields, Separator};
use super::tables::Operations;
use super::times::TimeUnit;
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
/// The objects that are places on a disk; the disk is a part of their name.
const PLACES: &[&str] = &["lba", "lbn", "block", "block_id", "sector", "offset"];
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
const VOLUMES: &[&str] = &[
    "volume",
    "volume_id",
    "device",
    "device_id",
    "lun",
    "disk",
    "disk_number",
    "disknumber",
    "hostname",
];
const OPERATIONS: &[&str] = &[
    "op",
    "operation",
    "op_type",
    "optype",
    "opcode",
    "iotype",
    "io_type",
    "rw",
];

/// The names that a first line has.
pub(super) struct Header<'a> {
    pub separator: Separator,
    names: Vec<&'a [u8]>,
    /// The names in lower case, without brackets, and with `_` for blanks.
    plain: Vec<String>,
}

impl<'a> Header<'a> {
    /// Returns the names of a line, perhaps after a `#`.
    pub fn of(line: &'a [u8]) -> Header<'a> {
        let line = line.strip_prefix(b"#").unwrap_or(line);
        let separator = Separator::of(line);
        let names = match separator {
            // A comma within brackets separates no names.
            Separator::Byte(byte) => outside_brackets(line, byte),
            Separator::Blanks => Fields::of(line, separator).collect(),
        };
        let names: Vec<&[u8]> = names
            .into_iter()
            .map(|name| {
                let inner = name
                    .strip_prefix(b"\"")
                    .and_then(|name| name.strip_suffix(b"\""));
                inner.unwrap_or(name)
            })
            .collect();
        let plain = names.iter().map(|name| plain(name)).collect();
        Header {
            separator,
            names,
            plain,
        }
    }

    /// Returns the names as they are written.
    pub fn names(&self) -> Vec<&'a [u8]> {
        self.names.clone()
    }

    /// Returns true if a column has this plain name.
    pub fn has(&self, name: &str) -> bool {
        self.plain.iter().any(|plain| plain == name)
    }

    /// Returns the places of time, object and size by their usual names.
    pub fn usual(&self) -> [Option<usize>; 3] {
        [TIMES, OBJECTS, SIZES].map(|usual| place_of(usual, &self.plain))
    }

    /// Adds what other columns and the words in the names say.
    pub fn add_to(&self, layout: &mut Layout) {
        if let Some(name) = layout.time.and_then(|time| self.names.get(time)) {
            layout.unit = layout.unit.or_else(|| TimeUnit::of_name(name));
        }
        let is_place = layout.object.iter().any(|object| {
            self.plain
                .get(*object)
                .is_some_and(|name| PLACES.contains(&name.as_str()))
        });
        if is_place && let Some(volume) = place_of(VOLUMES, &self.plain) {
            layout.object.insert(0, volume);
        }
        if let Some(size) = layout.size.and_then(|size| self.names.get(size))
            && contains_word(size, b"sector")
        {
            layout.size_unit = 512;
        }
        layout.operation = place_of(OPERATIONS, &self.plain)
            .map(|place| (place, operations_of(self.names[place])));
        layout.key_size = place_of(&["key_size"], &self.plain);
        layout.count = place_of(&["op_count"], &self.plain);
    }

    /// Describes the columns at these places.
    pub fn described(&self, places: ColumnPlaces) -> String {
        let name = |place: usize| {
            let name = self.names.get(place).map(|name| shown(name));
            name.map_or_else(
                || format!("column {}", place + 1),
                |name| format!("`{name}`"),
            )
        };
        let time = places.time.map_or("no time".to_owned(), |time| {
            format!("time from {}", name(time))
        });
        let size = places.size.map_or("no size".to_owned(), |size| {
            format!("size from {}", name(size))
        });
        format!("{time}, object from {}, {size}", name(places.object))
    }
}

/// Returns the first of the usual names' places.
fn place_of(usual: &[&str], names: &[String]) -> Option<usize> {
    usual
        .iter()
        .find_map(|usual| names.iter().position(|name| name == usual))
}

/// Splits a line at a separator that is in no brackets.
fn outside_brackets(line: &[u8], separator: u8) -> Vec<&[u8]> {
    let (mut depth, mut start, mut parts) = (0_u32, 0, Vec::new());
    for (at, byte) in line.iter().enumerate() {
        match byte {
            b'[' | b'(' | b'{' => depth += 1,
            b']' | b')' | b'}' => depth = depth.saturating_sub(1),
            byte if *byte == separator && depth == 0 => {
                parts.push(line[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(line[start..].trim_ascii());
    parts
}

/// Returns a name in lower case, without what stands in brackets, and with `_` for blanks.
fn plain(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let outside = name.split(['(', '[']).next().unwrap_or_default();
    outside.trim().replace([' ', '-'], "_")
}

fn contains_word(text: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(&text.to_ascii_lowercase(), word).is_some()
}

/// Returns which operations are reads: the codes that a legend gives, as `[Put:0, Get:1]`.
fn operations_of(name: &[u8]) -> Operations {
    let text = String::from_utf8_lossy(name);
    let legend = text.split(['[', '(']).nth(1).unwrap_or_default();
    let codes: Vec<String> = legend
        .split([',', ']', ')'])
        .filter_map(|pair| pair.split_once([':', '=']))
        .filter(|(name, _)| Operations::Names.is_read(name.trim().as_bytes()))
        .map(|(_, code)| code.trim().to_owned())
        .collect();
    if codes.is_empty() {
        Operations::Names
    } else {
        Operations::Codes(codes)
    }
}

/// Returns the places of the columns of time, object and size that have a usual name.
pub(super) fn usual(names: &[&[u8]]) -> [Option<usize>; 3] {
    let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
    [TIMES, OBJECTS, SIZES].map(|usual| place_of(usual, &names))
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
