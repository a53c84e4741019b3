//! The registry of trace formats, and the detection of a file's format.

use super::bytes::Source;
use super::entry::{FormatEntry, is_text};
use super::error::{Place, ReadError, TraceProblem};
use super::lines::BYTE_ORDER_MARK;
use super::table::{columns, json_lines, known, twitter};
use super::{arc, log, numbers};
use std::fmt;
use std::io::BufRead;
use std::str::FromStr;
use std::sync::OnceLock;

/// Bytes that detect a format other than a log: enough for the first line of all traces seen so
/// far.
const DETECTED_BYTES: usize = 4096;

/// A registered format.
#[derive(Clone, Copy, Debug)]
pub struct Format(&'static FormatEntry);

impl Format {
    /// Lines of time, object and size, separated by commas, tabs or blanks: libCacheSim's CSV,
    /// webcachesim's text, Tencent's block traces. A first line with `#` or with words names the
    /// columns, if they are in another order.
    pub const COLUMNS: Format = Format(&columns::ENTRY);
    /// A JSON object per line, with members of the names that [`Format::COLUMNS`] has in its first
    /// line.
    pub const JSON_LINES: Format = Format(&json_lines::ENTRY);
    /// A web server's log in any of the formats that [`LogFormat::known`](crate::LogFormat::known)
    /// lists. Requests GET and HEAD count whose response a cache stores.
    pub const WEB_LOG: Format = Format(&log::ENTRY);
    /// The ARC paper's disk traces: lines of first block, number of blocks, a flag and the
    /// request's number; 512 bytes per block.
    pub const ARC: Format = Format(&arc::ENTRY);
    /// libCacheSim's binary: 24 bytes per request, little-endian u32 time in seconds, u64 object,
    /// u32 size, i64 next request.
    pub const ORACLE_GENERAL: Format = Format(&numbers::ORACLE_GENERAL);
    /// Twitter's cache traces: time, key, key size, value size, client, operation and time to live,
    /// separated by commas. `get` and `gets` count.
    pub const TWITTER: Format = Format(&twitter::ENTRY);
    /// Big-endian 32-bit object numbers and nothing else (web07, web12); every object has one byte.
    pub const NUMBERS: Format = Format(&numbers::NUMBERS);
    /// Big-endian 64-bit object numbers and nothing else (scarab); every object has one byte.
    pub const NUMBERS_64: Format = Format(&numbers::NUMBERS_64);

    /// Returns the name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the entry.
    pub fn entry(self) -> &'static FormatEntry {
        self.0
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Format {}

static BUILTIN: [Format; 18] = [
    Format::COLUMNS,
    Format::JSON_LINES,
    Format::WEB_LOG,
    Format::ARC,
    Format::ORACLE_GENERAL,
    Format::TWITTER,
    Format::NUMBERS,
    Format::NUMBERS_64,
    Format(&TABLES[0]),
    Format(&TABLES[1]),
    Format(&TABLES[2]),
    Format(&TABLES[3]),
    Format(&TABLES[4]),
    Format(&TABLES[5]),
    Format(&TABLES[6]),
    Format(&TABLES[7]),
    Format(&TABLES[8]),
    Format(&TABLES[9]),
];

/// The entries of the traces whose columns are known.
static TABLES: [FormatEntry; 10] = known::ENTRIES;

/// The built-in formats in the order of their detection. Every text is `columns`, and so it comes
/// after the other texts. A web server's log may be JSON lines.
static DETECTION: [Format; 18] = [
    Format::WEB_LOG,
    Format(&TABLES[0]),
    Format(&TABLES[1]),
    Format(&TABLES[2]),
    Format(&TABLES[3]),
    Format(&TABLES[4]),
    Format(&TABLES[5]),
    Format(&TABLES[6]),
    Format(&TABLES[7]),
    Format(&TABLES[8]),
    Format(&TABLES[9]),
    Format::TWITTER,
    Format::ARC,
    Format::JSON_LINES,
    Format::COLUMNS,
    Format::ORACLE_GENERAL,
    Format::NUMBERS_64,
    Format::NUMBERS,
];

/// The formats that traces can have: the built-in ones, and those that a program registers.
///
/// `examples/custom_trace_format.rs` of this crate registers one.
#[derive(Clone, Debug)]
pub struct FormatRegistry {
    formats: Vec<Format>,
}

impl FormatRegistry {
    /// Returns the formats of this crate.
    pub fn builtin() -> FormatRegistry {
        FormatRegistry {
            formats: BUILTIN.to_vec(),
        }
    }

    /// Adds a format. Its detection comes before that of the built-in formats, and of those
    /// registered before it.
    ///
    /// # Errors
    /// [`FormatError`] if the name or a suffix is taken, or has other characters than it may.
    pub fn register(mut self, entry: &'static FormatEntry) -> Result<FormatRegistry, FormatError> {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if entry.name.is_empty() || !entry.name.bytes().all(is_letter) {
            return Err(FormatError::Name(entry.name));
        }
        if self.get(entry.name).is_some() {
            return Err(FormatError::Taken(entry.name));
        }
        for suffix in entry.suffixes {
            let letters = suffix.strip_prefix('.').unwrap_or_default();
            let is_plain =
                !letters.is_empty() && letters.bytes().all(|byte| byte == b'.' || is_letter(byte));
            if !is_plain || self.iter().any(|format| format.0.suffixes.contains(suffix)) {
                return Err(FormatError::Suffix {
                    format: entry.name,
                    suffix,
                });
            }
        }
        self.formats.push(Format(entry));
        Ok(self)
    }

    /// Makes this the registry of the process: the one that [`FormatRegistry::installed`] returns,
    /// and with which every trace is opened.
    ///
    /// Call it first in `main`. A library does not call it.
    ///
    /// # Errors
    /// Returns this registry if the process has one already, because of an earlier call, or because
    /// a trace was opened or a format's name was parsed before.
    pub fn install(self) -> Result<(), FormatRegistry> {
        PROCESS.set(self)
    }

    /// Returns the registry of the process: the installed one, else the built-in one.
    pub fn installed() -> &'static FormatRegistry {
        PROCESS.get_or_init(FormatRegistry::builtin)
    }

    /// Returns the format with this name.
    pub fn get(&self, name: &str) -> Option<Format> {
        self.formats
            .iter()
            .copied()
            .find(|format| format.name() == name)
    }

    /// Returns the formats, the built-in ones first.
    pub fn iter(&self) -> std::iter::Copied<std::slice::Iter<'_, Format>> {
        self.formats.iter().copied()
    }

    fn names(&self) -> Vec<&'static str> {
        self.iter().map(Format::name).collect()
    }

    /// Returns the format of a file with this name and these first bytes. A suffix of the name
    /// decides before the content. `has_columns` excludes the formats whose columns have no names.
    fn detect(&self, name: &str, start: &[u8], has_columns: bool) -> Option<Format> {
        let name = name.to_ascii_lowercase();
        let name = [".zst", ".xz", ".gz", ".bz2", ".zip"]
            .iter()
            .find_map(|compressed| name.strip_suffix(compressed))
            .unwrap_or(&name);
        let added = &self.formats[BUILTIN.len()..];
        let suits = |format: &Format| !has_columns || format.0.open.takes_columns();
        let formats = || added.iter().rev().chain(&DETECTION).copied().filter(suits);
        let has_suffix = |format: &Format| {
            format
                .0
                .suffixes
                .iter()
                .any(|suffix| name.ends_with(suffix))
        };
        let is_one = |format: &Format| {
            // A log may begin with lines of another kind, and a line with bytes that are no text.
            if *format == Format::WEB_LOG {
                return (format.0.detect)(name, start);
            }
            let start = &start[..start.len().min(DETECTED_BYTES)];
            let start = if is_text(start) {
                start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start)
            } else {
                start
            };
            (format.0.detect)(name, start)
        };
        formats()
            .find(has_suffix)
            .or_else(|| formats().find(is_one))
    }

    /// Returns the format of a file with this name. `has_columns` is true if its columns have
    /// names.
    pub(super) fn of_source(
        &self,
        name: &str,
        source: &mut Source,
        has_columns: bool,
    ) -> Result<Format, ReadError> {
        let start = source
            .bytes
            .fill_buf()
            .map_err(|error| ReadError::new(Place::File, error))?;
        if let Some(format) = self.detect(name, start, has_columns) {
            // A file can have any name, and any 24 bytes are a record.
            let foreign = if format == Format::ORACLE_GENERAL {
                numbers::first_foreign(start)
            } else {
                None
            };
            return foreign.map_or(Ok(format), |byte| {
                Err(ReadError::new(
                    Place::Byte(byte as u64),
                    TraceProblem::NotOracleGeneral,
                ))
            });
        }
        // If the file is damaged, a format's name would not help.
        source.check()?;
        Err(ReadError::new(
            Place::File,
            TraceProblem::UnknownFormat {
                known: self.names(),
            },
        ))
    }
}

