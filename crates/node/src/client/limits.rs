//! The bounds of the applications' side, with their reasons.

use larder_packet::limits::{LARGEST_PACKET_BYTES, MAX_LP_PACKET_BYTES, MAX_PACKET_BYTES};
use std::time::Duration;

/// Bytes read at once: a dozen ordinary Data, and more than one of the largest that a node may be
/// told to take.
pub const READ_BYTES: usize = 128 << 10;

/// The largest frame: a packet, of whatever size the node passes on, and its NDNLPv2 header.
pub const FRAME_BYTES: usize = LARGEST_PACKET_BYTES + (MAX_LP_PACKET_BYTES - MAX_PACKET_BYTES);

/// The largest datagram on loopback, whose MTU is 65,536: an ordinary packet need not be cut.
pub const LOOPBACK_MTU: usize = MAX_LP_PACKET_BYTES;

/// Waiting bytes from which on they are written while Interests are still being answered, so that
/// the forwarder need not wait for the last.
pub const WRITE_BYTES: usize = 64 << 10;

/// Waiting bytes from which on no further Interest is answered: a forwarder that does not read gets
/// no more than this, and one packet.
pub const OUTPUT_BYTES: usize = 1 << 20;

/// How long a forwarder may take to accept a TCP connection.
pub const CONNECT: Duration = Duration::from_secs(5);

/// InterestLifetime of a command or of a question to management, and how long its answer is waited
/// for: longer than the 3 s that a node gives a TCP face to be connected.
pub const MANAGEMENT_LIFETIME: Duration = Duration::from_secs(4);

/// How often a command or question is sent.
pub const MANAGEMENT_TRIES: usize = 3;

/// The largest datagram to other machines: Ethernet's 1500 bytes less the IPv6 and UDP headers.
pub const UDP_MTU: usize = 1500 - 40 - 8;

/// Reads behind a deadline, before its owner hears that it has passed: as many datagrams as may
/// wait in the kernel (4 MB, of 1 to 2 KB each).
pub const READS_BEHIND_TIME: usize = 4096;

/// Bytes of receive buffer asked of the kernel for UDP; it may give less.
pub const UDP_BUFFER_BYTES: usize = 4 << 20;
