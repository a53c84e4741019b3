//! The applications of a scenario.

use super::caching::Placed;
use super::file::{Requests, ScenarioError, ScenarioFile};
use super::nodes::{find, matches, no_node};
use super::tables::{CbrTable, RandomizeTable, TraceTable};
use crate::apps::{
    Cbr, CbrConfig, Fetch, Names, Payload, Producer, ProducerConfig, Randomize, Serve, TraceShare,
    ZipfMandelbrot,
};
use crate::{App, AppId, NodeId, Simulation};
use larder_packet::Name;
use larder_transfer::{Clock, CongestionSpec};
use larder_units::{ByteSize, Time};
use std::collections::HashSet;
use std::time::Duration;
use toml::Spanned;

/// Bytes of a Data without its content: name, length fields, signature.
const AROUND_CONTENT: u64 = 256;

/// The default InterestLifetime, as in ndnSIM.
const LIFETIME: Duration = Duration::from_secs(2);

/// A served prefix, its producer, and the nodes without a path to it.
pub(super) struct Served {
    pub(super) prefix: Name,
    pub(super) app: AppId,
    unreachable: HashSet<NodeId>,
}

pub(super) fn make_producers(
    scenario: &ScenarioFile,
    network: &mut Simulation,
) -> Result<Vec<Served>, ScenarioError> {
    let mut served = Vec::new();
    let largest = scenario.tables.nodes.largest_packet.map_or(
        larder_forwarder::limits::MAX_PACKET_BYTES as u64,
        ByteSize::bytes,
    );
    let mut serve =
        |network: &mut Simulation, at: &Spanned<String>, prefix: &Name, app: Box<dyn App>| {
            let node = find(scenario, network, at)?;
            let refuse = |error: crate::ConfigError| scenario.fault(&at.span(), error);
            let app = network.add_app(node, app);
            let unreachable = network
                .serve(prefix, app)
                .map_err(refuse)?
                .into_iter()
                .collect();
            served.push(Served {
                prefix: prefix.clone(),
                app,
                unreachable,
            });
            Ok(())
        };
    for table in &scenario.tables.producer {
        let (payload, whole) = match (table.payload, table.packet) {
            (None, Some(packet)) => {
                let bytes = packet.bytes();
                let least = Producer::least_packet(&table.prefix, table.freshness);
                if bytes < least as u64 {
                    let what = format!(
                        "a packet of {bytes} bytes has no room for its name: give at least {least}"
                    );
                    return Err(scenario.fault(&table.node.span(), what));
                }
                (Payload::Packet(bytes as usize), bytes)
            }
            (payload, None) => {
                let bytes = payload.map_or(1024, ByteSize::bytes);
                let whole = bytes.saturating_add(AROUND_CONTENT);
                (Payload::Content(bytes as usize), whole)
            }
            (Some(_), Some(_)) => {
                let what = "payload and packet: keep one; packet is the size of the whole Data";
                return Err(scenario.fault(&table.node.span(), what));
            }
        };
        if whole > largest {
            let (Payload::Content(bytes) | Payload::Packet(bytes)) = payload;
            let part = if table.packet.is_some() {
                "packet"
            } else {
                "payload"
            };
            let what = format!(
                "a {part} of {bytes} bytes does not fit into packets of {largest}: set largest-packet in [nodes]"
            );
            return Err(scenario.fault(&table.node.span(), what));
        }
        let config = ProducerConfig {
            payload,
            freshness: table.freshness,
        };
        serve(
            network,
            &table.node,
            &table.prefix,
            Box::new(Producer::new(config)),
        )?;
    }
    for table in &scenario.tables.file {
        let segment = table.segment.map_or(
            larder_transfer::limits::DEFAULT_SEGMENT_BYTES as u64,
            ByteSize::bytes,
        );
        let file = Serve::new(table.name.clone(), table.size, segment as usize);
        let file = file.map_err(|error| scenario.fault(&table.node.span(), error))?;
        serve(network, &table.node, &table.name, Box::new(file))?;
    }
    Ok(served)
}

