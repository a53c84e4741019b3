//! The requests of a trace: arrays in memory, or a file that is read as a stream.

use crate::watch::{Watch, unless_stopped, whole};
use larder_replay::{
    Access, BadLines, Format, LogFormat, LogOptions, ReadOptions, Sample, Survey, Trace,
    TraceError, UrlPattern, Web, Windows, gather,
};
use larder_units::{Ratio, Streams, Time};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

/// The requests that are read from a file at a time, 6 MB.
const CHUNK_REQUESTS: usize = 1 << 18;

/// The requests of a trace.
#[pyclass(frozen)]
pub struct Source {
    name: String,
    requests: Stored,
    /// The bytes of all objects, once they are known.
    unique_bytes: OnceLock<u64>,
}

enum Stored {
    Columns {
        ids: Py<PyArray1<u64>>,
        sizes: Option<Py<PyArray1<u64>>>,
        times: Option<Py<PyArray1<u64>>>,
        is_log: bool,
    },
    File(Box<File>),
}

/// A trace file, and how it is read.
#[derive(Clone)]
pub struct File {
    path: PathBuf,
    options: ReadOptions,
    limit: Option<u64>,
}

/// What a caller says about a file, as the flags of the command line do.
#[derive(FromPyObject)]
pub struct FileOptions {
    format: Option<String>,
    columns: Option<String>,
    log_format: Option<String>,
    host: Option<String>,
    time_unit: Option<String>,
    uncacheable: Vec<String>,
    /// Seconds.
    ttl: Option<f64>,
    writes: bool,
    /// The largest share of bad lines; 0 ends at the first one.
    max_bad: f64,
}

impl FileOptions {
    /// Returns the options of the reader.
    ///
    /// # Errors
    /// If one has another form; the error names Python's argument.
    fn read_options(self) -> PyResult<ReadOptions> {
        let most = Ratio::new(self.max_bad)
            .ok_or_else(|| wrong(format!("max_bad {}: a share from 0 to 1", self.max_bad)))?;
        let lifetime = self.ttl.map(Duration::try_from_secs_f64).transpose();
        Ok(ReadOptions {
            format: parsed("format", self.format.as_deref())?,
            columns: parsed("columns", self.columns.as_deref())?,
            bad_lines: (self.max_bad > 0.0).then_some(BadLines { most }),
            log: LogOptions {
                format: parsed("log_format", self.log_format.as_deref())?
                    .map(|format: LogFormat| format.name().to_owned()),
                host: self.host,
                time_unit: parsed("time_unit", self.time_unit.as_deref())?,
                uncacheable: self
                    .uncacheable
                    .iter()
                    .map(|text| UrlPattern::new(text))
                    .collect(),
                writes: self.writes,
            },
            lifetime: lifetime.map_err(|error| wrong(format!("ttl: {error}")))?,
        })
    }
}

/// Reads the value of an argument.
fn parsed<T: FromStr<Err: Display>>(argument: &str, text: Option<&str>) -> PyResult<Option<T>> {
    text.map(str::parse)
        .transpose()
        .map_err(|error| wrong(format!("{argument}: {error}")))
}

#[pymethods]
impl Source {
    /// Takes arrays of equal length: ids, sizes in bytes, and ascending times in nanoseconds. The
    /// arrays are not copied. `is_log` says that they come from a web server's log.
    #[staticmethod]
    #[pyo3(signature = (name, ids, sizes, times, is_log))]
    fn columns(
        name: String,
        ids: Py<PyArray1<u64>>,
        sizes: Option<Py<PyArray1<u64>>>,
        times: Option<Py<PyArray1<u64>>>,
        is_log: bool,
    ) -> Source {
        Source {
            name,
            requests: Stored::Columns {
                ids,
                sizes,
                times,
                is_log,
            },
            unique_bytes: OnceLock::new(),
        }
    }

    /// Takes a file of a format of the command line.
    #[staticmethod]
    #[pyo3(signature = (name, path, options, limit))]
    fn file(
        name: String,
        path: PathBuf,
        options: FileOptions,
        limit: Option<u64>,
    ) -> PyResult<Source> {
        let file = File {
            path,
            options: options.read_options()?,
            limit,
        };
        Ok(Source {
            name,
            requests: Stored::File(Box::new(file)),
            unique_bytes: OnceLock::new(),
        })
    }

