//! Reads the configuration again while the node runs: the keys that have changed, and those of them
//! that change only when a process starts.

use crate::config::{Config, ConfigError, ConfigSources, waiting};
use crate::error::{NodeError, ReloadError};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// What a node was started with, and the values that it runs with: [`RunningConfig::load`].
pub struct RunningConfig {
    sources: ConfigSources,
    /// The running configuration: for keys that wait, the values at the start.
    table: Table,
    /// See [`Loaded::differences`].
    differences: Vec<[String; 4]>,
}

/// Keys that have changed, such as `http.cache`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// They apply at once.
    pub(crate) applied: Vec<String>,
    /// They need an upgrade or a restart.
    pub(crate) waiting: Vec<String>,
}

impl Changes {
    /// Returns true if this key, or one of this table, changes at once.
    pub(crate) fn apply_to(&self, key: &str) -> bool {
        self.applied.iter().any(|applied| is_within(applied, key))
    }
}

impl RunningConfig {
    /// Reads the configuration for a start, and remembers it for reloads. One reading serves both:
    /// a file that changes during the start is compared with what the node runs with.
    ///
    /// # Errors
    /// As [`ConfigSources::load`].
    pub fn load(sources: ConfigSources) -> Result<(Config, RunningConfig), ConfigError> {
        let loaded = sources.read()?;
        let running = RunningConfig {
            differences: loaded.differences(),
            table: loaded.table,
            sources,
        };
        Ok((loaded.config, running))
    }

    /// Returns the keys that differ from their defaults, of the last reading that was right: see
    /// [`Loaded::differences`].
    pub(crate) fn differences(&self) -> &[[String; 4]] {
        &self.differences
    }

    /// Reads the file, with the variables and flags of the start, and passes the configuration and
    /// its changes to `apply`. `runs` tells whether the part of the node with this table runs:
    /// otherwise all its keys apply when it starts.
    ///
    /// # Errors
    /// One line for each error. Nothing is applied then.
    pub(crate) fn reread(
        &mut self,
        runs: impl Fn(&str) -> bool,
        apply: impl FnOnce(&Config, &Changes) -> Result<(), NodeError>,
    ) -> Result<Changes, ReloadError> {
        let mut loaded = self.sources.read().map_err(ReloadError::Config)?;
        let waiting: Vec<&str> = waiting()
            .filter(|key| runs(key.split('.').next().unwrap_or_default()))
            .collect();
        let mut changes = Changes::default();
        for key in changed(&self.table, &loaded.table, "") {
            let waits = waiting.iter().any(|waiting| is_within(&key, waiting));
            if waits {
                &mut changes.waiting
            } else {
                &mut changes.applied
            }
            .push(key);
        }
        apply(&loaded.config, &changes).map_err(ReloadError::Part)?;
        self.differences = loaded.differences();
        for key in waiting {
            copy(&self.table, &mut loaded.table, key);
        }
        self.table = loaded.table;
        Ok(changes)
    }
}

/// Returns true if a key is `table`, or one of its keys.
fn is_within(key: &str, table: &str) -> bool {
    key.strip_prefix(table)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
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
    if let Value::Table(to) = to
        .entry(table)
        .or_insert_with(|| Value::Table(Table::new()))
    {
        copy(from, to, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a change that waits is reported once and forgotten, or reported as applied.
    #[test]
    fn what_waits_is_named_every_time_and_what_was_applied_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write("[http]\norigin = \"http://a:1\"\n[ndn]\nshards = 1\n");
        let (_, mut file) = RunningConfig::load(ConfigSources::new(Some(&path), [])).unwrap();
        let mut reread = |text: &str, runs: bool| {
            write(text);
            let reread = file.reread(|_| runs, |_, _| Ok(()));
            reread
                .map(|changes| (changes.applied.join(" "), changes.waiting.join(" ")))
                .map_err(|error| error.to_string())
        };
        let changed = "[http]\norigin = \"http://b:1\"\n[http.timeouts]\norigin_read = \"9s\"\n[admin]\ntoken = \"0123456789abcdef\"\n[ndn]\nshards = 2\n[process]\nuser = \"larder\"";
        let both = |applied: &str, waiting: &str| Ok((applied.to_owned(), waiting.to_owned()));
        assert_eq!(
            reread(changed, true),
            both(
                "admin.token http.origin http.timeouts.origin_read",
                "ndn.shards process.user"
            )
        );
        assert_eq!(reread(changed, true), both("", "ndn.shards process.user"));
        let wrong = reread("[http]\norigin = \"ftp://c\"", true).unwrap_err();
        assert!(
            wrong.contains("larder.toml:2") && wrong.contains("ftp://c"),
            "{wrong}"
        );
        assert_eq!(
            reread("[http]\norigin = \"http://b:1\"\n[ndn]\nshards = 1\n", true),
            both("admin.token http.timeouts.origin_read", "")
        );
        let origins = "[ndn]\nshards = 1\n[[http.origins]]\nservers = [\"http://a:1\"]\n";
        assert_eq!(reread(origins, true), both("http.origin http.origins", ""));
        let disk = "[ndn]\nshards = 2\n[http.disk]\npath = \"/a\"\ncapacity = \"1GiB\"\n";
        assert_eq!(
            reread(disk, true),
            both(
                "http.origins",
                "http.disk.capacity http.disk.path ndn.shards"
            )
        );
        // A part that does not run starts with them.
        assert_eq!(
            reread(disk, false),
            both("http.disk.capacity http.disk.path ndn.shards", "")
        );
    }

    /// Failure: a change of the file between its reading and the first reload is never applied, as
    /// when the file was read a second time after the start.
    #[test]
    fn a_change_during_the_start_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        std::fs::write(&path, "[log]\nlevel = \"info\"\n").unwrap();
        let (config, mut running) =
            RunningConfig::load(ConfigSources::new(Some(&path), [])).unwrap();
        std::fs::write(&path, "[log]\nlevel = \"debug\"\n").unwrap();
        assert_eq!(config.log.level, tracing::Level::INFO);
        assert_eq!(running.differences(), &[[""; 4]; 0]);
        let changes = running.reread(|_| true, |_, _| Ok(())).unwrap();
        assert_eq!(changes.applied, ["log.level"]);
        assert_eq!(running.differences().len(), 1);
    }

    /// Failure: a refused reload changes what the next one is compared with.
    #[test]
    fn a_refused_change_is_taken_for_an_applied_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        std::fs::write(&path, "[log]\nlevel = \"info\"\n").unwrap();
        let (_, mut file) = RunningConfig::load(ConfigSources::new(Some(&path), [])).unwrap();
        std::fs::write(&path, "[log]\nlevel = \"debug\"\n").unwrap();
        assert!(
            file.reread(|_| true, |_, _| Err(NodeError::AllEnded))
                .is_err()
        );
        assert_eq!(
            file.reread(|_| true, |_, _| Ok(())).unwrap().applied,
            ["log.level"]
        );
    }

    /// Failure: the documentation does not name a key that waits, with its reason.
    #[test]
    fn a_key_that_waits_is_not_documented() {
        let page = include_str!("../../../docs/guides/running.md");
        let waiting: Vec<&str> = waiting().collect();
        assert!(waiting.len() >= 9, "{waiting:?}");
        for key in waiting {
            assert!(
                page.contains(&format!("`{key}`")),
                "docs/guides/running.md does not name {key}"
            );
        }
    }
}
