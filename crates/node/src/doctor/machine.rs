//! Limits of the process, its memory and its user, and the clock.

use super::system_calls;
use super::{Finding, Level, Topic};
use crate::config::Config;
use crate::{limits, preflight};
use larder_units::rounded;
use rustix::process::{Resource, geteuid, getrlimit};

/// A time before this is not set: 2025-01-01, when there was no Larder yet.
const EARLIEST_SECONDS: u64 = 1_735_689_600;

/// Compares the limit of open files with what the configuration allows.
pub(super) fn descriptors(config: &Config, running: Option<u64>) -> Finding {
    let own = getrlimit(Resource::Nofile).maximum;
    let of_node = running.and_then(limit_of);
    let place = match (running, of_node) {
        (Some(pid), Some(_)) => format!("process {pid}, Max open files"),
        _ => "ulimit -n, hard limit of this shell".to_owned(),
    };
    let (least, most) = wanted(config);
    let Some(limit) = of_node.or(own) else {
        return Finding::ok(Topic::Descriptors, place, "no limit");
    };
    let keys = "[http.limits] connections and [ndn] remote_faces";
    let raise = format!(
        "raise it (LimitNOFILE= of systemd, `ulimit -n`, --ulimit nofile of docker) to {most}, or lower {keys}"
    );
    if limit < least {
        let text = format!("{limit} files; {keys} allow {least} connections");
        Finding::new(Level::Warning, Topic::Descriptors, place, text, raise)
    } else if limit < most {
        let text = format!(
            "{limit} files; {least} connections of clients and as many to origins need {most}"
        );
        Finding::new(Level::Note, Topic::Descriptors, place, text, raise)
    } else {
        let text = format!("{limit} files; the configuration needs at most {most}");
        Finding::ok(Topic::Descriptors, place, text)
    }
}

/// Returns the descriptors of all connections of clients and faces, and those with a connection to
/// an origin for each client.
fn wanted(config: &Config) -> (u64, u64) {
    let http = &config.http;
    let connections = if http.enabled {
        http.proxy.limits.connections
    } else {
        0
    };
    let faces = if config.ndn.enabled {
        config.ndn.remote_faces + limits::LOCAL_FACES
    } else {
        0
    };
    (
        (connections + faces) as u64,
        (2 * connections + faces) as u64,
    )
}

/// Returns the limit of open files of another process (proc(5)); `None` if it cannot be read, or
/// has none.
fn limit_of(pid: u64) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Says what the caches may take of the memory, unless a warning does.
pub(super) fn memory(config: &Config, warnings: &[String]) -> Option<Finding> {
    let memory = larder_host::memory().filter(|_| warnings.is_empty())?;
    let http = if config.http.enabled {
        config.http.proxy.cache.capacity.bytes()
    } else {
        0
    };
    let ndn = if config.ndn.enabled {
        config.ndn.content_store.bytes()
    } else {
        0
    };
    let text = format!(
        "the caches take up to {} of {}",
        rounded::bytes(http.saturating_add(ndn) as f64),
        rounded::bytes(memory.bytes() as f64)
    );
    Some(Finding::ok(
        Topic::Memory,
        "[http] cache and [ndn] content_store",
        text,
    ))
}

/// Says as which user a node would run.
pub(super) fn user(config: &Config, problems: &[String]) -> Option<Finding> {
    let place = "[process] user";
    let is_known = problems.iter().any(|problem| problem.starts_with(place));
    let has_address = config.http.enabled || config.ndn.enabled;
    match &config.process.user {
        _ if is_known || !has_address => None,
        Some(user) => Some(Finding::ok(
            Topic::Permissions,
            place,
            format!("{user:?} can open the files of the configuration"),
        )),
        None if geteuid().is_root() => Some(Finding::new(
            Level::Note,
            Topic::Permissions,
            place,
            "this is root's shell, and a node that it starts stays root",
            "set [process] user, or start it as a service of another user (packages do)",
        )),
        None => None,
    }
}

/// Looks at the clock: certificates, `Date` and signed commands depend on it.
pub(super) fn clock() -> Vec<Finding> {
    let place = "the system's clock";
    let now = preflight::unix_seconds();
    if now < EARLIEST_SECONDS {
        let text =
            "it is before 2025: no certificate is valid yet, and stored responses have wrong ages";
        let remedy = "set it (`date --set`), and start chrony or systemd-timesyncd";
        return vec![Finding::new(
            Level::Error,
            Topic::Clock,
            place,
            text,
            remedy,
        )];
    }
    let found = match system_calls::is_synchronised() {
        Ok(true) => Finding::ok(Topic::Clock, place, "set, and synchronised"),
        Ok(false) => Finding::new(
            Level::Warning,
            Topic::Clock,
            place,
            "the kernel does not know that it is synchronised (adjtimex)",
            "start chrony or systemd-timesyncd, on the host if this is a container",
        ),
        Err(error) => Finding::new(
            Level::Note,
            Topic::Clock,
            place,
            format!("set; whether it is synchronised is not visible here: {error}"),
            "look at it on the host (`timedatectl`)",
        ),
    };
    vec![found]
}
