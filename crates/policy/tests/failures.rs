//! One file for each kind of failure, and one program for all, which is linked once. Tests that are
//! programs of their own are in Cargo.toml, with their reasons.

mod admission_is_another_admission;
mod agd_departs_from_its_definition;
mod agd_falls_below_lru;
mod bound_is_beaten;
mod cache_overflows;
mod copies_stand_on_wrong_hops;
mod engine_reports_another_state;
mod evictor_is_another_policy;
mod filter_departs_from_its_theory;
mod large_objects_are_stored_where_they_are_refused;
mod models;
mod outside_policy;
mod policy_freezes;
mod policy_is_another_policy;
mod prediction_is_off;
mod reconfiguration_loses_objects;
mod spec_reads_back_changed;
mod state_is_larger_than_stated;
mod traffic;
mod window_policy_is_another_policy;
