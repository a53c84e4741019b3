//! Failure: the lock file of `fuzz/` is out of date. `fuzz/` is a workspace of its own, so
//! `cargo test` does not update its lock file, and `fuzz/smoke` builds with `--locked`. The test
//! compares the dependencies of each of the project's packages with its manifest.
//! (`cargo metadata --locked` would need the registry.)

use std::collections::BTreeSet;
use std::path::Path;
use toml::{Table, Value};

fn read(file: &str) -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(file);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap()
}

/// The names of a package's dependencies in a lock file. A version follows a name that occurs
/// twice.
fn locked(package: &Value) -> BTreeSet<String> {
    let entries = package
        .get("dependencies")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    entries
        .filter_map(|entry| Some(entry.as_str()?.split(' ').next()?.to_owned()))
        .collect()
}

/// The names of a manifest's dependencies, without those of tests.
fn declared(manifest: &Table) -> BTreeSet<String> {
    let targets = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(|targets| targets.values());
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    let names = |table: &Table, section: &str| -> Vec<String> {
        table
            .get(section)
            .and_then(Value::as_table)
            .map_or_else(Vec::new, |found| found.keys().cloned().collect())
    };
    tables
        .flat_map(|table| {
            [
                names(table, "dependencies"),
                names(table, "build-dependencies"),
            ]
        })
        .flatten()
        .collect()
}

#[test]
fn the_lock_file_of_the_fuzz_targets_is_stale() {
    let lock = read("fuzz/Cargo.lock");
    let mut compared = 0;
    for package in lock["package"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let Some(short) = name.strip_prefix("larder-") else {
            continue;
        };
        let directory = if short == "fuzz" {
            "fuzz".to_owned()
        } else {
            format!("crates/{}", short.replace('-', "_"))
        };
        let manifest = read(&format!("{directory}/Cargo.toml"));
        assert_eq!(
            locked(package),
            declared(&manifest),
            "{name}: run `cargo metadata` in fuzz/"
        );
        compared += 1;
    }
    assert!(
        compared > 5,
        "{compared} of the project's packages are in the lock file"
    );
}
