//! Frames: owned bytes, or a large Data whose bytes many nodes share.
//!
//! A Data passes many nodes, and each of them may store it. With shared bytes it is copied once,
//! when its producer sends it, and not at each node.

use crate::limits::SHARED_BYTES;
use larder_forwarder::StoredPacket;
use larder_packet::types;
use std::ops::Deref;

/// The first byte of a frame that is a TCP segment: IPv4's version and header length. No NDN packet
/// begins with this byte.
pub(crate) const SEGMENT_FIRST_BYTE: u8 = 0x45;

/// Returns true if a frame is a TCP segment.
pub(crate) fn is_segment(frame: &[u8]) -> bool {
    frame.first() == Some(&SEGMENT_FIRST_BYTE)
}

/// A frame. A shared frame is cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Own(Vec<u8>),
    /// A Data without a link header.
    Shared(StoredPacket),
}

impl Frame {
    /// Returns a frame for a packet that an application sends. A large Data is shared.
    pub(crate) fn sent(packet: Vec<u8>) -> Frame {
        let is_data = packet
            .first()
            .is_some_and(|first| u32::from(*first) == types::DATA);
        if is_data && packet.len() >= SHARED_BYTES {
            Frame::Shared(StoredPacket::share(&packet))
        } else {
            Frame::Own(packet)
        }
    }

    /// The address of the bytes, if other frames may share them.
    pub(crate) fn shared_at(&self) -> Option<*const u8> {
        match self {
            Frame::Own(_) => None,
            Frame::Shared(packet) => Some(packet.as_ptr()),
        }
    }

    /// Returns the bytes, copied if they are shared.
    pub(crate) fn into_own(self) -> Vec<u8> {
        match self {
            Frame::Own(bytes) => bytes,
            Frame::Shared(packet) => packet.to_vec(),
        }
    }
}

impl Default for Frame {
    fn default() -> Self {
        Frame::Own(Vec::new())
    }
}

impl From<Vec<u8>> for Frame {
    fn from(bytes: Vec<u8>) -> Self {
        Frame::Own(bytes)
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Frame::Own(bytes) => bytes,
            Frame::Shared(packet) => packet,
        }
    }
}