    /// Returns the name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the trace holds, as JSON.
    fn info(&self, py: Python<'_>) -> PyResult<String> {
        let borrowed = self.borrow(py)?;
        let requests = borrowed.requests()?;
        let report = whole(py, None, |watch| {
            let survey = survey(&requests, || !watch.stops())?;
            if survey.requests() == 0 && !watch.stops() {
                return Err(wrong(format!("{}: no request was read", self.name)));
            }
            // It sorts the objects.
            unless_stopped(watch, move || serde_json::to_string(&survey.report()))
                .transpose()
                .map_err(wrong)
        })?;
        // `whole` has a report unless it was interrupted, which is its error.
        report.ok_or_else(|| PyKeyboardInterrupt::new_err(()))
    }

    /// Reads the first `most` requests into arrays: ids, sizes in bytes, times in nanoseconds. With
    /// a `rate` below 1, reads only those for this share of the objects, which `seed` chooses. Also
    /// returns whether they come from a web server's log.
    #[pyo3(signature = (most, rate, seed))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        most: Option<u64>,
        rate: f64,
        seed: u64,
    ) -> PyResult<(Arrays<'py>, bool)> {
        let sample = Sample::of(rate, seed);
        let sample = sample.ok_or_else(|| {
            wrong(format!(
                "rate {rate}: a share above 0, up to 1, such as 0.01"
            ))
        })?;
        let borrowed = self.borrow(py)?;
        let requests = borrowed.requests()?;
        let most = most.map_or(usize::MAX, |most| {
            usize::try_from(most).unwrap_or(usize::MAX)
        });
        let (read, is_log) = whole(py, None, |watch| {
            let (mut read, mut sample) = (Vec::new(), sample.clone());
            let is_log = requests.chunks(|chunk| {
                let left = most - read.len();
                if rate < 1.0 {
                    let sampled = chunk.iter().filter_map(|access| sample.take(access));
                    read.extend(sampled.take(left).map(|sampled| sampled.access));
                } else {
                    // The hash of each object costs as much as the rest.
                    read.extend(chunk.iter().take(left).copied())
                }
                Ok(read.len() < most && !watch.stops())
            })?;
            Ok((read, is_log))
        })?;
        Ok((arrays(py, &read), is_log))
    }

    /// Generates requests of a Zipf-Mandelbrot law at the times of a Poisson process. With a
    /// `locality` below 1, each object's requests fall into a window of the trace.
    #[staticmethod]
    #[pyo3(signature = (requests, *, objects, exponent, shift, size, requests_per_second, locality, seed))]
    #[allow(
        clippy::too_many_arguments,
        reason = "the keyword arguments of a function in Python"
    )]
    fn generate(
        py: Python<'_>,
        requests: usize,
        objects: u64,
        exponent: f64,
        shift: f64,
        size: u64,
        requests_per_second: f64,
        locality: Option<f64>,
        seed: u64,
    ) -> PyResult<Arrays<'_>> {
        let web = Web {
            objects,
            exponent,
            shift,
            requests_per_second,
            object_bytes: size,
        };
        let streams = Streams::new(seed);
        let accesses = whole(py, None, |watch| {
            let mut generated = web.requests(&streams).map_err(wrong)?.take(requests);
            let mut accesses: Vec<Access> = Vec::new();
            while accesses.len() < requests && !watch.stops() {
                accesses.extend(generated.by_ref().take(CHUNK_REQUESTS));
            }
            match locality.filter(|_| !watch.stops()) {
                Some(least) => Windows::new(least, 1.0)
                    .and_then(|windows| gather(accesses, windows, &streams))
                    .map_err(wrong),
                None => Ok(accesses),
            }
        });
        Ok(arrays(py, &accesses?))
    }
}

