//! The specification of a testbed: hosts and links, as a TOML file states them. Addresses and paths
//! follow from it.

use crate::{Error, LinkError};
use larder_netsim::{Depth, LinkConfig, Loss, Queueing};
use larder_units::{BitRate, Ratio, parse_duration};
use serde::Deserialize;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The specification of a testbed.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The name of the testbed. Its namespaces are called `larder-NAME-HOST`.
    pub name: String,
    /// The seed of all losses.
    pub seed: u64,
    /// The largest IP packet, bytes.
    pub mtu: usize,
    /// TCP's congestion control on every host. Kernels have different defaults, and results differ
    /// by a factor of 100.
    pub congestion: String,
    /// Hosts and routers, in the order in which the links name them.
    pub nodes: Vec<Node>,
    /// The links.
    pub links: Vec<Link>,
}

/// A node of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether it is a host, with its own namespace. A router exists only in the emulator.
    pub is_host: bool,
}

/// A link between two nodes, the same in both directions.
#[derive(Clone, Debug)]
pub struct Link {
    /// The numbers of its nodes.
    pub ends: [usize; 2],
    /// The configuration of the simulator's link.
    pub config: LinkConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default = "ethernet")]
    mtu: usize,
    #[serde(default = "cubic")]
    congestion: String,
    #[serde(default)]
    routers: Vec<String>,
    link: Vec<LinkText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkText {
    between: [String; 2],
    rate: Option<String>,
    delay: Option<String>,
    loss: Option<String>,
    queue: Option<usize>,
}

fn one() -> u64 {
    1
}

fn ethernet() -> usize {
    1500
}

fn cubic() -> String {
    "cubic".into()
}

/// The most hosts. Each needs an address, a device and a namespace. Addresses differ in their last
/// two bytes.
const HOSTS: usize = 4096;

/// The most hosts and routers: the addresses of 10.77.0.0/16 without the first one and the
/// broadcast address.
const NODES: usize = 65_534;

impl Spec {
    /// Creates a specification without nodes.
    pub fn new(name: &str) -> Self {
        let (nodes, links) = (Vec::new(), Vec::new());
        Spec {
            name: name.into(),
            seed: one(),
            mtu: ethernet(),
            congestion: cubic(),
            nodes,
            links,
        }
    }

    /// Adds a link between two nodes. A new name becomes a host.
    pub fn link(&mut self, between: [&str; 2], config: LinkConfig) {
        let ends = between.map(|name| self.node(name));
        self.links.push(Link { ends, config });
    }

    /// Makes this node a router: a place where links meet, without programs.
    pub fn router(&mut self, name: &str) {
        let node = self.node(name);
        self.nodes[node].is_host = false;
    }

    fn node(&mut self, name: &str) -> usize {
        self.nodes
            .iter()
            .position(|node| node.name == name)
            .unwrap_or_else(|| {
                self.nodes.push(Node {
                    name: name.into(),
                    is_host: true,
                });
                self.nodes.len() - 1
            })
    }

