//! Policies that only these experiments need: other readings of the text, and exact counts in place
//! of tables with collisions.

use super::{duel, exact_filter, lfu_of_all};
use larder_policy::Registry;
use std::sync::LazyLock;

/// The policies of Larder, and those of these experiments.
pub(super) static POLICIES: LazyLock<Registry> = LazyLock::new(|| {
    let further = [&duel::ENTRY, &exact_filter::ENTRY, &lfu_of_all::ENTRY];
    let add = |registry: Registry, entry| registry.clone().register(entry).unwrap_or(registry);
    further.into_iter().fold(Registry::builtin(), add)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_does_not_know_its_own_policy() {
        assert_eq!(POLICIES.len(), Registry::builtin().len() + 3);
    }
}
