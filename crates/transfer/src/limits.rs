//! Every limit of this crate, with the reason beside the number.

use std::time::Duration;

pub use larder_packet::limits::{LARGEST_PACKET_BYTES, MAX_PACKET_BYTES};

/// Bytes of a packet that are left to its name and signature by default.
pub const SEGMENT_OVERHEAD_BYTES: usize = 800;

/// Default bytes of content in a segment: 8000, what `ndnputchunks` and `ndnd put` use.
pub const DEFAULT_SEGMENT_BYTES: usize = MAX_PACKET_BYTES - SEGMENT_OVERHEAD_BYTES;

/// Default of the most segments between the next one to deliver and the furthest one asked for.
/// Bounds both the Interests in flight and the memory that waits for a missing segment: 4096 × 8.8
/// kB = 36 MB, the product of 1 Gb/s and 260 ms; 268 MB of the largest packets, where every node
/// takes these.
pub const MAX_WINDOW: usize = 4096;

/// First congestion window, segments: RFC 6928's ten. A burst of 88 kB fits a socket's default
/// receive buffer (212 kB on Linux).
pub const INITIAL_WINDOW: usize = 10;

/// Most Interests that wait for each other to leave as one: what they bring then comes as one, for
/// a fraction of the wake-ups and system calls on all of the way. TCP's receivers acknowledge every
/// second segment for the same (RFC 9293, 3.8.6.3).
pub const BURST: usize = 4;

/// This share of the window at most (a quarter) is left open for a burst: three quarters are always
/// in flight.
pub const BURST_SHARE: usize = 4;

/// Smallest congestion window, segments: one lost Interest of two does not stop the flow for a
/// whole RTO.
pub const MIN_WINDOW: usize = 2;

/// What became due by a rate while the host slept is made up to this age: a busy machine's
/// scheduler, and not a burst that no bucket takes.
pub const LONGEST_DELAY: Duration = Duration::from_millis(20);

/// RTO before the first RTT sample: RFC 6298 section 2.1.
pub const INITIAL_RTO: Duration = Duration::from_secs(1);

/// Smallest margin of the RTO over the smoothed round trip. RFC 6298 has an RTO of at least 1 s for
/// TCP's delayed acknowledgements, which NDN has not; Linux TCP and `ndncatchunks` use 200 ms,
/// which a busy machine's scheduler does not exceed.
pub const MIN_RTO_MARGIN: Duration = Duration::from_millis(200);

/// Largest RTO, with its backoff: `ndncatchunks`' 4 s, the default InterestLifetime. Longer, the
/// Interest has left every PIT anyway.
pub const MAX_RTO: Duration = Duration::from_secs(4);

/// Interests in flight from which on a silence is taken for a stall, and not for the loss of all:
/// which at one loss in ten is one time in 10,000.
pub const STALLED_INTERESTS: usize = 4;

/// Default InterestLifetime: the NDN packet format's default.
pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(4);

/// Default of how often one Interest is retransmitted before the transfer fails: `ndncatchunks`'
/// 15.
pub const DEFAULT_RETRIES: u32 = 15;

/// Default of the largest object a consumer accepts, bytes: 1 TiB. Without a bound, a producer that
/// never ends fills the disk.
pub const MAX_OBJECT_BYTES: u64 = 1 << 40;

/// Default FreshnessPeriod of segments. They never change, so any value is right; ten seconds is
/// `ndnputchunks`' default.
pub const DEFAULT_FRESHNESS: Duration = Duration::from_secs(10);

/// Segments read from the source at once where they are asked for in order: 64 KB of ordinary ones,
/// beyond which a read costs its bytes.
pub const READ_AHEAD_SEGMENTS: usize = 8;

/// FreshnessPeriod of the RDR metadata: a new version is seen after this time at the latest, and a
/// burst of consumers asks the producer once.
pub const METADATA_FRESHNESS: Duration = Duration::from_millis(100);

/// Most bytes of Content in a metadata packet: a Name and six numbers fit into a fraction.
pub const MAX_METADATA_BYTES: usize = 4096;

/// Most segments under one manifest: 8 GB in segments of 8000 bytes. Its digests are held at both
/// ends: 32 MB.
pub const MAX_MANIFEST_SEGMENTS: u64 = 1 << 20;

/// Most digests in a packet of a manifest: 8000 bytes, the default segment.
pub const LARGEST_FAN_OUT: u64 = 250;

/// Interests for the metadata after which a transfer ends where only Data of a longer name answers:
/// it tells the user what is there, and does not wait for all tries.
pub const METADATA_SENDS_WHERE_OTHERS_ANSWER: u32 = 3;
