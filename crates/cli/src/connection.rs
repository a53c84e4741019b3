//! The connection to a node that put, get and ping share, and the failures for its errors.

use crate::failure::Failure;
use crate::output::error_line;
use crate::output::within_a_line;
use clap::Args;
use larder_client::{Client, ClientError, CommandKey, Output, Received, Transport};
use larder_node::{Config, UnixSetting};
use larder_units::Time;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The key that signs commands to the node, for tools that send some.
#[derive(Args, Debug, Default)]
pub struct CommandKeyArgs {
    /// Sign commands with this private key (PEM), for a node whose [[ndn.authorize]] asks for one
    /// [default: the file that LARDER_COMMAND_KEY names]
    #[arg(
        long,
        value_name = "KEY.pem",
        requires = "command_certificate",
        global = true
    )]
    command_key: Option<PathBuf>,

    /// The certificate of that key, which the node's [[ndn.authorize]] names [default: the file
    /// that LARDER_COMMAND_CERTIFICATE names]
    #[arg(
        long,
        value_name = "FILE.ndncert",
        requires = "command_key",
        global = true
    )]
    command_certificate: Option<PathBuf>,
}

impl CommandKeyArgs {
    /// Signs the client's commands with the key of these arguments, if they name one.
    pub fn apply(&self, client: &mut Client) -> Result<(), Failure> {
        let (Some(key), Some(certificate)) = (&self.command_key, &self.command_certificate) else {
            return Ok(());
        };
        let key = CommandKey {
            key: key.clone(),
            certificate: certificate.clone(),
        };
        client.sign_commands(
            key.read()
                .map_err(|error| Failure::usage(format!("--command-key: {error}")))?,
        );
        Ok(())
    }
}

/// The longest outage of a node during a transfer: a restart or an upgrade takes less.
pub const OUTAGE_OF_TRANSFER: Duration = Duration::from_secs(60);

/// Connects to the node, and turns SIGINT and SIGTERM into [`Client::interrupted`]. An outage of
/// the node that is longer than `outage` is an error.
pub fn connect(outage: Duration) -> Result<Client, Failure> {
    let mut client = until_stopped(Client::connect())?;
    client.wait_out(outage);
    Ok(client)
}

/// Connects to the Unix socket of the node with this configuration. The key that the environment
/// names signs commands, or that of the configuration.
pub fn connect_to(config: &Config, path: &Path) -> Result<Client, Failure> {
    let mut client = connect_to_socket(config, path)?;
    if let Some(key) = config.ndn.command_key() {
        let wrong =
            |error| Failure::usage(format!("{}: [ndn] command_key: {error}", path.display()));
        client.sign_commands(key.read().map_err(wrong)?);
    }
    client.sign_as_configured().map_err(broken)?;
    Ok(client)
}

fn connect_to_socket(config: &Config, path: &Path) -> Result<Client, Failure> {
    let path = path.display();
    match config.ndn.unix.as_ref().filter(|_| config.ndn.enabled) {
        None => Err(Failure::usage(format!(
            "{path}: this configuration has no [ndn] unix socket to connect to"
        ))),
        Some(UnixSetting::Default) => until_stopped(Client::connect_to_default()),
        Some(UnixSetting::Path(socket)) => {
            until_stopped(Client::connect_to(Transport::unix(socket.clone())))
        }
    }
}

fn until_stopped(connected: Result<Client, ClientError>) -> Result<Client, Failure> {
    let mut client = connected.map_err(|error| match error {
        ClientError::Transport(_) | ClientError::CommandKey(_) => Failure::usage(error.to_string()),
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
        Some(error) if !had_outage => error_line!(
            "larder: {}; waiting for it",
            within_a_line(&error.to_string())
        ),
        None if had_outage => error_line!("larder: connected again to {}", client.transport()),
        _ => {}
    }
    Ok(())
}

/// Returns the failure for a broken connection.
pub fn broken(error: ClientError) -> Failure {
    Failure::runtime(within_a_line(&error.to_string()))
}