    /// Parses a specification.
    ///
    /// # Errors
    /// [`Error`] with the place: an unknown key, an invalid quantity, a link from a node to itself,
    /// a network that is not connected.
    pub fn parse(text: &str) -> Result<Spec, Error> {
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map_or(0, |span| text[..span.start].matches('\n').count() + 1);
            Error::Syntax {
                line,
                problem: error.message().to_owned(),
            }
        })?;
        let mut spec = Spec {
            seed: file.seed,
            mtu: file.mtu,
            congestion: file.congestion,
            ..Spec::new(&file.name)
        };
        for link in &file.link {
            let [a, b] = &link.between;
            let config = link.config().map_err(|error| Error::Link {
                between: link.between.clone(),
                error,
            })?;
            spec.link([a, b], config);
        }
        for router in &file.routers {
            if !spec.nodes.iter().any(|node| node.name == *router) {
                return Err(Error::LonelyRouter(router.clone()));
            }
            spec.router(router);
        }
        spec.check()?;
        Ok(spec)
    }

    /// Checks that it can be built.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_plain = |name: &str| {
            !name.is_empty()
                && name.len() <= 64
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let names = self
            .nodes
            .iter()
            .map(|node| &node.name)
            .chain([&self.name, &self.congestion]);
        if let Some(name) = names.into_iter().find(|name| !is_plain(name)) {
            return Err(Error::Name(name.clone()));
        }
        if !(576..=65_535).contains(&self.mtu) {
            return Err(Error::Mtu(self.mtu));
        }
        if self.hosts().count() > HOSTS {
            return Err(Error::TooManyHosts(HOSTS));
        }
        if self.nodes.len() > NODES {
            return Err(Error::TooManyNodes(NODES));
        }
        if let Some(link) = self.links.iter().find(|link| link.ends[0] == link.ends[1]) {
            return Err(Error::LinkToItself(self.nodes[link.ends[0]].name.clone()));
        }
        let Some(first) = self.hosts().next() else {
            return Err(Error::NoHost);
        };
        let paths = self.paths_to(first);
        match (0..self.nodes.len()).find(|node| *node != first && paths[*node].is_none()) {
            Some(cut) => {
                let [from, to] = [cut, first].map(|node| self.nodes[node].name.clone());
                Err(Error::Disconnected { from, to })
            }
            None => Ok(()),
        }
    }

    /// Returns the numbers of the hosts.
    pub fn hosts(&self) -> impl Iterator<Item = usize> {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.is_host)
            .map(|(number, _)| number)
    }

    /// Returns the address of a node: 10.77, then its number from 1 in two bytes.
    pub fn address(&self, node: usize) -> Ipv4Addr {
        let [high, low] = (node as u16 + 1).to_be_bytes();
        Ipv4Addr::new(10, 77, high, low)
    }

    /// Returns the node with this address.
    pub fn at(&self, address: [u8; 4]) -> Option<usize> {
        let [10, 77, high, low] = address else {
            return None;
        };
        let node = usize::from(u16::from_be_bytes([high, low])).checked_sub(1)?;
        (node < self.nodes.len()).then_some(node)
    }

    /// Returns the number of the host with this name.
    ///
    /// # Errors
    /// [`Error::UnknownHost`] with the existing hosts.
    pub fn host(&self, name: &str) -> Result<usize, Error> {
        self.hosts()
            .find(|host| self.nodes[*host].name == name)
            .ok_or_else(|| {
                let known = self
                    .hosts()
                    .map(|host| self.nodes[host].name.clone())
                    .collect();
                Error::UnknownHost {
                    host: name.to_owned(),
                    testbed: self.name.clone(),
                    known,
                }
            })
    }

    /// Returns the name of a host's namespace.
    ///
    /// # Panics
    /// If there is no node with this number.
    pub fn namespace(&self, host: usize) -> String {
        format!("larder-{}-{}", self.name, self.nodes[host].name)
    }

    /// Returns for each node the next link on the path to `destination`, with its direction. The
    /// path has the fewest links; among several such paths, it uses the link that is named first.
    pub(crate) fn paths_to(&self, destination: usize) -> Vec<Option<(usize, usize)>> {
        let mut paths = vec![None; self.nodes.len()];
        let mut reached = VecDeque::from([destination]);
        while let Some(node) = reached.pop_front() {
            for (number, link) in self.links.iter().enumerate() {
                let Some(end) = link.ends.iter().position(|end| *end == node) else {
                    continue;
                };
                let other = link.ends[1 - end];
                if other != destination && paths[other].is_none() {
                    paths[other] = Some((number, 1 - end));
                    reached.push_back(other);
                }
            }
        }
        paths
    }
}

impl LinkText {
    fn config(&self) -> Result<LinkConfig, LinkError> {
        let rate = self
            .rate
            .as_deref()
            .map(str::parse::<BitRate>)
            .transpose()?;
        if rate.is_some_and(|rate| rate.bits_per_second() == 0) {
            return Err(LinkError::NoRate);
        }
        let delay = self
            .delay
            .as_deref()
            .map_or(Ok(Duration::ZERO), parse_duration)?;
        let loss = match &self.loss {
            Some(text) => Loss::Uniform(text.parse::<Ratio>()?.value()),
            None => Loss::None,
        };
        Ok(link(rate, delay, loss, self.queue))
    }
}

