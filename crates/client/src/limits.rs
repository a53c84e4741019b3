//! The bounds of the application side, with their reasons.

use larder_packet::limits::{LARGEST_PACKET_BYTES, MAX_LP_PACKET_BYTES, MAX_PACKET_BYTES};
use std::time::Duration;

/// Bytes per read: a dozen ordinary Data, and more than one of the largest configurable size.
pub const READ_BYTES: usize = 128 << 10;

/// The largest frame: a packet of any size that a node forwards, with its NDNLPv2 header.
pub const FRAME_BYTES: usize = LARGEST_PACKET_BYTES + (MAX_LP_PACKET_BYTES - MAX_PACKET_BYTES);

/// The largest datagram on loopback, whose MTU is 65,536: an ordinary packet is not cut.
pub const LOOPBACK_MTU: usize = MAX_LP_PACKET_BYTES;

/// Waiting bytes from which on they are written while Interests are still being answered, so that
/// the forwarder does not wait for the last.
pub const WRITE_BYTES: usize = 64 << 10;

/// Waiting bytes from which on no further Interest is answered: a forwarder that does not read gets
/// no more than this, and one packet.
pub const OUTPUT_BYTES: usize = 1 << 20;

/// The time for which shared memory is polled before its reader sleeps. Two wake-ups of a sleeping
/// process by another take about as long, so a poll costs at most as much as it may gain.
pub const SPIN: Duration = Duration::from_micros(50);

/// A wait that was longer than this is not followed by a poll: the next one will hardly be shorter
/// than [`SPIN`].
pub const SPIN_WORTH: Duration = Duration::from_micros(200);

/// A poll that took twice [`SPIN`] has given its processor to another program, which kept it. For
/// so many times that duration, nothing is polled: on a busy machine polling then takes at most a
/// twentieth of the time.
pub const SPIN_REST: u32 = 20;

/// Polls that found something, before signals are looked at.
pub const SPINS_AT_ONCE: u32 = 64;

/// The time for a forwarder to accept a TCP connection.
pub const CONNECT: Duration = Duration::from_secs(5);

/// InterestLifetime of a command or dataset request, and the wait for its answer: longer than the 3
/// s that a node gives a TCP face to be connected.
pub const MANAGEMENT_LIFETIME: Duration = Duration::from_secs(4);

/// Bytes of a dataset: that of faces has some 150 for each of 400,000.
pub const DATASET_BYTES: usize = 64 << 20;

/// Transmissions of a command or dataset request.
pub const MANAGEMENT_TRIES: usize = 3;

/// Bytes of packets that arrive while a command or dataset request waits for its answer, and that
/// are kept for the application: a full output of the forwarder to it, which is 1 MiB.
pub const KEPT_BYTES: usize = 1 << 20;

/// The largest datagram to other machines: Ethernet's 1500 bytes less the IPv6 and UDP headers.
pub const UDP_MTU: usize = 1500 - 40 - 8;

/// Reads after a deadline, before its owner learns that it has passed: as many datagrams as may
/// wait in the kernel (4 MB, of 1 to 2 KB each).
pub const READS_BEHIND_TIME: usize = 4096;

/// Bytes of receive buffer requested for UDP; the kernel may give less.
pub const UDP_BUFFER_BYTES: usize = 4 << 20;

/// The largest payload of a UDP datagram over IPv4.
pub const UDP_MOST_BYTES: usize = 65_507;

/// The default of the longest outage of a node before it is an error: a machine starts again within
/// this time.
pub const OUTAGE: Duration = Duration::from_secs(600);

/// The time before the first attempt to connect again: a node that is replaced listens at once.
pub const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest time between two attempts to connect again.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The time after which a registration over UDP or TCP is repeated. A producer is unreachable for
/// no longer after the node has restarted. One signed command per prefix in this time costs a node
/// less than the Interests of one consumer.
pub const REFRESH: Duration = Duration::from_secs(10);
