//! Topology files with one line per node or link: ndnSIM's and Rocketfuel's.

use super::Topology;
use super::error::TopologyError;
use crate::link::{Depth, LinkConfig, Queueing};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_units::{BitRate, UnitError, parse_duration};
use std::fmt;
use std::time::Duration;

/// Nodes and links by name, while a file is read.
#[derive(Default)]
pub(super) struct Places {
    by_name: HashMap<String, usize, FixedState>,
    linked: HashMap<[usize; 2], usize, FixedState>,
}

impl Places {
    /// Returns the node of this name, and adds it if it is new.
    pub(super) fn of(&mut self, topology: &mut Topology, name: &str) -> usize {
        match self.by_name.get(name) {
            Some(place) => *place,
            None => {
                let place = topology.node(name);
                self.by_name.insert(name.to_owned(), place);
                place
            }
        }
    }

    fn known(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Returns the link between these two nodes. If there is none, records `link` as their link.
    /// Many files have each link twice, once from each end.
    pub(super) fn linked(&mut self, a: usize, b: usize, link: usize) -> Option<usize> {
        let ends = [a.min(b), a.max(b)];
        let known = self.linked.get(&ends).copied();
        if known.is_none() {
            self.linked.insert(ends, link);
        }
        known
    }
}

/// The lines that are not empty and not comments, with their numbers from 1.
fn with_numbers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Reads ndnSIM's format: `router`, then lines `name comment y x`; `link`, then lines
/// `node node rate metric delay queue`, of which the last three may be left out. The queue is a
/// number of packets.
pub(super) fn annotated(text: &str, link: &LinkConfig) -> Result<Topology, TopologyError> {
    let mut topology = Topology::default();
    let mut places = Places::default();
    let mut section = "";
    for (number, line) in with_numbers(text) {
        if matches!(line, "router" | "link") {
            section = line;
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let fault = |problem: String| TopologyError::new(number, problem);
        match section {
            "router" => {
                if places.known(words[0]).is_some() {
                    return Err(fault(format!("a second router {}", words[0])));
                }
                let place = places.of(&mut topology, words[0]);
                // In ndnSIM, y grows downwards.
                let [y, x] =
                    [2, 3].map(|at| words.get(at).and_then(|word| word.parse::<f64>().ok()));
                topology.positions[place] =
                    x.zip(y).filter(|(x, y)| x.is_finite() && y.is_finite());
            }
            "link" => {
                let of_line = |error: LineError| fault(error.to_string());
                let [a, b] = ends(&words, &places).map_err(of_line)?;
                let config = annotated_link(&words, link).map_err(of_line)?;
                topology.link(a, b, &config);
            }
            _ => {
                return Err(fault(format!(
                    "{line:?} is before the first section: expected `router`"
                )));
            }
        }
    }
    Ok(topology)
}

/// The problem of a link's line.
enum LineError {
    /// It has fewer than two nodes.
    Ends,
    UnknownRouter(String),
    /// Both ends are this router.
    Loop(String),
    Rate(String),
    Metric(String),
    Delay(UnitError),
    Queue(String),
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineError::Ends => f.write_str("a link has two nodes"),
            LineError::UnknownRouter(name) => write!(f, "no router {name}"),
            LineError::Loop(name) => write!(f, "a link from {name} to itself"),
            LineError::Rate(rate) => write!(f, "{rate:?} is not a rate such as 10Mbps"),
            LineError::Metric(metric) => {
                write!(f, "{metric:?} is not a metric: expected a whole number")
            }
            LineError::Delay(error) => error.fmt(f),
            LineError::Queue(queue) => write!(f, "{queue:?} is not a number of packets"),
        }
    }
}

fn ends(words: &[&str], places: &Places) -> Result<[usize; 2], LineError> {
    let end = |at: usize| {
        let name = words.get(at).ok_or(LineError::Ends)?;
        places
            .known(name)
            .ok_or_else(|| LineError::UnknownRouter((*name).to_owned()))
    };
    let (a, b) = (end(0)?, end(1)?);
    if a == b {
        Err(LineError::Loop(words[0].to_owned()))
    } else {
        Ok([a, b])
    }
}

