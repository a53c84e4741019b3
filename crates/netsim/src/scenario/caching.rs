//! The placement of caches: which nodes have one, their capacities, and the caches of hash routing.

use super::file::{ScenarioError, ScenarioFile};
use super::nodes::{matches, no_node, node_config, own_tables};
use super::tables::{CacheRoutingTable, CachesAt, CachingTable};
use super::values::StoreTable;
use crate::apps::CacheHost;
use crate::{AppId, Capacity, Simulation, Topology};
use larder_packet::Name;
use larder_units::{ByteSize, Streams};
use std::collections::HashSet;
use toml::Spanned;

/// The caches of `[caching]`.
pub(super) struct Caches {
    /// The nodes with a cache. `None`: every node, with its `content-store`.
    at: Option<HashSet<String>>,
    each: Option<Capacity>,
    routing: CacheRoutingTable,
}

impl Caches {
    /// The capacity of a node's Content Store, if it differs from the node's own table.
    pub(super) fn of_node(&self, name: &str) -> Option<Capacity> {
        let is_cache = self.at.as_ref().is_none_or(|at| at.contains(name));
        if is_cache && self.routing == CacheRoutingTable::OnPath {
            self.each
        } else {
            Some(Capacity::Packets(0))
        }
    }
}

/// A cache of hash routing.
pub(super) struct Placed {
    pub(super) label: String,
    pub(super) name: Name,
    pub(super) app: AppId,
}

/// Computes the placement of caches.
pub(super) fn place(scenario: &ScenarioFile, topology: &Topology) -> Result<Caches, ScenarioError> {
    let Some(spanned) = &scenario.tables.caching else {
        return Ok(Caches {
            at: None,
            each: None,
            routing: CacheRoutingTable::OnPath,
        });
    };
    let CachingTable { at, total, routing } = spanned.get_ref();
    let at = match at {
        CachesAt::Everywhere => topology.nodes.iter().cloned().collect(),
        CachesAt::Edge => with_apps(scenario, topology, true, false),
        CachesAt::Core => {
            let apps = with_apps(scenario, topology, true, true);
            topology
                .nodes
                .iter()
                .filter(|name| !apps.contains(*name))
                .cloned()
                .collect()
        }
        CachesAt::Nodes(patterns) => named(scenario, spanned, topology, patterns)?,
    };
    if at.is_empty() {
        return Err(scenario.fault(&spanned.span(), "[caching] matches no node"));
    }
    let each = total.map(|StoreTable(total)| match total {
        Capacity::Bytes(size) => {
            Capacity::Bytes(ByteSize::from_bytes(size.bytes() / at.len() as u64))
        }
        Capacity::Packets(packets) => Capacity::Packets(packets / at.len() as u64),
    });
    if matches!(each, Some(Capacity::Packets(0))) {
        let what = format!(
            "[caching] gives each cache less than one packet: total is below the {} caches",
            at.len()
        );
        return Err(scenario.fault(&spanned.span(), what));
    }
    Ok(Caches {
        at: Some(at),
        each,
        routing: *routing,
    })
}

fn named(
    scenario: &ScenarioFile,
    table: &Spanned<CachingTable>,
    topology: &Topology,
    patterns: &[String],
) -> Result<HashSet<String>, ScenarioError> {
    let mut found = HashSet::new();
    for pattern in patterns {
        let before = found.len();
        found.extend(
            topology
                .nodes
                .iter()
                .filter(|name| matches(pattern, name))
                .cloned(),
        );
        if found.len() == before && !topology.nodes.iter().any(|name| matches(pattern, name)) {
            return Err(no_node(
                scenario,
                &table.span(),
                pattern,
                topology.nodes.iter(),
            ));
        }
    }
    Ok(found)
}

/// The nodes with applications.
fn with_apps(
    scenario: &ScenarioFile,
    topology: &Topology,
    consumers: bool,
    producers: bool,
) -> HashSet<String> {
    let tables = &scenario.tables;
    let asking = tables
        .cbr
        .iter()
        .map(|table| &table.node)
        .chain(tables.fetch.iter().map(|table| &table.node));
    let asking = asking.chain(tables.window.iter().map(|table| &table.node));
    let asking = asking
        .chain(tables.trace.iter().map(|table| &table.node))
        .filter(|_| consumers);
    let serving = tables
        .producer
        .iter()
        .map(|table| &table.node)
        .chain(tables.file.iter().map(|table| &table.node));
    let patterns: HashSet<&str> = asking
        .chain(serving.filter(|_| producers))
        .map(|node| node.get_ref().as_str())
        .collect();
    let matches_pattern = |name: &&String| {
        patterns.contains(name.as_str())
            || patterns
                .iter()
                .any(|pattern| pattern.contains('*') && matches(pattern, name))
    };
    topology
        .nodes
        .iter()
        .filter(matches_pattern)
        .cloned()
        .collect()
}

/// With hash routing, adds a cache host at each cache.
pub(super) fn make_cache_hosts(
    scenario: &ScenarioFile,
    caches: &Caches,
    network: &mut Simulation,
) -> Result<Vec<Placed>, ScenarioError> {
    let (Some(at), CacheRoutingTable::Hash) = (&caches.at, caches.routing) else {
        return Ok(Vec::new());
    };
    let mut placed = Vec::new();
    let tables = own_tables(scenario);
    let nodes: Vec<_> = network
        .nodes()
        .filter(|node| at.contains(network.node_name(*node)))
        .collect();
    for node in nodes {
        let own = network.node_name(node).to_owned();
        let config = node_config(scenario, tables.get(own.as_str()).copied());
        let mut name: Name = Name::root();
        name.push_generic(b"custodian").push_generic(own.as_bytes());
        let label = format!("custodian {own}");
        let streams = Streams::new(network.streams().stream(&label).bits());
        let refuse = |error: crate::ConfigError| scenario.failed(error);
        let app = CacheHost::new(
            &name,
            &config.policy,
            caches.each.unwrap_or(config.capacity),
            &streams,
        );
        let app = network.add_app(node, Box::new(app.map_err(refuse)?));
        network.serve(&name, app).map_err(refuse)?;
        placed.push(Placed { label, name, app });
    }
    Ok(placed)
}