impl Source {
    /// Borrows the arrays for the time of a call.
    pub fn borrow<'py>(&'py self, py: Python<'py>) -> PyResult<Borrowed<'py>> {
        Ok(match &self.requests {
            Stored::Columns {
                ids,
                sizes,
                times,
                is_log,
            } => Borrowed::Columns {
                ids: ids.bind(py).try_readonly()?,
                sizes: sizes
                    .as_ref()
                    .map(|sizes| sizes.bind(py).try_readonly())
                    .transpose()?,
                times: times
                    .as_ref()
                    .map(|times| times.bind(py).try_readonly())
                    .transpose()?,
                is_log: *is_log,
            },
            Stored::File(file) => Borrowed::File(file),
        })
    }

    /// Returns the bytes of all objects, for which the trace is read once. The number is
    /// meaningless if the work stops meanwhile.
    ///
    /// # Errors
    /// If the trace cannot be read, or has no request.
    pub fn unique_bytes(&self, requests: &Requests<'_>, watch: &Watch) -> PyResult<u64> {
        if let Some(known) = self.unique_bytes.get() {
            return Ok(*known);
        }
        let survey = survey(requests, || !watch.stops())?;
        if watch.stops() {
            return Ok(0);
        }
        if survey.requests() == 0 {
            return Err(wrong(format!("{}: no request was read", self.name)));
        }
        Ok(*self.unique_bytes.get_or_init(|| survey.unique_bytes()))
    }

    /// Returns the name of the trace for rows.
    pub fn trace_name(&self) -> &str {
        &self.name
    }
}

/// Ids, sizes in bytes, times in nanoseconds.
type Arrays<'py> = (
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
);

fn arrays<'py>(py: Python<'py>, accesses: &[Access]) -> Arrays<'py> {
    let array = |of: fn(&Access) -> u64| PyArray1::from_iter(py, accesses.iter().map(of));
    (
        array(|access| access.id),
        array(|access| access.size),
        array(|access| access.now.nanos()),
    )
}

/// Counts the requests while `goes_on`.
///
/// # Errors
/// If the trace cannot be read.
pub fn survey(requests: &Requests<'_>, goes_on: impl Fn() -> bool) -> PyResult<Survey> {
    let mut survey = Survey::default();
    requests.chunks(|chunk| {
        for access in chunk.iter() {
            survey.count(access);
        }
        Ok(goes_on())
    })?;
    Ok(survey)
}

/// A borrowed [`Source`].
pub enum Borrowed<'py> {
    /// Arrays in memory.
    Columns {
        /// The objects.
        ids: PyReadonlyArray1<'py, u64>,
        /// Bytes of each request, if the trace has sizes.
        sizes: Option<PyReadonlyArray1<'py, u64>>,
        /// Nanoseconds, if the trace has times.
        times: Option<PyReadonlyArray1<'py, u64>>,
        /// True if they come from a web server's log.
        is_log: bool,
    },
    /// A file.
    File(&'py File),
}

impl Borrowed<'_> {
    /// Returns the requests as slices, which any thread can read.
    ///
    /// # Errors
    /// If an array is not contiguous, or the arrays have different lengths.
    pub fn requests(&self) -> PyResult<Requests<'_>> {
        let Borrowed::Columns {
            ids,
            sizes,
            times,
            is_log,
        } = self
        else {
            let Borrowed::File(file) = self else {
                unreachable!("the other variant")
            };
            return Ok(Requests::File(file));
        };
        let ids = ids.as_slice()?;
        let sizes = sizes.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let times = times.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        if [sizes, times]
            .into_iter()
            .flatten()
            .any(|column| column.len() != ids.len())
        {
            return Err(wrong("the arrays have different lengths"));
        }
        Ok(Requests::Columns(Columns {
            ids,
            sizes,
            times,
            is_log: *is_log,
        }))
    }
}

/// The requests of a trace, without Python.
pub enum Requests<'a> {
    /// In memory.
    Columns(Columns<'a>),
    /// In a file.
    File(&'a File),
}

/// Arrays of equal length.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    ids: &'a [u64],
    sizes: Option<&'a [u64]>,
    times: Option<&'a [u64]>,
    /// True if they come from a web server's log.
    pub is_log: bool,
}

