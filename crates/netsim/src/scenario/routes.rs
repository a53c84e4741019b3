//! The routes of a scenario: how they are computed, those that are listed one by one, and the
//! warning about strategies that have nothing to choose.

use super::apps::{Served, no_producer};
use super::file::{ScenarioError, ScenarioFile};
use super::nodes::{find, find_link, own_tables};
use super::tables::RouteTable;
use crate::{Routing, Simulation};
use larder_packet::Name;
use std::collections::HashSet;
use std::ops::Range;

/// The strategies that do no more than choose among next hops. The others also limit or delay
/// Interests, or are not known here.
const CHOOSING: [&str; 4] = ["asf", "best-route", "multicast", "random"];

/// Returns how routes are computed.
pub(super) fn routing(scenario: &ScenarioFile) -> Routing {
    let default = Routing::default();
    match &scenario.tables.routing {
        None => default,
        Some(table) => Routing {
            next_hops: table.next_hops.unwrap_or(default.next_hops),
            convergence_time: table.convergence_time,
        },
    }
}

/// Adds the routes of `[[route]]`.
pub(super) fn add_routes(
    scenario: &ScenarioFile,
    network: &mut Simulation,
    served: &[Served],
) -> Result<(), ScenarioError> {
    let mut known = HashSet::new();
    for RouteTable {
        node,
        prefix,
        to,
        cost,
    } in &scenario.tables.route
    {
        let at = find(scenario, network, node)?;
        find(scenario, network, to)?;
        let name = prefix.get_ref().parse::<Name>();
        let name = name.map_err(|error| scenario.fault(&prefix.span(), error))?;
        check_prefix(scenario, &prefix.span(), &name, served)?;
        if !known.insert((at, to.get_ref(), name.clone())) {
            let what = format!(
                "a second [[route]] {name} from {} to {}",
                node.get_ref(),
                to.get_ref()
            );
            return Err(scenario.fault(&node.span(), what));
        }
        let ends = [node.get_ref().clone(), to.get_ref().clone()];
        let link = find_link(scenario, network, &to.span(), &ends)?;
        let [there, back] = link.channels();
        let channel = if network.channel(there).ends().0 == at {
            there
        } else {
            back
        };
        network
            .route(&name, at, channel, *cost)
            .map_err(|error| scenario.fault(&node.span(), error))?;
    }
    Ok(())
}

/// Refuses a prefix of which, and under which, there is no producer: it is mostly misspelt.
fn check_prefix(
    scenario: &ScenarioFile,
    span: &Range<usize>,
    prefix: &Name,
    served: &[Served],
) -> Result<(), ScenarioError> {
    let name = prefix.as_name();
    for producer in served {
        let of_producer = producer.prefix.as_name();
        if name.starts_with(of_producer) || of_producer.starts_with(name) {
            return Ok(());
        }
    }
    Err(scenario.fault(span, no_producer(prefix, served)))
}

/// Returns a warning if the scenario selects strategies, and none of them has next hops to choose
/// from.
pub(super) fn warning(scenario: &ScenarioFile, network: &Simulation) -> Option<String> {
    let own = own_tables(scenario);
    let mut chosen: Option<String> = None;
    for node in network.nodes() {
        let of_node = own
            .get(network.node_name(node))
            .and_then(|table| table.strategy.as_ref());
        let Some(strategy) = of_node.or(scenario.tables.nodes.strategy.as_ref()) else {
            continue;
        };
        let Some(name) = short_name(strategy).filter(|name| CHOOSING.contains(&name.as_str()))
        else {
            continue;
        };
        if network.most_next_hops(node) > 1 {
            return None;
        }
        chosen.get_or_insert(name);
    }
    let source = &scenario.source;
    chosen.map(|strategy| {
        format!(
            "{source}: the strategy {strategy} makes no difference: no node with a strategy has more than one next hop \
             for a prefix; set next-hops in [routing] if the network has several paths, or add a [[route]]"
        )
    })
}

/// Returns `best-route` for `/localhost/nfd/strategy/best-route/v=5`.
fn short_name(strategy: &Name) -> Option<String> {
    let component = strategy.as_name().components().nth(3)?;
    Some(String::from_utf8_lossy(component.value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_forwarder::strategy::{strategy_by_name, strategy_names};

    /// The strategies that change the figures even if each node has one next hop per prefix.
    const LIMITING: [&str; 2] = ["hobhis", "stateful"];

    #[test]
    fn a_new_strategy_is_neither_known_to_choose_nor_to_limit() {
        let mut known: Vec<&str> = CHOOSING.into_iter().chain(LIMITING).collect();
        let mut names: Vec<&str> = strategy_names().collect();
        known.sort_unstable();
        names.sort_unstable();
        assert_eq!(known, names);
        for name in names {
            assert_eq!(
                short_name(&strategy_by_name(name).unwrap()).as_deref(),
                Some(name)
            );
        }
    }
}
