//! The state of management between packets. `management/` has the protocol.

pub(crate) mod authority;
pub(crate) mod change;
pub(crate) mod datasets;
pub(crate) mod erasure;
pub(crate) mod events;
pub(crate) mod pending_faces;
pub(crate) mod readvertise;
pub(crate) mod refusal;
pub(crate) mod shard_queries;

use authority::{Authority, Authorized, Rule};
use datasets::Datasets;
use events::Events;
use pending_faces::PendingFaces;
use readvertise::Readvertise;
use shard_queries::ShardQueries;

/// The state of the management protocol between packets.
pub(crate) struct Management {
    pub(crate) authority: Authority,
    pub(crate) datasets: Datasets,
    pub(crate) events: Events,
    pub(crate) pending_faces: PendingFaces,
    pub(crate) shard_queries: ShardQueries,
    /// What the routing daemon has to learn. Unused in shards other than the first.
    pub(crate) readvertise: Readvertise,
    /// FaceUris of the host's listeners.
    pub(crate) channels: Vec<String>,
    /// The host's configuration file.
    pub(crate) configuration: Option<String>,
}

impl Management {
    pub(crate) fn new() -> Self {
        let anybody_here = Rule {
            signer: Authorized::Anybody,
            localhop: false,
            modules: None,
        };
        Management {
            authority: Authority::new(vec![anybody_here]),
            datasets: Datasets::default(),
            events: Events::default(),
            pending_faces: PendingFaces::default(),
            shard_queries: ShardQueries::default(),
            readvertise: Readvertise::default(),
            channels: Vec::new(),
            configuration: None,
        }
    }
}
