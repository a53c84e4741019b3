//! The limits of this crate that several files share or an operator meets, each with its reason.

use std::time::Duration;

pub use larder_packet::limits::{LARGEST_PACKET_BYTES, MAX_PACKET_BYTES};

/// Bytes of a packet that are reserved for its name and signature by default.
pub const SEGMENT_OVERHEAD_BYTES: usize = 800;

/// Default bytes of content in a segment: 8000, as in `ndnputchunks` and `ndnd put`.
pub const DEFAULT_SEGMENT_BYTES: usize = MAX_PACKET_BYTES - SEGMENT_OVERHEAD_BYTES;

/// Default of the most segments between the next one to deliver and the furthest one requested. It
/// limits the Interests in flight and the memory for segments that wait for a missing one: 4096 ×
/// 8.8 kB = 36 MB, the product of 1 Gb/s and 260 ms; 268 MB with the largest packets, if every node
/// accepts them.
pub const MAX_WINDOW: usize = 4096;

/// The first congestion window in segments: RFC 6928's ten. A burst of 88 kB fits a socket's
/// default receive buffer (212 kB on Linux).
pub const INITIAL_WINDOW: usize = 10;

/// The smallest congestion window in segments. One lost Interest of two does not stop the flow for
/// a whole RTO.
pub const MIN_WINDOW: usize = 2;

/// The RTO before the first RTT sample: RFC 6298 section 2.1.
pub const INITIAL_RTO: Duration = Duration::from_secs(1);

/// The default InterestLifetime: that of the NDN packet format.
pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(4);

/// The default number of retransmissions of one Interest before the transfer fails:
/// `ndncatchunks`' 15.
pub const DEFAULT_RETRIES: u32 = 15;

/// The default size of the largest object that a consumer accepts: 1 TiB. Without a bound, an
/// endless producer would fill the disk.
pub const MAX_OBJECT_BYTES: u64 = 1 << 40;

/// The default FreshnessPeriod of segments. They never change, so any value is right; ten seconds
/// is `ndnputchunks`' default.
pub const DEFAULT_FRESHNESS: Duration = Duration::from_secs(10);

/// Segments read from the source at once if they are requested in order: 64 KB of ordinary ones.
/// Beyond that, the cost of a read is proportional to its bytes.
pub const READ_AHEAD_SEGMENTS: usize = 8;

/// The FreshnessPeriod of the RDR metadata. Consumers see a new version after this time at the
/// latest, and a burst of consumers causes one request to the producer.
pub const METADATA_FRESHNESS: Duration = Duration::from_millis(100);

/// The most bytes of Content in a metadata packet. A Name and six numbers need a fraction of it.
pub const MAX_METADATA_BYTES: usize = 4096;

/// The most segments under one manifest: 8 GB in segments of 8000 bytes. Both ends hold its
/// digests: 32 MB.
pub const MAX_MANIFEST_SEGMENTS: u64 = 1 << 20;
