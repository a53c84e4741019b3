//! The connection to a node that put, get and ping share, and the failures for its errors.

use crate::failure::Failure;
use crate::output::error_line;
use crate::output::within_a_line;
use larder_client::{Client, ClientError, Output, Received, Transport};
use larder_node::{Config, UnixSetting};
use larder_units::Time;
use std::path::Path;
use std::time::Duration;

/// The longest outage of a node during a transfer: a restart or an upgrade takes less.
pub const OUTAGE_OF_TRANSFER: Duration = Duration::from_secs(60);

/// Connects to the node, and turns SIGINT and SIGTERM into [`Client::interrupted`]. An outage of
/// the node that is longer than `outage` is an error.
pub fn connect(outage: Duration) -> Result<Client, Failure> {
    let mut client = until_stopped(Client::connect())?;
    client.wait_out(outage);
    Ok(client)
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
    client.wait_out(Duration::ZERO);
    Ok(client)
}

/// Receives as [`Client::receive`] does, and reports the beginning and the end of an outage.
pub fn receive(
    client: &mut Client,
    deadline: Option<Time>,
    handle: impl FnMut(Time, Received<'_>, &mut Output),
) -> Result<(), Failure> {
    let had_outage = client.outage().is_some();
    client.receive(deadline, handle).map_err(broken)?;
    match client.outage() {
        Some(error) if !had_outage => error_line!("larder: {}; waiting for it", within_a_line(&error.to_string())),
        None if had_outage => error_line!("larder: connected again to {}", client.transport()),
        _ => {}
    }
    Ok(())
}

/// Returns the failure for a broken connection.
pub fn broken(error: ClientError) -> Failure {
    Failure::runtime(within_a_line(&error.to_string()))
}
