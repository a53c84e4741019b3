//! Failures and repairs of links and nodes.

use crate::link::LinkId;
use crate::node::NodeId;

/// A failure or a repair that a simulation plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Cuts the link. The frames on it and in its queues are lost. Routes stay until the nodes
    /// learn of it ([`crate::Routing::convergence_time`]).
    Cut(LinkId),
    /// Mends the link.
    Heal(LinkId),
    /// Stops the node's forwarder: frames that reach the node are lost, and so are the packets of
    /// its applications.
    Crash(NodeId),
    /// Starts the node's forwarder again, with its routes, an empty PIT and an empty Content Store.
    Restart(NodeId),
}
