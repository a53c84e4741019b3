//! What is wrong on this machine, and what to do: `larder doctor`.
//!
//! It begins with the problems of [`crate::preflight::check`], which would prevent a start. Then it
//! looks at what a start does not try: the program that has a port, limits and features of the
//! system, the clock, the room on disks, the time for which certificates are valid, and whether
//! the origins can be reached. It changes nothing, before a start or while the node runs.

mod authority;
mod certificates;
mod folders;
mod kernel;
mod machine;
mod object_store;
mod origins;
mod permissions;
mod ports;
mod system_calls;

use crate::config::ConfigSources;
use crate::preflight;
use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing has to be done.
    Ok,
    /// It works, and could work better, or is worth knowing.
    Note,
    /// It works now, and hardly as intended, or not for long.
    Warning,
    /// A node does not start, or does not do its work.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        })
    }
}

/// The subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The file, the variables and the flags.
    Configuration,
    /// Addresses and socket files.
    Ports,
    /// The number of open files.
    Descriptors,
    /// Features and settings of the kernel.
    Kernel,
    /// The time of the system.
    Clock,
    /// Memory.
    Memory,
    /// Disk tiers, and the file systems of folders.
    Disk,
    /// Certificates, keys, and the folder of ACME.
    Certificates,
    /// The user of the node, and what it may open.
    Permissions,
    /// The servers behind the cache.
    Origins,
    /// The bucket of the third tier.
    ObjectStore,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Topic::Configuration => "configuration",
            Topic::Ports => "ports",
            Topic::Descriptors => "descriptors",
            Topic::Kernel => "kernel",
            Topic::Clock => "clock",
            Topic::Memory => "memory",
            Topic::Disk => "disk",
            Topic::Certificates => "certificates",
            Topic::Permissions => "permissions",
            Topic::Origins => "origins",
            Topic::ObjectStore => "object store",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What it is about.
    pub topic: Topic,
    /// The setting, the file or the value of the system.
    pub place: String,
    /// What was found.
    pub text: String,
    /// What to do; empty if nothing has to be done.
    pub remedy: String,
}

impl Finding {
    fn ok(topic: Topic, place: impl Into<String>, text: impl Into<String>) -> Finding {
        Finding::new(Level::Ok, topic, place, text, "")
    }

    fn new(
        level: Level,
        topic: Topic,
        place: impl Into<String>,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            level,
            topic,
            place: place.into(),
            text: text.into(),
            remedy: remedy.into(),
        }
    }
}

/// Looks at the configuration and at the machine. The findings are in the order of their topics.
pub fn examine(sources: &ConfigSources) -> Vec<Finding> {
    // The holders of ports are looked for first: the check may give up root's rights to files.
    let holders = ports::Holders::read();
    let Some(checked) = preflight::check_in_time(sources) else {
        let (text, remedy) = preflight::NO_END;
        let place = place_of_file(sources);
        return vec![Finding::new(Level::Error, Topic::Disk, place, text, remedy)];
    };
    let mut findings = Vec::new();
    let Some(config) = &checked.config else {
        findings.extend(checked.problems.iter().map(|problem| of_problem(problem)));
        findings.extend(kernel::findings(None));
        findings.extend(machine::clock());
        return in_order(findings);
    };
    let running = preflight::running_node(config);
    let (of_ports, others) = ports::findings(config, &checked.problems, running, &holders);
    findings.extend(of_ports);
    findings.extend(others.iter().map(|problem| of_problem(problem)));
    for warning in &checked.warnings {
        let (place, text, remedy) = parts(warning);
        let finding = Finding::new(Level::Warning, Topic::Memory, place, text, remedy);
        findings.push(finding);
    }
    if checked.problems.is_empty() {
        let text = match running {
            Some(pid) => format!("nothing prevents a start; process {pid} runs by it"),
            None => "nothing prevents a start".to_owned(),
        };
        findings.push(Finding::ok(
            Topic::Configuration,
            place_of_file(sources),
            text,
        ));
    }
    findings.push(machine::descriptors(config, running));
    findings.extend(machine::memory(config, &checked.warnings));
    findings.extend(machine::user(config, &checked.problems));
    findings.extend(permissions::token(config));
    findings.extend(kernel::findings(Some(config)));
    findings.extend(machine::clock());
    findings.extend(folders::findings(config, &checked.problems));
    findings.extend(certificates::findings(config, preflight::unix_seconds()));
    findings.extend(authority::findings(config));
    findings.extend(origins::findings(config));
    findings.extend(object_store::finding(config));
    in_order(findings)
}

fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| finding.topic);
    findings
}

fn place_of_file(sources: &ConfigSources) -> String {
    let file = sources.file();
    file.map_or("the default configuration".to_owned(), |file| {
        file.display().to_string()
    })
}

/// Returns the finding for a problem that would prevent a start.
fn of_problem(problem: &str) -> Finding {
    let (place, text, remedy) = parts(problem);
    Finding::new(Level::Error, topic_of(&place), place, text, remedy)
}

/// Divides a line into its setting, the problem and the remedy.
fn parts(line: &str) -> (String, String, String) {
    let (place, rest) = if line.starts_with('[') {
        line.split_once(": ").unwrap_or(("", line))
    } else {
        // The file and the line, and perhaps the setting.
        let after_place = line.find(": ").map_or(0, |at| at + 2);
        line.split_at(after_place)
    };
    let (text, remedy) = rest.split_once("; ").unwrap_or((rest, ""));
    let place = place.trim_end_matches([' ', ':']);
    (place.to_owned(), text.to_owned(), remedy.to_owned())
}

/// Returns the subject of a setting, such as `[http.tls] key`.
fn topic_of(place: &str) -> Topic {
    let (table, key) = place.split_once(']').unwrap_or((place, ""));
    let table = table.trim_start_matches('[');
    let key = key.trim_start_matches(']').trim();
    match (table, key.split(' ').next().unwrap_or_default()) {
        (_, "listen" | "udp" | "tcp" | "websocket" | "unix" | "ethernet" | "udp_multicast") => {
            Topic::Ports
        }
        (table, _) if table.starts_with("http.tls") => Topic::Certificates,
        (table, _) if table.ends_with(".disk") => Topic::Disk,
        ("http.object_store", _) => Topic::ObjectStore,
        ("process" | "http.access_log", _) => Topic::Permissions,
        ("http.origins", _) | ("http", "origin" | "origin_ca") => Topic::Origins,
        _ => Topic::Configuration,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a problem of a start has another subject than its setting, or its remedy is lost.
    #[test]
    fn a_problem_is_filed_under_another_subject() {
        for (line, topic, place, text, remedy) in [
            (
                "[http] listen: 127.0.0.1:80 is in use; stop the other program",
                Topic::Ports,
                "[http] listen",
                "127.0.0.1:80 is in use",
                "stop the other program",
            ),
            (
                "[[http.tls.certificates]] key: /a: no key",
                Topic::Certificates,
                "[[http.tls.certificates]] key",
                "/a: no key",
                "",
            ),
            (
                "larder.toml:3: [http] cache: expected a size",
                Topic::Configuration,
                "larder.toml:3",
                "[http] cache: expected a size",
                "",
            ),
            (
                "[process] user = \"x\": this system has no such user; make one",
                Topic::Permissions,
                "[process] user = \"x\"",
                "this system has no such user",
                "make one",
            ),
        ] {
            let found = of_problem(line);
            assert_eq!(
                (found.topic, &*found.place, &*found.text, &*found.remedy),
                (topic, place, text, remedy)
            );
        }
    }
}
