//! The path of a packet through the forwarder, named after the pipelines of the NFD developer guide
//! (chapter 4).
//!
//! `link_service` decodes a frame, and `batch` decodes several at once. `incoming_interest` takes
//! an Interest through the PIT and the Content Store, `outgoing_interest` lets the strategy decide
//! and sends what it decided, and also handles Nacks. `incoming_data` matches Data with the PIT,
//! stores it and sends it to the consumers. `tier_lookup` asks the second tier of the Content
//! Store, `reassembly` bounds the memory of incomplete packets, and `path` learns and reports the
//! place of this node on the path.

mod batch;
mod incoming_data;
mod incoming_interest;
pub(crate) mod link_service;
pub(crate) mod outgoing_interest;
pub(crate) mod path;
mod reassembly;
pub(crate) mod tier_lookup;

pub use batch::Received;
