//! From tables to a network.

use super::tables::{FaultTable, NodeTable, OneNodeTable, RandomizeTable, StoreTable};
use super::{Scenario, ScenarioError};
use crate::apps::{Cbr, CbrConfig, Fetch, Names, Payload, Producer, ProducerConfig, Randomize, Serve, ZipfMandelbrot};
use crate::{AppId, Fault, LinkId, NodeConfig, NodeId, Simulation, Topology};
use larder_packet::Name;
use larder_units::{ByteSize, Time};
use std::fmt::Display;
use std::ops::Range;
use toml::Spanned;

/// Bytes of a Data beside its content: name, length fields, signature.
const AROUND_CONTENT: u64 = 256;

pub(super) struct Built {
    pub(super) network: Simulation,
    /// The consumers, by their figures' names.
    pub(super) consumers: Vec<(String, AppId)>,
}

/// A prefix, and the nodes that cannot reach who serves it.
struct Served {
    prefix: Name,
    unreachable: Vec<NodeId>,
}

pub(super) fn build(scenario: &Scenario, seed: u64) -> Result<Built, ScenarioError> {
    let mut network = Simulation::new(seed);
    make_nodes(scenario, &mut network)?;
    let served = make_producers(scenario, &mut network)?;
    let consumers = make_consumers(scenario, &mut network, &served)?;
    plan_faults(scenario, &mut network)?;
    Ok(Built { network, consumers })
}

// ---- Nodes and links ----

fn make_nodes(scenario: &Scenario, network: &mut Simulation) -> Result<(), ScenarioError> {
    let tables = &scenario.tables;
    let topology = topology(scenario, network)?;
    let all = with(NodeConfig::default(), &tables.nodes);
    let config = |name: &str| match tables.node.iter().find(|one| one.name.get_ref() == name) {
        None => all.clone(),
        Some(OneNodeTable { policy, content_store, strategy, .. }) => {
            let (policy, content_store, strategy) = (policy.clone(), *content_store, strategy.clone());
            with(all.clone(), &NodeTable { policy, content_store, strategy, largest_packet: None })
        }
    };
    topology.build(network, config).map_err(|error| ScenarioError(format!("{}: {error}", scenario.source)))?;
    Ok(())
}

fn with(mut config: NodeConfig, table: &NodeTable) -> NodeConfig {
    if let Some(policy) = &table.policy {
        config.policy = policy.clone();
    }
    if let Some(strategy) = &table.strategy {
        config.strategy = Some(strategy.clone());
    }
    if let Some(largest) = table.largest_packet {
        config.max_packet_bytes = usize::try_from(largest.bytes()).unwrap_or(usize::MAX);
    }
    if let Some(StoreTable(capacity)) = table.content_store {
        config.capacity = capacity;
    }
    config
}

/// The shape that is asked for, with the nodes and links that are named one by one.
fn topology(scenario: &Scenario, network: &Simulation) -> Result<Topology, ScenarioError> {
    let tables = &scenario.tables;
    let shapes = [
        tables.line.as_ref().map(|line| Topology::line(line.nodes, &line.link.0)),
        tables.dumbbell.as_ref().map(|table| Topology::dumbbell(table.pairs, &table.edge.0, &table.backbone.0)),
        tables.tree.as_ref().map(|tree| Topology::tree(tree.children, tree.levels, &tree.link.0)),
        tables.grid.as_ref().map(|grid| Topology::grid(grid.width, grid.height, &grid.link.0)),
        tables.scale_free.as_ref().map(|table| {
            Topology::scale_free(table.nodes, table.links, &table.link.0, network.streams().stream("topology"))
        }),
    ];
    let mut shapes = shapes.into_iter().flatten();
    let mut topology = shapes.next().unwrap_or_default();
    if shapes.next().is_some() {
        return Err(ScenarioError(format!(
            "{}: two shapes: keep one of [line], [dumbbell], [tree], [grid], [scale-free]",
            scenario.source
        )));
    }
    if topology.nodes.len() > crate::limits::NODES {
        return Err(ScenarioError(format!(
            "{}: {} nodes: the most is {}",
            scenario.source,
            topology.nodes.len(),
            crate::limits::NODES
        )));
    }
    for (at, one) in tables.node.iter().enumerate() {
        let name = one.name.get_ref();
        if tables.node[..at].iter().any(|earlier| earlier.name.get_ref() == name) {
            return Err(scenario.fault(&one.name.span(), format_args!("a second [[node]] {name}")));
        }
        if !topology.nodes.contains(name) {
            topology.node(name.clone());
        }
    }
    for link in &tables.link {
        let span = link.ends.span();
        let [a, b] = link.ends.get_ref();
        let place = |name: &str| topology.nodes.iter().position(|node| node == name);
        let found = [a, b].map(|name| place(name).ok_or_else(|| no_node(scenario, &span, name, topology.nodes.iter())));
        let [a, b] = found;
        let (a, b) = (a?, b?);
        if a == b {
            return Err(scenario.fault(&span, format_args!("a link from {} to itself", topology.nodes[a])));
        }
        topology.link(a, b, &link.like.0);
    }
    // Mostly a name with a slip of the pen, which is not of the shape then.
    let is_linked =
        |name: &String| topology.edges.iter().any(|edge| edge.ends.iter().any(|end| topology.nodes[*end] == *name));
    if let Some(alone) = tables.node.iter().find(|one| topology.nodes.len() > 1 && !is_linked(one.name.get_ref())) {
        let name = alone.name.get_ref();
        return Err(scenario
            .fault(&alone.name.span(), format_args!("no [[link]] leads to node {name}, which the shape has not")));
    }
    if topology.nodes.is_empty() {
        return Err(ScenarioError(format!(
            "{}: no nodes: state a shape, such as [line], or [[node]] and [[link]]",
            scenario.source
        )));
    }
    Ok(topology)
}

