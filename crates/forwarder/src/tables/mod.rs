//! The tables of the forwarder and the data structures below them.
//!
//! No table knows the forwarder: each is a data structure that the pipelines and management read
//! and change.
//!
//! The tables of the NFD developer guide are the FIB, the RIB, the PIT with its quota per face, the
//! Content Store, and the Dead Nonce List. The strategy choice table is a `PrefixTable` in
//! `strategy/choices.rs`. The other modules are what these tables are built of: hashes of names, a
//! table and a tree of names, a timer wheel, packets in shared memory.

pub(crate) mod content_store;
pub(crate) mod dead_nonces;
pub(crate) mod erase_bans;
pub(crate) mod fib;
pub(crate) mod name_hash;
pub(crate) mod name_tree;
pub(crate) mod paths;
pub(crate) mod pit;
pub(crate) mod pit_quota;
pub(crate) mod prefix_figures;
pub(crate) mod prefix_filter;
pub(crate) mod prefix_table;
pub(crate) mod rib;
pub(crate) mod rows;
pub(crate) mod stored_packet;
pub(crate) mod timer_wheel;
