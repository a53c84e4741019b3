//! One file for each kind of failure, and one program for all, which is linked once. Tests that are
//! programs of their own are in Cargo.toml, with their reasons.

mod https_only_opens_nothing;
mod pair;
#[path = "../../proxy/tests/wire/mod.rs"]
mod wire;
