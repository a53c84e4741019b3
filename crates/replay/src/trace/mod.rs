//! Trace files: their format is detected, and they are decompressed and read as a stream, with
//! bounded memory. No other module of the sans-IO cores opens files.

#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod arc;
mod bytes;
mod decimal;
mod entry;
mod error;
mod fields;
mod format;
mod lifetimes;
mod lines;
mod log;
mod numbers;
mod object_id;
mod options;
mod read_options;
mod report;
mod requests;
mod sorted;
mod table;
mod times;
mod write;

pub use entry::{FormatEntry, Open, TraceBytes, TraceReader};
pub use error::{Place, ReadError, TraceError, TraceProblem};
pub use format::{Format, FormatError, FormatRegistry};
pub use lines::Lines;
pub use log::{LogFormat, LogFormatError};
pub use object_id::name_hash;
pub use options::{LineOptions, LogOptions, UrlPattern};
pub use read_options::{BadLines, ReadOptions};
pub use report::{ReaderReport, TraceReport};
pub use requests::Requests;
pub use table::{ColumnNames, ColumnNamesError, ColumnPlaces};
pub use times::{TimeUnit, TimeUnitError};
pub use write::{TraceWriter, WriteError, WriteFormat, WriteFormatError, link_next_accesses};

use crate::Access;
use bytes::{Counted, Remark, Source};
use larder_units::Time;
use lifetimes::Lifetimes;
use log::{Sizes, WebLog};
use read_options::FEW_BAD_LINES;
use report::Skipped;
use sorted::Sorted;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bad lines between two checks of their share. A file that is something else is refused before it
/// is read to its end.
const BAD_LINES_BETWEEN_CHECKS: u64 = 10_000;

/// The requests of a trace, one after another. After an error, nothing follows.
///
/// Times never go back: a request that is earlier than one before it takes that one's time, and is
/// counted as late. Logs of real systems are slightly out of order (requests are written when they
/// end), but a cache's clock is not. Sizes are any number of bytes, also 0 and 2^63;
/// [`crate::Replay`] describes how a cache treats them.
pub struct Trace {
    name: String,
    format: Format,
    requests: TraceReader,
    /// The bytes of the file that were read, and all its bytes.
    position: Option<(Arc<AtomicU64>, u64)>,
    ended: bool,
    latest: Time,
    late_requests: u64,
    requests_read: u64,
    /// The number of the first late request, from 1.
    first_late: Option<u64>,
    /// The bad lines that may be skipped, and those that were.
    bad_lines: Option<BadLines>,
    skipped: Skipped,
    remark: Remark,
    lifetimes: Option<Lifetimes>,
}

