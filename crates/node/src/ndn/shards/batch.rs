//! Packets on their way from one thread to another.

use crate::limits::{FRAMES_AT_ONCE, WRITE_BYTES};
use crate::ndn::transport::spare_buffers::SpareBuffers;
use larder_forwarder::FaceId;
use larder_packet::LpHeader;

/// Packets for another thread, each with its metadata.
pub(crate) struct Batch<T> {
    pub(crate) bytes: Vec<u8>,
    /// The metadata and the length of each packet.
    pub(crate) items: Vec<(T, usize)>,
}

impl<T> Batch<T> {
    pub(crate) fn new() -> Self {
        Batch {
            bytes: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Returns the batch and leaves an empty one.
    pub(crate) fn take(&mut self) -> Batch<T> {
        let next = Batch {
            bytes: Vec::new(),
            items: Vec::with_capacity(self.items.len()),
        };
        std::mem::replace(self, next)
    }

    pub(crate) fn push(&mut self, item: T, packet: &[u8], spare: &mut SpareBuffers) {
        spare.provide(&mut self.bytes);
        self.bytes.extend_from_slice(packet);
        self.items.push((item, packet.len()));
    }

    pub(crate) fn is_worth_sending(&self) -> bool {
        self.items.len() >= FRAMES_AT_ONCE || self.bytes.len() >= WRITE_BYTES
    }

    /// The part of [`crate::limits::SHARD_CHANNEL_BYTES`] that the batch takes.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<(T, usize)>()
    }

    /// Its packets, in order.
    pub(crate) fn packets(&mut self) -> impl Iterator<Item = (&T, &mut [u8])> {
        let mut rest = &mut self.bytes[..];
        self.items.iter().map(move |(item, length)| {
            let (packet, behind) = std::mem::take(&mut rest).split_at_mut(*length);
            rest = behind;
            (item, packet)
        })
    }
}

/// The face of a send, and its header.
pub(crate) type Outgoing = (FaceId, LpHeader);
