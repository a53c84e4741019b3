//! The configuration of a forwarder: what does not change while it runs.

use crate::limits;
use crate::shard::Shard;
use larder_units::Streams;
use std::time::Duration;

/// The configuration of a forwarder.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The key of the name hashes, from the host's entropy. It must stay secret.
    pub hash_key: [u64; 2],
    /// The random streams of this run, for nonces of Interests that come without one.
    pub streams: Streams,
    /// Its shard. It has its part of the other figures.
    pub shard: Shard,
    /// The largest number of pending Interests.
    pub pit_entries: usize,
    /// Bytes of the largest network-layer packet. Management's own stay below
    /// [`limits::MAX_PACKET_BYTES`].
    pub max_packet_bytes: usize,
    /// Bytes of incomplete packets in reassembly, over all faces.
    pub reassembly_bytes: usize,
    /// True if the Content Store's capacity is a number of packets, as in NFD and ndnSIM, and not
    /// of bytes. The creator of the engine decides. The policy then sees sizes of 1.
    pub counts_packets: bool,
    /// The calendar time at [`Time::ZERO`](larder_units::Time::ZERO): time since 1970. Management
    /// reports times of day and names versions with it.
    pub started: Duration,
}

impl Config {
    /// Returns the defaults with this key and these random streams.
    pub fn new(hash_key: [u64; 2], streams: Streams) -> Self {
        Config {
            hash_key,
            streams,
            shard: Shard::ONLY,
            pit_entries: limits::PIT_ENTRIES,
            max_packet_bytes: limits::MAX_PACKET_BYTES,
            reassembly_bytes: limits::REASSEMBLY_BYTES,
            counts_packets: false,
            started: Duration::ZERO,
        }
    }
}
