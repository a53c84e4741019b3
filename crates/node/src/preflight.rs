//! Finds out whether a node could start with a configuration, without starting it:
//! `larder run --check`.
//!
//! It binds every listener, reads every certificate and key, and opens the files of the disk tiers.
//! Then it closes all of them and reports every problem.

use crate::config::{Config, ConfigSources};
use crate::error::NodeError;
use crate::inherited::Inherited;
use crate::privileges::Account;
use crate::user_files::without_files_of_root;
use crate::{ndn, parts};
use larder_host::Preflight;
use larder_tier_host::DiskConfig;
use larder_units::{ByteSize, rounded};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
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

/// What [`check`] found.
pub struct Checked {
    /// The configuration without its wrong keys; `None` if there is none to check.
    pub config: Option<Config>,
    /// The problems that would prevent a start, one line each.
    pub problems: Vec<String>,
    /// What allows a start, and is hardly meant; one line each.
    pub warnings: Vec<String>,
}

/// The time for the checks, which read files. A file system of the network that does not answer
/// would hold them for ever.
const CHECK_TIME: Duration = Duration::from_secs(20);

/// The problem and the remedy if the checks do not end.
pub const NO_END: (&str, &str) = (
    "the checks do not end within 20 s",
    "a file or a folder of the configuration does not answer: look at its file system (`df`, `mount`)",
);

/// As [`check`], on a thread of its own; `None` if it does not end in time. So this thread keeps
/// its rights.
pub fn check_in_time(sources: &ConfigSources) -> Option<Checked> {
    let sources = sources.clone();
    in_time(CHECK_TIME, move || check(&sources))
}

/// Returns the result of work on a thread of its own; `None` if it does not end in time.
fn in_time<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = mpsc::channel();
    let thread = std::thread::Builder::new().name("check".to_owned());
    thread.spawn(move || drop(done.send(work()))).ok()?;
    result.recv_timeout(limit).ok()
}

/// Finds all problems of a configuration: wrong keys and values, and what a start with the other
/// keys would meet. See [`problems`].
pub fn check(sources: &ConfigSources) -> Checked {
    let composed = match sources.compose() {
        Ok(composed) => composed,
        Err(error) => {
            return Checked {
                config: None,
                problems: error.problems().to_vec(),
                warnings: Vec::new(),
            };
        }
    };
    let mut found = composed.problems;
    let mut warnings = Vec::new();
    if let Some(config) = &composed.config {
        warnings = self::warnings(config);
        // The default in the place of a wrong value is not what the start would meet.
        let is_consequence = |problem: &String| {
            let damaged = &composed.damaged;
            found.contains(problem) || damaged.iter().any(|key| is_about(problem, key))
        };
        let later: Vec<String> = problems(config)
            .into_iter()
            .filter(|problem| !is_consequence(problem))
            .collect();
        found.extend(later);
    }
    Checked {
        config: composed.config,
        problems: found,
        warnings,
    }
}

/// Returns true if a problem names this key, or a key of this table.
fn is_about(problem: &str, key: &str) -> bool {
    let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
    let begins = |setting: String| {
        problem
            .trim_start_matches('[')
            .strip_prefix(&setting)
            .is_some_and(|rest| {
                !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
            })
    };
    begins(key.to_owned())
        || begins(format!("{table}] {name}"))
        || begins(format!("{table}]] {name}"))
}

/// Returns settings that allow a start, and that the machine has no room for.
pub fn warnings(config: &Config) -> Vec<String> {
    let Some(memory) = larder_host::memory() else {
        return Vec::new();
    };
    let [http, ndn] = [
        (config.http.enabled, config.http.proxy.cache.capacity),
        (config.ndn.enabled, config.ndn.content_store),
    ]
    .map(|(runs, capacity)| {
        if runs {
            capacity
        } else {
            ByteSize::from_bytes(0)
        }
    });
    let remedy = format!(
        "more than the {} of memory that this process may have (machine, or cgroup): the system would end it before \
         it is full; set less",
        rounded::bytes(memory.bytes() as f64)
    );
    let mut warnings = Vec::new();
    for (setting, capacity) in [("[http] cache", http), ("[ndn] content_store", ndn)] {
        if capacity > memory {
            warnings.push(format!("{setting}: {capacity} is {remedy}"));
        }
    }
    let all = http.bytes().saturating_add(ndn.bytes());
    if warnings.is_empty() && all > memory.bytes() {
        let all = rounded::bytes(all as f64);
        warnings.push(format!(
            "[http] cache and [ndn] content_store: together, {all} are {remedy}"
        ));
    }
    warnings
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
    let (rest, denied) = match Account::find(config) {
        Ok(None) => (config.clone(), None),
        Ok(Some(account)) => match account.try_file_rights(config) {
            Ok(()) => (without_files_of_root(config), None),
            Err(denied) => (config.clone(), Some(denied)),
        },
        Err(denied) => (config.clone(), Some(denied)),
    };
    let mut problems = check_parts(&rest, &Inherited::default(), preflight);
    if let Some(denied) = denied {
        // The part that uses this file meets the same problem.
        if let Some(path) = denied.path() {
            problems.retain(|problem| !problem.contains(&*path.to_string_lossy()));
        }
        problems.insert(0, denied.to_string());
    }
    // Each part stops at its first file that it cannot read.
    let http = parts::http(&rest.http, None);
    let has_tls = http.as_ref().is_some_and(|http| http.tls.is_some());
    let is_read = |setting: &str| match setting.trim_start_matches('[') {
        setting if setting.starts_with("ndn") => rest.ndn.enabled,
        setting if setting.starts_with("http.tls") => has_tls,
        _ => http.is_some(),
    };
    let files = rest.files_read_again();
    for (setting, path) in files.into_iter().filter(|(setting, _)| is_read(setting)) {
        let is_named = |problem: &String| {
            problem.starts_with(setting) && problem.contains(&*path.to_string_lossy())
        };
        if let Err(error) = File::open(path)
            && !problems.iter().any(is_named)
        {
            let error = larder_units::system_message(&error);
            problems.push(format!("{setting}: {}: {error}", path.display()));
        }
    }
    problems
}

/// Returns the problems that would prevent this process from replacing another one, which has
/// passed it these sockets. The listeners for HTTP and of the admin server are open already.
pub(crate) fn problems_of_upgrade(config: &Config, inherited: &Inherited) -> Vec<String> {
    check_parts(config, inherited, Preflight::of_upgrade())
}

fn check_parts(config: &Config, inherited: &Inherited, mut preflight: Preflight) -> Vec<String> {
    if config.ndn.enabled {
        ndn::check(&config.ndn, inherited, &mut preflight);
        check_gateway(config, &mut preflight);
        let tier = config
            .ndn
            .disk
            .as_ref()
            .map(|table| table.clone().behind(config.ndn.content_store));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a folder that does not answer holds the check for ever.
    #[test]
    fn a_check_waits_for_a_folder_that_hangs() {
        let (_held, never) = mpsc::channel::<()>();
        assert_eq!(in_time(Duration::ZERO, move || never.recv()), None);
        assert_eq!(in_time(Duration::from_secs(60), || 7), Some(7));
    }
}
