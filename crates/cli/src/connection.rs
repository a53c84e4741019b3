//! The connection to a node that put, get and ping share, and the failures for its errors.

use crate::failure::Failure;
use crate::output::within_a_line;
use larder_client::{Client, ClientError, Transport};
use larder_node::{Config, UnixSetting};
use std::path::Path;

/// Connects to the node, and turns SIGINT and SIGTERM into [`Client::interrupted`].
pub fn connect() -> Result<Client, Failure> {
    until_stopped(Client::connect())
}

/// Connects to the Unix socket of the node with this configuration.
pub fn connect_to(config: &Config, path: &Path) -> Result<Client, Failure> {
    let path = path.display();
    match config.ndn.unix.as_ref().filter(|_| config.ndn.enabled) {
        None => Err(Failure::usage(format!("{path}: this configuration has no [ndn] unix socket to connect to"))),
        Some(UnixSetting::Default) => until_stopped(Client::connect_to_default()),
        Some(UnixSetting::Path(socket)) => until_stopped(Client::connect_to(Transport::unix(socket.clone()))),
    }
}

fn until_stopped(connected: Result<Client, ClientError>) -> Result<Client, Failure> {
    let mut client = connected.map_err(|error| match error {
        ClientError::Transport(_) => Failure::usage(error.to_string()),
        _ => broken(error),
    })?;
    client.stop_on_signals().map_err(broken)?;
    Ok(client)
}

/// Returns the failure for a broken connection.
pub fn broken(error: ClientError) -> Failure {
    Failure::runtime(within_a_line(&error.to_string()))
}
