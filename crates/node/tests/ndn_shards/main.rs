//! The same failures of the NDN side of a node whose forwarding is shared by two threads: every
//! test of `tests/ndn`.

#[path = "../ndn/main.rs"]
mod ndn;
