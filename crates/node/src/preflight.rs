//! Finds out whether a node could start with a configuration, without starting it:
//! `larder run --check`.
//!
//! It binds every listener, reads every certificate and key, and opens the files of the disk tiers.
//! Then it closes all of them and reports every problem.

use crate::config::Config;
use crate::disk;
use crate::http::{self, HttpConfig};
use crate::{gateway, ndn};
use serde_json::Value;
use std::any::Any;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Returns the problems that would prevent a start with `config`, one line each.
///
/// Listeners and files of the running node with the same configuration file are no problem.
pub fn problems(config: &Config) -> Vec<String> {
    let mut preflight =
        Preflight { is_running: running_node(config).is_some(), held: Vec::new(), problems: Vec::new() };
    if config.ndn.enabled {
        ndn::check(&config.ndn, &mut preflight);
        gateway::check(config, &mut preflight);
        let tier = config.ndn.disk.as_ref().map(|table| table.behind(config.ndn.content_store));
        preflight.disk("[ndn.disk]", tier.as_ref());
    }
    if let Some(http) = HttpConfig::of(&config.http, None) {
        http::check(&http, &mut preflight);
        preflight.disk("[http.disk]", http.disk.as_ref());
    }
    if let Some(listen) = config.admin.listen {
        preflight.listen("[admin] listen", listen);
    }
    preflight.problems
}

/// Returns the process id of the node that runs with the same file, as its admin server reports it;
/// `None` if none answers.
pub fn running_node(config: &Config) -> Option<u64> {
    let (admin, source) = (config.admin.listen?, config.source.as_deref()?);
    let node = status_of(admin)?.get("node")?.clone();
    (node.get("configuration")?.as_str().map(Path::new) == Some(source)).then(|| node.get("pid")?.as_u64())?
}

/// Returns `/status` of the admin server at that address.
fn status_of(admin: SocketAddr) -> Option<Value> {
    // A node answers at once. Another program at that address may be silent.
    const PATIENCE: Duration = Duration::from_secs(2);
    const MOST_BYTES: u64 = 16 << 20;
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET /status HTTP/1.0\r\nhost: localhost\r\n\r\n").ok()?;
    let mut page = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut page).ok()?;
    let body = page.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    serde_json::from_slice(&page[body..]).ok()
}

/// The checks of one configuration.
pub(crate) struct Preflight {
    /// True if a node runs with this file: its listeners and files are no problem.
    is_running: bool,
    /// The opened resources: a conflict of two settings shows only while the first is open.
    held: Vec<Box<dyn Any>>,
    problems: Vec<String>,
}

impl Preflight {
    /// Adds a problem.
    pub(crate) fn add(&mut self, problem: Option<String>) {
        self.problems.extend(problem);
    }

    /// Keeps what was opened until the end, or adds the problem.
    pub(crate) fn hold<T: Any>(&mut self, opened: io::Result<T>, problem: impl FnOnce(&io::Error) -> String) {
        match opened {
            Ok(opened) => self.held.push(Box::new(opened)),
            Err(error) if self.is_running && is_in_use(&error) => {}
            Err(error) => self.problems.push(problem(&error)),
        }
    }

    /// Returns true if a node runs with the same file.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Binds a listener for HTTP.
    pub(crate) fn listen(&mut self, setting: &str, address: SocketAddr) {
        self.hold(http::listen::try_bind(address), |error| http::listen::cannot_bind(setting, address, error));
    }

    fn disk(&mut self, setting: &str, config: Option<&disk::DiskConfig>) {
        let Some(config) = config else { return };
        if let Err(problem) = disk::check(setting, config, self.is_running) {
            self.problems.push(problem);
        }
    }
}

fn is_in_use(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::WouldBlock)
}
