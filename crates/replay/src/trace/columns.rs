//! Lines of time, object and size: most public traces.
//!
//! Times are seconds, with a fraction or without. Objects are numbers, or names, which are hashed:
//! SipHash with a fixed key, so that an object is the same number in every run and on every machine
//! (foldhash promises neither), and only chosen names collide.

use super::column_names::{ColumnNames, ColumnPlaces, usual};
use super::entry::{FormatEntry, Open, is_text};
use super::error::{ReadError, TraceProblem, shown};
use super::lines::{Lines, time_of, time_of_seconds, whole};
use super::requests::Requests;
use crate::Access;
use larder_units::Time;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::time::Duration;

/// See [`Format::COLUMNS`](super::Format::COLUMNS).
pub(super) const ENTRY: FormatEntry = FormatEntry {
    name: "columns",
    summary: "lines of time, object and size: libCacheSim's CSV, webcachesim's text, Tencent's block traces",
    suffixes: &[],
    detect: |_, start| is_text(start),
    open: Open::Columns(|bytes, names| Box::new(Columns::new(Lines::new(bytes), names))),
};

pub(super) struct Columns {
    lines: Lines,
    names: Option<ColumnNames>,
    /// The layout, which the first line states.
    layout: Option<Layout>,
}

#[derive(Clone, Copy)]
struct Layout {
    separator: Separator,
    places: ColumnPlaces,
}

#[derive(Clone, Copy)]
enum Separator {
    Byte(u8),
    Blanks,
}

impl Columns {
    pub fn new(lines: Lines, names: Option<ColumnNames>) -> Self {
        Columns {
            lines,
            names,
            layout: None,
        }
    }
}

impl Requests for Columns {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Ok(None);
            };
            let layout = match self.layout {
                Some(layout) => layout,
                None => {
                    let layout = Layout::of(line, self.names.as_ref());
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
            return layout
                .access(line)
                .map(Some)
                .map_err(|problem| self.lines.error(problem));
        }
    }
}

impl Layout {
    /// Returns the layout that the first line shows, and whether that line is a header. A comment
    /// that names no column is ignored.
    fn of(line: &[u8], asked: Option<&ColumnNames>) -> Result<(Layout, bool), TraceProblem> {
        let separator = separator_of(line);
        let layout = |places| Layout { separator, places };
        let comment = line.strip_prefix(b"#");
        let has_no_names = comment.is_none() && line.iter().any(u8::is_ascii_digit);
        let mut names = Vec::new();
        each_field(comment.unwrap_or(line), separator, |name| {
            names.push(name);
            true
        });
        let by_order = ColumnPlaces {
            time: Some(0),
            object: 1,
            size: Some(2),
        };
        match asked {
            None if has_no_names => return Ok((layout(by_order), false)),
            None if comment.is_some() && usual(&names) == [None; 3] => {
                return Ok((layout(by_order), true));
            }
            _ => {}
        }
        let places = ColumnPlaces::find(asked, &names)?;
        Ok((
            layout(places),
            asked.is_none_or(ColumnNames::has_name) || !has_no_names,
        ))
    }

    fn access(&self, line: &[u8]) -> Result<Access, TraceProblem> {
        let (mut time, mut object, mut size) = (None, None, None);
        let places = self.places;
        let last = places
            .object
            .max(places.time.unwrap_or(0))
            .max(places.size.unwrap_or(0));
        let mut column = 0;
        each_field(line, self.separator, |field| {
            if Some(column) == places.time {
                time = Some(field);
            }
            if column == places.object {
                object = Some(field);
            }
            if Some(column) == places.size {
                size = Some(field);
            }
            column += 1;
            column <= last
        });
        let is_short =
            (places.time.is_some() && time.is_none()) || (places.size.is_some() && size.is_none());
        let (false, Some(object)) = (is_short, object) else {
            return Err(TraceProblem::line("time, object and size", line));
        };
        let now = time.map_or(Ok(Time::ZERO), seconds)?;
        if object.is_empty() {
            return Err(TraceProblem::Missing("object"));
        }
        let id = id_of(object);
        let size = size.map_or(Ok(1), |size| {
            whole(size).ok_or_else(|| TraceProblem::field("size in bytes", size))
        })?;
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
            let _ = line
                .split(|byte| *byte == separator)
                .all(|field| take(field.trim_ascii()));
        }
        Separator::Blanks => {
            let _ = line
                .split(u8::is_ascii_whitespace)
                .filter(|field| !field.is_empty())
                .all(take);
        }
    }
}

/// Reads a time in seconds, whole or not: exact to the nanosecond in decimals, and as a float with
/// an exponent.
pub(super) fn seconds(text: &[u8]) -> Result<Time, TraceProblem> {
    if let Some(seconds) = whole(text) {
        return time_of_seconds(seconds, text);
    }
    let point = text.iter().position(|byte| *byte == b'.');
    if let Some((whole_part, [_, decimals @ ..])) = point.map(|point| text.split_at(point))
        && (1..=9).contains(&decimals.len())
        && let (Some(seconds), Some(decimals_read)) = (whole(whole_part), whole(decimals))
    {
        let nanos = (decimals.len()..9).fold(decimals_read, |nanos, _| nanos * 10);
        return time_of(
            Duration::new(seconds, 0) + Duration::from_nanos(nanos),
            text,
        );
    }
    let seconds = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<f64>().ok());
    match seconds
        .filter(|seconds| *seconds >= 0.0)
        .map(Duration::try_from_secs_f64)
    {
        None => Err(TraceProblem::field("time in seconds", text)),
        Some(Ok(since_start)) => time_of(since_start, text),
        Some(Err(_)) => Err(TraceProblem::LateTime(shown(text))),
    }
}

/// Returns the id of an object: the number that `text` is, or the hash of the name. `07` is a name:
/// it is not the object `7`.
pub(super) fn id_of(text: &[u8]) -> u64 {
    let number = if text.starts_with(b"0") && text.len() > 1 {
        None
    } else {
        whole(text)
    };
    number.unwrap_or_else(|| name_hash(text))
}

/// Returns the number of an object with a name: SipHash-2-4 with a fixed key. Every reader uses it.
pub fn name_hash(name: &[u8]) -> u64 {
    // The fractional digits of the golden ratio, a number that was not chosen for a purpose.
    let mut hasher = SipHasher24::new_with_keys(0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834);
    hasher.write(name);
    hasher.finish()
}