/// Returns the configuration of a link. The default queue has 1000 packets, as Linux's devices
/// have.
pub fn link(
    rate: Option<BitRate>,
    delay: Duration,
    loss: Loss,
    queue: Option<usize>,
) -> LinkConfig {
    let queue = Queueing::DropTail(Depth::Packets(queue.unwrap_or(1000)));
    LinkConfig {
        rate,
        delay,
        loss,
        queue,
        ..LinkConfig::new(BitRate::from_bits_per_second(1_000_000_000), delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = r#"
name = "tree"
routers = ["edge"]
[[link]]
between = ["server", "top"]
rate = "1Gbps"
[[link]]
between = ["top", "edge"]
delay = "100ms"
[[link]]
between = ["edge", "client1"]
loss = "10%"
[[link]]
between = ["edge", "client2"]
"#;

    /// Failure: two nodes have the same address.
    #[test]
    fn routers_run_out_of_addresses() {
        let spec = |nodes: usize| {
            let mut spec = Spec::new("t");
            let config = LinkConfig::new(BitRate::from_bits_per_second(1_000_000), Duration::ZERO);
            let node = |number: usize| Node {
                name: format!("n{number}"),
                is_host: number < 2,
            };
            spec.nodes = (0..nodes).map(node).collect();
            spec.links = (1..nodes)
                .map(|node| Link {
                    ends: [node - 1, node],
                    config,
                })
                .collect();
            spec
        };
        let last = NODES - 1;
        let largest = spec(NODES);
        assert_eq!(largest.at(largest.address(last).octets()), Some(last));
        assert!(
            !largest.address(last).is_broadcast()
                && largest.address(last).octets() != [10, 77, 255, 255]
        );
        assert!(!matches!(spec(2).check(), Err(Error::TooManyNodes(_))));
        assert!(matches!(
            spec(NODES + 1).check(),
            Err(Error::TooManyNodes(NODES))
        ));
    }

    #[test]
    fn ways_lead_over_the_fewest_links() {
        let spec = Spec::parse(TREE).unwrap();
        let names: Vec<&str> = spec
            .hosts()
            .map(|host| spec.nodes[host].name.as_str())
            .collect();
        assert_eq!(names, ["server", "top", "client1", "client2"]);
        let client = spec.host("client1").unwrap();
        let paths = spec.paths_to(client);
        assert_eq!(paths[spec.host("server").unwrap()], Some((0, 0)));
        assert_eq!(
            paths[spec.host("client2").unwrap()],
            Some((3, 1)),
            "back over its link"
        );
        assert_eq!(paths[client], None);
        assert_eq!(spec.at(spec.address(client).octets()), Some(client));
        assert_eq!(
            (
                spec.at([10, 77, 0, 0]),
                spec.at([10, 77, 0, 200]),
                spec.at([192, 0, 2, 1])
            ),
            (None, None, None)
        );
        assert_eq!(spec.links[2].config.loss, Loss::Uniform(0.1));
    }

    #[test]
    fn an_error_is_one_line_with_the_place() {
        let error_of = |text: &str| Spec::parse(text).unwrap_err().to_string();
        assert!(
            error_of("name = \"x\"\nrat = 1\n").starts_with("line 2: unknown field `rat`"),
            "{}",
            error_of("name = \"x\"\nrat = 1\n")
        );
        let link = |rest: &str| format!("name = \"x\"\n[[link]]\nbetween = [\"a\", \"b\"]\n{rest}");
        assert!(error_of(&link("rate = \"0bps\"")).contains("a – b: has rate 0"));
        assert!(error_of(&link("delay = \"-1ms\"")).contains("a – b"));
        assert!(error_of(&link("loss = \"200%\"")).contains("a – b"));
        assert!(
            error_of(&link("[[link]]\nbetween = [\"c\", \"d\"]"))
                .contains("no links lead from c to a")
        );
        assert!(
            error_of("name = \"x\"\n[[link]]\nbetween = [\"a\", \"a\"]").contains("from a to a")
        );
        assert!(
            error_of("name = \"x;rm\"\n[[link]]\nbetween = [\"a\", \"b\"]")
                .contains("letters and digits")
        );
        assert!(
            error_of(&format!("routers = [\"z\"]\n{}", link("")))
                .contains("router z is on no link")
        );
        assert!(error_of("name = \"x\"\nlink = []").contains("no host"));
    }
}
