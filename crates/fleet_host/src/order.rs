//! The purges of this node's clients, on their way to the thread.

use larder_fleet::Message;
use larder_proxy::Unpublished;
use serde_json::Value;
use tokio::sync::oneshot;

/// A purge of a client of this node.
pub(crate) struct Order {
    /// It gets its id here.
    pub(crate) message: Message,
    pub(crate) reply: oneshot::Sender<Result<Value, Unpublished>>,
}
