//! The path of a packet through the forwarder, named after the pipelines of the NFD developer guide
//! (chapter 4).
//!
//! `link_service` reads a frame, and `receive/` passes its packet on. `incoming_interest` takes an
//! Interest through the PIT and the Content Store (`content_store_hit`). `outgoing_interest` lets
//! the strategy decide and sends what it decided, and also handles Nacks. `incoming_data` matches
//! Data with the PIT and stores it; `outgoing_data` sends it to the consumers. `tier_lookup` asks
//! the second tier of the Content Store, and `interest_finalize` ends a pending Interest.
//!
//! Each step is a function over the [`DataPlane`](crate::data_plane::DataPlane). `receive/batch.rs`
//! takes several packets through the steps together.
//!
//! | NFD | here |
//! | --- | --- |
//! | incoming Interest | `on_incoming_interest`, with `check_interest` and `find_pit_entry` |
//! | Interest loop | `on_interest_loop` |
//! | ContentStore hit and miss | `look_up_content_store`, `on_content_store_hit`, `on_content_store_miss` |
//! | strategy | `dispatch_to_strategy`, `reject_pending_interest` |
//! | outgoing Interest | `on_outgoing_interest` |
//! | Interest finalize | `on_interest_finalize`, `expire_interests` |
//! | incoming Data | `on_incoming_data`, with `find_pit_matches` and `insert_content_store` |
//! | Data unsolicited | `on_data_unsolicited` |
//! | outgoing Data | `on_outgoing_data` |
//! | incoming and outgoing Nack | `on_incoming_nack`, `on_outgoing_nack` |

pub(crate) mod content_store_hit;
pub(crate) mod incoming_data;
pub(crate) mod incoming_interest;
pub(crate) mod interest_finalize;
pub(crate) mod link_service;
pub(crate) mod outgoing_data;
pub(crate) mod outgoing_interest;
pub(crate) mod tier_lookup;
