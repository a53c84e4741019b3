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

/// Bytes that they take: as many packets of 8800 bytes, each with 400 × 12 for the pieces' places
/// and 300. Only a hostile peer reaches it.
pub const PARTIAL_BYTES: usize = MAX_PARTIAL_PACKETS * (MAX_PACKET_BYTES + 400 * 12 + 300);

/// The least number of them, however large they are: two senders' packets, or a few out of order.
pub const LEAST_PARTIAL_PACKETS: usize = 8;

/// The same on a reliable link: packets of 8800 bytes that the neighbour may have in flight. A
/// packet in many fragments mostly lacks one until the repair, at a loss of 10 % every second one
/// in six fragments. To look for one among them takes a microsecond.
pub const RELIABLE_PARTIAL_PACKETS: usize = UNACKNOWLEDGED_BYTES / MAX_PACKET_BYTES;

/// Bytes that they take: those in flight, and a third for the pieces' places.
pub const RELIABLE_PARTIAL_BYTES: usize = UNACKNOWLEDGED_BYTES / 3 * 4;

/// The time that a reassembler waits for the rest of a packet: NFD's 500 ms. A retransmitted
/// Interest costs less than a longer wait.
pub const REASSEMBLY_TIMEOUT: Duration = Duration::from_millis(500);

/// The same on a reliable link, where the repair of a loss may take longer if an end is busy: an
/// Interest's usual lifetime.
pub const RELIABLE_REASSEMBLY_TIMEOUT: Duration = MOST_LINK_TIMEOUT;

/// Frames in flight on a reliable link. Frames beyond them are sent once, as without reliability.
/// It allows a round trip of 20 ms at 200,000 frames per second.
pub const UNACKNOWLEDGED_FRAMES: usize = 4096;

/// Bytes of those frames: what a face's send queue may hold too.
pub const UNACKNOWLEDGED_BYTES: usize = 2 << 20;

/// Frames received and not yet acknowledged. Acks are sent after [`ACK_DELAY`] at the latest: this
/// allows a million frames per second. A frame without an Ack is sent again.
pub const ACKS_WAITING: usize = 4096;

/// The number of Sequences that are remembered to find duplicates: as many as the sender may have
/// in flight. 512 bytes.
pub const SEQUENCES_REMEMBERED: usize = UNACKNOWLEDGED_FRAMES;

/// The time that Acks wait for a frame to carry them (NFD's `idleAckTimerPeriod`).
pub const ACK_DELAY: Duration = Duration::from_millis(5);

/// The timeout of a reliable link before the first Ack, doubled each time. RFC 6298 (section 2.1)
/// has 1 s for paths around the world. A link is one hop; if it is a tunnel of half a second, two
/// of its first frames are sent two or three times.
pub const FIRST_LINK_TIMEOUT: Duration = Duration::from_millis(200);

/// The shortest timeout of a reliable link. With a shorter one, the Acks' own delay and a busy
/// moment of the neighbour would look like loss.
pub const LEAST_LINK_TIMEOUT: Duration = Duration::from_millis(20);

/// The longest timeout: an Interest's usual lifetime, after which no consumer waits.
pub const MOST_LINK_TIMEOUT: Duration = Duration::from_secs(4);
