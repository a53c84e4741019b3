//! The NFD Management Protocol's elements: commands and their replies, status datasets,
//! notifications of face events.
//!
//! NFD wiki, "Management Protocol" and the pages of its modules. Each element is a table of fields,
//! from which its struct, decoder and encoder are generated (`element.rs`). As in NFD, elements are
//! read in any order, the first of a type counts, and unknown ones are skipped, because clients of
//! ten years have sent many kinds. They are written in the order that ndn-cxx's decoders require.

mod control;
mod dataset;
mod element;

pub use control::{
    ControlParameters, ControlResponse, NewFace, NewFaceResponse, PrefixAnnouncement,
};
pub use dataset::{
    ChannelStatus, CsInfo, CsObject, CsPrefix, FaceEventNotification, FaceQueryFilter, FaceStatus,
    FibEntry, ForwarderStatus, NextHopRecord, RibEntry, RouteRecord, StrategyChoice,
};
pub use element::Element;
