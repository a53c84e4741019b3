//! Topologies from files: ndnSIM's annotated ones, Rocketfuel's maps and weights, GraphML of the
//! Internet Topology Zoo.
//!
//! What a file does not say of a link, the scenario says. Nodes keep the file's order. Each reader
//! takes any bytes: what it cannot read is refused with the line, in one line of text.

use super::{Topology, graphml, lines};
use crate::limits;
use crate::link::LinkConfig;
use serde::Deserialize;
use std::fmt;

/// How a topology file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileFormat {
    /// ndnSIM's `AnnotatedTopologyReader`: sections `router` and `link`.
    Annotated,
    /// Rocketfuel's router-level maps (Spring, Mahajan and Wetherall, SIGCOMM 2002), `.cch`:
    /// `uid @place … -> <uid> …`. Links to other networks' routers are left out.
    Rocketfuel,
    /// Rocketfuel's inferred weights: `node node weight` a line, either direction or both.
    Weights,
    /// Rocketfuel's link latencies: `node node milliseconds` a line.
    Latencies,
    /// GraphML, as the Internet Topology Zoo has it (Knight et al., JSAC 29, 2011).
    Graphml,
}

/// A file that is no topology: the line, from 1, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError {
    /// From 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// One line of text.
    pub problem: String,
}

impl TopologyError {
    /// What the problem quotes of the file may hold line breaks; they are escaped.
    pub(super) fn new(line: usize, problem: impl Into<String>) -> Self {
        let problem: String = problem.into();
        let problem = problem.chars().flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        });
        TopologyError { line, problem: problem.collect() }
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.problem),
            line => write!(f, "line {line}: {}", self.problem),
        }
    }
}

impl std::error::Error for TopologyError {}

impl FileFormat {
    /// By the file's name, or else by how it begins.
    pub fn of(name: &str, text: &str) -> FileFormat {
        let mut words = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let first = words.next().unwrap_or_default();
        match name.rsplit('.').next() {
            Some("cch") => FileFormat::Rocketfuel,
            Some("graphml" | "xml") => FileFormat::Graphml,
            _ if first.starts_with('<') => FileFormat::Graphml,
            _ if first == "router" || first == "link" => FileFormat::Annotated,
            _ if name.contains("latencies") => FileFormat::Latencies,
            _ => FileFormat::Weights,
        }
    }
}

impl Topology {
    /// Reads a file; `link` is what its links are like where it does not say.
    ///
    /// # Errors
    /// [`TopologyError`] with the line.
    pub fn read(text: &str, format: FileFormat, link: &LinkConfig) -> Result<Topology, TopologyError> {
        let topology = match format {
            FileFormat::Annotated => lines::annotated(text, link)?,
            FileFormat::Rocketfuel => lines::rocketfuel(text, link)?,
            FileFormat::Weights | FileFormat::Latencies => lines::triples(text, link, format == FileFormat::Latencies)?,
            FileFormat::Graphml => graphml::read(text, link)?,
        };
        match () {
            () if topology.nodes.is_empty() => Err(TopologyError::new(0, "no nodes in it")),
            () if topology.nodes.len() > limits::NODES => {
                Err(TopologyError::new(0, format!("more than {} nodes", limits::NODES)))
            }
            () if topology.edges.len() > limits::LINKS => {
                Err(TopologyError::new(0, format!("more than {} links", limits::LINKS)))
            }
            () => Ok(topology),
        }
    }
}
