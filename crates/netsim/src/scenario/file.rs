//! The scenario file: its tables, and the topology and traces of the files that it names.

use super::tables::{self, Tables, TraceTable};
use crate::limits::TRACE_REQUESTS;
use crate::topology::{FileFormat, Topology};
use larder_units::{Time, format_duration};
use std::fmt;
use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A scenario that cannot be run, as one line: the file, the line, the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError(pub(super) String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

/// The time since the trace's first request, and the object.
pub(super) type Requests = Arc<[(Time, u64)]>;

/// A scenario as read from its file.
#[derive(Debug)]
pub(super) struct ScenarioFile {
    pub(super) tables: Tables,
    /// The topology of the file that `[topology]` names.
    pub(super) topology: Option<Topology>,
    /// The requests of each `[[trace]]`.
    pub(super) traces: Vec<Requests>,
    text: String,
    /// The file's name, for errors.
    pub(super) source: String,
}

impl ScenarioFile {
    /// Reads the file and the files that it names; see [`super::Scenario::parse_with`].
    pub(super) fn read(
        text: &str,
        source: &str,
        read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Result<ScenarioFile, ScenarioError> {
        let tables = toml::from_str(text).map_err(|error| ScenarioError(tables::explain(&error, text, source)))?;
        let (text, source) = (text.to_owned(), source.to_owned());
        let mut file = ScenarioFile { tables, topology: None, traces: Vec::new(), text, source };
        let duration = file.tables.duration;
        if let Some(warm_up) = file.tables.warm_up.as_ref().filter(|_| file.warm_up() >= duration) {
            let whole = format_duration(duration);
            return Err(file.fault(&warm_up.span(), format_args!("the warm-up is as long as the whole run, {whole}")));
        }
        file.topology = file.read_topology(read)?;
        let traces: Result<_, _> = file.tables.trace.iter().map(|table| file.read_trace(table, read)).collect();
        file.traces = traces?;
        Ok(file)
    }

    fn read_topology(&self, read: &dyn Fn(&str) -> Result<Vec<u8>, String>) -> Result<Option<Topology>, ScenarioError> {
        let Some(spanned) = &self.tables.topology else { return Ok(None) };
        let table = spanned.get_ref();
        let fault = |what: String| self.fault(&spanned.span(), what);
        let bytes = read(&table.file).map_err(|error| fault(format!("cannot read {}: {error}", table.file)))?;
        // Rocketfuel's files contain some names in Latin-1.
        let text = String::from_utf8_lossy(&bytes);
        let format = table.format.unwrap_or_else(|| FileFormat::of(&table.file, &text));
        let topology = Topology::read(&text, format, &table.link.0);
        topology.map(Some).map_err(|error| fault(format!("{}: {error}", table.file)))
    }

    fn read_trace(
        &self,
        table: &TraceTable,
        read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Requests, ScenarioError> {
        let file = table.file.get_ref();
        let fault = |what: String| self.fault(&table.file.span(), what);
        let bytes = read(file).map_err(|error| fault(format!("cannot read {file}: {error}")))?;
        let trace =
            larder_replay::Trace::read(Cursor::new(bytes), file, None).map_err(|error| fault(error.to_string()))?;
        let mut requests = Vec::new();
        let mut first = None;
        for access in trace {
            let access = access.map_err(|error| fault(error.to_string()))?;
            let first = *first.get_or_insert(access.now);
            if requests.len() >= TRACE_REQUESTS {
                return Err(fault(format!("{file} has more than {TRACE_REQUESTS} requests")));
            }
            requests.push((Time::ZERO + access.now.since(first), access.id));
        }
        Ok(requests.into())
    }

    pub(super) fn warm_up(&self) -> Duration {
        self.tables.warm_up.as_ref().map_or(Duration::ZERO, |warm_up| warm_up.get_ref().0)
    }

    /// Returns an error for this position in the file.
    pub(super) fn fault(&self, span: &Range<usize>, what: impl fmt::Display) -> ScenarioError {
        ScenarioError(format!("{}:{}: {what}", self.source, tables::line(&self.text, span.start)))
    }
}
