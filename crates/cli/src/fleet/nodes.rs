//! `larder fleet status` and `larder fleet owner`: the nodes of a fleet, as one of them sees them.

use crate::ctl::Configured;
use crate::ctl::admin::AdminServer;
use crate::ctl::listing::List;
use crate::failure::Failure;
use crate::output::{line, printable};
use clap::Args;
use larder_fleet_host::{PeerOffer, Url, by_ownership, owner_key};
use larder_units::ByteSize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The exit status if not all nodes follow the log.
const UNSOUND: u8 = 3;

/// The columns of the table of nodes.
const COLUMNS: &[&str] = &[
    "node", "state", "entry", "behind", "zone", "owns", "capacity", "address", "heard", "version",
];

/// The node that is asked.
#[derive(Args, Debug)]
struct AskedNode {
    /// Configuration file of the node [default: that of the environment]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Address of its admin server [default: from --config, otherwise 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Show the nodes of the fleet, and how each follows the log
///
/// Any node can be asked. It knows what the others say of themselves every two seconds, or every 20
/// seconds in a fleet of 1,000. The exit status is 3 if a node does not follow the log, was lost
/// within an hour, or has the name of another one.
#[derive(Args, Debug)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    node: AskedNode,
}

/// Show which node of each zone owns an object
///
/// Nodes that share their responses ask the owner before the origin, and its successor when the
/// owner is gone.
#[derive(Args, Debug)]
pub(super) struct OwnerArgs {
    /// URL under which the object is stored: scheme, host, port and query are part of it
    url: Url,

    #[command(flatten)]
    node: AskedNode,
}

/// A node of the fleet.
struct FleetNode {
    name: String,
    /// `None` if it does not share its responses.
    offer: Option<PeerOffer>,
    state: Value,
    position: Value,
    behind: Value,
    version: Value,
    heard: Option<f64>,
    /// Whether there are two nodes of this name.
    are_two: bool,
}

impl FleetNode {
    fn read(node: &Value) -> Option<FleetNode> {
        let offer = || {
            Some(PeerOffer {
                address: node["address"].as_str()?.parse().ok()?,
                capacity: node["capacity_bytes"].as_u64()?,
                zone: node["zone"].as_str()?.to_owned(),
            })
        };
        Some(FleetNode {
            name: node["node"].as_str()?.to_owned(),
            offer: offer(),
            state: node["state"].clone(),
            position: node["position"].clone(),
            behind: node["behind"].clone(),
            version: node["version"].clone(),
            heard: node["heard_seconds_ago"].as_f64(),
            are_two: node["two_nodes"] == true,
        })
    }
}

/// A fleet, as a node of it sees it.
struct Seen {
    /// The object `fleet` of `/status`.
    page: Value,
    nodes: Vec<FleetNode>,
}

impl Seen {
    fn by(node: &AskedNode) -> Result<Seen, Failure> {
        let configured = node.config.as_deref().map(Configured::read).transpose()?;
        let server = AdminServer::of(node.admin, configured.as_ref())?;
        server.check(configured.as_ref())?;
        let page = server.status()?["fleet"].clone();
        Seen::read(page)
            .map_err(|why| Failure::runtime(format!("the node at {} {why}", server.address)))
    }

