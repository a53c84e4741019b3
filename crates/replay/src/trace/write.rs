//! Writers of trace files.
//!
//! A value that is too large for its field is an error with the request's number. A value without a
//! field is left out: [`WriteFormat::Numbers`] only has the objects. A written trace reads back
//! unchanged, except for fractions of seconds in oracleGeneral.

use crate::Access;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::str::FromStr;

/// Records of an oracleGeneral file that get their next accesses at once: 1.5 MiB, large against a
/// seek.
const LINK_CHUNK_RECORDS: usize = 1 << 16;

/// The bytes of an oracleGeneral record.
const RECORD: usize = 24;
/// The offset of the next access in a record.
const NEXT: usize = 16;

/// A format of written traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFormat {
    /// libCacheSim's binary; see [`crate::Format::ORACLE_GENERAL`]. Times are whole seconds below
    /// 2^32, sizes are below 2^32 bytes. The next accesses are -1 until [`link_next_accesses`]
    /// replaces them.
    OracleGeneral,
    /// Lines of time, object and size with blanks between, as webcachesim reads them.
    Text,
    /// Lines of time, object and size with commas between, after a line that names them.
    Csv,
    /// A JSON object per line with the members `time`, `object` and `size`.
    JsonLines,
    /// Big-endian 32-bit objects without times and sizes.
    Numbers,
}

impl WriteFormat {
    /// All formats by their names.
    pub const NAMES: [(&'static str, WriteFormat); 5] = [
        ("oracle-general", WriteFormat::OracleGeneral),
        ("text", WriteFormat::Text),
        ("csv", WriteFormat::Csv),
        ("json-lines", WriteFormat::JsonLines),
        ("numbers", WriteFormat::Numbers),
    ];

    /// Returns the format of a file's name: `.oracleGeneral` or `.oracleGeneral.bin`, `.tr` or
    /// `.txt`, `.csv`, `.jsonl` or `.ndjson`, `.trace`; `.zst` may follow.
    pub fn of_name(name: &str) -> Option<WriteFormat> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        let (rest, extension) = name.strip_suffix(".bin").unwrap_or(name).rsplit_once('.')?;
        match extension {
            _ if rest.is_empty() => None,
            "oraclegeneral" => Some(WriteFormat::OracleGeneral),
            "tr" | "txt" => Some(WriteFormat::Text),
            "csv" => Some(WriteFormat::Csv),
            "jsonl" | "ndjson" => Some(WriteFormat::JsonLines),
            "trace" => Some(WriteFormat::Numbers),
            _ => None,
        }
    }
}

impl FromStr for WriteFormat {
    type Err = WriteFormatError;

    fn from_str(text: &str) -> Result<WriteFormat, WriteFormatError> {
        let found = WriteFormat::NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, format)| *format)
            .ok_or_else(|| WriteFormatError(text.to_owned()))
    }
}

/// The name of a format in which no trace is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFormatError(String);

impl fmt::Display for WriteFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = WriteFormat::NAMES.map(|(name, _)| name).join(", ");
        write!(f, "traces are not written as `{}`, but as {known}", self.0)
    }
}

impl std::error::Error for WriteFormatError {}

/// A trace that is being written. It needs a buffered writer, which the caller flushes.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    format: WriteFormat,
    requests: u64,
}

/// A request that could not be written.
#[derive(Debug)]
pub enum WriteError {
    /// The writer failed.
    Io(io::Error),
    /// A value is too large for its field of 32 bits.
    Unfit {
        /// The number of the request, from 1.
        request: u64,
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Io(error) => error.fmt(f),
            WriteError::Unfit {
                request,
                field,
                value,
            } => {
                write!(
                    f,
                    "request {request}: {field}, {value}, has no place in 32 bits; write text or csv instead"
                )
            }
        }
    }
}

impl std::error::Error for WriteError {}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}