// ---- Applications ----

fn make_producers(scenario: &Scenario, network: &mut Simulation) -> Result<Vec<Served>, ScenarioError> {
    let mut served = Vec::new();
    let largest =
        scenario.tables.nodes.largest_packet.map_or(larder_forwarder::limits::MAX_PACKET_BYTES as u64, ByteSize::bytes);
    for table in &scenario.tables.producer {
        let node = find(scenario, network, &table.node)?;
        let payload = table.payload.map_or(1024, ByteSize::bytes);
        if payload.saturating_add(AROUND_CONTENT) > largest {
            let what = format!(
                "a payload of {payload} bytes does not fit into packets of {largest}: set largest-packet in [nodes]"
            );
            return Err(scenario.fault(&table.node.span(), what));
        }
        let config = ProducerConfig { payload: Payload::Content(payload as usize), freshness: table.freshness };
        let refuse = |error: crate::ConfigError| scenario.fault(&table.node.span(), error);
        let app = network.add_app(node, Box::new(Producer::new(config))).map_err(refuse)?;
        let unreachable = network.serve(&table.prefix, app).map_err(refuse)?;
        served.push(Served { prefix: table.prefix.clone(), unreachable });
    }
    for table in &scenario.tables.file {
        let node = find(scenario, network, &table.node)?;
        let segment = table.segment.map_or(larder_transfer::limits::DEFAULT_SEGMENT_BYTES as u64, ByteSize::bytes);
        let refuse = |error: crate::ConfigError| scenario.fault(&table.node.span(), error);
        let file = Serve::new(table.name.clone(), table.size, segment as usize).map_err(refuse)?;
        let app = network.add_app(node, Box::new(file)).map_err(refuse)?;
        let unreachable = network.serve(&table.name, app).map_err(refuse)?;
        served.push(Served { prefix: table.name.clone(), unreachable });
    }
    Ok(served)
}

fn make_consumers(
    scenario: &Scenario,
    network: &mut Simulation,
    served: &[Served],
) -> Result<Vec<(String, AppId)>, ScenarioError> {
    let mut consumers = Vec::new();
    for table in &scenario.tables.cbr {
        let node = find(scenario, network, &table.node)?;
        check_route(scenario, served, &table.node, node, &table.prefix)?;
        let config = CbrConfig {
            frequency: table.frequency,
            randomize: match table.randomize {
                RandomizeTable::None => Randomize::None,
                RandomizeTable::Uniform => Randomize::Uniform,
                RandomizeTable::Exponential => Randomize::Exponential,
            },
            names: table.zipf.map_or(Names::Sequence { end: None }, |zipf| {
                Names::Popularity(ZipfMandelbrot::new(zipf.contents, zipf.q, zipf.s))
            }),
            lifetime: table.lifetime,
            start: Time::ZERO + table.start,
            stop: table.stop.map_or(Time::MAX, |stop| Time::ZERO + stop),
            ..CbrConfig::new(table.prefix.clone())
        };
        let label = unused(&consumers, format!("cbr {} {}", table.node.get_ref(), table.prefix));
        let app = Cbr::new(config, network.streams().stream(&label));
        let added = network.add_app_with_tick(node, Box::new(app), table.tick);
        consumers.push((label, added.map_err(|error| scenario.fault(&table.node.span(), error))?));
    }
    for table in &scenario.tables.fetch {
        let node = find(scenario, network, &table.node)?;
        check_route(scenario, served, &table.node, node, &table.name)?;
        let label = unused(&consumers, format!("fetch {} {}", table.node.get_ref(), table.name));
        let congestion = table.congestion.clone().unwrap_or_default().build();
        let start = Time::ZERO + table.start;
        let app = Fetch::new(table.name.clone(), start, congestion, network.streams().stream(&label));
        let added = network.add_app(node, Box::new(app));
        consumers.push((label, added.map_err(|error| scenario.fault(&table.node.span(), error))?));
    }
    Ok(consumers)
}