fn annotated_link(words: &[&str], link: &LinkConfig) -> Result<LinkConfig, LineError> {
    let mut config = *link;
    if let Some(rate) = words.get(2) {
        config.rate = Some(ns3_rate(rate).ok_or_else(|| LineError::Rate((*rate).to_owned()))?);
    }
    if let Some(metric) = words.get(3) {
        config.metric = metric
            .parse()
            .map_err(|_| LineError::Metric((*metric).to_owned()))?;
    }
    if let Some(delay) = words.get(4) {
        config.delay = parse_duration(delay).map_err(LineError::Delay)?;
    }
    if let Some(queue) = words.get(5) {
        let packets: usize = queue
            .parse()
            .map_err(|_| LineError::Queue((*queue).to_owned()))?;
        config.queue = Queueing::DropTail(Depth::Packets(packets));
    }
    Ok(config)
}

/// Parses a rate in ns-3's notation, which also allows Kbps and Kb/s. A rate of zero is refused.
fn ns3_rate(text: &str) -> Option<BitRate> {
    let text = text.replace("b/s", "bps").replace("Kbps", "kbps");
    text.parse::<BitRate>()
        .ok()
        .filter(|rate| rate.bits_per_second() > 0)
}

/// Reads Rocketfuel's `.cch`:
/// `uid @place [+] [bb] (neighbours) [&outside] -> <uid> … {-euid} … =name[!] rN`. One end's line
/// suffices for a link. Lines that begin with `-` are routers of other networks and are skipped.
pub(super) fn rocketfuel(text: &str, link: &LinkConfig) -> Result<Topology, TopologyError> {
    let mut topology = Topology::default();
    let mut places = Places::default();
    for (number, line) in with_numbers(text) {
        let fault = |problem: String| TopologyError::new(number, problem);
        let (head, tail) = line.split_once("->").unwrap_or((line, ""));
        let uid = head.split_whitespace().next().unwrap_or_default();
        if uid.starts_with('-') && uid.len() > 1 {
            continue;
        }
        if uid.parse::<u32>().is_err() {
            return Err(fault(format!("{uid:?} is not a router's number")));
        }
        let from = places.of(&mut topology, uid);
        for word in tail.split_whitespace() {
            let Some(peer) = word
                .strip_prefix('<')
                .and_then(|word| word.strip_suffix('>'))
            else {
                continue;
            };
            if peer.parse::<u32>().is_err() {
                return Err(fault(format!("{peer:?} is not a router's number")));
            }
            let to = places.of(&mut topology, peer);
            if from != to && places.linked(from, to, topology.edges.len()).is_none() {
                topology.link(from, to, link);
            }
        }
    }
    Ok(topology)
}

/// Reads Rocketfuel's weights and latencies: `node node number`. Metrics are whole numbers, so a
/// weight counts in tenths.
pub(super) fn triples(
    text: &str,
    link: &LinkConfig,
    are_latencies: bool,
) -> Result<Topology, TopologyError> {
    let mut topology = Topology::default();
    let mut places = Places::default();
    for (number, line) in with_numbers(text) {
        let fault = |problem: String| TopologyError::new(number, problem);
        let words: Vec<&str> = line.split_whitespace().collect();
        let [a, b, value] = words[..] else {
            return Err(fault(format!(
                "{} words: expected node, node and a number",
                words.len()
            )));
        };
        let value: f64 = value
            .parse()
            .map_err(|_| fault(format!("{value:?} is not a number")))?;
        if !(0.0..=1e9).contains(&value) {
            return Err(fault(format!("{value} is out of range")));
        }
        let (a, b) = (places.of(&mut topology, a), places.of(&mut topology, b));
        if a == b || places.linked(a, b, topology.edges.len()).is_some() {
            continue;
        }
        let config = if are_latencies {
            LinkConfig {
                delay: Duration::from_secs_f64(value / 1e3),
                ..*link
            }
        } else {
            LinkConfig {
                metric: (value * 10.0).round() as u64,
                ..*link
            }
        };
        topology.link(a, b, &config);
    }
    Ok(topology)
}
