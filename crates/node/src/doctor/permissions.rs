//! Files with secrets that every user of the machine can read.

use super::{Finding, Level, Topic};
use crate::config::Config;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Returns the permissions of a file; `None` if it cannot be seen.
pub(super) fn mode(path: &Path) -> Option<u32> {
    Some(std::fs::metadata(path).ok()?.permissions().mode() & 0o777)
}

/// Returns true if users who neither own the folders above a file nor are of their groups can get
/// to it.
pub(super) fn is_within_reach(path: &Path) -> bool {
    // Folders of symbolic links do not hide a file that has another path.
    let Ok(real) = path.canonicalize() else {
        return true;
    };
    let mut folders = real.ancestors().skip(1);
    folders.all(|folder| mode(folder).is_none_or(|mode| mode & 0o001 != 0))
}

/// Warns of a configuration with the admin server's token that every user can read.
pub(super) fn token(config: &Config) -> Option<Finding> {
    let path = config.source.as_deref()?;
    let mode = mode(path).filter(|mode| mode & 0o004 != 0)?;
    // The token may also come from a variable or a flag.
    let table: toml::Table = std::fs::read_to_string(path).ok()?.parse().ok()?;
    let token = table.get("admin")?.get("token")?.as_str()?;
    if token.is_empty() || !is_within_reach(path) {
        return None;
    }
    let path = path.display();
    Some(Finding::new(
        Level::Warning,
        Topic::Permissions,
        "[admin] token",
        format!("{path}: mode {mode:04o}: every user of this machine can read the token"),
        format!("`chmod o= {path}`; the user of the node has to be able to read it"),
    ))
}
