//! The strategy choice table: the strategy of each prefix (NFD developer guide, "Strategy Choice
//! Table").

use super::{Instance, Strategy};
use crate::tables::name_hash::{Lengths, NameHasher, Prefix};
use crate::tables::prefix_table::PrefixTable;
use larder_packet::{Name, NameRef};
use larder_units::{Streams, Time};

/// The strategies, by prefix. The root always has one.
pub(crate) struct StrategyChoices {
    table: PrefixTable<Instance>,
    /// The number of strategies that measure. If there is none, no lookup is made for them.
    measuring: usize,
    /// The number of strategies that hold Interests back. If there is none, no strategy is asked
    /// for them.
    holding: usize,
}

impl StrategyChoices {
    /// Creates a table with the default strategy at the root.
    pub(crate) fn new(hasher: &NameHasher, streams: &Streams) -> Self {
        let mut choices = StrategyChoices {
            table: PrefixTable::new(),
            measuring: 0,
            holding: 0,
        };
        let root = Name::root();
        choices.insert(hasher, root.as_name(), Instance::default_of_root(streams));
        choices
    }

    /// Returns the table, to read it.
    pub(crate) fn table(&self) -> &PrefixTable<Instance> {
        &self.table
    }

    /// Returns the lengths of the prefixes.
    #[inline]
    pub(crate) fn lengths(&self) -> Lengths {
        self.table.lengths()
    }

    /// Returns the strategy of a name.
    #[inline]
    pub(crate) fn longest_match_mut(
        &mut self,
        name: NameRef<'_>,
        prefixes: &[Prefix],
    ) -> Option<&mut Instance> {
        self.table.longest_match_mut(name, prefixes)
    }

    /// Returns all strategies, in no order.
    pub(crate) fn strategies_mut(&mut self) -> impl Iterator<Item = &mut dyn Strategy> {
        let instances = self.table.values_mut();
        instances.map(|instance| &mut *instance.strategy as &mut dyn Strategy)
    }

    /// Sets the strategy of a prefix. Returns the one before.
    pub(crate) fn insert(
        &mut self,
        hasher: &NameHasher,
        prefix: NameRef<'_>,
        instance: Instance,
    ) -> Option<Instance> {
        let before = self.table.insert(hasher, prefix, instance);
        self.count();
        before
    }

    /// Removes the strategy of exactly this prefix, and returns it. The root must keep one.
    pub(crate) fn remove(&mut self, hasher: &NameHasher, prefix: NameRef<'_>) -> Option<Instance> {
        let before = self.table.remove(hasher, prefix);
        self.count();
        before
    }

    fn count(&mut self) {
        let strategies = || self.table.values().map(|instance| &instance.strategy);
        self.measuring = strategies().filter(|strategy| strategy.measures()).count();
        self.holding = strategies().filter(|strategy| strategy.holds()).count();
    }

    /// Returns true if a strategy measures.
    #[inline]
    pub(crate) fn any_measures(&self) -> bool {
        self.measuring > 0
    }

    /// Returns true if a strategy holds Interests back.
    pub(crate) fn any_holds(&self) -> bool {
        self.holding > 0
    }

    /// Returns the time at which a strategy releases an Interest.
    pub(crate) fn next_release(&self) -> Option<Time> {
        if self.holding == 0 {
            return None;
        }
        let instances = self.table.values();
        instances
            .filter_map(|instance| instance.strategy.next_release())
            .min()
    }
}
