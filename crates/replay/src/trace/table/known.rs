//! Public traces whose columns are known: a description each.
//!
//! Sources: Alibaba's and Tencent's block traces (github.com/alibaba/block-traces, SNIA IOTTA), MSR
//! Cambridge, FIU and Systor '17 (SNIA IOTTA), Wikimedia 2007 (WikiBench) and 2019 (Analytics,
//! caching), Meta's CacheLib traces, IBM Cloud Object Storage (SNIA IOTTA), Tencent's photo store
//! (SNIA IOTTA).

use super::columns::Columns;
use super::header::Header;
use super::layout::{Layout, Operations};
use crate::trace::decimal::whole;
use crate::trace::entry::{FormatEntry, Open, TraceBytes, TraceReader, is_text};
use crate::trace::fields::{Fields, Separator};
use crate::trace::lines::Lines;
use crate::trace::options::LineOptions;
use crate::trace::times::TimeUnit;

/// Bytes of a disk's sector.
const SECTOR: u64 = 512;

/// Lines that all have the form of a table which is recognised.
const MAX_LINES: usize = 50;

/// A trace whose columns are known.
struct Table {
    /// What is read, for people.
    described: &'static str,
    form: Form,
}

enum Form {
    /// Columns in this order, without a header.
    Order(Order),
    /// A header with these names, and others.
    Header(&'static [&'static str]),
}

struct Order {
    separator: Separator,
    /// The kinds of the columns, by which the table is recognised. A line may have more.
    kinds: &'static [Kind],
    time: usize,
    unit: TimeUnit,
    object: &'static [usize],
    size: Option<usize>,
    size_unit: u64,
    operation: Option<(usize, &'static [&'static str])>,
}

/// What a column has.
#[derive(Clone, Copy)]
enum Kind {
    Any,
    Number,
    /// A number with a fraction, or nothing.
    Decimal,
    /// A number of this many digits.
    Digits(usize),
    /// A word that begins with a letter.
    Word,
    /// Hexadecimal digits, eight or more.
    Hex,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A text that begins with this.
    Prefix(&'static str),
}

/// The formats of `format.rs` for these tables.
pub(in crate::trace) const ENTRIES: [FormatEntry; 10] = [
    entry::<0>(
        "alibaba",
        "Alibaba's block traces: device, R or W, offset, length, time in µs",
    ),
    entry::<1>(
        "tencent-cbs",
        "Tencent's block traces: time, sector, sectors, 0 (read) or 1, volume",
    ),
    entry::<2>("msr", "MSR Cambridge's block traces, times in 100 ns"),
    entry::<3>(
        "fiu",
        "FIU's block traces: time in ns, process, sector, sectors, R or W, device",
    ),
    entry::<4>(
        "systor",
        "Systor '17's block traces: time, response, R or W, LUN, offset, size",
    ),
    entry::<5>(
        "wikimedia-2007",
        "Wikipedia 2007 (WikiBench): number, time, URL; no sizes",
    ),
    entry::<6>(
        "ibm-cos",
        "IBM Cloud Object Storage: time in ms, operation, object, size",
    ),
    entry::<7>(
        "tencent-photo",
        "Tencent's photo store: time, photo, format, size, bytes",
    ),
    entry::<8>("meta-kv", "Meta's key-value traces of CacheLib"),
    entry::<9>("meta-cdn", "Meta's CDN traces of CacheLib"),
];

const fn entry<const N: usize>(name: &'static str, summary: &'static str) -> FormatEntry {
    FormatEntry {
        name,
        summary,
        suffixes: &[],
        detect: |_, start| is_text(start) && TABLES[N].is_of(start),
        open: Open::Options(open::<N>),
    }
}

fn open<const N: usize>(bytes: TraceBytes, options: &LineOptions) -> TraceReader {
    Box::new(Columns::of_table(
        Lines::new(bytes),
        options.clone(),
        TABLES[N].layout(),
        TABLES[N].described,
    ))
}

const READ_WRITE: &[&str] = &["R", "W", "Read", "Write", "read", "write"];

static TABLES: [Table; 10] = [
    Table {
        described: "object from device and offset, size from length, time in microseconds",
        form: Form::Order(Order {
            separator: Separator::Byte(b','),
            kinds: &[
                Kind::Number,
                Kind::OneOf(READ_WRITE),
                Kind::Number,
                Kind::Number,
                Kind::Digits(16),
            ],
            time: 4,
            unit: TimeUnit::Micros,
            object: &[0, 2],
            size: Some(3),
            size_unit: 1,
            operation: Some((1, &[])),
        }),
    },
    Table {
        described: "object from volume and sector, size in sectors of 512 bytes, time in seconds; guessed from five numbers, of which the fourth is 0 or 1 (--format columns says otherwise)",
        form: Form::Order(Order {
            separator: Separator::Byte(b','),
            kinds: &[
                Kind::Digits(10),
                Kind::Number,
                Kind::Number,
                Kind::OneOf(&["0", "1"]),
                Kind::Number,
            ],
            time: 0,
            unit: TimeUnit::Seconds,
            object: &[4, 1],
            size: Some(2),
            size_unit: SECTOR,
            operation: Some((3, &["0"])),
        }),
    },
    Table {
        described: "object from server, disk and offset, time in units of 100 ns",
        form: Form::Order(Order {
            separator: Separator::Byte(b','),
            kinds: &[
                Kind::Digits(18),
                Kind::Word,
                Kind::Number,
                Kind::OneOf(READ_WRITE),
                Kind::Number,
                Kind::Number,
            ],
            time: 0,
            unit: TimeUnit::HundredNanos,
            object: &[1, 2, 4],
            size: Some(5),
            size_unit: 1,
            operation: Some((3, &[])),
        }),
    },
    Table {
        described: "object from device and sector, size in sectors of 512 bytes, time in nanoseconds",
        form: Form::Order(Order {
            separator: Separator::Blanks,
            kinds: &[
                Kind::Number,
                Kind::Number,
                Kind::Any,
                Kind::Number,
                Kind::Number,
                Kind::OneOf(READ_WRITE),
                Kind::Number,
                Kind::Number,
            ],
            time: 0,
            unit: TimeUnit::Nanos,
            object: &[6, 7, 3],
            size: Some(4),
            size_unit: SECTOR,
            operation: Some((5, &[])),
        }),
    },
    Table {
        described: "object from LUN and offset, time in seconds",
        form: Form::Order(Order {
            separator: Separator::Byte(b','),
            kinds: &[
                Kind::Decimal,
                Kind::Decimal,
                Kind::OneOf(READ_WRITE),
                Kind::Number,
                Kind::Number,
                Kind::Number,
            ],
            time: 0,
            unit: TimeUnit::Seconds,
            object: &[3, 4],
            size: Some(5),
            size_unit: 1,
            operation: Some((2, &[])),
        }),
    },
    Table {
        described: "object from the URL, no sizes, time in seconds",
        form: Form::Order(Order {
            separator: Separator::Blanks,
            kinds: &[Kind::Number, Kind::Decimal, Kind::Prefix("http")],
            time: 1,
            unit: TimeUnit::Seconds,
            object: &[2],
            size: None,
            size_unit: 1,
            operation: None,
        }),
    },
    Table {
        described: "time in milliseconds, reads are GET and HEAD",
        form: Form::Order(Order {
            separator: Separator::Blanks,
            kinds: &[Kind::Number, Kind::Prefix("REST."), Kind::Hex],
            time: 0,
            unit: TimeUnit::Millis,
            object: &[2],
            size: Some(3),
            size_unit: 1,
            operation: Some((1, &[])),
        }),
    },
    Table {
        described: "object from photo, format and size class, size from the bytes returned",
        form: Form::Order(Order {
            separator: Separator::Blanks,
            kinds: &[
                Kind::Digits(14),
                Kind::Hex,
                Kind::Number,
                Kind::Word,
                Kind::Number,
                Kind::OneOf(&["0", "1"]),
            ],
            time: 0,
            unit: TimeUnit::Calendar,
            object: &[1, 2, 3],
            size: Some(4),
            size_unit: 1,
            operation: None,
        }),
    },
    Table {
        described: "object from the key, size of key and value, reads are GET and GET_LEASE",
        form: Form::Header(&["key", "op", "size", "key_size"]),
    },
    Table {
        described: "object from cacheKey, size from objectSize",
        form: Form::Header(&["timestamp", "cachekey", "objectsize"]),
    },
];

impl Table {
    /// Returns the layout; `None` if the first line tells it.
    fn layout(&self) -> Option<Layout> {
        let Form::Order(order) = &self.form else {
            return None;
        };
        Some(Layout {
            separator: order.separator,
            time: Some(order.time),
            unit: Some(order.unit),
            object: order.object.to_vec(),
            size: order.size,
            size_unit: order.size_unit,
            key_size: None,
            operation: order.operation.map(|(column, codes)| {
                let codes: Vec<String> = codes.iter().map(|code| (*code).to_owned()).collect();
                let operations = if codes.is_empty() {
                    Operations::Names
                } else {
                    Operations::Codes(codes)
                };
                (column, operations)
            }),
            count: None,
        })
    }

