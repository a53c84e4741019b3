//! One file for each kind of failure, and one program for all, which is linked once. Tests that are
//! programs of their own are in Cargo.toml, with their reasons.

mod bad_starts;
mod closed_pipes;
mod faces_left_behind;
mod files_of_others_taken;
mod half_sweeps;
mod half_transfers;
mod home;
mod hostile_servers;
mod killed_with_a_content_store_on_disk;
mod killed_with_a_disk;
mod locked_out_by_authorization;
mod pages_by_name;
mod parquet_traces;
mod privileges_kept;
mod producers_deaf_after_a_restart;
mod shells_and_man_know_nothing;
mod signed_transfers;
mod silent_interruptions;
mod simulated_detours;
mod standard_input;
mod upgrades;
mod vacant;
