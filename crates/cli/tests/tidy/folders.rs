//! The rule for folders: a reader finds a file without searching.

use super::Source;
use std::collections::BTreeMap;

/// Folders with more files than [`FILES`], and how many they may have.
pub(crate) const LISTED: [(&str, usize); 7] = [
    // One file for each policy, in alphabetical order.
    ("crates/policy/src/evict", 40),
    // One file for each command.
    ("crates/cli/src", 32),
    // One file for each kind of failure.
    ("crates/cli/tests", 30),
    // One file for each kind of failure, with a name that says which.
    ("crates/forwarder/tests/failures", 40),
    ("crates/http/tests/failures", 30),
    ("crates/node/tests/ndn", 30),
    ("crates/proxy/tests", 60),
];

/// The most source files of a folder.
const FILES: usize = 20;

/// Returns the folders with more files than they may have, and those that need not be listed.
pub(crate) fn full_folders(sources: &[Source], listed: &[(&str, usize)]) -> Vec<String> {
    let mut folders = BTreeMap::<&str, usize>::new();
    for source in sources {
        if let Some((folder, _)) = source
            .path
            .rsplit_once('/')
            .filter(|(folder, _)| folder.contains("/src") || folder.contains("/tests"))
        {
            *folders.entry(folder).or_default() += 1;
        }
    }
    let mut violations = Vec::new();
    for (folder, files) in folders {
        let most = listed
            .iter()
            .find(|(name, _)| *name == folder)
            .map(|(_, most)| *most);
        if files > most.unwrap_or(FILES) {
            violations.push(format!(
                "{folder}: {files} files, at most {}",
                most.unwrap_or(FILES)
            ));
        }
        if most.is_some() && files <= FILES {
            violations.push(format!(
                "{folder}: {files} files, and is listed as a full folder"
            ));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: usize, listed: &[(&str, usize)]) -> usize {
        let source = |number| Source {
            path: format!("crates/planted/src/{number}.rs"),
            text: String::new(),
        };
        full_folders(&(0..files).map(source).collect::<Vec<_>>(), listed).len()
    }

    #[test]
    fn a_planted_full_folder_is_found() {
        assert_eq!((found(FILES, &[]), found(FILES + 1, &[])), (0, 1));
        let listed = [("crates/planted/src", 30)];
        assert_eq!(
            (
                found(30, &listed),
                found(31, &listed),
                found(FILES, &listed)
            ),
            (0, 1, 1)
        );
    }
}
