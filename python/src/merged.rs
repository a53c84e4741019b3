//! Several traces as one in the order of time, whatever their order in the list. Traces of the same
//! time, such as the logs of two servers, are merged. A file is open only while its time is.

use crate::trace::{File, Requests, of_python};
use larder_replay::{Access, Format, Trace, TraceReport};
use larder_units::Time;
use pyo3::prelude::*;

/// The requests read at a time: lines of a log take some milliseconds.
const STEP_REQUESTS: usize = 1 << 14;

/// The requests of all traces.
pub struct Merged<'a> {
    /// In the order of their first requests.
    pub inputs: Vec<Input<'a>>,
}

/// A trace, as far as it was read.
pub struct Input<'a> {
    pub name: &'a str,
    /// The format of a file; that of logs for columns from a log.
    pub format: Option<Format>,
    /// What the reader of a file says so far.
    pub report: Option<TraceReport>,
    requests: &'a Requests<'a>,
    /// The time of the first request. A trace that begins later need not be open.
    first: Time,
    is_begun: bool,
    /// The file, while it is read.
    trace: Option<Trace>,
    /// Requests that were read, of those the next one, and all so far.
    chunk: Vec<Access>,
    next: usize,
    read: usize,
}

impl<'a> Merged<'a> {
    /// Sorts the traces by their first requests, unless there is only one.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn new(traces: &'a [(&'a str, Requests<'a>)]) -> PyResult<Merged<'a>> {
        let input = |(name, requests): &'a (&str, Requests<'a>)| Input::new(name, requests);
        let mut inputs = traces.iter().map(input).collect::<PyResult<Vec<_>>>()?;
        match &mut inputs[..] {
            // A pipe can be read only once.
            [only] => only.begin()?,
            _ => {
                for input in &mut inputs {
                    input.look_at_first()?;
                }
                inputs.sort_by_key(|input| input.first);
            }
        }
        Ok(Merged { inputs })
    }

    /// Returns the next requests, all of one trace; `None` at the end.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn next(&mut self) -> PyResult<Option<&[Access]>> {
        let mut earliest: Option<(usize, Time)> = None;
        for (place, input) in self.inputs.iter_mut().enumerate() {
            if !input.is_begun && earliest.is_some_and(|(_, now)| now <= input.first) {
                break;
            }
            if let Some(now) = input.head()?
                && earliest.is_none_or(|(_, time)| now < time)
            {
                earliest = Some((place, now));
            }
        }
        let Some((place, _)) = earliest else {
            return Ok(None);
        };
        // Of requests at the same time, those of the first trace come first.
        let others = self.inputs.iter().enumerate();
        let limit = others
            .filter(|(other, _)| *other != place)
            .filter_map(|(other, input)| Some((input.known_head()?, other)))
            .min();
        let input = &mut self.inputs[place];
        let start = input.next;
        let rest = &input.chunk[start..];
        let until = limit.map_or(rest.len(), |limit| {
            rest.partition_point(|access| (access.now, place) < limit)
        });
        input.next += until.max(1);
        Ok(Some(&input.chunk[start..input.next]))
    }
}

impl<'a> Input<'a> {
    fn new(name: &'a str, requests: &'a Requests<'a>) -> PyResult<Input<'a>> {
        let format = match requests {
            Requests::File(_) => None,
            Requests::Columns(columns) => columns.is_log.then_some(Format::WEB_LOG),
        };
        Ok(Input {
            name,
            format,
            report: None,
            requests,
            first: Time::ZERO,
            is_begun: false,
            trace: None,
            chunk: Vec::new(),
            next: 0,
            read: 0,
        })
    }

    /// Reads the first request, and closes the file again. A pipe can be read only once, so it
    /// stays open.
    fn look_at_first(&mut self) -> PyResult<()> {
        let mut first = Vec::new();
        match self.requests {
            Requests::Columns(columns) => columns.read(0, 1, &mut first),
            Requests::File(file) => {
                let mut trace = file.open_once()?;
                self.format = Some(trace.format());
                if file.is_regular() {
                    trace.read_many(&mut first, 1).map_err(of_python)?;
                } else {
                    self.is_begun = true;
                    self.trace = Some(trace);
                    self.fill()?;
                    first.extend(self.chunk.first().copied());
                }
            }
        }
        self.first = first.first().map_or(Time::ZERO, |access| access.now);
        Ok(())
    }

    fn begin(&mut self) -> PyResult<()> {
        self.is_begun = true;
        if let Requests::File(file) = self.requests {
            let trace = file.open_once()?;
            self.format = Some(trace.format());
            self.trace = Some(trace);
        }
        Ok(())
    }

    /// Returns the time of the next request; `None` at the end.
    fn head(&mut self) -> PyResult<Option<Time>> {
        if !self.is_begun {
            self.begin()?;
        }
        if self.next == self.chunk.len() {
            self.next = 0;
            self.fill()?;
        }
        Ok(self.known_head())
    }

    /// Returns the time of the next request if it was read, or of the first one.
    fn known_head(&self) -> Option<Time> {
        if self.is_begun {
            self.chunk.get(self.next).map(|access| access.now)
        } else {
            Some(self.first)
        }
    }

    fn fill(&mut self) -> PyResult<()> {
        match self.requests {
            Requests::Columns(columns) => columns.read(self.read, STEP_REQUESTS, &mut self.chunk),
            Requests::File(file) => match &mut self.trace {
                Some(trace) => {
                    let most = rest_of(file, self.read).min(STEP_REQUESTS);
                    trace.read_many(&mut self.chunk, most).map_err(of_python)?;
                    self.report = Some(trace.report());
                    if self.chunk.is_empty() {
                        self.trace = None;
                    }
                }
                None => self.chunk.clear(),
            },
        }
        self.read += self.chunk.len();
        Ok(())
    }
}

/// Returns the requests that a caller may still take of a file.
fn rest_of(file: &File, read: usize) -> usize {
    let limit = file.limit().unwrap_or(u64::MAX);
    usize::try_from(limit)
        .unwrap_or(usize::MAX)
        .saturating_sub(read)
}