pub(super) fn make_consumers(
    scenario: &ScenarioFile,
    network: &mut Simulation,
    served: &[Served],
    cache_hosts: &[Placed],
) -> Result<Vec<(String, AppId)>, ScenarioError> {
    let cache_hosts: Vec<Name> = cache_hosts
        .iter()
        .map(|cache_host| cache_host.name.clone())
        .collect();
    let mut builder = ConsumerBuilder {
        scenario,
        network,
        served,
        cache_hosts,
        consumers: Vec::new(),
        labels: HashSet::new(),
    };
    for table in &scenario.tables.cbr {
        builder.cbr(table)?;
    }
    for (table, requests) in scenario.tables.trace.iter().zip(&scenario.traces) {
        builder.trace(table, requests)?;
    }
    for table in &scenario.tables.fetch {
        let node = builder.node_that_reaches(&table.node, &table.name)?;
        let label = builder.unused(format!("fetch {} {}", table.node.get_ref(), table.name));
        let congestion = table.congestion.clone().unwrap_or_default().build();
        let stream = builder.network.streams().stream(&label);
        let app = Fetch::new(
            table.name.clone(),
            Time::ZERO + table.start,
            congestion,
            stream,
        );
        builder.add(node, label, Box::new(app));
    }
    for table in &scenario.tables.window {
        let node = builder.node_that_reaches(&table.node, &table.prefix)?;
        let label = builder.unused(format!("window {} {}", table.node.get_ref(), table.prefix));
        let congestion = table.congestion.clone().unwrap_or_default().build();
        let clock = clock(scenario, table.tick, table.smoothing.as_ref())?;
        let stream = builder.network.streams().stream(&label);
        let app = Fetch::endless(
            table.prefix.clone(),
            Time::ZERO + table.start,
            congestion,
            clock,
            stream,
        );
        builder.add(node, label, Box::new(app));
    }
    Ok(builder.consumers)
}

/// Returns the clock of a consumer.
fn clock(
    scenario: &ScenarioFile,
    tick: Option<Duration>,
    smoothing: Option<&Spanned<bool>>,
) -> Result<Clock, ScenarioError> {
    match (tick, smoothing) {
        (None, Some(smoothing)) => Err(scenario.fault(
            &smoothing.span(),
            "smoothing without tick: a fine clock sends each Interest when it is due; set tick",
        )),
        (None, None) => Ok(Clock::default()),
        (Some(tick), smoothing) => Ok(Clock {
            tick,
            smoothing: smoothing.is_none_or(|smoothing| *smoothing.get_ref()),
        }),
    }
}

struct ConsumerBuilder<'a> {
    scenario: &'a ScenarioFile,
    network: &'a mut Simulation,
    served: &'a [Served],
    cache_hosts: Vec<Name>,
    consumers: Vec<(String, AppId)>,
    labels: HashSet<String>,
}

