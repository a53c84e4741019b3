//! The purges of this node's clients, on their way to the thread.

use crate::owned::Unacknowledged;
use larder_fleet::Message;
use larder_proxy::Unpublished;
use serde_json::Value;
use tokio::sync::oneshot;

/// A purge of a client of this node.
pub(crate) struct Order {
    /// It gets its id here.
    pub(crate) message: Message,
    /// Whether its client waits until all nodes have executed it.
    pub(crate) waits: bool,
    /// Held until the log has it, if nodes share their responses.
    pub(crate) unacknowledged: Option<Unacknowledged>,
    pub(crate) reply: oneshot::Sender<Result<Value, Unpublished>>,
}
