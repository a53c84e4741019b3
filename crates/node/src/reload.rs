//! Reads the configuration file again while the node runs: the keys that have changed, and those of
//! them that can change at once.

use crate::config::Config;
use crate::error::{NodeError, ReloadError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The keys that change while the node runs; all others need a restart. The embedded configuration
/// documents this too.
const AT_ONCE: [&str; 19] = [
    "admin.token",
    "http.origin",
    "http.origin_ca",
    "http.origins",
    "http.rules",
    "http.tls.certificate",
    "http.tls.certificates",
    "http.tls.client_ca",
    "http.tls.client_certificates",
    "http.tls.key",
    "http.tls.min_version",
    "ndn.authorize",
    "ndn.content_store",
    "ndn.count_by",
    "ndn.localhop_registration",
    "ndn.policy",
    "ndn.route",
    "ndn.strategy",
    "ndn.verify",
];

/// The file that the node was started with, and its content.
pub(crate) struct ConfigFile {
    path: PathBuf,
    /// The running configuration: for keys that need a restart, the values at the start.
    running: Table,
}

/// Keys that have changed, such as `http.cache`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// These were applied.
    pub(crate) applied: Vec<String>,
    /// They need a restart.
    pub(crate) waiting: Vec<String>,
}

impl ConfigFile {
    pub(crate) fn new(path: &Path) -> ConfigFile {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        ConfigFile { path: path.to_owned(), running: text.parse().unwrap_or_default() }
    }

    /// Reads the file, and passes its configuration to `apply`.
    ///
    /// # Errors
    /// One line. If the file has an error, nothing is applied.
    pub(crate) fn reread(
        &mut self,
        apply: impl FnOnce(&Config) -> Result<(), NodeError>,
    ) -> Result<Changes, ReloadError> {
        let text = std::fs::read_to_string(&self.path)
            .map_err(|error| ReloadError::Read { path: self.path.clone(), error })?;
        let config = Config::parse(&text, &self.path.display().to_string()).map_err(ReloadError::Config)?;
        // The configuration has been read from the same text.
        let said: Table = text.parse().unwrap_or_default();
        apply(&config).map_err(ReloadError::Part)?;
        let mut changes = Changes::default();
        for key in changed(&self.running, &said, "") {
            let applies = AT_ONCE.contains(&key.as_str());
            if applies { &mut changes.applied } else { &mut changes.waiting }.push(key);
        }
        for key in AT_ONCE {
            copy(&said, &mut self.running, key);
        }
        Ok(changes)
    }
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
        write("[http]\norigin = \"http://a:1\"\ncache = \"1MiB\"\n");
        let mut file = ConfigFile::new(&path);
        let mut reread = |text: &str| {
            write(text);
            let reread = file.reread(|_| Ok(()));
            reread
                .map(|changes| (changes.applied.join(" "), changes.waiting.join(" ")))
                .map_err(|error| error.to_string())
        };
        let changed = "[http]\norigin = \"http://b:1\"\ncache = \"2MiB\"\n[admin]\ntoken = \"0123456789abcdef\"\n[log]\nlevel = \"warn\"";
        let both = |applied: &str, waiting: &str| Ok((applied.to_owned(), waiting.to_owned()));
        assert_eq!(reread(changed), both("admin.token http.origin", "http.cache log.level"));
        assert_eq!(reread(changed), both("", "http.cache log.level"));
        let wrong = reread("[http]\norigin = \"ftp://c\"").unwrap_err();
        assert!(wrong.contains("larder.toml:2") && wrong.contains("ftp://c"), "{wrong}");
        assert_eq!(reread("[http]\norigin = \"http://b:1\"\ncache = \"1MiB\"\n"), both("admin.token", ""));
        let origins = "[http]\ncache = \"1MiB\"\n[[http.origins]]\nservers = [\"http://a:1\"]\n";
        assert_eq!(reread(origins), both("http.origin http.origins", ""));
    }
}