    fn read(page: Value) -> Result<Seen, &'static str> {
        let Some(nodes) = page["nodes"].as_array() else {
            return Err(if page.is_null() {
                "has no [fleet] in its configuration"
            } else {
                "is of an earlier version, which does not list the nodes"
            });
        };
        if nodes.is_empty() {
            return Err("has not begun to follow its fleet: its log says why");
        }
        let nodes = nodes.iter().filter_map(FleetNode::read).collect();
        Ok(Seen { page, nodes })
    }

    /// Returns the nodes of each zone that share their responses.
    fn zones(&self) -> BTreeMap<&str, Vec<(&str, &PeerOffer)>> {
        let mut zones: BTreeMap<&str, Vec<(&str, &PeerOffer)>> = BTreeMap::new();
        for node in &self.nodes {
            if let Some(offer) = &node.offer {
                let zone = zones.entry(&offer.zone).or_default();
                zone.push((&node.name, offer));
            }
        }
        zones
    }

    /// Returns the share of the objects of its zone that a node with this offer owns.
    fn share(&self, offer: &PeerOffer) -> f64 {
        let offers = self.nodes.iter().filter_map(|node| node.offer.as_ref());
        let zone = offers.filter(|other| other.zone == offer.zone);
        let all: f64 = zone.map(|other| other.capacity as f64).sum();
        offer.capacity as f64 / all.max(1.0)
    }

    /// Returns the page, with the share of each node as `owns`.
    fn page(&self) -> Value {
        let mut page = self.page.clone();
        for node in page["nodes"].as_array_mut().into_iter().flatten() {
            let offer = FleetNode::read(node).and_then(|node| node.offer);
            node["owns"] = json!(offer.map(|offer| self.share(&offer)));
        }
        page
    }

    fn text(&self, key: &str) -> &str {
        self.page[key].as_str().unwrap_or_default()
    }

    /// Returns what an operator has to look at. Nodes of earlier versions do not say how they
    /// stand, and are none of it.
    fn faults(&self) -> Option<String> {
        let mut faults = Vec::new();
        if let Some(problem) = self.page["problem"].as_str() {
            faults.push(problem.to_owned());
        }
        if self.page["connected"] != true {
            let node = self.text("node");
            faults.push(format!(
                "{node} has no connection to the log: what it knows of the others is old"
            ));
        }
        let names = |is: &dyn Fn(&FleetNode) -> bool| -> Vec<&str> {
            let nodes = self.nodes.iter().filter(|node| is(node));
            nodes.map(|node| &*node.name).collect()
        };
        let follows = |node: &FleetNode| {
            let state = node.state.as_str();
            state.is_none_or(|state| matches!(state, "following" | "catching"))
        };
        let lost = self.page["lost"].as_array().into_iter().flatten();
        for (what, nodes) in [
            ("not following the log", names(&|node| !follows(node))),
            ("two nodes of one name", names(&|node| node.are_two)),
            (
                "lost within an hour",
                lost.filter_map(Value::as_str).collect(),
            ),
        ] {
            if !nodes.is_empty() {
                faults.push(format!("{what}: {}", nodes.join(", ")));
            }
        }
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}

/// Prints the nodes.
pub(super) fn status(args: &StatusArgs) -> Result<(), Failure> {
    let seen = Seen::by(&args.node)?;
    let mut list = List::new(COLUMNS);
    for node in &seen.nodes {
        let offer = node.offer.as_ref();
        list.row([
            json!(node.name),
            node.state.clone(),
            node.position.clone(),
            node.behind.clone(),
            json!(
                offer
                    .map(|offer| &offer.zone)
                    .filter(|zone| !zone.is_empty())
            ),
            json!(offer.map(|offer| format!("{:.1} %", 100.0 * seen.share(offer)))),
            json!(offer.map(|offer| ByteSize::from_bytes(offer.capacity).to_string())),
            json!(offer.map(|offer| offer.address)),
            json!(node.heard.map(|seconds| format!("{seconds:.1} s ago"))),
            node.version.clone(),
        ]);
    }
    if args.node.json {
        line!("{}", seen.page());
    } else {
        line!(
            "fleet {}, seen by {}: {}",
            printable(seen.text("name")),
            printable(seen.text("node")),
            printable(seen.text("state")),
        );
        list.print(false);
    }
    seen.faults().map_or(Ok(()), |faults| {
        Err(Failure {
            message: printable(&faults).into_owned(),
            code: UNSOUND,
        })
    })
}

