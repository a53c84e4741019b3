//! Every limit of this crate, with its reason.

use std::time::Duration;

/// Bytes of the largest Interest or Data: the practical limit that NFD and all its applications share (8800 = 8192 of content plus
/// room for name, MetaInfo and signature).
pub const MAX_PACKET_BYTES: usize = 8800;

/// Bytes of the largest NDNLPv2 packet on a stream: a whole network packet and its header fields. All fields that this crate writes
/// take less than 128 bytes together; the rest is room for fields that it ignores (prefix announcements).
pub const MAX_LP_PACKET_BYTES: usize = MAX_PACKET_BYTES + 1200;

/// Fragments of one packet: what NFD sends and accepts at most. 8800 bytes then need an MTU of 44 bytes, below any real link's.
pub const MAX_FRAGMENTS: u64 = 400;

/// Packets of which a reassembler holds some fragments but not all. A sender's fragments arrive nearly in a row, so few are open at
/// once; this bounds the memory of one peer at 64 × (8800 bytes + 400 × 12 for the pieces' places + 300) = 890 kB, which only a hostile
/// one reaches.
pub const MAX_PARTIAL_PACKETS: usize = 64;

/// How long a reassembler waits for the rest of a packet: NFD's 500 ms. An Interest asked again is cheaper than a longer wait.
pub const REASSEMBLY_TIMEOUT: Duration = Duration::from_millis(500);
