//! Nodes of a scenario: their configurations, and lookups by name or pattern, also of links.

use super::file::{ScenarioError, ScenarioFile};
use super::tables::{NodeTable, OneNodeTable};
use super::values::StoreTable;
use crate::{LinkId, NodeConfig, NodeId, Simulation};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::fmt::Display;
use std::ops::Range;
use toml::Spanned;

/// The `[[node]]` tables by name.
pub(super) fn own_tables(scenario: &ScenarioFile) -> HashMap<&str, &OneNodeTable, FixedState> {
    scenario
        .tables
        .node
        .iter()
        .map(|one| (one.name.get_ref().as_str(), one))
        .collect()
}

/// Returns the configuration of a node: that of `[nodes]`, overridden by the node's own table.
pub(super) fn node_config(scenario: &ScenarioFile, own: Option<&OneNodeTable>) -> NodeConfig {
    let all = with(NodeConfig::default(), &scenario.tables.nodes);
    match own {
        None => all,
        Some(OneNodeTable {
            policy,
            content_store,
            strategy,
            ..
        }) => {
            let (policy, content_store, strategy) =
                (policy.clone(), *content_store, strategy.clone());
            with(
                all,
                &NodeTable {
                    policy,
                    content_store,
                    strategy,
                    largest_packet: None,
                },
            )
        }
    }
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

pub(super) fn find(
    scenario: &ScenarioFile,
    network: &Simulation,
    name: &Spanned<String>,
) -> Result<NodeId, ScenarioError> {
    find_at(scenario, network, &name.span(), name.get_ref())
}

pub(super) fn find_at(
    scenario: &ScenarioFile,
    network: &Simulation,
    span: &Range<usize>,
    name: &str,
) -> Result<NodeId, ScenarioError> {
    network.node(name).ok_or_else(|| {
        no_node(
            scenario,
            span,
            name,
            network.nodes().map(|node| network.node_name(node)),
        )
    })
}

/// Returns the first link between two nodes.
pub(super) fn find_link(
    scenario: &ScenarioFile,
    network: &Simulation,
    span: &Range<usize>,
    ends: &[String; 2],
) -> Result<LinkId, ScenarioError> {
    let [a, b] = [
        find_at(scenario, network, span, &ends[0])?,
        find_at(scenario, network, span, &ends[1])?,
    ];
    let channel = network
        .channels()
        .find(|(_, channel)| channel.ends() == (a, b));
    let link = channel.map(|(id, _)| LinkId(id.0 / 2));
    link.ok_or_else(|| {
        scenario.fault(
            span,
            format_args!("no link between {} and {}", ends[0], ends[1]),
        )
    })
}

pub(super) fn no_node(
    scenario: &ScenarioFile,
    span: &Range<usize>,
    name: &str,
    known: impl Iterator<Item = impl Display>,
) -> ScenarioError {
    let near = |known: &String| strsim::jaro(known, name);
    let best = known
        .map(|name| name.to_string())
        .max_by(|a, b| near(a).total_cmp(&near(b)));
    let suggestion = best
        .filter(|best| near(best) > 0.6)
        .map_or(String::new(), |best| format!("; did you mean `{best}`?"));
    scenario.fault(span, format_args!("no node `{name}`{suggestion}"))
}

/// Returns true if a name matches the pattern, in which `*` stands for any text, even an empty one.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = rest.split('*').collect();
    let Some((last, middle)) = parts.split_last() else {
        return true;
    };
    for part in middle {
        let Some(at) = name.find(part) else {
            return false;
        };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("c*", "c1", true),
            ("c*", "d1", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b", false),
            ("a*a", "a", false),
            ("c1", "c1", true),
            ("c1", "c11", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
