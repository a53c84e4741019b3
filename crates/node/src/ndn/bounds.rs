//! The bounds that the configuration sets to packets and faces.

use crate::config::NdnConfig;
use crate::limits::{FRAME_BYTES, SHARED_FACES, SHARED_FACES_OF_ALL};
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
    /// Whether applications get shared memory.
    has_shared_memory: bool,
    /// Threads that forward.
    shards: usize,
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
            has_shared_memory: config.shared_memory,
            shards: config.shards(),
        }
    }

    /// Returns the most faces with shared memory of all users, on one thread: even, and at least
    /// one for each of two users.
    pub(super) fn shared_faces(&self) -> usize {
        if self.has_shared_memory {
            SHARED_FACES_OF_ALL / 2 / self.shards.min(SHARED_FACES) * 2
        } else {
            0
        }
    }

    /// Returns the bounds of another configuration. Buffers keep the size that they have, and the
    /// threads their number.
    pub(super) fn reloaded(self, other: Bounds) -> Bounds {
        let Bounds {
            largest_packet,
            largest_frame,
            shards,
            ..
        } = self;
        Bounds {
            largest_packet,
            largest_frame,
            shards,
            ..other
        }
    }
}
