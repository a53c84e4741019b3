//! Builds a network from the tables of a scenario.

use super::apps::{make_consumers, make_producers};
use super::caching::{self, Caches};
use super::file::{ScenarioError, ScenarioFile, ScenarioProblem};
use super::http::{PlacedHost, make_hosts};
use super::nodes::{find_at, find_link, no_node, node_config, own_tables};
use super::routes;
use super::tables::{FaultTable, OneNodeTable};
use crate::apps::Cbr;
use crate::{AppId, Fault, Simulation, Topology};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use larder_units::{Time, format_duration};
use std::ops::Range;
use toml::Spanned;

pub(super) struct Built {
    pub(super) network: Simulation,
    /// The consumers, with their names in the figures.
    pub(super) consumers: Vec<(String, AppId)>,
    pub(super) producers: Vec<AppId>,
    /// The caches of hash routing, with their names in the figures.
    pub(super) cache_hosts: Vec<(String, AppId)>,
    /// The HTTP hosts.
    pub(super) hosts: Vec<PlacedHost>,
    /// The positions of nodes in drawings, by node number.
    pub(super) positions: Vec<Option<(f64, f64)>>,
}

impl Built {
    /// Lets consumers at a rate record the delay of each Data from now on.
    pub(super) fn record_delays(&mut self) {
        let each = crate::limits::DELAY_ROWS / self.consumers.len().max(1);
        for (_, app) in &self.consumers {
            if let Some(cbr) = self.network.app_mut::<Cbr>(*app) {
                cbr.record_delays(each);
            }
        }
    }
}

pub(super) fn build(scenario: &ScenarioFile, seed: u64) -> Result<Built, ScenarioError> {
    let mut network = Simulation::new(seed);
    let topology = topology(scenario, &network)?;
    let caches = caching::place(scenario, &topology)?;
    make_nodes(scenario, &topology, &caches, &mut network)?;
    network.set_routing(routes::routing(scenario));
    let producers = make_producers(scenario, &mut network)?;
    routes::add_routes(scenario, &mut network, &producers)?;
    let cache_hosts = caching::make_cache_hosts(scenario, &caches, &mut network)?;
    let consumers = make_consumers(scenario, &mut network, &producers, &cache_hosts)?;
    let hosts = make_hosts(scenario, &mut network)?;
    plan_faults(scenario, &mut network)?;
    Ok(Built {
        network,
        consumers,
        producers: producers.into_iter().map(|served| served.app).collect(),
        cache_hosts: cache_hosts
            .into_iter()
            .map(|cache_host| (cache_host.label, cache_host.app))
            .collect(),
        hosts,
        positions: topology.positions,
    })
}

// ---- Nodes and links ----

fn make_nodes(
    scenario: &ScenarioFile,
    topology: &Topology,
    caches: &Caches,
    network: &mut Simulation,
) -> Result<(), ScenarioError> {
    let mut any_path = false;
    let own = own_tables(scenario);
    let config = |name: &str| {
        let mut config = node_config(scenario, own.get(name).copied());
        if let Some(capacity) = caches.of_node(name) {
            config.capacity = capacity;
        }
        any_path |= config.policy.needs_path();
        config
    };
    topology
        .build(network, config)
        .map_err(|error| scenario.failed(error))?;
    if any_path {
        network.share_path_positions();
    }
    Ok(())
}