impl Columns<'_> {
    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Replaces the content of `accesses` by up to `most` requests from the one at `start` on.
    pub fn read(&self, start: usize, most: usize, accesses: &mut Vec<Access>) {
        let end = self.len().min(start.saturating_add(most));
        accesses.clear();
        accesses.extend(self.ids[start..end].iter().map(|id| Access {
            id: *id,
            size: 1,
            now: Time::ZERO,
        }));
        if let Some(sizes) = self.sizes {
            for (access, size) in accesses.iter_mut().zip(&sizes[start..end]) {
                access.size = *size;
            }
        }
        if let Some(times) = self.times {
            for (access, at) in accesses.iter_mut().zip(&times[start..end]) {
                access.now = Time::from_nanos(*at);
            }
        }
    }
}

impl Requests<'_> {
    /// Returns true if some object has more than one byte. Of a file, the first requests tell.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn has_sizes(&self) -> PyResult<bool> {
        if let Requests::Columns(columns) = self {
            return Ok(columns
                .sizes
                .is_some_and(|sizes| sizes.iter().any(|size| *size > 1)));
        }
        let mut has_sizes = false;
        self.chunks(|chunk| {
            has_sizes = chunk.iter().any(|access| access.size > 1);
            Ok(false)
        })?;
        Ok(has_sizes)
    }

    /// Passes all requests to `take` in chunks, until it has enough. Returns whether they come from
    /// a web server's log.
    ///
    /// # Errors
    /// If the trace cannot be read, or `take` fails.
    pub fn chunks(
        &self,
        mut take: impl FnMut(&mut Vec<Access>) -> PyResult<bool>,
    ) -> PyResult<bool> {
        let mut chunk = Vec::new();
        match self {
            Requests::Columns(columns) => {
                for start in (0..columns.len()).step_by(CHUNK_REQUESTS) {
                    columns.read(start, CHUNK_REQUESTS, &mut chunk);
                    if !take(&mut chunk)? {
                        break;
                    }
                }
                Ok(columns.is_log)
            }
            Requests::File(file) => {
                let mut trace = file.open()?;
                let is_log = trace.format() == Format::WEB_LOG;
                file.chunks(&mut trace, CHUNK_REQUESTS, take)?;
                Ok(is_log)
            }
        }
    }
}

impl File {
    /// Returns the most requests to read.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Opens it for a caller that may read it again.
    ///
    /// # Errors
    /// If it cannot be read or recognised.
    pub fn open(&self) -> PyResult<Trace> {
        Trace::open_with(&self.path, &self.options).map_err(of_python)
    }

    /// Returns false for a pipe and its like, whose bytes can be read only once.
    pub fn is_regular(&self) -> bool {
        self.path.metadata().is_ok_and(|file| file.is_file())
    }

    /// Opens it for a caller that reads it once; see [`Trace::open_once`].
    ///
    /// # Errors
    /// If it cannot be read or recognised.
    pub fn open_once(&self) -> PyResult<Trace> {
        Trace::open_once(&self.path, &self.options).map_err(of_python)
    }

    /// Passes the requests of this opened file to `take`, up to `most` at a time, until it has
    /// enough.
    ///
    /// # Errors
    /// If the file cannot be read, or `take` fails.
    pub fn chunks(
        &self,
        trace: &mut Trace,
        most: usize,
        mut take: impl FnMut(&mut Vec<Access>) -> PyResult<bool>,
    ) -> PyResult<()> {
        let (mut chunk, mut left) = (Vec::new(), self.limit.unwrap_or(u64::MAX));
        loop {
            trace
                .read_many(&mut chunk, left.min(most as u64) as usize)
                .map_err(of_python)?;
            left -= chunk.len() as u64;
            if chunk.is_empty() || !take(&mut chunk)? {
                return Ok(());
            }
        }
    }
}

/// A ValueError about a trace, which names Python's arguments.
pub fn of_python(error: TraceError) -> PyErr {
    const NAMES: [(&str, &str); 5] = [
        (
            "--columns time=…,id=…,size=…",
            "columns=\"time=…,id=…,size=…\"",
        ),
        ("--log-format", "log_format="),
        ("--format", "format="),
        ("--columns", "columns="),
        ("--max-bad", "max_bad"),
    ];
    let mut text = error.to_string();
    for (flag, argument) in NAMES {
        text = text.replace(flag, argument);
    }
    wrong(text)
}

/// A ValueError with this message.
pub fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}
