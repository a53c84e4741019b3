//! The columns of a table, and the request of a line.

use super::column_names::ColumnPlaces;
use crate::Access;
use crate::trace::decimal::whole;
use crate::trace::error::TraceProblem;
use crate::trace::fields::{Fields, Separator, unquoted};
use crate::trace::log::LeftOut;
use crate::trace::object_id::{id_of, name_hash};
use crate::trace::options::LineOptions;
use crate::trace::times::{self, TimeUnit};
use larder_units::Time;
use std::borrow::Cow;

/// Columns of a line that are read. No trace has more in use.
const MAX_COLUMNS: usize = 64;

/// The columns of a trace, counted from 0.
#[derive(Clone, Debug)]
pub(in crate::trace) struct Layout {
    pub separator: Separator,
    pub time: Option<usize>,
    /// `None` until a line tells it.
    pub unit: Option<TimeUnit>,
    /// The columns that name the object together.
    pub object: Vec<usize>,
    pub size: Option<usize>,
    /// Bytes of one in the column of the size.
    pub size_unit: u64,
    /// Bytes that are added to the size.
    pub key_size: Option<usize>,
    pub operation: Option<(usize, Operations)>,
    /// The number of equal requests.
    pub count: Option<usize>,
}

/// What a line says.
pub(super) enum Line {
    Request(Access, u64),
    LeftOut(LeftOut),
}

/// Which operations are reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operations {
    /// By their names: read, get, head.
    Names,
    /// These.
    Codes(Vec<String>),
}

impl Operations {
    pub fn is_read(&self, operation: &[u8]) -> bool {
        match self {
            Operations::Codes(codes) => codes.iter().any(|code| code.as_bytes() == operation),
            Operations::Names => {
                let name = operation.to_ascii_lowercase();
                let name = name.strip_prefix(b"rest.").unwrap_or(&name);
                // A number without a legend does not tell what it is.
                name.iter().all(u8::is_ascii_digit)
                    || [
                        &b"get"[..],
                        b"read",
                        b"head",
                        b"r",
                        b"rs",
                        b"ra",
                        b"rm",
                        b"lookup",
                    ]
                    .iter()
                    .any(|read| name == *read || read.len() > 2 && name.starts_with(read))
            }
        }
    }
}

impl Layout {
    /// Returns the layout of columns at these places.
    pub fn at(separator: Separator, places: ColumnPlaces) -> Layout {
        Layout {
            separator,
            time: places.time,
            unit: None,
            object: vec![places.object],
            size: places.size,
            size_unit: 1,
            key_size: None,
            operation: None,
            count: None,
        }
    }

    pub fn access(
        &mut self,
        line: &[u8],
        options: &LineOptions,
        guesses: &mut Vec<String>,
    ) -> Result<Line, TraceProblem> {
        let mut fields = [&b""[..]; MAX_COLUMNS];
        let mut columns = 0;
        let last = self.last_column().min(MAX_COLUMNS - 1);
        for field in Fields::of(line, self.separator).take(last + 1) {
            fields[columns] = field;
            columns += 1;
        }
        let field = |column: usize| fields[..columns].get(column).copied();
        if let Some((column, operations)) = &self.operation
            && !options.log.writes
            && let Some(operation) = field(*column)
            && !operations.is_read(&unquoted(operation))
        {
            return Ok(Line::LeftOut(LeftOut::Write));
        }
        let is_short = |column: &usize| *column >= columns;
        if self
            .object
            .iter()
            .chain(&self.time)
            .chain(&self.size)
            .any(is_short)
        {
            return Err(TraceProblem::line("time, object and size", line));
        }
        let now = match self.time.and_then(field) {
            Some(text) => self.now(&unquoted(text), guesses)?,
            None => Time::ZERO,
        };
        let id = self.id(&fields)?;
        let number = |column: Option<usize>| match column.and_then(field) {
            None => Ok(None),
            Some(text) => bytes(&unquoted(text)).map(Some),
        };
        let size = number(self.size)?.map_or(Ok(1), |size| {
            size.checked_mul(self.size_unit)
                .ok_or_else(|| TraceProblem::field("size in bytes", line))
        })?;
        let size = size.saturating_add(number(self.key_size)?.unwrap_or(0));
        let count = number(self.count)?.unwrap_or(1).max(1);
        Ok(Line::Request(Access { id, size, now }, count))
    }

    /// Returns true if a line of a known table is a header: its time is no number.
    pub fn is_header(&self, line: &[u8]) -> bool {
        let time = self
            .time
            .and_then(|time| Fields::of(line, self.separator).nth(time));
        time.is_some_and(|time| !time.iter().any(u8::is_ascii_digit))
    }

    fn last_column(&self) -> usize {
        let operation = self.operation.as_ref().map(|(column, _)| *column);
        let others = [self.time, self.size, self.key_size, operation, self.count];
        let columns = others
            .into_iter()
            .flatten()
            .chain(self.object.iter().copied());
        columns.max().unwrap_or(0)
    }

    /// Reads a time. The first number tells the unit of all, if nothing else does.
    fn now(&mut self, text: &[u8], guesses: &mut Vec<String>) -> Result<Time, TraceProblem> {
        if let Some(unit) = self.unit {
            return times::number(text, unit).or_else(|problem| times::date(text).ok_or(problem));
        }
        if let Some(time) = times::date(text) {
            return Ok(time);
        }
        let number = times::whole_part(text);
        let unit = number.map_or(TimeUnit::Seconds, TimeUnit::of_size);
        let time = times::number(text, unit)?;
        self.unit = Some(unit);
        // A time since 1970 tells its unit by its size.
        let is_since_1970 = number.is_some_and(|number| number >= 100_000_000);
        if unit != TimeUnit::Seconds || !is_since_1970 {
            guesses.push(format!(
                "no line states the unit of the times: they are taken for {unit} (--time-unit says otherwise)"
            ));
        }
        Ok(time)
    }

    fn id(&self, fields: &[&[u8]]) -> Result<u64, TraceProblem> {
        let text = |column: usize| {
            fields
                .get(column)
                .map_or(Cow::Borrowed(&b""[..]), |field| unquoted(field))
        };
        if let [column] = self.object[..] {
            let object = text(column);
            if object.is_empty() {
                return Err(TraceProblem::Missing("object"));
            }
            return Ok(id_of(&object));
        }
        let mut name = Vec::new();
        for column in &self.object {
            name.extend_from_slice(&text(*column));
            name.push(b':');
        }
        Ok(name_hash(&name))
    }
}

/// Reads a number of bytes. pandas writes whole numbers as decimals if any of them is missing.
fn bytes(text: &[u8]) -> Result<u64, TraceProblem> {
    let digits = text.strip_suffix(b".0").unwrap_or(text);
    whole(digits).ok_or_else(|| TraceProblem::field("size in bytes", text))
}
