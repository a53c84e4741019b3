//! The connection to a node that put, get and ping share, and how its errors end a command.

use crate::failure::Failure;
use larder_node::client::{Client, ClientError};

/// Connects to the node, and turns SIGINT and SIGTERM into [`Client::interrupted`].
pub fn connect() -> Result<Client, Failure> {
    let mut client = Client::connect().map_err(|error| match error {
        ClientError::Transport(_) => Failure::usage(error.to_string()),
        _ => broken(error),
    })?;
    client.stop_on_signals().map_err(broken)?;
    Ok(client)
}

/// The failure of a command whose connection broke.
pub fn broken(error: ClientError) -> Failure {
    Failure::runtime(error.to_string())
}