/// Prints the owner in each zone.
pub(super) fn owner(args: &OwnerArgs) -> Result<(), Failure> {
    let seen = Seen::by(&args.node)?;
    let url = args.url.normal();
    let zones = seen.zones();
    if zones.is_empty() {
        return Err(Failure::runtime(
            "no node of this fleet shares its responses ([fleet.peers]): each asks the origin",
        ));
    }
    let mut list = List::new(&["zone", "owner", "address", "successor"]);
    for (zone, nodes) in zones {
        let order = by_ownership(nodes.iter().copied(), owner_key(&url));
        let owner = order.first();
        let offer = nodes.iter().find(|(node, _)| Some(node) == owner);
        list.row([
            json!(Some(zone).filter(|zone| !zone.is_empty())),
            json!(owner),
            json!(offer.map(|(_, offer)| offer.address)),
            json!(order.get(1)),
        ]);
    }
    list.print(args.node.json);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(change: impl FnOnce(&mut Value)) -> Value {
        let node = |name: &str| {
            json!({
                "node": name, "state": "following", "position": 7, "behind": 0, "version": "0.1.0",
                "zone": "", "address": "10.0.0.1:7443", "capacity_bytes": 1, "two_nodes": false,
                "heard_seconds_ago": 1.0,
            })
        };
        let mut page = json!({
            "name": "cdn", "node": "a", "state": "following", "connected": true, "lost": [],
            "problem": null, "nodes": [node("a"), node("b")],
        });
        change(&mut page);
        page
    }

    fn faults(change: impl FnOnce(&mut Value)) -> String {
        let seen = Seen::read(page(change)).map_err(str::to_owned);
        seen.map_or_else(|why| why, |seen| seen.faults().unwrap_or_default())
    }

    /// Failure: a script that watches the exit status learns nothing of a node that serves without
    /// purges, or is called for a sound fleet.
    #[test]
    fn a_fleet_with_a_fault_is_sound() {
        assert_eq!(faults(|_| ()), "");
        for silent in [json!(null), json!("catching")] {
            assert_eq!(faults(|page| page["nodes"][1]["state"] = silent), "");
        }
        for (path, value, told) in [
            (
                "/nodes/1/state",
                json!("lagging"),
                "not following the log: b",
            ),
            (
                "/nodes/0/state",
                json!("starting"),
                "not following the log: a",
            ),
            (
                "/nodes/1/two_nodes",
                json!(true),
                "two nodes of one name: b",
            ),
            ("/lost", json!(["c", "d"]), "lost within an hour: c, d"),
            ("/problem", json!("there is no log"), "there is no log"),
            ("/connected", json!(false), "a has no connection to the log"),
            ("/nodes", json!([]), "has not begun to follow"),
            ("/nodes", json!(null), "is of an earlier version"),
            ("", json!(null), "has no [fleet]"),
        ] {
            let faults = faults(|page| *page.pointer_mut(path).unwrap() = value.clone());
            assert!(faults.contains(told), "{path}: {faults}");
        }
    }

    /// Failure: a node of another zone owns what a zone asks for, or one that does not share.
    #[test]
    fn zones_own_what_they_have() {
        let seen = Seen::read(page(|page| {
            page["nodes"][1]["zone"] = json!("fra");
            page["nodes"]
                .as_array_mut()
                .unwrap()
                .push(json!({ "node": "silent", "address": null }));
        }));
        let seen = seen.unwrap();
        let page = seen.page();
        let owns: Vec<&Value> = (0..3).map(|node| &page["nodes"][node]["owns"]).collect();
        assert_eq!(owns, [&json!(1.0), &json!(1.0), &json!(null)]);
        let both = Seen::read(self::page(|page| {
            page["nodes"][1]["capacity_bytes"] = json!(3)
        }));
        assert_eq!(both.unwrap().page()["nodes"][1]["owns"], 0.75);
        let zones = seen.zones();
        let names: Vec<(&str, Vec<&str>)> = zones
            .iter()
            .map(|(zone, nodes)| (*zone, nodes.iter().map(|(node, _)| *node).collect()))
            .collect();
        assert_eq!(names, [("", vec!["a"]), ("fra", vec!["b"])]);
    }
}
