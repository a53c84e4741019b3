//! Reads the configuration again while the node runs: the keys that have changed, and those of them
//! that can change at once.

use crate::config::{Config, ConfigSources};
use crate::error::{NodeError, ReloadError};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// The keys that change while the node runs, and the tables of which all keys do; all others need a
/// restart. The embedded configuration documents this too.
const AT_ONCE: [&str; 40] = [
    "admin.token",
    "http.accept_encoding",
    "http.access_log",
    "http.cache",
    "http.client_no_cache",
    "http.limits",
    "http.listen",
    "http.max_object",
    "http.origin",
    "http.origin_ca",
    "http.origin_protocol",
    "http.origin_resolve",
    "http.origins",
    "http.policy",
    "http.redirect_to_https",
    "http.request_id",
    "http.resolver",
    "http.rules",
    "http.share_cookies",
    "http.slice",
    "http.targets",
    "http.timeouts",
    "http.tls.certificate",
    "http.tls.certificates",
    "http.tls.client_ca",
    "http.tls.client_certificates",
    "http.tls.key",
    "http.tls.listen",
    "http.tls.min_version",
    "http.trusted_headers",
    "http.trusted_proxies",
    "log.level",
    "ndn.authorize",
    "ndn.content_store",
    "ndn.count_by",
    "ndn.localhop_registration",
    "ndn.policy",
    "ndn.route",
    "ndn.strategy",
    "ndn.verify",
];

/// What the node was started with, and the values that it runs with.
pub(crate) struct Running {
    sources: ConfigSources,
    /// The running configuration: for keys that need a restart, the values at the start.
    table: Table,
}

/// Keys that have changed, such as `http.cache`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// These were applied.
    pub(crate) applied: Vec<String>,
    /// They need a restart.
    pub(crate) waiting: Vec<String>,
}

impl Running {
    pub(crate) fn new(sources: ConfigSources) -> Running {
        let table = sources.read().map(|loaded| loaded.table).unwrap_or_default();
        Running { sources, table }
    }

    /// Reads the file, with the variables and flags of the start, and passes the configuration to
    /// `apply`. It returns the tables whose part of the node does not run: their keys need a
    /// restart.
    ///
    /// # Errors
    /// One line for each error. Nothing is applied then.
    pub(crate) fn reread(
        &mut self,
        apply: impl FnOnce(&Config) -> Result<Vec<&'static str>, NodeError>,
    ) -> Result<Changes, ReloadError> {
        let loaded = self.sources.read().map_err(ReloadError::Config)?;
        let idle = apply(&loaded.config).map_err(ReloadError::Part)?;
        let runs = |key: &&str| !idle.iter().any(|table| is_within(key, table));
        let at_once: Vec<&str> = AT_ONCE.into_iter().filter(runs).collect();
        let mut changes = Changes::default();
        for key in changed(&self.table, &loaded.table, "") {
            let applies = at_once.iter().any(|at_once| is_within(&key, at_once));
            if applies { &mut changes.applied } else { &mut changes.waiting }.push(key);
        }
        for key in at_once {
            copy(&loaded.table, &mut self.table, key);
        }
        Ok(changes)
    }
}

/// Returns true if a key is `table`, or one of its keys.
fn is_within(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the keys whose values differ: those of tables one by one, arrays as a whole.
fn changed(one: &Table, other: &Table, prefix: &str) -> Vec<String> {
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let empty = Table::new();
    let mut differing = Vec::new();
    for key in keys {
        let path = format!("{prefix}{key}");
        match (one.get(key), other.get(key)) {
            (Some(Value::Table(one)), Some(Value::Table(other))) => {
                differing.extend(changed(one, other, &format!("{path}.")));
            }
            (Some(Value::Table(table)), None) | (None, Some(Value::Table(table))) => {
                differing.extend(changed(table, &empty, &format!("{path}.")));
            }
            (one, other) if one != other => differing.push(path),
            _ => {}
        }
    }
    differing
}

/// Copies the value of a key from one table to the other. If only one of them has the key's own
/// table, it stays, because that is a change itself.
fn copy(from: &Table, to: &mut Table, key: &str) {
    let Some((table, rest)) = key.split_once('.') else {
        match from.get(key) {
            Some(value) => drop(to.insert(key.to_owned(), value.clone())),
            None => drop(to.remove(key)),
        }
        return;
    };
    let empty = Table::new();
    let from = match from.get(table) {
        Some(Value::Table(from)) => from,
        _ => &empty,
    };
    if from.is_empty() && !to.contains_key(table) {
        return;
    }
    if let Value::Table(to) = to.entry(table).or_insert_with(|| Value::Table(Table::new())) {
        copy(from, to, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a change that needs a restart is reported once and forgotten, or reported as
    /// applied.
    #[test]
    fn what_waits_is_named_every_time_and_what_was_applied_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write("[http]\norigin = \"http://a:1\"\nthreads = 1\n");
        let mut file = Running::new(ConfigSources::new(Some(&path), []));
        let mut reread = |text: &str| {
            write(text);
            let reread = file.reread(|_| Ok(Vec::new()));
            reread
                .map(|changes| (changes.applied.join(" "), changes.waiting.join(" ")))
                .map_err(|error| error.to_string())
        };
        let changed = "[http]\norigin = \"http://b:1\"\nthreads = 2\n[http.timeouts]\norigin_read = \"9s\"\n[admin]\ntoken = \"0123456789abcdef\"\n[log]\nformat = \"json\"";
        let both = |applied: &str, waiting: &str| Ok((applied.to_owned(), waiting.to_owned()));
        assert_eq!(
            reread(changed),
            both("admin.token http.origin http.timeouts.origin_read", "http.threads log.format")
        );
        assert_eq!(reread(changed), both("", "http.threads log.format"));
        let wrong = reread("[http]\norigin = \"ftp://c\"").unwrap_err();
        assert!(wrong.contains("larder.toml:2") && wrong.contains("ftp://c"), "{wrong}");
        assert_eq!(
            reread("[http]\norigin = \"http://b:1\"\nthreads = 1\n"),
            both("admin.token http.timeouts.origin_read", "")
        );
        let origins = "[http]\nthreads = 1\n[[http.origins]]\nservers = [\"http://a:1\"]\n";
        assert_eq!(reread(origins), both("http.origin http.origins", ""));
        // A part that does not run.
        write("[http]\nthreads = 1\nlisten = \"127.0.0.1:1\"\n[admin]\ntoken = \"0123456789abcdef\"\n");
        for _ in 0..2 {
            let changes = file.reread(|_| Ok(vec!["http"])).unwrap();
            assert_eq!(changes.waiting, ["http.listen", "http.origins"]);
        }
    }
}