static PROCESS: OnceLock<FormatRegistry> = OnceLock::new();

/// A format that cannot be registered, or that is not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// A format with this name is registered already.
    Taken(&'static str),
    /// This name has other characters than lower-case letters, digits and `-`, or none.
    Name(&'static str),
    /// A suffix of this format is the suffix of another format, or no file's name has it: it needs
    /// a dot and lower-case letters.
    Suffix {
        /// The format's name.
        format: &'static str,
        /// The suffix.
        suffix: &'static str,
    },
    /// No format with this name is registered.
    Unknown {
        /// The name.
        name: String,
        /// The names of the registered formats.
        known: Vec<&'static str>,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::Taken(name) => write!(f, "a trace format `{name}` is registered already"),
            FormatError::Name(name) => {
                write!(
                    f,
                    "trace format name `{}` needs lower-case letters, digits and `-` only",
                    name.escape_debug()
                )
            }
            FormatError::Suffix { format, suffix } => {
                let suffix = suffix.escape_debug();
                write!(
                    f,
                    "trace format `{format}`: its suffix `{suffix}` is taken, or not a dot and lower-case letters"
                )
            }
            FormatError::Unknown { name, known } => {
                write!(
                    f,
                    "unknown trace format `{name}`, one of {}",
                    known.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for FormatError {}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Format, FormatError> {
        let registry = FormatRegistry::installed();
        registry.get(text).ok_or_else(|| FormatError::Unknown {
            name: text.to_owned(),
            known: registry.names(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::decimal::whole;
    use crate::trace::entry::Open;
    use crate::trace::lines::Lines;
    use crate::trace::requests::Requests;
    use crate::{Access, Trace, replay};
    use larder_units::{ByteSize, Time};

    /// Reads one object of 10 bytes per line, `mine 7`.
    struct Mine(Lines);

    impl Requests for Mine {
        fn next(&mut self) -> Result<Option<Access>, ReadError> {
            let Some(line) = self.0.next_line()? else {
                return Ok(None);
            };
            let id = line.strip_prefix(b"mine ").and_then(whole);
            let id = id.ok_or_else(|| self.0.error("not mine"))?;
            Ok(Some(Access {
                id,
                size: 10,
                now: Time::ZERO,
            }))
        }
    }

    const MINE: FormatEntry = FormatEntry {
        name: "mine",
        summary: "",
        suffixes: &[".mine"],
        detect: |_, start| start.starts_with(b"mine"),
        open: Open::Bytes(|bytes| Box::new(Mine(Lines::new(bytes)))),
    };

    #[test]
    fn a_registered_format_is_not_detected() {
        let registry = FormatRegistry::builtin().register(&MINE).unwrap();
        for (name, start, expected) in [
            ("t", &b"mine 1 2"[..], "mine"),
            ("T.MINE.zst", b"1 2 3", "mine"),
            ("t.lis", b"mine 1 2", "arc"),
            ("t", b"1 2 3", "columns"),
            ("t.jsonl.gz", b"x", "json-lines"),
            ("t", b"{", "json-lines"),
            ("t", b"\xef\xbb\xbf{\"id\": 1}", "json-lines"),
        ] {
            assert_eq!(
                registry.detect(name, start, false).map(Format::name),
                Some(expected),
                "{name}"
            );
        }
        assert_eq!(registry.detect("t", b"\0", false), None);
    }

    #[test]
    fn a_trace_of_a_registered_format_is_misread() {
        let mine = FormatRegistry::builtin()
            .register(&MINE)
            .unwrap()
            .get("mine")
            .unwrap();
        let trace = Trace::read(
            &b"mine 1\nmine 2\n\nmine 1\nmine 3\nmine 1\n"[..],
            "t",
            Some(mine),
        )
        .unwrap();
        assert_eq!(trace.format(), mine);
        let accesses: Vec<Access> = trace.map(Result::unwrap).collect();
        let row = replay(
            "t",
            accesses,
            &"lru".parse().unwrap(),
            ByteSize::from_bytes(20),
            1,
        )
        .unwrap();
        assert_eq!((row.requests, row.hits), (5, 2));

        let mut trace = Trace::read(&b"mine 1\n\nyours 2\nmine 3\n"[..], "t", Some(mine)).unwrap();
        let mut accesses = Vec::new();
        let error = trace.read_many(&mut accesses, 9).unwrap_err();
        assert_eq!(
            (error.to_string(), accesses.len()),
            ("t, line 3: not mine".to_owned(), 1)
        );
        assert!(matches!(
            (error.place(), error.problem()),
            (Place::Line(3), TraceProblem::Other(_))
        ));
        assert!(trace.next().is_none());
    }

    #[test]
    fn a_suffix_that_chooses_another_format() {
        for suffix in [".lis", ".mine", "new", ".NEW", ".", ""] {
            let suffixes: &'static [&'static str] = Box::leak(Box::new([suffix]));
            let entry: &'static FormatEntry = Box::leak(Box::new(FormatEntry {
                name: "new",
                suffixes,
                ..MINE
            }));
            let registry = FormatRegistry::builtin().register(&MINE).unwrap();
            assert_eq!(
                registry.register(entry).unwrap_err(),
                FormatError::Suffix {
                    format: "new",
                    suffix
                }
            );
        }
    }

    #[test]
    fn two_formats_of_one_name() {
        let registry = FormatRegistry::builtin().register(&MINE).unwrap();
        assert_eq!(
            registry.register(&MINE).unwrap_err(),
            FormatError::Taken("mine")
        );
        for name in ["", "My", "a b"] {
            let entry: &'static FormatEntry = Box::leak(Box::new(FormatEntry { name, ..MINE }));
            assert_eq!(
                FormatRegistry::builtin().register(entry).unwrap_err(),
                FormatError::Name(name)
            );
        }
        let mut names: Vec<_> = FormatRegistry::builtin().iter().map(Format::name).collect();
        let all = names.len();
        assert_eq!(
            (all, names[..3].join(" ")),
            (18, "columns json-lines web-log".to_owned())
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        let mut detected: Vec<_> = DETECTION.iter().map(|format| format.name()).collect();
        detected.sort_unstable();
        assert_eq!(detected, names, "a format that is not detected");
        assert!(
            FormatRegistry::builtin()
                .iter()
                .all(|format| !format.entry().summary.is_empty())
        );
    }
}
