//! GraphML as in the Internet Topology Zoo (Knight, Nguyen, Falkner, Bowden and Roughan, IEEE JSAC
//! 29, 2011).
//!
//! The `label` of a node is its name, with `-` for blanks. If another node has this name, the
//! node's id is appended until the name is unique. `Latitude` and `Longitude` give the node's
//! position in drawings. The `LinkSpeedRaw` of an edge is its rate in bits per second. If the
//! scenario gives links no delay and both ends have a position, the delay is that of light in fibre
//! along the great circle (200 000 km/s). Several edges between two nodes become one link with the
//! highest rate.

use super::Topology;
use super::error::TopologyError;
use super::lines::Places;
use crate::link::LinkConfig;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use larder_units::BitRate;
use roxmltree::{Document, Node};
use std::time::Duration;

/// Kilometres.
const EARTH_RADIUS: f64 = 6371.0;
/// Kilometres per second.
const LIGHT_IN_FIBRE: f64 = 200_000.0;

pub(super) fn read(text: &str, link: &LinkConfig) -> Result<Topology, TopologyError> {
    let document = Document::parse(text)
        .map_err(|error| TopologyError::new(error.pos().row as usize, error.to_string()))?;
    let keys: HashMap<&str, &str, FixedState> = document
        .descendants()
        .filter(|node| is(node, "key"))
        .filter_map(|key| Some((key.attribute("id")?, key.attribute("attr.name")?)))
        .collect();
    let file = File {
        document: &document,
        keys,
    };
    let mut topology = Topology::default();
    let by_id = file.nodes(&mut topology)?;
    file.edges(&mut topology, &by_id, link)?;
    Ok(topology)
}

/// Compares names in any namespace: the Zoo's files use GraphML's, other files use none.
fn is(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

struct File<'a> {
    document: &'a Document<'a>,
    /// The attribute name of each key.
    keys: HashMap<&'a str, &'a str, FixedState>,
}

impl<'a> File<'a> {
    fn elements(&self, name: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
        self.document
            .descendants()
            .filter(move |node| is(node, name))
    }

    /// Returns an element's datum for this attribute name.
    fn datum(&self, of: Node<'a, 'a>, meaning: &str) -> Option<&'a str> {
        let means = |data: &Node<'_, '_>| {
            data.attribute("key").and_then(|key| self.keys.get(key)) == Some(&meaning)
        };
        of.children()
            .filter(|child| is(child, "data"))
            .find(means)?
            .text()
            .map(str::trim)
    }

    fn number(&self, of: Node<'a, 'a>, meaning: &str) -> Option<f64> {
        self.datum(of, meaning)?
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
    }

    fn fault(&self, at: Node<'_, '_>, problem: impl Into<String>) -> TopologyError {
        TopologyError::new(
            self.document.text_pos_at(at.range().start).row as usize,
            problem,
        )
    }

    fn nodes(
        &self,
        topology: &mut Topology,
    ) -> Result<HashMap<&'a str, usize, FixedState>, TopologyError> {
        let mut by_id = HashMap::default();
        let mut names: HashSet<String, FixedState> = HashSet::default();
        for node in self.elements("node") {
            let id = node
                .attribute("id")
                .ok_or_else(|| self.fault(node, "a node without id"))?;
            let label = self
                .datum(node, "label")
                .filter(|label| !label.is_empty())
                .unwrap_or(id);
            let mut name = label.split_whitespace().collect::<Vec<_>>().join("-");
            while names.contains(&name) {
                name = format!("{name}-{id}");
            }
            let place = topology.node(name.clone());
            names.insert(name);
            let coordinates = self
                .number(node, "Longitude")
                .zip(self.number(node, "Latitude"));
            topology.positions[place] =
                coordinates.map(|(longitude, latitude)| (longitude, -latitude));
            if by_id.insert(id, place).is_some() {
                return Err(self.fault(node, format!("a second node with id {id:?}")));
            }
        }
        Ok(by_id)
    }

    fn edges(
        &self,
        topology: &mut Topology,
        by_id: &HashMap<&'a str, usize, FixedState>,
        link: &LinkConfig,
    ) -> Result<(), TopologyError> {
        let mut places = Places::default();
        for edge in self.elements("edge") {
            let end = |name: &str| {
                let id = edge
                    .attribute(name)
                    .ok_or_else(|| self.fault(edge, format!("an edge without {name}")))?;
                by_id
                    .get(id)
                    .copied()
                    .ok_or_else(|| self.fault(edge, format!("no node has the id {id:?}")))
            };
            let (a, b) = (end("source")?, end("target")?);
            let rate = self
                .number(edge, "LinkSpeedRaw")
                .filter(|rate| (1.0..1e15).contains(rate));
            let rate = rate
                .map(|rate| BitRate::from_bits_per_second(rate as u64))
                .or(link.rate);
            if a == b {
                continue;
            }
            if let Some(known) = places.linked(a, b, topology.edges.len()) {
                let known = &mut topology.edges[known].config;
                known.rate = known.rate.max(rate);
            } else {
                let far = topology.positions[a]
                    .zip(topology.positions[b])
                    .filter(|_| link.delay.is_zero());
                let delay = far.map_or(link.delay, |(a, b)| {
                    Duration::from_secs_f64(great_circle(a, b) / LIGHT_IN_FIBRE)
                });
                topology.link(
                    a,
                    b,
                    &LinkConfig {
                        rate,
                        delay,
                        ..*link
                    },
                );
            }
        }
        Ok(())
    }
}

/// The distance in kilometres between two positions (longitude, −latitude) in degrees, by
/// haversines.
fn great_circle(a: (f64, f64), b: (f64, f64)) -> f64 {
    let [(x1, y1), (x2, y2)] = [a, b].map(|(x, y)| (x.to_radians(), y.to_radians()));
    let half = |angle: f64| (angle / 2.0).sin().powi(2);
    let haversine = half(y2 - y1) + y1.cos() * y2.cos() * half(x2 - x1);
    2.0 * EARTH_RADIUS * haversine.clamp(0.0, 1.0).sqrt().asin()
}
