//! The registry of the process. It is set once, so this test has a program of its own.

use larder_forwarder::strategy::{
    Decision, Strategy, StrategyEntry, StrategyRegistry, strategy_by_name,
};
use larder_forwarder::{Config, Forwarder};
use larder_packet::Name;
use larder_policy::Engine;
use larder_units::{ByteSize, Streams};

struct Refuses;

impl Strategy for Refuses {
    fn on_interest(&mut self, _: &mut Decision<'_>) {}

    fn on_nack(&mut self, _: &mut Decision<'_>) {}
}

/// Failure: configuration files, scenarios and new forwarders do not know a strategy that the
/// program added.
#[test]
fn an_installed_registry_is_not_that_of_strings_and_forwarders() {
    let mut registry = StrategyRegistry::builtin();
    registry
        .register(StrategyEntry {
            name: "refuses",
            version: 1,
            summary: "a strategy of this test",
            parameters: &[],
            build: |_, _| Ok(Box::new(Refuses)),
        })
        .unwrap();
    registry.install().unwrap();
    let name = strategy_by_name("refuses").unwrap();
    let streams = Streams::new(1);
    let engine = Engine::new(
        &"lru".parse().unwrap(),
        ByteSize::from_bytes(1000),
        &streams,
    )
    .unwrap();
    let mut forwarder = Forwarder::new(Config::new([1, 2], streams), engine);
    forwarder.set_strategy(&Name::root(), &name).unwrap();
    assert!(StrategyRegistry::builtin().by_name("refuses").is_err());
    assert!(StrategyRegistry::builtin().install().is_err());
}

/// Failure: a parameter that the reference has is refused.
#[test]
fn a_parameter_of_a_strategy_does_not_exist() {
    let registry = StrategyRegistry::builtin();
    for entry in registry.entries() {
        for parameter in entry.parameters {
            let (strategy, version) = (entry.name, entry.version);
            let (key, value) = (parameter.name, parameter.default);
            let name = format!("/localhost/nfd/strategy/{strategy}/v={version}/{key}~{value}");
            if let Err(error) = registry.by_name(&name) {
                panic!("{name}: {error}");
            }
        }
    }
}
