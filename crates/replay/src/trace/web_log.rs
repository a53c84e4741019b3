//! A web server's log: in the Common Log Format or the combined one, as JSON objects
//! (`json_line.rs`), as Squid writes it (`squid_line.rs`), or with tabs and named columns, such as
//! the Internet Traffic Archive's NASA day.
//!
//! Responses 200 and 304 count, for any method; others are not objects. The object is the URL; in a
//! JSON log, host and target. The log states bytes sent, not sizes: none in a 304 and in the
//! response to a HEAD, and fewer than the size if the client disconnected. So an object has the
//! largest size that was ever sent of it. A file is read once more before, to find these sizes. In
//! a stream, only the earlier requests are known (NASA day, a tenth of the bytes: LRU .8044 and
//! .8124 of the requests hit). An object that was never sent has 0 bytes, which a cache counts as
//! one.

use super::columns::name_hash;
use super::entry::{FormatEntry, Open, first_line, is_text};
use super::error::{ReadError, TraceProblem, shown};
use super::json_line;
use super::lines::{Lines, whole, whole_seconds};
use super::log_line::LogLine;
use super::requests::Requests;
use super::squid_line;
use crate::Access;
use crate::limits::MAX_REMEMBERED_URLS;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// See [`Format::WEB_LOG`](super::Format::WEB_LOG).
pub(super) const ENTRY: FormatEntry = FormatEntry {
    name: "web-log",
    summary: "a web server's log: common, combined, JSON, Squid's, or tab-separated with a header",
    suffixes: &[],
    detect: |_, start| {
        let line = first_line(start);
        let has_field = |name: &[u8]| fields(line).any(|field| field == name);
        is_text(start)
            && (has_field(b"url") && has_field(b"response")
                || LogLine::is_line(line)
                || json_line::read(line).is_ok()
                || squid_line::is_line(line))
    },
    open: Open::Bytes(|bytes| Box::new(WebLog::new(Lines::new(bytes), Sizes::default()))),
};

/// The largest number of bytes sent, by URL.
pub(super) type Sizes = HashMap<u64, u64, FixedState>;

pub(super) struct WebLog {
    lines: Lines,
    /// The shape, which the first line shows.
    shape: Option<Shape>,
    sizes: Sizes,
}

#[derive(Clone, Copy)]
enum Shape {
    Common,
    Json,
    Squid,
    Columns(Header),
}

#[derive(Clone, Copy)]
struct Header {
    time: usize,
    url: usize,
    status: usize,
    bytes: usize,
}

impl WebLog {
    /// Returns a reader that knows `sizes` from an earlier reading.
    pub fn new(lines: Lines, sizes: Sizes) -> Self {
        WebLog {
            lines,
            shape: None,
            sizes,
        }
    }

    /// Reads the log to its end, or to its first error, which the next reader finds again.
    pub fn sizes(mut self) -> Sizes {
        while let Ok(Some(_)) = self.next() {}
        self.sizes
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
            let shape = self.shape.or_else(|| match line.first() {
                Some(b'{') => Some(Shape::Json),
                _ if LogLine::is_line(line) => Some(Shape::Common),
                _ => squid_line::is_line(line).then_some(Shape::Squid),
            });
            let parsed = match shape {
                None => Header::of(line).map(|header| {
                    self.shape = Some(Shape::Columns(header));
                    None
                }),
                Some(Shape::Columns(header)) => header.request(line),
                Some(read) => {
                    self.shape = shape;
                    let line = match read {
                        Shape::Json => json_line::read(line),
                        Shape::Squid => squid_line::read(line),
                        _ => LogLine::of(line),
                    };
                    line.map(|line| {
                        let counts = line.status == 200 || line.status == 304;
                        counts.then_some(Access {
                            id: line.id,
                            size: line.sent,
                            now: line.now,
                        })
                    })
                }
            };
            match parsed {
                Err(problem) => return Err(self.lines.error(problem)),
                Ok(None) => {}
                Ok(Some(Access { id, size, now })) => {
                    let size = self.size(id, size);
                    return Ok(Some(Access { id, size, now }));
                }
            }
        }
    }
}

impl Header {
    fn of(line: &[u8]) -> Result<Header, TraceProblem> {
        let column = |name: &'static str| {
            let found = fields(line).position(|field| field == name.as_bytes());
            found.ok_or(TraceProblem::NoColumn(name))
        };
        Ok(Header {
            time: column("time")?,
            url: column("url")?,
            status: column("response")?,
            bytes: column("bytes")?,
        })
    }

    /// Returns the request of a line, with the bytes sent; `None` if its status does not count.
    fn request(&self, line: &[u8]) -> Result<Option<Access>, TraceProblem> {
        let field = |column: usize, name: &'static str| {
            fields(line)
                .nth(column)
                .ok_or_else(|| TraceProblem::NoField {
                    column: name,
                    line: shown(line),
                })
        };
        let status = field(self.status, "response")?;
        if !status.iter().all(u8::is_ascii_digit) || status.is_empty() {
            return Err(TraceProblem::field("response's status", status));
        }
        if status != b"200" && status != b"304" {
            return Ok(None);
        }
        let now = whole_seconds(field(self.time, "time")?)?;
        let size = match field(self.bytes, "bytes")? {
            b"-" => 0,
            text => whole(text).ok_or_else(|| TraceProblem::field("size in bytes", text))?,
        };
        Ok(Some(Access {
            id: name_hash(field(self.url, "url")?),
            size,
            now,
        }))
    }
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b'\t').map(<[u8]>::trim_ascii)
}
