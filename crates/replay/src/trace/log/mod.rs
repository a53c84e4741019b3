//! A web server's log, in any of the known formats (`presets.rs`), which `detect.rs` recognises.
//!
//! Each line becomes a [`record::Record`] of texts by their meaning, from the places of a text
//! (`pattern.rs`), from a JSON object (`json.rs`) or from named columns (`header.rs`).
//! `record.rs` says which of them a cache would see, and what its object is.
//!
//! ```text
//!   line ──► wrapper off ──► pattern, JSON or columns ──► Record ──► request, or a reason
//!            wrapped.rs      presets.rs, names.rs         record.rs  left_out.rs
//! ```
//!
//! The log states bytes sent, not sizes: none in a 304 and in the response to a HEAD, and fewer
//! than the size if the client disconnected. So an object has the largest size that was ever sent
//! of it. A file is read once more before, to find these sizes. In a stream, only the earlier
//! requests are known (NASA day, a tenth of the bytes: LRU .8044 and .8124 of the requests hit).
//! An object that was never sent has 0 bytes, which a cache counts as one.

mod detect;
mod header;
mod json;
mod learned;
mod left_out;
mod names;
mod notation;
mod pattern;
mod presets;
mod record;
mod wrapped;

pub(in crate::trace) use left_out::{LeftOut, Tally};
pub use notation::{LogFormat, LogFormatError};

use super::entry::{FormatEntry, Open, TraceBytes};
use super::error::{ReadError, TraceProblem};
use super::lines::Lines;
use super::options::LogOptions;
use super::report::ReaderReport;
use super::requests::Requests;
use crate::Access;
use crate::limits::MAX_REMEMBERED_URLS;
use detect::{Kind, Plan};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use header::Header;
use names::Role;
use pattern::LastTime;
use record::{LogKind, Record, Said};
use std::borrow::Cow;

/// See [`Format::WEB_LOG`](super::Format::WEB_LOG).
pub(super) const ENTRY: FormatEntry = FormatEntry {
    name: "web-log",
    summary: "a web server's log: combined, JSON, W3C, Squid, HAProxy, Envoy, CDNs and others",
    suffixes: &[],
    detect: |_, start| Plan::of(start, &LogOptions::default()).is_some(),
    open: Open::Options(|bytes, options| {
        let log = WebLog::new(bytes, &options.log, Sizes::default());
        Box::new(log)
    }),
};

/// The largest number of bytes sent, by URL.
pub(super) type Sizes = HashMap<u64, u64, FixedState>;

/// The requests of a web server's log, in the order of its lines.
pub(super) struct WebLog {
    lines: Lines,
    reading: Reading,
    sizes: Sizes,
    /// A line that had to be copied to be read.
    scratch: Vec<u8>,
    unwrapped: Vec<u8>,
}

/// How lines are read, and what was found so far.
struct Reading {
    plan: Option<Plan>,
    options: LogOptions,
    kind: LogKind,
    /// The key of the last object.
    key: Vec<u8>,
    last_time: LastTime,
    tally: Tally,
    requests: u64,
    without_host: u64,
    hits: u64,
    misses: u64,
}

impl WebLog {
    /// Returns a reader that knows `sizes` from an earlier reading.
    pub fn new(mut bytes: TraceBytes, options: &LogOptions, sizes: Sizes) -> Self {
        // An error comes again with the first line.
        let plan = bytes
            .fill_buf()
            .ok()
            .and_then(|start| Plan::of(start, options));
        WebLog {
            lines: Lines::new(bytes),
            reading: Reading {
                kind: plan.as_ref().map(Plan::log_kind).unwrap_or_default(),
                plan,
                options: options.clone(),
                key: Vec::new(),
                last_time: LastTime::default(),
                tally: Tally::default(),
                requests: 0,
                without_host: 0,
                hits: 0,
                misses: 0,
            },
            sizes,
            scratch: Vec::new(),
            unwrapped: Vec::new(),
        }
    }

    /// Reads the log to its end, or until its bytes cannot be read, which the next reader finds
    /// again. Bad lines are left out.
    pub fn sizes(mut self) -> Sizes {
        loop {
            match self.next() {
                Ok(Some(_)) => {}
                Ok(None) => return self.sizes,
                Err(error) if error.is_of_a_line() => {}
                Err(_) => return self.sizes,
            }
        }
    }

    /// Returns the largest size sent so far, including `sent`.
    fn size(&mut self, id: u64, sent: u64) -> u64 {
        if let Some(known) = self.sizes.get_mut(&id) {
            *known = sent.max(*known);
            return *known;
        }
        if sent > 0 && self.sizes.len() < MAX_REMEMBERED_URLS {
            self.sizes.insert(id, sent);
        }
        sent
    }
}

