//! Scenarios: a network as a TOML file, and what became of it.
//!
//! A [`Scenario`] is read once and run with as many seeds as one likes; [`Scenario::run`] gives the [`Figure`]s of one run: a component, a quantity,
//! a value. Units are written as strings; an unknown key, a node that is not there, a name that no route reaches are refused with the file's line.
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

mod build;
mod figures;
mod tables;

pub use figures::Figure;

use std::fmt;

/// A network and what happens in it, as its file says.
#[derive(Debug)]
pub struct Scenario {
    tables: tables::Tables,
    text: String,
    source: String,
}

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
    /// Reads a scenario; `source` is the file's name, for errors. Its network is built once, so that what cannot be shows here.
    ///
    /// # Errors
    /// [`ScenarioError`] as the module says.
    pub fn parse(text: &str, source: &str) -> Result<Scenario, ScenarioError> {
        let tables = toml::from_str(text).map_err(|error| ScenarioError(tables::explain(&error, text, source)))?;
        let scenario = Scenario { tables, text: text.to_owned(), source: source.to_owned() };
        build::build(&scenario, 0)?;
        Ok(scenario)
    }

    /// Runs it with a seed, and tells what became of it.
    ///
    /// # Errors
    /// [`ScenarioError`] where time stands still.
    pub fn run(&self, seed: u64) -> Result<Vec<Figure>, ScenarioError> {
        let mut built = build::build(self, seed)?;
        let end = larder_units::Time::ZERO + self.tables.duration;
        built.network.run_until(end).map_err(|stuck| ScenarioError(format!("{}: {stuck}", self.source)))?;
        Ok(figures::figures(&built, end))
    }

    /// The error at this place of the file.
    fn fault(&self, span: &std::ops::Range<usize>, what: impl fmt::Display) -> ScenarioError {
        ScenarioError(format!("{}:{}: {what}", self.source, tables::line(&self.text, span.start)))
    }
}
