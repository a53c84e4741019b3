//! Trace files: their format is detected, and they are decompressed and read as a stream, with
//! bounded memory. No other module of the sans-IO cores opens files.

#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod arc;
mod column_names;
mod columns;
mod counted;
mod entry;
mod error;
mod format;
mod json_line;
mod json_lines;
mod lines;
mod log_line;
mod numbers;
mod requests;
mod source;
mod squid_line;
mod twitter;
mod web_log;
mod write;

pub use column_names::{ColumnNames, ColumnNamesError, ColumnPlaces};
pub use columns::name_hash;
pub use entry::{FormatEntry, Open, TraceBytes, TraceReader};
pub use error::{Place, ReadError, TraceError, TraceProblem};
pub use format::{Format, FormatError, FormatRegistry};
pub use lines::Lines;
pub use requests::Requests;
pub use write::{TraceWriter, WriteError, WriteFormat, WriteFormatError, link_next_accesses};

use crate::Access;
use counted::Counted;
use larder_units::Time;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use web_log::{Sizes, WebLog};

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
}

impl Trace {
    /// Opens the trace in the file at `path`. Compression (zstd, xz, gzip) is detected by the first
    /// bytes. Unless the format is given, [`FormatRegistry::installed`] detects it by the name and
    /// the first bytes.
    ///
    /// # Errors
    /// [`TraceError`] if the file cannot be read, or no format recognises it.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Trace, TraceError> {
        Trace::open_as(path, format, None)
    }

    /// Opens a trace whose columns are these, of [`Format::COLUMNS`] or another format with
    /// columns, which is detected.
    ///
    /// # Errors
    /// [`TraceError`], as from [`Trace::open`].
    pub fn open_columns(path: &Path, names: ColumnNames) -> Result<Trace, TraceError> {
        Trace::open_as(path, None, Some(names))
    }

    /// Does what [`Trace::open`] does, but reads a web log only once: an object has the largest
    /// size sent so far.
    ///
    /// # Errors
    /// [`TraceError`], as from [`Trace::open`].
    pub fn open_once(path: &Path, format: Option<Format>) -> Result<Trace, TraceError> {
        Trace::open_file(path, format, None).map(|(trace, _)| trace)
    }

    fn open_as(
        path: &Path,
        format: Option<Format>,
        names: Option<ColumnNames>,
    ) -> Result<Trace, TraceError> {
        let (trace, read) = Trace::open_file(path, format, names)?;
        // A pipe cannot be read twice.
        if trace.format != Format::WEB_LOG || trace.position.is_none() {
            return Ok(trace);
        }
        let failed = |error| TraceError::new(&trace.name, error);
        let lines = || {
            let bytes = Trace::counted(path, &trace.name, &read)?;
            source::open(bytes)
                .map(|source| Lines::new(source.bytes))
                .map_err(failed)
        };
        let sizes = WebLog::new(lines()?, Sizes::default()).sizes();
        read.store(0, Relaxed);
        let requests = Box::new(WebLog::new(lines()?, sizes));
        Ok(Trace { requests, ..trace })
    }

    /// Opens the file for one reading. Also returns the counter of the bytes read.
    fn open_file(
        path: &Path,
        format: Option<Format>,
        names: Option<ColumnNames>,
    ) -> Result<(Trace, Arc<AtomicU64>), TraceError> {
        let name = path.to_string_lossy().into_owned();
        let read = Arc::new(AtomicU64::new(0));
        let mut trace = Trace::read_as(
            Trace::counted(path, &name, &read)?,
            &name,
            format,
            names,
            Some(path),
        )?;
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
        Trace::read_as(bytes, name, format, None, None)
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
        Trace::read_as(bytes, name, None, Some(names), None)
    }

    fn read_as(
        bytes: impl Read + Send + 'static,
        name: &str,
        format: Option<Format>,
        names: Option<ColumnNames>,
        path: Option<&Path>,
    ) -> Result<Trace, TraceError> {
        let failed = |error| TraceError::new(name, error);
        let mut source = source::open(bytes).map_err(failed)?;
        let registry = FormatRegistry::installed();
        let format = format
            .map_or_else(
                || registry.of_source(name, &mut source, names.is_some()),
                Ok,
            )
            .map_err(failed)?;
        let requests = match format.entry().open {
            Open::Bytes(open) => open(source.bytes),
            Open::Columns(open) => open(source.bytes, names),
            Open::File(open) => {
                let path = path.filter(|path| path.is_file() && !source.is_compressed);
                let not_seekable = TraceProblem::NotSeekable {
                    format: format.name(),
                };
                let path = path.ok_or_else(|| failed(ReadError::new(Place::File, not_seekable)))?;
                let file =
                    File::open(path).map_err(|error| failed(ReadError::new(Place::File, error)))?;
                open(file, names).map_err(failed)?
            }
        };
        let (position, latest) = (None, Time::ZERO);
        Ok(Trace {
            name: name.to_owned(),
            format,
            requests,
            position,
            ended: false,
            latest,
            late_requests: 0,
            requests_read: 0,
            first_late: None,
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
        let read = self.requests.read(accesses, most);
        self.ended = accesses.len() < most;
        for access in accesses {
            self.never_back(access);
        }
        read.map_err(|error| TraceError::new(&self.name, error))
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
        match self.requests.next() {
            Ok(Some(mut access)) => {
                self.never_back(&mut access);
                Some(Ok(access))
            }
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(TraceError::new(&self.name, error)))
            }
        }
    }
}