/// The label, with a number where there is one like it already: each has a random stream of its own.
fn unused(consumers: &[(String, AppId)], label: String) -> String {
    let numbered = |n: u32| format!("{label} ({n})");
    let is_used = |label: &String| consumers.iter().any(|(used, _)| used == label);
    match is_used(&label) {
        false => label,
        true => (2..).map(numbered).find(|label| !is_used(label)).unwrap_or(label.clone()),
    }
}

fn check_route(
    scenario: &Scenario,
    served: &[Served],
    at: &Spanned<String>,
    node: NodeId,
    name: &Name,
) -> Result<(), ScenarioError> {
    let serving = || served.iter().filter(|served| name.as_name().starts_with(served.prefix.as_name()));
    if serving().next().is_none() {
        let known: Vec<String> = served.iter().map(|served| served.prefix.to_string()).collect();
        let known = if known.is_empty() {
            "nobody serves anything".to_owned()
        } else {
            format!("there is {}", known.join(", "))
        };
        return Err(scenario.fault(&at.span(), format_args!("nobody serves {name}; {known}")));
    }
    match serving().any(|served| !served.unreachable.contains(&node)) {
        true => Ok(()),
        false => Err(scenario.fault(
            &at.span(),
            format_args!("no route from {} to {name}: no links lead to its producer", at.get_ref()),
        )),
    }
}

// ---- Faults ----

fn plan_faults(scenario: &Scenario, network: &mut Simulation) -> Result<(), ScenarioError> {
    for spanned in &scenario.tables.fault {
        let (span, table) = (spanned.span(), spanned.get_ref());
        let link = |ends: &Option<[String; 2]>| {
            ends.as_ref().map(|ends| find_link(scenario, network, &span, ends)).transpose()
        };
        let node =
            |name: &Option<String>| name.as_ref().map(|name| find_at(scenario, network, &span, name)).transpose();
        let FaultTable { at, cut, heal, crash, restart } = table;
        let faults = [
            link(cut)?.map(Fault::Cut),
            link(heal)?.map(Fault::Heal),
            node(crash)?.map(Fault::Crash),
            node(restart)?.map(Fault::Restart),
        ];
        let mut faults = faults.into_iter().flatten();
        let (Some(fault), None) = (faults.next(), faults.next()) else {
            return Err(scenario.fault(&span, "a fault is one of cut, heal, crash, restart"));
        };
        network.plan_fault(Time::ZERO + *at, fault);
    }
    Ok(())
}

fn find_link(
    scenario: &Scenario,
    network: &Simulation,
    span: &Range<usize>,
    ends: &[String; 2],
) -> Result<LinkId, ScenarioError> {
    let [a, b] = [find_at(scenario, network, span, &ends[0])?, find_at(scenario, network, span, &ends[1])?];
    let channel = network.channels().find(|(_, channel)| channel.ends() == (a, b));
    let link = channel.map(|(id, _)| LinkId(id.0 / 2));
    link.ok_or_else(|| scenario.fault(span, format_args!("no link between {} and {}", ends[0], ends[1])))
}

fn find(scenario: &Scenario, network: &Simulation, name: &Spanned<String>) -> Result<NodeId, ScenarioError> {
    find_at(scenario, network, &name.span(), name.get_ref())
}

fn find_at(
    scenario: &Scenario,
    network: &Simulation,
    span: &Range<usize>,
    name: &str,
) -> Result<NodeId, ScenarioError> {
    network.node(name).ok_or_else(|| no_node(scenario, span, name, network.nodes().map(|node| network.node_name(node))))
}

fn no_node(
    scenario: &Scenario,
    span: &Range<usize>,
    name: &str,
    known: impl Iterator<Item = impl Display>,
) -> ScenarioError {
    let near = |known: &String| strsim::jaro(known, name);
    let best = known.map(|name| name.to_string()).max_by(|a, b| near(a).total_cmp(&near(b)));
    let suggestion =
        best.filter(|best| near(best) > 0.6).map_or(String::new(), |best| format!("; did you mean `{best}`?"));
    scenario.fault(span, format_args!("no node `{name}`{suggestion}"))
}
