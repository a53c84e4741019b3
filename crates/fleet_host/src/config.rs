//! The configuration of a member of a fleet.

use larder_fleet::PeerOffer;
use std::path::PathBuf;
use std::time::Duration;

/// A node's part in a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetConfig {
    /// The name of the fleet: letters, digits, `-` and `_`.
    pub name: String,
    /// The name of the node, unique in the fleet, of the same characters.
    pub node: String,
    /// The servers of NATS, as URLs: `nats://HOST:PORT` or `tls://HOST:PORT`.
    pub servers: Vec<String>,
    /// The certificates of the connections.
    pub tls: FleetTls,
    /// File with `USER:PASSWORD` or a token.
    pub credentials: Option<PathBuf>,
    /// How long after its acknowledgement a purge may be unknown to the node.
    pub max_lag: Duration,
    /// What it serves when it has been without a proof for longer.
    pub on_partition: OnPartition,
    /// Whether what unsafe requests invalidate is put into the log.
    pub invalidate: bool,
    /// The folder of the outbox and the position. `None`: accepted purges do not outlive the
    /// process.
    pub folder: Option<PathBuf>,
    /// Whether stored responses outlive the process: then the position does, too.
    pub has_disk: bool,
    /// What the node offers to the others. `None`: it shares no responses.
    pub offer: Option<PeerOffer>,
}

/// PEM files of the connections to NATS; those of the system where one is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetTls {
    /// The authorities that the servers' certificates come from.
    pub ca: Option<PathBuf>,
    /// The node's certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What a node serves while it may have missed purges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPartition {
    /// Stored responses after the origin has confirmed them.
    #[default]
    Revalidate,
    /// Stored responses as they are: there is no bound for a purge's delay then.
    Serve,
}