/// A generated or read topology: its position in the file, the name of its table, and the topology.
type Shape = (Range<usize>, &'static str, Topology);

fn shape<T>(
    name: &'static str,
    table: &Option<Spanned<T>>,
    make: impl Fn(&T) -> Topology,
) -> Option<Shape> {
    table
        .as_ref()
        .map(|table| (table.span(), name, make(table.get_ref())))
}

/// Returns the shape that the scenario requests, or an empty topology.
fn requested_shape(
    scenario: &ScenarioFile,
    network: &Simulation,
) -> Result<Topology, ScenarioError> {
    let tables = &scenario.tables;
    let shape_stream = || network.streams().stream("topology");
    let mut shapes: Vec<Shape> = Vec::new();
    if let Some((table, read)) = tables.topology.as_ref().zip(scenario.topology.clone()) {
        shapes.push((table.span(), "topology", read));
    }
    shapes.extend(shape("line", &tables.line, |table| {
        Topology::line(table.nodes, &table.link.0)
    }));
    shapes.extend(shape("dumbbell", &tables.dumbbell, |table| {
        Topology::dumbbell(table.pairs, &table.edge.0, &table.backbone.0)
    }));
    shapes.extend(shape("tree", &tables.tree, |table| {
        Topology::tree(table.children, table.levels, &table.link.0)
    }));
    shapes.extend(shape("grid", &tables.grid, |table| {
        Topology::grid(table.width, table.height, &table.link.0)
    }));
    shapes.extend(shape("scale-free", &tables.scale_free, |table| {
        Topology::scale_free(table.nodes, table.links, &table.link.0, shape_stream())
    }));
    shapes.extend(shape("geant-like", &tables.geant_like, |table| {
        Topology::geant_like(table.nodes, &table.link.0, shape_stream())
    }));
    // Sorted by position, so that the error names the second one in the file.
    shapes.sort_by_key(|(span, ..)| span.start);
    if let [(_, first, _), (span, second, _), ..] = shapes.as_slice() {
        return Err(scenario.fault(
            span,
            format_args!("[{second}] is a second shape, after [{first}]: keep one of them"),
        ));
    }
    Ok(shapes.pop().map(|(.., shape)| shape).unwrap_or_default())
}

/// Returns the requested topology, with the nodes and links that are listed one by one.
fn topology(scenario: &ScenarioFile, network: &Simulation) -> Result<Topology, ScenarioError> {
    let tables = &scenario.tables;
    let mut topology = requested_shape(scenario, network)?;
    if topology.nodes.len() > crate::limits::NODES {
        let problem = format!(
            "{} nodes: the most is {}",
            topology.nodes.len(),
            crate::limits::NODES
        );
        return Err(scenario.failed(ScenarioProblem::Invalid(problem)));
    }
    let mut places: HashMap<String, usize, FixedState> = topology
        .nodes
        .iter()
        .enumerate()
        .map(|(place, name)| (name.clone(), place))
        .collect();
    let mut named: HashSet<&str, FixedState> = HashSet::default();
    for one in &tables.node {
        let name = one.name.get_ref();
        if !named.insert(name) {
            return Err(scenario.fault(&one.name.span(), format_args!("a second [[node]] {name}")));
        }
        if !places.contains_key(name) {
            places.insert(name.clone(), topology.node(name.clone()));
        }
    }
    for link in &tables.link {
        let span = link.ends.span();
        let [a, b] = link.ends.get_ref();
        let place = |name: &String| places.get(name).copied();
        let found = [a, b].map(|name| {
            place(name).ok_or_else(|| no_node(scenario, &span, name, topology.nodes.iter()))
        });
        let [a, b] = found;
        let (a, b) = (a?, b?);
        if a == b {
            return Err(scenario.fault(
                &span,
                format_args!("a link from {} to itself", topology.nodes[a]),
            ));
        }
        topology.link(a, b, &link.like.0);
    }
    // A new node without links is mostly a misspelt name.
    let linked: HashSet<usize, FixedState> =
        topology.edges.iter().flat_map(|edge| edge.ends).collect();
    let is_alone = |one: &&OneNodeTable| {
        places
            .get(one.name.get_ref())
            .is_some_and(|place| !linked.contains(place))
    };
    if let Some(alone) = tables
        .node
        .iter()
        .find(is_alone)
        .filter(|_| topology.nodes.len() > 1)
    {
        let name = alone.name.get_ref();
        return Err(scenario.fault(
            &alone.name.span(),
            format_args!("no [[link]] leads to node {name}, which is not part of the shape"),
        ));
    }
    if topology.nodes.is_empty() {
        let problem = "no nodes: add a shape, such as [line], or [[node]] and [[link]]".to_owned();
        return Err(scenario.failed(ScenarioProblem::Invalid(problem)));
    }
    Ok(topology)
}

// ---- Faults ----

fn plan_faults(scenario: &ScenarioFile, network: &mut Simulation) -> Result<(), ScenarioError> {
    for spanned in &scenario.tables.fault {
        let (span, table) = (spanned.span(), spanned.get_ref());
        let link = |ends: &Option<[String; 2]>| {
            ends.as_ref()
                .map(|ends| find_link(scenario, network, &span, ends))
                .transpose()
        };
        let node = |name: &Option<String>| {
            name.as_ref()
                .map(|name| find_at(scenario, network, &span, name))
                .transpose()
        };
        let FaultTable {
            at,
            cut,
            heal,
            crash,
            restart,
        } = table;
        if *at > scenario.tables.duration {
            let what = format!(
                "a fault at {}, after the end at {}",
                format_duration(*at),
                format_duration(scenario.tables.duration)
            );
            return Err(scenario.fault(&span, what));
        }
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
