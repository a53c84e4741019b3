//! The registry of the process. It is set once, so this test has a program of its own.

use larder_policy::{Build, PolicyEntry, Registry, Spec, registry};

const ENTRY: PolicyEntry = PolicyEntry {
    name: "mine",
    citation: "none",
    summary: "cannot be built",
    parameters: &[],
    complexity: "O(1)",
    bytes_an_object: 0,
    needs_path: false,
    build: Build::Eviction(|_, _| Err("cannot be built".to_owned())),
};

/// Failure: configuration files and command lines do not know a policy that the program added.
#[test]
fn an_installed_registry_is_not_that_of_strings() {
    Registry::builtin()
        .register(&ENTRY)
        .unwrap()
        .install()
        .unwrap();
    assert_eq!(
        "filter+mine".parse::<Spec>().unwrap().to_string(),
        "filter+mine"
    );
    assert!(registry().get("mine").is_some());
    assert!(Registry::builtin().get("mine").is_none());
    let second = Registry::builtin().install().expect_err("there is one");
    assert_eq!(second.len(), Registry::builtin().len());
}
