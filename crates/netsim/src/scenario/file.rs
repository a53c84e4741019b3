//! The scenario file: its tables, and the topology and traces of the files that it names.

use super::tables::{self, Tables, TraceTable};
use crate::error::{ConfigError, RunError};
use crate::limits::TRACE_REQUESTS;
use crate::topology::{FileFormat, Topology};
use larder_units::{Time, format_duration};
use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// A scenario that cannot be run, as one line: the file, the line, the problem.
#[derive(Debug)]
pub struct ScenarioError {
    /// The name of the scenario's file.
    pub source: String,
    /// The line, from 1; `None` if the problem concerns the whole scenario.
    pub line: Option<usize>,
    /// The problem.
    pub problem: ScenarioProblem,
}

/// The reason why a scenario cannot be run.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScenarioProblem {
    /// The file, or a file that it names, has an invalid value. One line that names it.
    Invalid(String),
    /// The network cannot be built.
    Network(Box<ConfigError>),
    /// The run does not end.
    Run(RunError),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl fmt::Display for ScenarioProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScenarioProblem::Invalid(problem) => f.write_str(problem),
            ScenarioProblem::Network(error) => error.fmt(f),
            ScenarioProblem::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ScenarioError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            ScenarioProblem::Invalid(_) => None,
            ScenarioProblem::Network(error) => Some(&**error),
            ScenarioProblem::Run(error) => Some(error),
        }
    }
}

impl From<ConfigError> for ScenarioProblem {
    fn from(error: ConfigError) -> Self {
        ScenarioProblem::Network(Box::new(error))
    }
}

impl From<RunError> for ScenarioProblem {
    fn from(error: RunError) -> Self {
        ScenarioProblem::Run(error)
    }
}

/// Reads the files that a scenario names.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> io::Result<Vec<u8>>;

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
        read: ReadFile<'_>,
    ) -> Result<ScenarioFile, ScenarioError> {
        let tables = toml::from_str(text).map_err(|error: toml::de::Error| ScenarioError {
            source: source.to_owned(),
            line: error.span().map(|span| tables::line(text, span.start)),
            problem: ScenarioProblem::Invalid(tables::explain(&error)),
        })?;
        let (text, source) = (text.to_owned(), source.to_owned());
        let mut file = ScenarioFile {
            tables,
            topology: None,
            traces: Vec::new(),
            text,
            source,
        };
        let duration = file.tables.duration;
        if let Some(warm_up) = file
            .tables
            .warm_up
            .as_ref()
            .filter(|_| file.warm_up() >= duration)
        {
            let whole = format_duration(duration);
            return Err(file.fault(
                &warm_up.span(),
                format_args!("the warm-up is as long as the whole run, {whole}"),
            ));
        }
        file.topology = file.read_topology(read)?;
        let traces: Result<_, _> = file
            .tables
            .trace
            .iter()
            .map(|table| file.read_trace(table, read))
            .collect();
        file.traces = traces?;
        Ok(file)
    }

    fn read_topology(&self, read: ReadFile<'_>) -> Result<Option<Topology>, ScenarioError> {
        let Some(spanned) = &self.tables.topology else {
            return Ok(None);
        };
        let table = spanned.get_ref();
        let fault = |what: String| self.fault(&spanned.span(), what);
        let bytes = read(&table.file)
            .map_err(|error| fault(format!("cannot read {}: {error}", table.file)))?;
        // Rocketfuel's files contain some names in Latin-1.
        let text = String::from_utf8_lossy(&bytes);
        let format = table
            .format
            .unwrap_or_else(|| FileFormat::of(&table.file, &text));
        let topology = Topology::read(&text, format, &table.link.0);
        topology
            .map(Some)
            .map_err(|error| fault(format!("{}: {error}", table.file)))
    }

    fn read_trace(
        &self,
        table: &TraceTable,
        read: ReadFile<'_>,
    ) -> Result<Requests, ScenarioError> {
        let file = table.file.get_ref();
        let fault = |what: String| self.fault(&table.file.span(), what);
        let bytes = read(file).map_err(|error| fault(format!("cannot read {file}: {error}")))?;
        let trace = larder_replay::Trace::read(Cursor::new(bytes), file, None)
            .map_err(|error| fault(error.to_string()))?;
        let mut requests = Vec::new();
        let mut first = None;
        for access in trace {
            let access = access.map_err(|error| fault(error.to_string()))?;
            let first = *first.get_or_insert(access.now);
            if requests.len() >= TRACE_REQUESTS {
                return Err(fault(format!(
                    "{file} has more than {TRACE_REQUESTS} requests"
                )));
            }
            requests.push((Time::ZERO + access.now.since(first), access.id));
        }
        Ok(requests.into())
    }

    pub(super) fn warm_up(&self) -> Duration {
        self.tables
            .warm_up
            .as_ref()
            .map_or(Duration::ZERO, |warm_up| warm_up.get_ref().0)
    }

    /// Returns an error for this position in the file.
    pub(super) fn fault(&self, span: &Range<usize>, what: impl fmt::Display) -> ScenarioError {
        let problem = ScenarioProblem::Invalid(what.to_string());
        ScenarioError {
            source: self.source.clone(),
            line: Some(tables::line(&self.text, span.start)),
            problem,
        }
    }

    /// Returns an error for the whole scenario.
    pub(super) fn failed(&self, problem: impl Into<ScenarioProblem>) -> ScenarioError {
        ScenarioError {
            source: self.source.clone(),
            line: None,
            problem: problem.into(),
        }
    }
}
