//! The paper's network: a server, one node above, five nodes below, and the clients under these (fig. 1 and 4).

use larder_testbed::Spec;

/// Nodes of the second level.
pub(super) const CLUSTERS: usize = 5;

/// The links of the tree.
pub(super) struct Links {
    /// Between the server and the top, and wherever nothing else is said.
    pub(super) clean: larder_netsim::LinkConfig,
    /// Between the top and the edges: where the delay is.
    pub(super) core: larder_netsim::LinkConfig,
    /// Between the edges and the clients: where the losses are.
    pub(super) access: larder_netsim::LinkConfig,
}

/// The network with so many clients, as evenly under the edges as can be.
pub(super) fn tree(clients: usize, links: &Links, congestion: &str, seed: u64) -> Spec {
    let mut spec = Spec { congestion: congestion.into(), seed, ..Spec::new("ndnvshttp") };
    spec.link(["server", "top"], links.clean);
    for cluster in 0..CLUSTERS {
        spec.link(["top", &edge(cluster)], links.core);
    }
    for client in 0..clients {
        spec.link([&edge(client % CLUSTERS), &format!("client{client}")], links.access);
    }
    spec
}

/// The name of an edge.
pub(super) fn edge(cluster: usize) -> String {
    format!("edge{cluster}")
}