impl Requests for WebLog {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Ok(None);
            };
            let said = self
                .reading
                .line(line, &mut self.unwrapped, &mut self.scratch);
            match said {
                Err(problem) => return Err(self.lines.error(problem)),
                Ok(Said::Header) => {}
                Ok(Said::LeftOut(reason)) => self.reading.tally.count(reason),
                Ok(Said::Request { access, .. }) => {
                    self.reading.requests += 1;
                    let size = self.size(access.id, access.size);
                    return Ok(Some(Access { size, ..access }));
                }
            }
        }
    }

    fn report(&self) -> ReaderReport {
        let reading = &self.reading;
        let mut report = ReaderReport {
            left_out: reading.tally.lines(),
            is_without_host: reading.requests > 0 && reading.without_host == reading.requests,
            ..ReaderReport::default()
        };
        if let Some(plan) = &reading.plan {
            report.how = plan.shown();
        }
        if reading.plan.is_some() && !reading.kind.has_sizes {
            report
                .notes
                .push("the log has no sizes, so capacities count objects".to_owned());
        }
        if reading.without_host > 0 && !report.is_without_host {
            report.notes.push(format!(
                "{} of {} requests name no host",
                reading.without_host, reading.requests
            ));
        }
        if reading.hits > 0 {
            let known = reading.hits + reading.misses;
            report.notes.push(format!(
                "the server's own cache answered {} of {known} requests whose cache status the log has",
                reading.hits
            ));
        }
        report
    }
}

impl Reading {
    /// Returns what a line says.
    fn line<'a>(
        &mut self,
        line: &'a [u8],
        unwrapped: &'a mut Vec<u8>,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Said, TraceProblem> {
        let Some(plan) = &mut self.plan else {
            return Err(TraceProblem::line("a line of a known log format", line));
        };
        let inner = match plan.wrapper.map(|wrapper| wrapper.inner(line)) {
            None | Some(None) => line,
            Some(Some(Cow::Borrowed(inner))) => inner,
            Some(Some(Cow::Owned(inner))) => {
                *unwrapped = inner;
                unwrapped
            }
        };
        let mut record = Record::default();
        let fits = match &mut plan.kind {
            Kind::Text { pattern, learned } => {
                let fits = pattern.read(
                    inner,
                    self.options.time_unit,
                    &mut self.last_time,
                    &mut record,
                );
                learned.add(&mut record);
                fits
            }
            Kind::Json(members) => members.read(inner, scratch, &mut record),
            Kind::Header(columns) => {
                let is_header = columns.as_ref().is_some_and(|columns| columns.is(inner));
                if is_header || inner.first() == Some(&b'#') || columns.is_none() {
                    if let Some(header) = Header::of(inner) {
                        *columns = Some(header);
                        self.kind = plan.log_kind();
                    }
                    return Ok(Said::Header);
                }
                columns
                    .as_ref()
                    .is_some_and(|columns| columns.read(inner, &mut record))
            }
        };
        let is_json = matches!(plan.kind, Kind::Json(_));
        if !fits || is_json && !record.is_request() {
            return other_line(inner, fits, &plan.kind);
        }
        let said = record.said(&self.options, self.kind, &mut self.key)?;
        self.note(&record, &said);
        Ok(said)
    }

    /// Counts what is said about all requests.
    fn note(&mut self, record: &Record<'_>, said: &Said) {
        let Said::Request { has_host, .. } = said else {
            return;
        };
        self.without_host += u64::from(!has_host);
        if record.text(Role::CacheStatus).is_empty() {
            return;
        }
        match record
            .text(Role::CacheStatus)
            .to_ascii_uppercase()
            .as_slice()
        {
            b"HIT" | b"STALE" | b"UPDATING" | b"REVALIDATED" | b"REFRESHHIT" | b"1" => {
                self.hits += 1;
            }
            status
                if status.starts_with(b"TCP") && memchr::memmem::find(status, b"HIT").is_some() =>
            {
                self.hits += 1;
            }
            _ => self.misses += 1,
        }
    }
}

/// Returns what a line is that has not the form of the log's requests.
fn other_line(line: &[u8], is_read: bool, kind: &Kind) -> Result<Said, TraceProblem> {
    let text = line.trim_ascii_start();
    // An array of objects, one a line.
    if matches!(kind, Kind::Json(_)) && matches!(text, b"[" | b"]" | b"]," | b",") {
        return Ok(Said::Header);
    }
    if is_read {
        return Ok(Said::LeftOut(LeftOut::OtherLine));
    }
    if text.first() == Some(&b'#') {
        return Ok(Said::LeftOut(LeftOut::Comment));
    }
    if is_error_log(text) {
        return Ok(Said::LeftOut(LeftOut::ErrorLog));
    }
    Err(match kind {
        Kind::Text { .. } => TraceProblem::line("a line of the log's format", line),
        Kind::Json(_) => TraceProblem::line("a JSON object", line),
        Kind::Header(_) => TraceProblem::line("the columns of the first line", line),
    })
}

/// Returns true for a line of an error log. nginx writes `2025/10/10 13:55:05 [error] …`, Apache
/// `[Fri Oct 10 13:55:05.1 2025] [core:error] …`.
fn is_error_log(line: &[u8]) -> bool {
    let level = |text: &[u8]| {
        const LEVELS: [&[u8]; 9] = [
            b"error", b"warn", b"notice", b"info", b"debug", b"crit", b"alert", b"emerg", b"trace",
        ];
        LEVELS
            .iter()
            .any(|level| memchr::memmem::find(text, level).is_some())
    };
    if let Some(date) = line.get(..19)
        && super::times::date(date).is_some()
    {
        let rest = &line[19..];
        return rest.starts_with(b" [") && level(&rest[..rest.len().min(20)]);
    }
    line.first() == Some(&b'[')
        && memchr::memmem::find(line, b"] [").is_some_and(|end| {
            super::times::date(&line[1..end]).is_some()
                && level(&line[end..line.len().min(end + 40)])
        })
}
