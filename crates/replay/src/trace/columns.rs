//! Lines of time, object and size: most public traces. `tables.rs` describes those whose columns
//! differ.
//!
//! Times are numbers, with a fraction or without, or dates. Objects are numbers, or names, which
//! are hashed: SipHash with a fixed key, so that an object is the same number in every run and on
//! every machine (foldhash promises neither), and only chosen names collide.

use super::column_names::{ColumnNames, ColumnPlaces, Header};
use super::entry::{FormatEntry, Open, is_text};
use super::error::{ReadError, TraceProblem};
use super::fields::{Fields, Separator, unquoted};
use super::lines::{Lines, whole};
use super::log::{LeftOut, Tally};
use super::options::ReadOptions;
use super::report::ReaderReport;
use super::requests::Requests;
use super::tables::{Operations, Table};
use super::times::{self, TimeUnit};
use crate::Access;
use larder_units::Time;
use siphasher::sip::SipHasher24;
use std::borrow::Cow;
use std::hash::Hasher;

/// See [`Format::COLUMNS`](super::Format::COLUMNS).
pub(super) const ENTRY: FormatEntry = FormatEntry {
    name: "columns",
    summary: "lines of time, object and size: libCacheSim's CSV, webcachesim's text, Tencent's block traces",
    suffixes: &[],
    detect: |_, start| is_text(start),
    open: Open::Columns(|bytes, options| {
        Box::new(Columns::new(Lines::new(bytes), options.clone()))
    }),
};

/// The most requests that one line stands for.
const MAX_REPEATED: u64 = 1 << 20;

/// Columns of a line that are read. No trace has more in use.
const MAX_COLUMNS: usize = 64;

pub(super) struct Columns {
    lines: Lines,
    options: ReadOptions,
    /// The layout, which the first line states, or the table of the format.
    layout: Option<Layout>,
    tally: Tally,
    /// A line that stands for several requests, and how many of them are left.
    repeated: Option<(Access, u64)>,
    guesses: Vec<String>,
    how: Vec<String>,
    /// True until the first line of a known table is read, which may be a header.
    is_at_header: bool,
    /// True if the header of a known table may name no time.
    is_known: bool,
}

/// The columns of a trace, counted from 0.
#[derive(Clone, Debug)]
pub(super) struct Layout {
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
enum Line {
    Request(Access, u64),
    LeftOut(LeftOut),
}

impl Columns {
    pub fn new(lines: Lines, options: ReadOptions) -> Self {
        Columns {
            lines,
            options,
            layout: None,
            tally: Tally::default(),
            repeated: None,
            guesses: Vec::new(),
            how: Vec::new(),
            is_at_header: false,
            is_known: false,
        }
    }

    /// Returns a reader of a trace with the columns of a known table.
    pub fn of_table(lines: Lines, options: ReadOptions, table: &Table) -> Self {
        let mut columns = Columns::new(lines, options);
        columns.layout = table.layout();
        columns.is_at_header = columns.layout.is_some();
        columns.is_known = true;
        columns.how.push(table.described.to_owned());
        columns
    }

    /// Takes the layout from the first line. Returns true if that line is no request.
    fn find_layout(&mut self) -> Result<bool, ReadError> {
        let Some(line) = self.lines.next_line()? else {
            return Ok(false);
        };
        let found = Layout::of(line, self.options.columns.as_ref(), self.is_known);
        let found = found.map_err(|problem| self.lines.error(problem).of_all())?;
        let (mut layout, is_header) = (found.layout, found.is_header);
        if let Some(unit) = self.options.log.time_unit {
            layout.unit = Some(unit);
        }
        self.how.extend(found.how);
        self.guesses.extend(found.guess);
        self.layout = Some(layout);
        Ok(is_header)
    }
}

impl Requests for Columns {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        if let Some((access, left)) = self.repeated.take() {
            self.repeated = (left > 1).then_some((access, left - 1));
            return Ok(Some(access));
        }
        let mut is_first = false;
        if self.layout.is_none() {
            if self.find_layout()? {
                // The header is read.
            } else if self.layout.is_some() {
                is_first = true;
            } else {
                return Ok(None);
            }
        }
        loop {
            let line = if std::mem::take(&mut is_first) {
                self.lines.line()
            } else if let Some(line) = self.lines.next_line()? {
                line
            } else {
                return Ok(None);
            };
            let Some(layout) = &mut self.layout else {
                return Ok(None);
            };
            if std::mem::take(&mut self.is_at_header) && layout.is_header(line) {
                continue;
            }
            match layout.access(line, &self.options, &mut self.guesses) {
                Err(problem) => return Err(self.lines.error(problem)),
                Ok(Line::LeftOut(reason)) => self.tally.count(reason),
                Ok(Line::Request(access, count)) => {
                    self.repeated = (count > 1).then(|| (access, count.min(MAX_REPEATED) - 1));
                    return Ok(Some(access));
                }
            }
        }
    }

    fn report(&self) -> ReaderReport {
        ReaderReport {
            how: self.how.clone(),
            left_out: self.tally.lines(),
            guesses: self.guesses.clone(),
            ..ReaderReport::default()
        }
    }
}

/// The layout that a first line shows.
struct Found {
    layout: Layout,
    is_header: bool,
    how: Option<String>,
    guess: Option<String>,
}

impl Layout {
    /// Returns the layout that the first line shows, and whether that line is a header. A comment
    /// that names no column is ignored.
    fn of(line: &[u8], asked: Option<&ColumnNames>, is_known: bool) -> Result<Found, TraceProblem> {
        let header = Header::of(line);
        let separator = header.separator;
        let is_comment = line.first() == Some(&b'#');
        let by_order = ColumnPlaces {
            time: Some(0),
            object: 1,
            size: Some(2),
        };
        let usual = header.usual();
        let is_named = usual.iter().all(Option::is_some);
        let has_no_names = !is_comment && !is_named && line.iter().any(u8::is_ascii_digit);
        let ordered = |is_header| Found {
            layout: Layout::at(separator, by_order),
            is_header,
            how: Some("time, object and size in the first three columns".to_owned()),
            guess: None,
        };
        match asked {
            None if has_no_names => {
                let mut found = ordered(false);
                found.guess = Some(
                    "no line names the columns: the first three are taken for time, object and size \
                     (--columns says otherwise)"
                        .to_owned(),
                );
                return Ok(found);
            }
            None if is_comment && usual == [None; 3] => return Ok(ordered(true)),
            _ => {}
        }
        let places = match usual {
            // Meta's first key-value traces have no times.
            [None, Some(object), size @ Some(_)] if is_known && asked.is_none() => ColumnPlaces {
                time: None,
                object,
                size,
            },
            _ => ColumnPlaces::find(asked, &header.names())?,
        };
        let mut layout = Layout::at(separator, places);
        if asked.is_none() {
            header.add_to(&mut layout);
        }
        Ok(Found {
            layout,
            is_header: asked.is_none_or(ColumnNames::has_name) || !has_no_names,
            how: Some(header.described(places)),
            guess: None,
        })
    }

    /// Returns the layout of columns at these places.
    fn at(separator: Separator, places: ColumnPlaces) -> Layout {
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

    fn access(
        &mut self,
        line: &[u8],
        options: &ReadOptions,
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
    fn is_header(&self, line: &[u8]) -> bool {
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
