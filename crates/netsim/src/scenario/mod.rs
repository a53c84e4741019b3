//! Scenarios: a network as a TOML file, and the figures of its runs.
//!
//! A [`Scenario`] is read once and run with any number of seeds. [`Scenario::run`] returns the
//! [`Figure`]s of one run: a component, a quantity, a value. Quantities are strings with units. An
//! unknown key, an unknown node or a name without a route is refused with the line of the file.
//!
//! ```
//! use larder_netsim::scenario::Scenario;
//!
//! let text = r#"
//! duration = "1s"
//! [line]
//! nodes = 3
//! link = { rate = "10Mbps", delay = "5ms" }
//! [[producer]]
//! node = "n2"
//! prefix = "/a"
//! [[cbr]]
//! node = "n0"
//! prefix = "/a"
//! frequency = 100
//! "#;
//! let scenario = Scenario::parse(text, "three.toml").unwrap();
//! let figures = scenario.run(1).unwrap();
//! assert!(figures.iter().any(|figure| figure.component == "cbr n0 /a" && figure.quantity == "data" && figure.value > 90.0));
//! let error = Scenario::parse(&text.replace("frequency", "frequenzy"), "three.toml").unwrap_err();
//! assert!(error.to_string().starts_with("three.toml:12: unknown field `frequenzy`") && error.to_string().ends_with("did you mean `frequency`?"));
//! ```

mod apps;
mod build;
mod caching;
mod figures;
mod http;
mod record;
mod tables;
mod timeline;
mod values;

pub use figures::Figure;
pub use timeline::{ChannelStep, ConsumerStep, NodeStep, Step, Timeline, TimelineChannel, TimelineNode, Watch};

use crate::limits::TRACE_REQUESTS;
use crate::topology::{FileFormat, Topology};
use larder_units::{Time, format_duration};
use record::Record;
use std::fmt;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

/// A network and its events, as in the scenario file.
#[derive(Debug)]
pub struct Scenario {
    tables: tables::Tables,
    /// The topology of the file that `[topology]` names.
    topology: Option<Topology>,
    /// The requests of each `[[trace]]`.
    traces: Vec<Requests>,
    text: String,
    source: String,
}

/// The time since the trace's first request, and the object.
type Requests = Arc<[(Time, u64)]>;

/// A scenario that cannot be run, as one line: the file, the line, the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError(String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// Reads a scenario that names no other files; `source` is the file's name, for errors. The
    /// network is built once, to find errors in it.
    ///
    /// # Errors
    /// [`ScenarioError`] as in the module's documentation.
    pub fn parse(text: &str, source: &str) -> Result<Scenario, ScenarioError> {
        Scenario::parse_with(text, source, &|_| Err("no files here".to_owned()))
    }

    /// Reads a scenario; `read` returns the bytes of a file that the scenario names (a topology or
    /// a trace), or the reason why it cannot be read.
    ///
    /// # Errors
    /// [`ScenarioError`] as in the module's documentation.
    pub fn parse_with(
        text: &str,
        source: &str,
        read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Scenario, ScenarioError> {
        let tables = toml::from_str(text).map_err(|error| ScenarioError(tables::explain(&error, text, source)))?;
        let mut scenario =
            Scenario { tables, topology: None, traces: Vec::new(), text: text.to_owned(), source: source.to_owned() };
        if let Some(warm_up) = scenario.tables.warm_up.as_ref().filter(|_| scenario.warm_up() >= scenario.duration()) {
            let whole = format_duration(scenario.duration());
            return Err(
                scenario.fault(&warm_up.span(), format_args!("the warm-up is as long as the whole run, {whole}"))
            );
        }
        scenario.topology = scenario.read_topology(read)?;
        let traces: Result<_, _> = scenario.tables.trace.iter().map(|table| scenario.read_trace(table, read)).collect();
        scenario.traces = traces?;
        build::build(&scenario, 0)?;
        Ok(scenario)
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
        table: &tables::TraceTable,
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

    fn warm_up(&self) -> Duration {
        self.tables.warm_up.as_ref().map_or(Duration::ZERO, |warm_up| warm_up.get_ref().0)
    }

    /// The length of a run in virtual time.
    pub fn duration(&self) -> Duration {
        self.tables.duration
    }

    /// Runs the scenario with a seed, and returns the figures from the end of the warm-up on.
    ///
    /// # Errors
    /// [`ScenarioError`] if the run does not end.
    pub fn run(&self, seed: u64) -> Result<Vec<Figure>, ScenarioError> {
        let mut built = build::build(self, seed)?;
        let mut before = Record::take(&built);
        if !self.warm_up().is_zero() {
            before = self.until(&mut built, self.warm_up())?;
        }
        let after = self.until(&mut built, self.tables.duration)?;
        Ok(figures::figures(&built, &before, &after))
    }

    /// Runs the scenario with a seed, and returns the figures and a timeline that includes the
    /// warm-up. Recording the timeline changes nothing in the run.
    ///
    /// # Errors
    /// [`ScenarioError`] if the run does not end.
    pub fn watch(&self, seed: u64, watch: Watch) -> Result<(Vec<Figure>, Timeline), ScenarioError> {
        let mut built = build::build(self, seed)?;
        if watch.closely {
            built.record_delays();
        }
        let mut timeline = Timeline::new(&built);
        let step = timeline.step(watch.step, self.tables.duration);
        let mut before = Record::take(&built);
        let (mut counted_from, mut end) = (before.clone(), Duration::ZERO);
        while end < self.tables.duration {
            // Merges a last step of some nanoseconds with the step before it.
            let left = self.tables.duration - end;
            let next = if left <= step + step / 100 { self.tables.duration } else { end + step };
            // The figures begin at the end of the warm-up, which may be inside a step.
            if end < self.warm_up() && self.warm_up() <= next {
                counted_from = self.until(&mut built, self.warm_up())?;
            }
            let after = self.until(&mut built, next)?;
            timeline.add(&built, &before, &after, watch.closely);
            (before, end) = (after, next);
        }
        timeline.take_delays(&built);
        Ok((figures::figures(&built, &counted_from, &before), timeline))
    }

    fn until(&self, built: &mut build::Built, after: Duration) -> Result<Record, ScenarioError> {
        let ran = built.network.run_until(Time::ZERO + after);
        ran.map_err(|error| ScenarioError(format!("{}: {error}", self.source)))?;
        Ok(Record::take(built))
    }

    /// Returns an error for this position in the file.
    fn fault(&self, span: &std::ops::Range<usize>, what: impl fmt::Display) -> ScenarioError {
        ScenarioError(format!("{}:{}: {what}", self.source, tables::line(&self.text, span.start)))
    }
}
