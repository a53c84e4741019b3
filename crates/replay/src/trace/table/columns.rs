//! Lines of time, object and size: most public traces. `known.rs` describes those whose columns
//! differ.
//!
//! Times are numbers, with a fraction or without, or dates. Objects are numbers, or names, which
//! are hashed: SipHash with a fixed key, so that an object is the same number in every run and on
//! every machine (foldhash promises neither), and only chosen names collide.

use super::column_names::{ColumnNames, ColumnPlaces};
use super::header::Header;
use super::layout::{Layout, Line};
use crate::Access;
use crate::trace::entry::{FormatEntry, Open, is_text};
use crate::trace::error::{ReadError, TraceProblem};
use crate::trace::lines::Lines;
use crate::trace::log::Tally;
use crate::trace::options::LineOptions;
use crate::trace::report::ReaderReport;
use crate::trace::requests::Requests;

/// See [`Format::COLUMNS`](crate::Format::COLUMNS).
pub(in crate::trace) const ENTRY: FormatEntry = FormatEntry {
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

pub(super) struct Columns {
    lines: Lines,
    options: LineOptions,
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

impl Columns {
    pub fn new(lines: Lines, options: LineOptions) -> Self {
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
    pub fn of_table(
        lines: Lines,
        options: LineOptions,
        layout: Option<Layout>,
        described: &str,
    ) -> Self {
        let mut columns = Columns::new(lines, options);
        columns.layout = layout;
        columns.is_at_header = columns.layout.is_some();
        columns.is_known = true;
        columns.how.push(described.to_owned());
        columns
    }

    /// Takes the layout from the first line. Returns true if that line is no request.
    fn find_layout(&mut self) -> Result<bool, ReadError> {
        let Some(line) = self.lines.next_line()? else {
            return Ok(false);
        };
        let found = Found::of(line, self.options.columns.as_ref(), self.is_known);
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

impl Found {
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
}
