//! The bounds that keep one peer from taking everything: places of connections and of UDP peers,
//! and the memory of incomplete packets.

mod fair_share;
pub(crate) mod partial_input;
pub(crate) mod places;
pub(crate) mod stream_places;
pub(crate) mod udp_faces;
pub(crate) mod udp_places;
