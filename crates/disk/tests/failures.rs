//! One file for each kind of failure, and one program for all, which is linked once. Tests that are
//! programs of their own are in Cargo.toml, with their reasons.

mod faults;
mod parts;
