//! The path of a packet through the forwarder, named after the pipelines of the NFD developer guide
//! (chapter 4).
//!
//! `link_service` decodes a frame. `batch` takes several through the steps of the other files
//! together, and `stages` measures what each step costs. `incoming_interest` takes
//! an Interest through the PIT and the Content Store (`content_store_hit`). `outgoing_interest`
//! lets the strategy decide and sends what it decided, and also handles Nacks. `incoming_data`
//! matches Data with the PIT and stores it; `outgoing_data` sends it to the consumers.
//! `tier_lookup` asks the second tier of the Content Store, `reassembly` bounds the memory of
//! incomplete packets, and `path` learns and reports the place of this node on the path.
//!
//! | NFD | here |
//! | --- | --- |
//! | incoming Interest | `on_incoming_interest`, with `check_interest` and `find_pit_entry` |
//! | Interest loop | `on_interest_loop` |
//! | ContentStore hit and miss | `look_up_content_store`, `on_content_store_hit`, `on_content_store_miss` |
//! | strategy | `dispatch_to_strategy`, `reject_pending_interest` |
//! | outgoing Interest | `on_outgoing_interest` |
//! | Interest finalize | `on_interest_finalize` |
//! | incoming Data | `on_incoming_data`, with `find_pit_matches` and `insert_content_store` |
//! | Data unsolicited | `on_data_unsolicited` |
//! | outgoing Data | `on_outgoing_data` |
//! | incoming and outgoing Nack | `on_incoming_nack`, `on_outgoing_nack` |

mod batch;
mod content_store_hit;
mod incoming_data;
mod incoming_interest;
pub(crate) mod link_service;
mod outgoing_data;
pub(crate) mod outgoing_interest;
pub(crate) mod path;
mod reassembly;
pub mod stages;
pub(crate) mod tier_lookup;

pub use batch::Received;
