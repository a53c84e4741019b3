//! Finds out whether a node could start with a configuration, without starting it:
//! `larder run --check`.
//!
//! It binds every listener, reads every certificate and key, and opens the files of the disk tiers.
//! Then it closes all of them and reports every problem.

use crate::config::Config;
use crate::error::NodeError;
use crate::inherited::Inherited;
use crate::privileges::Account;
use crate::user_files::without_files_of_root;
use crate::{ndn, parts};
use larder_host::Preflight;
use larder_tier_host::DiskConfig;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the servers that may get an HTTP request for this host, as it is keyed, and target.
///
/// # Errors
/// One line that names the setting and its problem.
pub fn origin_servers(config: &Config, host: &str, target: &str) -> Result<Vec<String>, NodeError> {
    match parts::http(&config.http, None) {
        Some(config) => Ok(larder_proxy::origin_servers(&config, host, target)?),
        None => Ok(Vec::new()),
    }
}

/// Returns the problems that would prevent a start with `config`, one line each.
///
/// Listeners and files of the running node with the same configuration file are no problem.
///
/// If root is to start a node as another user, this thread gives up root's rights to files.
pub fn problems(config: &Config) -> Vec<String> {
    let mut preflight = Preflight::new(running_node(config).is_some());
    if config.ndn.enabled {
        // An expired certificate prevents no start, upgrade or reload, but somebody is locked out.
        let invalid = config
            .ndn
            .invalid_certificates(unix_seconds())
            .unwrap_or_default();
        for problem in invalid {
            preflight.add(Some(problem));
        }
    }
    match Account::find(config) {
        Ok(None) => check(config, &Inherited::default(), preflight),
        Ok(Some(account)) => match account.try_file_rights(config) {
            Ok(()) => check(
                &without_files_of_root(config),
                &Inherited::default(),
                preflight,
            ),
            Err(problem) => vec![problem.to_string()],
        },
        Err(problem) => vec![problem.to_string()],
    }
}

/// Returns the problems that would prevent this process from replacing another one, which has
/// passed it these sockets. The listeners for HTTP and of the admin server are open already.
pub(crate) fn problems_of_upgrade(config: &Config, inherited: &Inherited) -> Vec<String> {
    check(config, inherited, Preflight::of_upgrade())
}

fn check(config: &Config, inherited: &Inherited, mut preflight: Preflight) -> Vec<String> {
    if config.ndn.enabled {
        ndn::check(&config.ndn, inherited, &mut preflight);
        check_gateway(config, &mut preflight);
        let tier = config
            .ndn
            .disk
            .as_ref()
            .map(|table| table.behind(config.ndn.content_store));
        check_disk("[ndn.disk]", tier.as_ref(), &mut preflight);
    }
    if let Some(http) = parts::http(&config.http, None) {
        larder_proxy::check(&http, &mut preflight);
        check_disk("[http.disk]", http.disk.as_ref(), &mut preflight);
    }
    if let Some(listen) = config.admin.listen {
        preflight.listen("[admin] listen", &listen.into());
    }
    preflight.into_problems()
}

/// Opens the file of a disk tier, if there is one.
fn check_disk(setting: &str, config: Option<&DiskConfig>, preflight: &mut Preflight) {
    let checked =
        config.map(|config| larder_tier_host::check(setting, config, preflight.is_running()));
    preflight.add(checked.and_then(Result::err));
}

/// Returns the seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Reads the keys and certificates of both ends of HTTP over NDN.
fn check_gateway(config: &Config, preflight: &mut Preflight) {
    if let Some(table) = config.ndn.gateway.as_ref() {
        preflight.add(parts::egress(config, table, PathBuf::new()).check().err());
        if matches!(config.ndn.lets_itself_register(), Ok(false)) {
            let problem = "[ndn.gateway] prefix: [[ndn.authorize]] does not let this node register it: name the key of \
                           an authorized certificate, with the module \"rib\", in [ndn] command_key and \
                           command_certificate";
            preflight.add(Some(problem));
        }
    }
    if let Some(table) = config
        .http
        .upstream
        .as_ref()
        .filter(|_| config.http.enabled)
    {
        preflight.add(parts::ingress(table, PathBuf::new()).check().err());
    }
}

/// Returns the process id of the node that runs with the same file, as its admin server reports it;
/// `None` if none answers.
pub fn running_node(config: &Config) -> Option<u64> {
    let (admin, source) = (config.admin.listen?, config.source.as_deref()?);
    let node = status_of(admin)?.get("node")?.clone();
    (node.get("configuration")?.as_str().map(Path::new) == Some(source))
        .then(|| node.get("pid")?.as_u64())?
}

/// Returns `/status` of the admin server at that address.
fn status_of(admin: SocketAddr) -> Option<Value> {
    // A node answers at once. Another program at that address may be silent.
    const PATIENCE: Duration = Duration::from_secs(2);
    const MOST_BYTES: u64 = 16 << 20;
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream
        .write_all(b"GET /status HTTP/1.0\r\nhost: localhost\r\n\r\n")
        .ok()?;
    let mut page = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut page).ok()?;
    let body = page.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    serde_json::from_slice(&page[body..]).ok()
}
