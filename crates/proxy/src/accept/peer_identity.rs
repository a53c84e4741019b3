//! The identity of the node for the other nodes of its fleet.

use crate::accept::tls::Identity;
use crate::base::error::Error;
use crate::config::peers_config::PeersConfig;
use crate::exchange::peers::client_config;
use larder_acme_host::Certificates;
use std::sync::Arc;

/// Reads the identity from its files.
///
/// # Errors
/// One line: the file and its problem.
pub(crate) fn read(config: &PeersConfig, acme: &Arc<Certificates>) -> Result<Identity, Error> {
    Identity::read(&config.tls(), acme).map_err(Error::of_peers)
}

/// Tries the files for both directions.
///
/// # Errors
/// As [`read`].
pub(crate) fn check(config: &PeersConfig) -> Result<(), Error> {
    read(config, &Arc::default())?;
    client_config(config).map(drop)
}