    /// Returns true if the first lines have these columns.
    fn is_of(&self, start: &[u8]) -> bool {
        let mut lines = start
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty());
        match &self.form {
            Form::Header(wanted) => lines.next().is_some_and(|line| {
                let header = Header::of(line);
                wanted.iter().all(|name| header.has(name))
            }),
            Form::Order(order) => {
                let mut lines: Vec<&[u8]> = lines.take(MAX_LINES + 1).collect();
                // The last line may be cut.
                if lines.len() > 1 {
                    lines.pop();
                }
                // A header may come first.
                let has_header = lines.len() > 1 && !order.has(lines[0]);
                let lines = &lines[usize::from(has_header)..];
                !lines.is_empty() && lines.iter().all(|line| order.has(line))
            }
        }
    }
}

impl Order {
    fn has(&self, line: &[u8]) -> bool {
        let mut fields = Fields::of(line, self.separator);
        let fits = self
            .kinds
            .iter()
            .all(|kind| fields.next().is_some_and(|field| kind.has(field)));
        // Numbers alone tell little, so there may be no more of them.
        let has_words = self
            .kinds
            .iter()
            .any(|kind| matches!(kind, Kind::Word | Kind::Prefix(_) | Kind::Hex))
            || self.operation.is_some_and(|(_, codes)| codes.is_empty());
        fits && (has_words || fields.next().is_none())
    }
}

impl Kind {
    fn has(self, field: &[u8]) -> bool {
        match self {
            Kind::Any => true,
            Kind::Number => whole(field).is_some(),
            Kind::Decimal => field
                .iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b'.'),
            Kind::Digits(digits) => field.len() == digits && whole(field).is_some(),
            Kind::Word => field.first().is_some_and(u8::is_ascii_alphabetic),
            Kind::Hex => field.len() >= 8 && field.iter().all(u8::is_ascii_hexdigit),
            Kind::OneOf(texts) => texts.iter().any(|text| text.as_bytes() == field),
            Kind::Prefix(prefix) => field.starts_with(prefix.as_bytes()),
        }
    }
}