impl<W: Write> TraceWriter<W> {
    /// Returns a writer of this format. A CSV's header is written at once.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn new(mut out: W, format: WriteFormat) -> io::Result<TraceWriter<W>> {
        if format == WriteFormat::Csv {
            out.write_all(b"time,object,size\n")?;
        }
        Ok(TraceWriter {
            out,
            format,
            requests: 0,
        })
    }

    /// Writes one request.
    ///
    /// # Errors
    /// [`WriteError`] if `out` fails, or the time, the object or the size is too large for its
    /// field.
    pub fn write(&mut self, access: &Access) -> Result<(), WriteError> {
        self.requests += 1;
        let Access { id, size, now } = *access;
        match self.format {
            WriteFormat::OracleGeneral => {
                let mut record = [0xff; RECORD];
                let seconds = self.fit(now.nanos() / 1_000_000_000, "the time in seconds")?;
                record[..4].copy_from_slice(&seconds.to_le_bytes());
                record[4..12].copy_from_slice(&id.to_le_bytes());
                record[12..NEXT].copy_from_slice(&self.fit(size, "the size")?.to_le_bytes());
                self.out.write_all(&record)?;
            }
            WriteFormat::Text => self.line(access, ["", " ", " ", ""])?,
            WriteFormat::Csv => self.line(access, ["", ",", ",", ""])?,
            WriteFormat::JsonLines => {
                self.line(access, ["{\"time\":", ",\"object\":", ",\"size\":", "}"])?
            }
            WriteFormat::Numbers => self
                .out
                .write_all(&self.fit(id, "the object")?.to_be_bytes())?,
        }
        Ok(())
    }

    /// Returns the number of requests written.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the writer that was passed to [`TraceWriter::new`].
    pub fn into_inner(self) -> W {
        self.out
    }

    fn fit(&self, value: u64, field: &'static str) -> Result<u32, WriteError> {
        u32::try_from(value).map_err(|_| WriteError::Unfit {
            request: self.requests,
            field,
            value,
        })
    }

    /// Writes the time, the object and the size, with these texts around them.
    fn line(
        &mut self,
        access: &Access,
        [before, object, size, after]: [&str; 4],
    ) -> io::Result<()> {
        self.out.write_all(before.as_bytes())?;
        let (seconds, nanos) = (
            access.now.nanos() / 1_000_000_000,
            access.now.nanos() % 1_000_000_000,
        );
        match nanos {
            0 => write!(self.out, "{seconds}")?,
            _ => self.out.write_all(
                format!("{seconds}.{nanos:09}")
                    .trim_end_matches('0')
                    .as_bytes(),
            )?,
        }
        writeln!(
            self.out,
            "{object}{}{size}{}{after}",
            access.id, access.size
        )
    }
}

/// Writes each request's next access (its number from 1, or -1 for none) into an oracleGeneral
/// file: one pass from the end to the start, in chunks. It takes 16 bytes of memory for each
/// object, and the free room of a hash table. `done` gets the number of requests of each chunk.
///
/// # Errors
/// The file's error; [`io::ErrorKind::InvalidData`] if it does not have whole records.
pub fn link_next_accesses(
    file: &mut (impl Read + Write + Seek),
    mut done: impl FnMut(u64),
) -> io::Result<()> {
    let length = file.seek(SeekFrom::End(0))?;
    if length % RECORD as u64 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("not whole records of {RECORD} bytes"),
        ));
    }
    let mut next: HashMap<u64, i64, FixedState> = HashMap::default();
    let mut chunk = vec![0; LINK_CHUNK_RECORDS * RECORD];
    let mut end = length;
    while end > 0 {
        let bytes = usize::try_from(end).map_or(chunk.len(), |end| end.min(chunk.len()));
        let start = end - bytes as u64;
        let records = &mut chunk[..bytes];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(records)?;
        let mut number = (end / RECORD as u64) as i64;
        for record in records.chunks_exact_mut(RECORD).rev() {
            let [_, _, _, _, id @ .., _, _, _, _, _, _, _, _, _, _, _, _] = record else {
                debug_assert!(false, "a record has {RECORD} bytes");
                continue;
            };
            let id = id.try_into().map(u64::from_le_bytes).unwrap_or_default();
            record[NEXT..].copy_from_slice(&next.insert(id, number).unwrap_or(-1).to_le_bytes());
            number -= 1;
        }
        file.seek(SeekFrom::Start(start))?;
        file.write_all(records)?;
        done((end - start) / RECORD as u64);
        end = start;
    }
    file.flush()
}
