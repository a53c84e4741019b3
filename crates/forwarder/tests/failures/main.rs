//! Tests of a forwarder, one file per kind of failure. All of it runs without a socket and without
//! a clock.

mod ad_hoc_unheard;
mod answers_at_the_deadline;
mod answers_unlike_nfd;
mod arbitrary_bytes;
mod batches;
mod content_store_mismanaged;
mod faces_mismanaged;
mod flooded_tables;
mod forged_commands;
mod held_interests;
mod hints_astray;
mod local_fields;
mod loops;
mod management;
mod miscounted_packets;
mod nfdc_refused;
mod notifications;
mod pit_leak;
mod place_on_the_path;
mod poisoned_cache;
mod prefixes_do_not_spread;
mod rate_limits;
mod registered_strategy;
mod registration;
mod scope_leak;
mod second_tier;
mod shards_disagree;
mod silent_refusal;
mod simulated_hour;
mod slow_path_kept;
mod what_if;
mod world;
mod wrong_data_served;
