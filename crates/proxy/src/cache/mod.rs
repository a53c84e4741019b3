//! The host of `larder_http`: its shards, its disk tier and its third tier.

pub(crate) mod cache_settings;
pub(crate) mod disk_tier;
pub(crate) mod object_tier;
pub(crate) mod observed_cache;
pub mod shards;
