//! The paper's network: a server, one node above, five nodes below, and the clients under these
//! (fig. 1 and 4).

use larder_netsim::{LinkConfig, Loss};
use larder_testbed::{Spec, link};
use larder_units::BitRate;
use std::time::Duration;

/// The number of nodes of the second level.
pub(super) const CLUSTERS: usize = 5;

/// The way in which the hosts are linked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// Fig. 1: a switch, to which each host has one interface for all its traffic. This is the
    /// paper's bottleneck, if it has one.
    Interfaces,
    /// Fig. 4: a link from node to node, so only losses and delay are between a client and its
    /// server or cache.
    Links,
}

/// A network without its clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Network {
    pub(super) shape: Shape,
    /// The rate of every link. Without one, a link is as fast as the machine.
    pub(super) rate: Option<BitRate>,
    /// The delay each way between the top and the edges, ms.
    pub(super) delay: u64,
    /// The loss on the clients' links, in both directions, %.
    pub(super) loss: f64,
}

impl Network {
    /// Returns a link without losses and delay.
    pub(super) fn clean(&self) -> LinkConfig {
        link(self.rate, Duration::ZERO, Loss::None, None)
    }

    /// Returns a link between the top and the edges.
    pub(super) fn core(&self) -> LinkConfig {
        link(
            self.rate,
            Duration::from_millis(self.delay),
            Loss::None,
            None,
        )
    }

    /// Returns a link between an edge and a client.
    pub(super) fn access(&self) -> LinkConfig {
        let loss = if self.loss > 0.0 {
            Loss::Uniform(self.loss / 100.0)
        } else {
            Loss::None
        };
        link(self.rate, Duration::ZERO, loss, None)
    }

    /// Returns the testbed `name` with `clients` clients, distributed evenly over the edges.
    pub(super) fn testbed(&self, name: &str, clients: usize, congestion: &str, seed: u64) -> Spec {
        let mut spec = Spec {
            congestion: congestion.into(),
            seed,
            ..Spec::new(name)
        };
        let (clean, core, access) = (self.clean(), self.core(), self.access());
        let mut connect = |ends: [&str; 2], config| match self.shape {
            Shape::Links => spec.link(ends, config),
            // Links the lower host to the switch. The upper host's link is another call.
            Shape::Interfaces => spec.link([ends[1], "switch"], config),
        };
        if self.shape == Shape::Interfaces {
            connect(["switch", "server"], clean);
        }
        connect(["server", "top"], clean);
        for cluster in 0..CLUSTERS {
            connect(["top", &edge(cluster)], core);
        }
        for client in 0..clients {
            connect(
                [&edge(client % CLUSTERS), &format!("client{client}")],
                access,
            );
        }
        if self.shape == Shape::Interfaces {
            spec.router("switch");
        }
        spec
    }
}

/// Returns the name of an edge.
pub(super) fn edge(cluster: usize) -> String {
    format!("edge{cluster}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a host of the clean network has two interfaces or none, and its bottleneck is not
    /// the paper's.
    #[test]
    fn a_host_sends_past_its_interface() {
        let network = Network {
            shape: Shape::Interfaces,
            rate: None,
            delay: 0,
            loss: 0.0,
        };
        let spec = network.testbed("a", 7, "cubic", 1);
        assert_eq!(
            (spec.hosts().count(), spec.links.len()),
            (2 + CLUSTERS + 7, 2 + CLUSTERS + 7)
        );
        let switch = spec.nodes.iter().position(|node| !node.is_host).unwrap();
        assert!(spec.links.iter().all(|link| link.ends.contains(&switch)));
        let tree = Network {
            shape: Shape::Links,
            loss: 10.0,
            delay: 50,
            ..network
        }
        .testbed("b", 7, "bbr", 1);
        assert_eq!(
            (tree.links.len(), tree.nodes.iter().all(|node| node.is_host)),
            (1 + CLUSTERS + 7, true)
        );
        assert_eq!(
            tree.links
                .iter()
                .filter(|link| link.config.loss != Loss::None)
                .count(),
            7
        );
        assert_eq!(
            tree.links
                .iter()
                .filter(|link| !link.config.delay.is_zero())
                .count(),
            CLUSTERS
        );
    }
}