impl Trace {
    /// Opens the trace in the file at `path`. Compression (zstd, xz, gzip, bzip2, zip) and UTF-16
    /// are detected by the first bytes. Unless the format is given, [`FormatRegistry::installed`]
    /// detects it by the name and the first bytes. The first bad line is an error.
    ///
    /// # Errors
    /// [`TraceError`] if the file cannot be read, or no format recognises it.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Trace, TraceError> {
        let options = ReadOptions {
            format,
            ..ReadOptions::default()
        };
        Trace::open_with(path, &options)
    }

    /// Opens a trace whose columns are these, of [`Format::COLUMNS`] or another format with
    /// columns, which is detected.
    ///
    /// # Errors
    /// [`TraceError`], as from [`Trace::open`].
    pub fn open_columns(path: &Path, names: ColumnNames) -> Result<Trace, TraceError> {
        let options = ReadOptions {
            columns: Some(names),
            ..ReadOptions::default()
        };
        Trace::open_with(path, &options)
    }

    /// Does what [`Trace::open`] does, with these options. A web server's log is read once more
    /// before, to find the sizes of its objects.
    ///
    /// # Errors
    /// [`TraceError`], as from [`Trace::open`].
    pub fn open_with(path: &Path, options: &ReadOptions) -> Result<Trace, TraceError> {
        let (trace, read) = Trace::open_file(path, options)?;
        // A pipe cannot be read twice.
        if trace.format != Format::WEB_LOG || trace.position.is_none() {
            return Ok(trace);
        }
        let failed = |error| TraceError::new(&trace.name, error);
        let source = || -> Result<Source, TraceError> {
            let bytes = Trace::counted(path, &trace.name, &read)?;
            bytes::open(bytes, options.bad_lines.is_some()).map_err(failed)
        };
        let log = |bytes, sizes| WebLog::new(bytes, &options.log, sizes);
        let sizes = log(source()?.bytes, Sizes::default()).sizes();
        read.store(0, Relaxed);
        let Source { bytes, remark, .. } = source()?;
        let requests = Box::new(Sorted::new(log(bytes, sizes), options.bad_lines.is_none()));
        Ok(Trace {
            requests,
            remark,
            ..trace
        })
    }

    /// Does what [`Trace::open_with`] does, but reads a web log only once: an object has the
    /// largest size sent so far.
    ///
    /// # Errors
    /// [`TraceError`], as from [`Trace::open`].
    pub fn open_once(path: &Path, options: &ReadOptions) -> Result<Trace, TraceError> {
        Trace::open_file(path, options).map(|(trace, _)| trace)
    }

    /// Opens the file for one reading. Also returns the counter of the bytes read.
    fn open_file(
        path: &Path,
        options: &ReadOptions,
    ) -> Result<(Trace, Arc<AtomicU64>), TraceError> {
        let name = path.to_string_lossy().into_owned();
        let read = Arc::new(AtomicU64::new(0));
        let bytes = Trace::counted(path, &name, &read)?;
        let mut trace = Trace::read_as(bytes, &name, options, Some(path))?;
        trace.position = path
            .metadata()
            .ok()
            .filter(|file| file.is_file())
            .map(|file| (read.clone(), file.len()));
        Ok((trace, read))
    }

    fn counted(
        path: &Path,
        name: &str,
        read: &Arc<AtomicU64>,
    ) -> Result<Counted<File>, TraceError> {
        let file = File::open(path)
            .map_err(|error| TraceError::new(name, ReadError::new(Place::File, error)))?;
        Ok(Counted {
            bytes: file,
            read: read.clone(),
        })
    }

    /// Reads the trace called `name` from `bytes`; see [`Trace::open`].
    ///
    /// # Errors
    /// [`TraceError`] if the bytes cannot be read, or no format recognises them.
    pub fn read(
        bytes: impl Read + Send + 'static,
        name: &str,
        format: Option<Format>,
    ) -> Result<Trace, TraceError> {
        let options = ReadOptions {
            format,
            ..ReadOptions::default()
        };
        Trace::read_with(bytes, name, &options)
    }

    /// Reads a trace whose columns are these; see [`Trace::open_columns`] and [`Trace::read`].
    ///
    /// # Errors
    /// [`TraceError`], as from [`Trace::read`].
    pub fn read_columns(
        bytes: impl Read + Send + 'static,
        name: &str,
        names: ColumnNames,
    ) -> Result<Trace, TraceError> {
        let options = ReadOptions {
            columns: Some(names),
            ..ReadOptions::default()
        };
        Trace::read_with(bytes, name, &options)
    }

    /// Does what [`Trace::read`] does, with these options.
    ///
    /// # Errors
    /// [`TraceError`], as from [`Trace::read`].
    pub fn read_with(
        bytes: impl Read + Send + 'static,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Trace, TraceError> {
        Trace::read_as(bytes, name, options, None)
    }

    fn read_as(
        bytes: impl Read + Send + 'static,
        name: &str,
        options: &ReadOptions,
        path: Option<&Path>,
    ) -> Result<Trace, TraceError> {
        let failed = |error| TraceError::new(name, error);
        let mut source = bytes::open(bytes, options.bad_lines.is_some()).map_err(failed)?;
        let registry = FormatRegistry::installed();
        let has_columns = options.columns.is_some();
        let given = match &options.log.format {
            Some(text) => {
                let known: Result<LogFormat, LogFormatError> = text.parse();
                let problem = |error: LogFormatError| {
                    ReadError::new(Place::File, TraceProblem::LogFormat(error.to_string()))
                };
                known.map_err(|error| failed(problem(error)))?;
                Some(Format::WEB_LOG)
            }
            None => options.format,
        };
        let format = match given {
            Some(format) => format,
            None => registry
                .of_source(name, &mut source, has_columns)
                .map_err(failed)?,
        };
        let requests = match format.entry().open {
            Open::Bytes(open) => open(source.bytes),
            Open::Options(open) | Open::Columns(open) => open(source.bytes, &options.of_lines()),
            Open::File(open) => {
                let path = path.filter(|path| path.is_file() && !source.is_compressed);
                let not_seekable = TraceProblem::NotSeekable {
                    format: format.name(),
                };
                let path = path.ok_or_else(|| failed(ReadError::new(Place::File, not_seekable)))?;
                let file =
                    File::open(path).map_err(|error| failed(ReadError::new(Place::File, error)))?;
                open(file, options.columns.clone()).map_err(failed)?
            }
        };
        let requests: TraceReader = if format == Format::WEB_LOG {
            Box::new(Sorted::new(requests, options.bad_lines.is_none()))
        } else {
            requests
        };
        Ok(Trace {
            name: name.to_owned(),
            format,
            requests,
            position: None,
            ended: false,
            latest: Time::ZERO,
            late_requests: 0,
            requests_read: 0,
            first_late: None,
            bad_lines: options.bad_lines,
            skipped: Skipped::default(),
            remark: source.remark,
            lifetimes: options.lifetime.map(Lifetimes::new),
        })
    }

    /// Replaces the content of `accesses` by the next requests: `most` of them, or as many as there
    /// are. This is several times faster than one after another (`benches/readers.rs`).
    ///
    /// # Errors
    /// [`TraceError`], as from the iterator. `accesses` then has the requests before the wrong one.
    pub fn read_many(&mut self, accesses: &mut Vec<Access>, most: usize) -> Result<(), TraceError> {
        accesses.clear();
        if self.ended {
            return Ok(());
        }
        accesses.reserve(most);
        let mut adjusted = 0;
        loop {
            let read = self.requests.read(accesses, most);
            for access in &mut accesses[adjusted..] {
                self.adjust(access);
            }
            adjusted = accesses.len();
            match read {
                Ok(()) => {
                    self.ended = accesses.len() < most;
                    return if self.ended { self.check_end() } else { Ok(()) };
                }
                Err(error) => self.skip(error)?,
            }
        }
    }

    /// Counts a bad line.
    ///
    /// # Errors
    /// The error itself, if it ends the trace; [`TraceProblem::BadLines`] if there are too many.
    fn skip(&mut self, error: ReadError) -> Result<(), TraceError> {
        let is_bad_line = error.is_of_a_line();
        let error = TraceError::new(&self.name, error);
        if self.bad_lines.is_none() || !is_bad_line {
            self.ended = true;
            return Err(error);
        }
        self.skipped.count(&error);
        if self
            .skipped
            .lines()
            .is_multiple_of(BAD_LINES_BETWEEN_CHECKS)
        {
            return self.check_share();
        }
        Ok(())
    }

    /// Checks the share of bad lines.
    fn check_share(&mut self) -> Result<(), TraceError> {
        let (Some(allowed), bad) = (self.bad_lines, self.skipped.lines()) else {
            return Ok(());
        };
        let lines = self.report().lines();
        if bad <= FEW_BAD_LINES || bad as f64 <= allowed.most.value() * lines as f64 {
            return Ok(());
        }
        self.ended = true;
        let first = self.skipped.first().first().cloned().unwrap_or_default();
        let problem = TraceProblem::BadLines { bad, lines, first };
        Err(TraceError::new(
            &self.name,
            ReadError::new(Place::File, problem),
        ))
    }

    /// Checks the share of bad lines at the end, and that not all of few lines are bad.
    fn check_end(&mut self) -> Result<(), TraceError> {
        self.check_share()?;
        if self.requests_read > 0 || self.skipped.lines() == 0 {
            return Ok(());
        }
        let (bad, lines) = (self.skipped.lines(), self.report().lines());
        let first = self.skipped.first().first().cloned().unwrap_or_default();
        if bad < lines {
            return Ok(());
        }
        let problem = TraceProblem::BadLines { bad, lines, first };
        Err(TraceError::new(
            &self.name,
            ReadError::new(Place::File, problem),
        ))
    }

    #[inline]
    fn adjust(&mut self, access: &mut Access) {
        self.never_back(access);
        if let Some(lifetimes) = &mut self.lifetimes {
            lifetimes.adjust(access);
        }
    }

    #[inline]
    fn never_back(&mut self, access: &mut Access) {
        self.requests_read += 1;
        if access.now < self.latest {
            access.now = self.latest;
            self.late_requests += 1;
            self.first_late.get_or_insert(self.requests_read);
        }
        self.latest = access.now;
    }

    /// Returns the share of the file that was read, from 0 to 1, for a progress bar; `None` if it
    /// is not known, for example for a pipe.
    pub fn progress(&self) -> Option<f64> {
        self.requests.progress().or_else(|| {
            let (read, len) = self.position.as_ref()?;
            Some((read.load(Relaxed) as f64 / (*len).max(1) as f64).min(1.0))
        })
    }

    /// Returns how the trace is read, and what was left out so far.
    pub fn report(&self) -> TraceReport {
        let mut reader = self.requests.report();
        reader.notes.extend(self.remark.get().cloned());
        TraceReport {
            reader,
            requests: self.requests_read,
            skipped: self.skipped.reasons(),
            first_skipped: self.skipped.first().to_vec(),
        }
    }

    /// Returns the file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the format that was given or detected.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the number of requests so far that were earlier than one before them.
    pub fn late_requests(&self) -> u64 {
        self.late_requests
    }

    /// Returns the number of the first late request, counted from 1.
    pub fn first_late_request(&self) -> Option<u64> {
        self.first_late
    }
}

impl Iterator for Trace {
    type Item = Result<Access, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        loop {
            match self.requests.next() {
                Ok(Some(mut access)) => {
                    self.adjust(&mut access);
                    return Some(Ok(access));
                }
                Ok(None) => {
                    self.ended = true;
                    return self.check_end().err().map(Err);
                }
                Err(error) => {
                    if let Err(error) = self.skip(error) {
                        return Some(Err(error));
                    }
                }
            }
        }
    }
}
