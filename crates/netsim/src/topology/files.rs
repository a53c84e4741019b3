//! Topologies from files: ndnSIM's annotated files, Rocketfuel's maps and weights, GraphML of the
//! Internet Topology Zoo.
//!
//! The scenario gives the properties of links that a file leaves out. Nodes keep the order of the
//! file. Each reader accepts any bytes: an error names the line in one line of text.

use super::error::TopologyError;
use super::{Topology, graphml, lines};
use crate::limits;
use crate::link::LinkConfig;
use serde::Deserialize;

/// The format of a topology file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileFormat {
    /// ndnSIM's `AnnotatedTopologyReader`: sections `router` and `link`.
    Annotated,
    /// Rocketfuel's router-level maps (Spring, Mahajan and Wetherall, SIGCOMM 2002), `.cch`:
    /// `uid @place … -> <uid> …`. Links to routers of other networks are left out.
    Rocketfuel,
    /// Rocketfuel's inferred weights: lines `node node weight`, for one direction or both.
    Weights,
    /// Rocketfuel's link latencies: lines `node node milliseconds`.
    Latencies,
    /// GraphML of the Internet Topology Zoo (Knight et al., JSAC 29, 2011).
    Graphml,
}

impl FileFormat {
    /// Guesses the format from the file's name, or else from its beginning.
    pub fn of(name: &str, text: &str) -> FileFormat {
        let mut words = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
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
    /// Reads a file; `link` has the properties of links that the file leaves out.
    ///
    /// # Errors
    /// [`TopologyError`] with the line.
    pub fn read(
        text: &str,
        format: FileFormat,
        link: &LinkConfig,
    ) -> Result<Topology, TopologyError> {
        let topology = match format {
            FileFormat::Annotated => lines::annotated(text, link)?,
            FileFormat::Rocketfuel => lines::rocketfuel(text, link)?,
            FileFormat::Weights | FileFormat::Latencies => {
                lines::triples(text, link, format == FileFormat::Latencies)?
            }
            FileFormat::Graphml => graphml::read(text, link)?,
        };
        match () {
            () if topology.nodes.is_empty() => Err(TopologyError::new(0, "no nodes in it")),
            () if topology.nodes.len() > limits::NODES => Err(TopologyError::new(
                0,
                format!("more than {} nodes", limits::NODES),
            )),
            () if topology.edges.len() > limits::LINKS => Err(TopologyError::new(
                0,
                format!("more than {} links", limits::LINKS),
            )),
            () => Ok(topology),
        }
    }
}
