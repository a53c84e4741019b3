//! Scenarios: a network as a TOML file, and what became of it.
//!
//! A [`Scenario`] is read once and run with as many seeds as one likes; [`Scenario::run`] gives the
//! [`Figure`]s of one run: a component, a quantity, a value. Units are written as strings; an
//! unknown key, a node that is not there, a name that no route reaches are refused with the file's
//! line.
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

/// A network and what happens in it, as its file says.
#[derive(Debug)]
pub struct Scenario {
    tables: tables::Tables,
    /// Of the file that `[topology]` names.
    topology: Option<Topology>,
    /// Of each `[[trace]]`.
    traces: Vec<Requests>,
    text: String,
    source: String,
}

/// When, since the trace's first request, and for which object.
type Requests = Arc<[(Time, u64)]>;

/// A scenario that cannot be run. One line: the file, the line, what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError(String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// Reads a scenario that names no other files; `source` is the file's name, for errors. Its
    /// network is built once, so that what cannot be shows here.
    ///
    /// # Errors
    /// [`ScenarioError`] as the module says.
    pub fn parse(text: &str, source: &str) -> Result<Scenario, ScenarioError> {
        Scenario::parse_with(text, source, &|_| Err("no files here".to_owned()))
    }

    /// As [`Scenario::parse`]; `read` gives the bytes of the files that the scenario names
    /// (topologies, traces), by their names as they are written there, or says why it cannot.
    ///
    /// # Errors
    /// [`ScenarioError`] as the module says.
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
        // Names in Rocketfuel's files are in Latin-1 here and there.
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

    /// How long it runs, in virtual time.
    pub fn duration(&self) -> Duration {
        self.tables.duration
    }

    /// Runs it with a seed, and tells what became of it: from the end of the warm-up on.
    ///
    /// # Errors
    /// [`ScenarioError`] where time stands still.
    pub fn run(&self, seed: u64) -> Result<Vec<Figure>, ScenarioError> {
        let mut built = build::build(self, seed)?;
        let mut before = Record::take(&built);
        if !self.warm_up().is_zero() {
            before = self.until(&mut built, self.warm_up())?;
        }
        let after = self.until(&mut built, self.tables.duration)?;
        Ok(figures::figures(&built, &before, &after))
    }

    /// As [`Scenario::run`], and tells what happened on the way, the warm-up included. Watching
    /// changes nothing.
    ///
    /// # Errors
    /// [`ScenarioError`] where time stands still.
    pub fn watch(&self, seed: u64, watch: Watch) -> Result<(Vec<Figure>, Timeline), ScenarioError> {
        let mut built = build::build(self, seed)?;
        if watch.closely {
            built.note_delays();
        }
        let mut timeline = Timeline::new(&built);
        let step = timeline.step(watch.step, self.tables.duration);
        let mut before = Record::take(&built);
        let (mut counted_from, mut end) = (before.clone(), Duration::ZERO);
        while end < self.tables.duration {
            // A last step of some nanoseconds would tell of nothing.
            let left = self.tables.duration - end;
            let next = if left <= step + step / 100 { self.tables.duration } else { end + step };
            // The figures begin at the end of the warm-up, wherever the steps end.
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
        ran.map_err(|stuck| ScenarioError(format!("{}: {stuck}", self.source)))?;
        Ok(Record::take(built))
    }

    /// The error at this place of the file.
    fn fault(&self, span: &std::ops::Range<usize>, what: impl fmt::Display) -> ScenarioError {
        ScenarioError(format!("{}:{}: {what}", self.source, tables::line(&self.text, span.start)))
    }
}
