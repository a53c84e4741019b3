//! One file for each kind of failure, and one program for all, which is linked once. Tests that are
//! programs of their own are in Cargo.toml, with their reasons.

mod a_stale_lock_file_of_the_fuzz_targets;
mod beside_icarus;
mod coarse_clocks_without_effect;
mod copies;
mod core;
mod http_worlds;
mod routes;
mod scenarios;
mod tcp;
mod topologies;
mod worlds;
