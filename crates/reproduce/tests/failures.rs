//! One file for each kind of failure, and one program for all, which is linked once. Tests that are
//! programs of their own are in Cargo.toml, with their reasons.

mod a_claim_passes_unmeasured;
mod an_archive_is_old;
mod an_hour_is_lost;
mod clock_simulation;
