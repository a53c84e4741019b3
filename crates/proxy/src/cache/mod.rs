//! The host of `larder_http`: its shards, and its disk tier.

pub(crate) mod cache_settings;
pub(crate) mod disk_tier;
pub(crate) mod observed_cache;
pub mod shards;
