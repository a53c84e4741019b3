//! JSON lines: an object per line with members of time, object and size, as dataframes and
//! databases export them. Members have the names and the forms of `columns.rs`: a number is the
//! same object there and here, and so is a name. A time is also a date of ISO 8601.

use super::column_names::{ColumnNames, ColumnPlaces};
use crate::Access;
use crate::trace::decimal::whole;
use crate::trace::entry::{FormatEntry, Open, first_line, is_text};
use crate::trace::error::{ReadError, TraceProblem, shown};
use crate::trace::lines::Lines;
use crate::trace::object_id::id_of;
use crate::trace::requests::Requests;
use crate::trace::times::{self, TimeUnit};
use larder_units::Time;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// See [`Format::JSON_LINES`](crate::Format::JSON_LINES).
pub(in crate::trace) const ENTRY: FormatEntry = FormatEntry {
    name: "json-lines",
    summary: "a JSON object per line with members `time`, `object` and `size`",
    suffixes: &[],
    // A web server's log may have the name too.
    detect: |name, start| {
        is_text(start)
            && (has_suffix(name) || first_line(start).trim_ascii_start().starts_with(b"{"))
    },
    open: Open::Columns(|bytes, options| {
        Box::new(JsonLines {
            lines: Lines::new(bytes),
            asked: options.columns.clone(),
            unit: options.log.time_unit,
            names: None,
        })
    }),
};

fn has_suffix(name: &str) -> bool {
    [".jsonl", ".ndjson"]
        .iter()
        .any(|suffix| name.ends_with(suffix))
}

struct JsonLines {
    lines: Lines,
    asked: Option<ColumnNames>,
    /// The unit of times that are numbers.
    unit: Option<TimeUnit>,
    /// The names of the members, which the first line states.
    names: Option<Names>,
}

/// The names of the members of time, object and size.
#[derive(Clone)]
struct Names {
    time: Option<String>,
    object: String,
    size: Option<String>,
}

impl Requests for JsonLines {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        let Some(line) = self.lines.next_line()? else {
            return Ok(None);
        };
        let names = match &self.names {
            Some(names) => names,
            None => match Names::of(line, self.asked.as_ref()) {
                Ok(names) => self.names.insert(names),
                // A line that is no JSON is bad; another one does not tell the names.
                Err(problem @ TraceProblem::Line { .. }) => return Err(self.lines.error(problem)),
                Err(problem) => return Err(self.lines.error(problem).of_all()),
            },
        };
        names
            .access(line, self.unit)
            .map(Some)
            .map_err(|problem| self.lines.error(problem))
    }
}

impl Names {
    /// Returns the names that the first line has.
    fn of(line: &[u8], asked: Option<&ColumnNames>) -> Result<Names, TraceProblem> {
        let mut names = Vec::new();
        each_member(line, |name, _| names.push(name.into_owned()))?;
        let bytes: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let places = ColumnPlaces::find(asked, &bytes)?;
        let name = |place: usize| {
            let missing = || TraceProblem::NoColumnCalled {
                column: (place + 1).to_string(),
                line: shown(line),
            };
            names.get(place).cloned().ok_or_else(missing)
        };
        Ok(Names {
            time: places.time.map(name).transpose()?,
            object: name(places.object)?,
            size: places.size.map(name).transpose()?,
        })
    }

    fn access(&self, line: &[u8], unit: Option<TimeUnit>) -> Result<Access, TraceProblem> {
        let (mut time, mut object, mut size) = (None, None, None);
        each_member(line, |name, value| {
            if Some(&*name) == self.time.as_deref() {
                time = Some(value);
            } else if name == self.object {
                object = Some(value);
            } else if Some(&*name) == self.size.as_deref() {
                size = Some(value);
            }
        })?;
        let now = match &self.time {
            Some(name) => read(line, name, time, |text| times::any(text, unit))?,
            None => Time::ZERO,
        };
        let size = match &self.size {
            Some(name) => read(line, name, size, bytes)?,
            None => 1,
        };
        Ok(Access {
            now,
            id: read(line, &self.object, object, id)?,
            size,
        })
    }
}

/// Reads the value of the member `name`.
fn read<T>(
    line: &[u8],
    name: &str,
    value: Option<&RawValue>,
    read: impl Fn(&[u8]) -> Result<T, TraceProblem>,
) -> Result<T, TraceProblem> {
    let missing = || TraceProblem::NoColumnCalled {
        column: name.to_owned(),
        line: shown(line),
    };
    let text = text(value.ok_or_else(missing)?);
    text.and_then(|text| read(text.as_bytes()))
        .map_err(|problem| problem.in_column(name))
}

fn id(text: &[u8]) -> Result<u64, TraceProblem> {
    if text.is_empty() {
        return Err(TraceProblem::Missing("object"));
    }
    Ok(id_of(text))
}

/// Reads a size. pandas writes whole numbers as decimals if any of them is missing.
fn bytes(text: &[u8]) -> Result<u64, TraceProblem> {
    let digits = text.strip_suffix(b".0").unwrap_or(text);
    whole(digits).ok_or_else(|| TraceProblem::field("size in bytes", text))
}

/// Returns a number as it is written, and a string without its quotes.
fn text(value: &RawValue) -> Result<Cow<'_, str>, TraceProblem> {
    let raw = value.get();
    match raw.as_bytes().first() {
        Some(b'"') => {
            let Text(text) = serde_json::from_str(raw)
                .map_err(|_| TraceProblem::field("text", raw.as_bytes()))?;
            Ok(text)
        }
        Some(b'-' | b'0'..=b'9') => Ok(Cow::Borrowed(raw)),
        _ => Err(TraceProblem::field("number or text", raw.as_bytes())),
    }
}

#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Calls `take` with the name and the value of each member.
fn each_member<'a>(
    line: &'a [u8],
    take: impl FnMut(Cow<'a, str>, &'a RawValue),
) -> Result<(), TraceProblem> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let read = EachMember(take)
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end());
    read.map_err(|_| TraceProblem::line("a JSON object", line))
}

struct EachMember<F>(F);

impl<'de, F: FnMut(Cow<'de, str>, &'de RawValue)> DeserializeSeed<'de> for EachMember<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Cow<'de, str>, &'de RawValue)> Visitor<'de> for EachMember<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = members.next_key()? {
            (self.0)(name, members.next_value()?);
        }
        Ok(())
    }
}