impl ConsumerBuilder<'_> {
    fn cbr(&mut self, table: &CbrTable) -> Result<(), ScenarioError> {
        let (nodes, prefixes) = self.places(&table.node, &table.prefix)?;
        let clock = clock(self.scenario, table.tick, table.smoothing.as_ref())?;
        // All consumers share one table, which may be long.
        let names = table.zipf.map_or(Names::Sequence { end: None }, |zipf| {
            Names::Popularity(ZipfMandelbrot::new(zipf.contents, zipf.q, zipf.s))
        });
        for node in nodes {
            let config = CbrConfig {
                prefixes: prefixes.clone(),
                cache_hosts: self.cache_hosts.clone(),
                frequency: table.frequency,
                randomize: match table.randomize {
                    RandomizeTable::None => Randomize::None,
                    RandomizeTable::Uniform => Randomize::Uniform,
                    RandomizeTable::Exponential => Randomize::Exponential,
                },
                names: names.clone(),
                lifetime: Some(table.lifetime.unwrap_or(LIFETIME)),
                start: Time::ZERO + table.start,
                stop: table.stop.map_or(Time::MAX, |stop| Time::ZERO + stop),
                clock,
            };
            let congestion = table.congestion.as_ref();
            self.add_cbr("cbr", node, table.prefix.get_ref(), config, congestion);
        }
        Ok(())
    }

    /// Distributes the trace's requests to the nodes in turn.
    fn trace(&mut self, table: &TraceTable, requests: &Requests) -> Result<(), ScenarioError> {
        let (nodes, prefixes) = self.places(&table.node, &table.prefix)?;
        let step = nodes.len();
        for (first, node) in nodes.into_iter().enumerate() {
            let share = TraceShare {
                requests: requests.clone(),
                first,
                step,
                timed: table.frequency.is_none(),
            };
            let config = CbrConfig {
                prefixes: prefixes.clone(),
                cache_hosts: self.cache_hosts.clone(),
                frequency: table.frequency.unwrap_or(1.0) / step as f64,
                randomize: Randomize::None,
                names: Names::Trace(share),
                lifetime: Some(table.lifetime.unwrap_or(LIFETIME)),
                start: Time::ZERO + table.start,
                stop: Time::MAX,
                clock: Clock::default(),
            };
            self.add_cbr("trace", node, table.prefix.get_ref(), config, None);
        }
        Ok(())
    }

    fn add_cbr(
        &mut self,
        kind: &str,
        node: NodeId,
        prefix: &str,
        config: CbrConfig,
        congestion: Option<&CongestionSpec>,
    ) {
        let label = self.unused(format!("{kind} {} {prefix}", self.network.node_name(node)));
        let mut app = Cbr::new(config, self.network.streams().stream(&label));
        if let Some(congestion) = congestion {
            app.set_congestion_control(congestion.build());
        }
        self.add(node, label, Box::new(app));
    }

    fn add(&mut self, node: NodeId, label: String, app: Box<dyn App>) {
        let added = self.network.add_app(node, app);
        self.consumers.push((label, added));
    }

    /// Returns the label, with a number if the label is taken, so that each consumer has its own
    /// random stream.
    fn unused(&mut self, label: String) -> String {
        let mut numbered = label.clone();
        let mut number = 2;
        while !self.labels.insert(numbered.clone()) {
            numbered = format!("{label} ({number})");
            number += 1;
        }
        numbered
    }

    /// Returns the nodes and the prefixes that match, after a check that each node reaches each
    /// prefix.
    fn places(
        &self,
        at: &Spanned<String>,
        prefix: &Spanned<String>,
    ) -> Result<(Vec<NodeId>, Vec<Name>), ScenarioError> {
        let ConsumerBuilder {
            scenario,
            network,
            served,
            ..
        } = self;
        let all = || network.nodes().map(|node| (node, network.node_name(node)));
        let pattern = at.get_ref().as_str();
        let nodes: Vec<NodeId> = if pattern.contains('*') {
            all()
                .filter(|(_, name)| matches(pattern, name))
                .map(|(node, _)| node)
                .collect()
        } else {
            vec![find(scenario, network, at)?]
        };
        if nodes.is_empty() {
            return Err(no_node(
                scenario,
                &at.span(),
                pattern,
                all().map(|(_, name)| name),
            ));
        }
        let pattern = prefix.get_ref().as_str();
        let prefixes: Vec<Name> = if pattern.contains('*') {
            let prefixes = served.iter().map(|served| &served.prefix);
            prefixes
                .filter(|name| matches(pattern, &name.to_string()))
                .cloned()
                .collect()
        } else {
            let parsed = pattern.parse::<Name>();
            vec![parsed.map_err(|error| scenario.fault(&prefix.span(), error))?]
        };
        if prefixes.is_empty() {
            return Err(self.no_producer(at, pattern));
        }
        for node in &nodes {
            prefixes
                .iter()
                .try_for_each(|prefix| self.check_route(at, *node, prefix))?;
        }
        Ok((nodes, prefixes))
    }

    fn node_that_reaches(
        &self,
        at: &Spanned<String>,
        name: &Name,
    ) -> Result<NodeId, ScenarioError> {
        let node = find(self.scenario, self.network, at)?;
        self.check_route(at, node, name)?;
        Ok(node)
    }

    fn check_route(
        &self,
        at: &Spanned<String>,
        node: NodeId,
        name: &Name,
    ) -> Result<(), ScenarioError> {
        let mut serving = self
            .served
            .iter()
            .filter(|served| name.as_name().starts_with(served.prefix.as_name()))
            .peekable();
        if serving.peek().is_none() {
            return Err(self.no_producer(at, name));
        }
        if serving.any(|served| !served.unreachable.contains(&node)) {
            Ok(())
        } else {
            let from = self.network.node_name(node);
            let what = format!("no route from {from} to {name}: no links lead to its producer");
            Err(self.scenario.fault(&at.span(), what))
        }
    }

    fn no_producer(&self, at: &Spanned<String>, name: impl std::fmt::Display) -> ScenarioError {
        self.scenario
            .fault(&at.span(), no_producer(name, self.served))
    }
}

/// Returns the error of a name that no producer serves.
pub(super) fn no_producer(name: impl std::fmt::Display, served: &[Served]) -> String {
    let known: Vec<String> = served
        .iter()
        .take(20)
        .map(|served| served.prefix.to_string())
        .collect();
    if known.is_empty() {
        format!("no producer serves {name}; there is no producer")
    } else {
        format!("no producer serves {name}; there is {}", known.join(", "))
    }
}
