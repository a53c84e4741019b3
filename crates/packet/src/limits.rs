//! The limits of this crate that peers or operators meet, each with its reason.

use std::time::Duration;

/// Bytes of the largest Interest or Data: the practical limit that NFD and all its applications
/// share (8800 = 8192 of content plus room for name, MetaInfo and signature).
pub const MAX_PACKET_BYTES: usize = 8800;

/// Bytes of the largest Interest or Data if every node on the path allows more: about 65 KB, which
/// is the content of a UDP datagram between two hosts, and what a node reads from a stream at once.
pub const LARGEST_PACKET_BYTES: usize = 64 << 10;

/// Bytes of the largest NDNLPv2 packet on a stream: a whole network packet and its header fields.
/// All fields that this crate writes take less than 128 bytes together; the rest is room for fields
/// that it ignores (prefix announcements).
pub const MAX_LP_PACKET_BYTES: usize = MAX_PACKET_BYTES + 1200;

/// Fragments of one packet: the most that NFD sends and accepts. A packet of 8800 bytes then needs
/// an MTU of at least 44 bytes, which every real link has.
pub const MAX_FRAGMENTS: u64 = 400;

/// Packets of which a reassembler holds some fragments but not all. A sender's fragments arrive
/// nearly in a row, so few are open at once.
pub const MAX_PARTIAL_PACKETS: usize = 64;

/// Bytes of these packets: as many packets of 8800 bytes, each with 400 × 12 for the positions of
/// its pieces and 300 more. Only a hostile peer reaches this.
pub const PARTIAL_BYTES: usize = MAX_PARTIAL_PACKETS * (MAX_PACKET_BYTES + 400 * 12 + 300);

/// Incomplete packets on a reliable link: packets of 8800 bytes that the neighbour may have in
/// flight. A packet in many fragments mostly lacks one until the retransmission; with a loss of 10
/// %, every second packet of six fragments does. A search among them takes a microsecond.
pub const RELIABLE_PARTIAL_PACKETS: usize = UNACKNOWLEDGED_BYTES / MAX_PACKET_BYTES;

/// Bytes of these packets: those in flight, and a third more for the positions of their pieces.
pub const RELIABLE_PARTIAL_BYTES: usize = UNACKNOWLEDGED_BYTES / 3 * 4;

/// The time that a reassembler waits for the rest of a packet: NFD's 500 ms. A retransmitted
/// Interest costs less than a longer wait.
pub const REASSEMBLY_TIMEOUT: Duration = Duration::from_millis(500);

/// The timeout on a reliable link, where a retransmission may take longer if an end is busy: the
/// default lifetime of an Interest.
pub const RELIABLE_REASSEMBLY_TIMEOUT: Duration = MOST_LINK_TIMEOUT;

/// Frames in flight on a reliable link. Further frames are sent once, as without reliability. This
/// allows a round trip of 20 ms at 200,000 frames per second.
pub const UNACKNOWLEDGED_FRAMES: usize = 4096;

/// Bytes of the frames in flight: as many as a face's send queue may hold.
pub const UNACKNOWLEDGED_BYTES: usize = 2 << 20;

/// The longest timeout of a reliable link: the default lifetime of an Interest, after which no
/// consumer waits.
pub const MOST_LINK_TIMEOUT: Duration = Duration::from_secs(4);
