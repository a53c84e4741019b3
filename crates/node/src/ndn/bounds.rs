//! The bounds that the configuration sets to packets and faces.

use crate::config::NdnConfig;
use crate::limits::{FRAME_BYTES, SHARED_FACES};
use larder_forwarder::limits::MAX_PACKET_BYTES;
use std::time::Duration;

/// The bounds of one thread.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// The limit of faces to other machines, without UDP peers that sent first.
    pub(super) remote_faces: usize,
    pub(super) udp_mtu: Option<usize>,
    pub(super) largest_packet: usize,
    /// Bytes of the largest packet together with its NDNLPv2 header.
    pub(super) largest_frame: usize,
    /// Bytes of incomplete packets, of all threads together.
    pub(super) partial_input: usize,
    /// The time within which a packet has to be complete. Otherwise its connection is closed.
    pub(super) partial_timeout: Duration,
    /// Faces with shared memory, on each thread; 0 if it is switched off.
    pub(super) shared_faces: usize,
}

impl Bounds {
    pub(super) fn of(config: &NdnConfig) -> Bounds {
        Bounds {
            remote_faces: config.remote_faces,
            udp_mtu: config.udp_mtu,
            largest_packet: config.largest_packet,
            largest_frame: config.largest_packet + FRAME_BYTES - MAX_PACKET_BYTES,
            partial_input: config.partial_input.bytes() as usize,
            partial_timeout: config.partial_timeout,
            shared_faces: if config.shared_memory { SHARED_FACES / config.shards() } else { 0 },
        }
    }

    /// Returns the bounds of another configuration. Buffers keep the size that they have.
    pub(super) fn reloaded(self, other: Bounds) -> Bounds {
        Bounds { largest_packet: self.largest_packet, largest_frame: self.largest_frame, ..other }
    }
}
