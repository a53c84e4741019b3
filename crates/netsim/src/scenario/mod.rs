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
mod file;
mod http;
mod nodes;
mod record;
mod routes;
mod tables;
mod timeline;
mod values;

pub use figures::Figure;
pub use file::{ReadFile, ScenarioError, ScenarioProblem};
pub use timeline::{
    ChannelStep, ConsumerStep, NodeStep, Step, Timeline, TimelineChannel, TimelineNode, Watch,
};

use file::ScenarioFile;
use larder_units::Time;
use record::Record;
use std::io;
use std::time::Duration;

/// A network and its events, as in the scenario file.
#[derive(Debug)]
pub struct Scenario {
    file: ScenarioFile,
    warnings: Vec<String>,
}

impl Scenario {
    /// Reads a scenario that names no other files; `source` is the file's name, for errors. The
    /// network is built once, to find errors in it.
    ///
    /// # Errors
    /// [`ScenarioError`] as in the module's documentation.
    pub fn parse(text: &str, source: &str) -> Result<Scenario, ScenarioError> {
        Scenario::parse_with(text, source, &|_| {
            Err(io::Error::other("this scenario may not name files"))
        })
    }

    /// Reads a scenario; `read` returns the bytes of a file that the scenario names (a topology or
    /// a trace), or the reason why it cannot be read.
    ///
    /// # Errors
    /// [`ScenarioError`] as in the module's documentation.
    pub fn parse_with(
        text: &str,
        source: &str,
        read: ReadFile<'_>,
    ) -> Result<Scenario, ScenarioError> {
        let file = ScenarioFile::read(text, source, read)?;
        let built = build::build(&file, 0)?;
        let warnings = routes::warning(&file, &built.network).into_iter().collect();
        Ok(Scenario { file, warnings })
    }

    /// Settings that have no effect, each as one line with the file's name.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The length of a run in virtual time.
    pub fn duration(&self) -> Duration {
        self.file.tables.duration
    }

    /// Runs the scenario with a seed, and returns the figures from the end of the warm-up on.
    ///
    /// # Errors
    /// [`ScenarioError`] if the run does not end.
    pub fn run(&self, seed: u64) -> Result<Vec<Figure>, ScenarioError> {
        let mut built = build::build(&self.file, seed)?;
        let mut before = Record::take(&built);
        if !self.file.warm_up().is_zero() {
            before = self.until(&mut built, self.file.warm_up())?;
        }
        let after = self.until(&mut built, self.duration())?;
        Ok(figures::figures(&built, &before, &after))
    }

    /// Runs the scenario with a seed, and returns the figures and a timeline that includes the
    /// warm-up. Recording the timeline changes nothing in the run.
    ///
    /// # Errors
    /// [`ScenarioError`] if the run does not end.
    pub fn watch(&self, seed: u64, watch: Watch) -> Result<(Vec<Figure>, Timeline), ScenarioError> {
        let mut built = build::build(&self.file, seed)?;
        if watch.closely {
            built.record_delays();
        }
        let mut timeline = Timeline::new(&built);
        let step = timeline.step(watch.step, self.duration());
        let mut before = Record::take(&built);
        let (mut counted_from, mut end) = (before.clone(), Duration::ZERO);
        while end < self.duration() {
            // Merges a last step of some nanoseconds with the step before it.
            let left = self.duration() - end;
            let next = if left <= step + step / 100 {
                self.duration()
            } else {
                end + step
            };
            // The figures begin at the end of the warm-up, which may be inside a step.
            if end < self.file.warm_up() && self.file.warm_up() <= next {
                counted_from = self.until(&mut built, self.file.warm_up())?;
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
        ran.map_err(|error| self.file.failed(error))?;
        Ok(Record::take(built))
    }
}
