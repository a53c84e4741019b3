//! Stored responses: the compact entry, its index over the policy engine, its record on a second
//! tier, its object, and purges.

pub(crate) mod answer;
pub(crate) mod bans;
pub(crate) mod coded_forms;
pub(crate) mod entry;
pub(crate) mod host_counts;
pub(crate) mod index;
pub(crate) mod line_table;
pub(crate) mod object;
pub(crate) mod observed;
pub(crate) mod policy_engine;
pub(crate) mod purge;
pub(crate) mod purge_table;
pub(crate) mod purges;
pub(crate) mod record;
pub(crate) mod second_tier;
pub(crate) mod sliced;
pub(crate) mod stored;
pub(crate) mod tag_index;
pub(crate) mod variant_index;
