//! Every limit of this crate, with the reason beside the number.

use std::time::Duration;

/// Regions of a log. Two are kept free, one is being written, and a quarter of the rest is garbage:
/// with fewer, little would be left for objects.
pub const MIN_REGIONS: u32 = 8;

/// A region's number has 32 bits in the index; far below, so that the table of regions (56 bytes
/// each) stays small.
pub const MAX_REGIONS: u32 = 1 << 20;

/// The smallest region: a header, a trailer and some records. Hosts take at least a MiB; tests take
/// this.
pub const MIN_REGION_BYTES: u32 = 1 << 10;

/// The largest region: offsets have 32 bits, and the entries of small records still fit into
/// memory.
pub const MAX_REGION_BYTES: u32 = 1 << 30;

/// Of a log's space, objects take three quarters. The rest is for records that are dead but not yet
/// reclaimed: if all of it were in use, reclaiming a region would find only live records and free
/// nothing.
pub const LIVE_SHARE: [u64; 2] = [3, 4];

/// The reclaiming of a region rewrites at most half of it; further live records are dropped. So
/// each reclaiming frees at least half a region, and a stored byte costs at most two written ones.
pub const REWRITE_SHARE: u32 = 2;

/// Reclaiming begins when fewer regions are free: one for rewriting, one for new records meanwhile.
pub const FREE_REGIONS: usize = 2;

/// Records of a region. A restart holds their entries, 32 bytes each, in memory until the region is
/// read; only a large region of almost nothing but removals comes to so many, and ends there.
pub const REGION_RECORDS: usize = 1 << 20;

/// An appended record is on the disk after this time, plus the time that the disk needs: of the
/// promised second, half is the disk's.
pub const SYNC_AFTER: Duration = Duration::from_millis(500);

/// Appended bytes that are worth a write before that: disks reach their throughput with a MiB at
/// once.
pub const WRITE_BYTES: usize = 1 << 20;

/// Removals and marks that find no room wait for it, at most so many: a MiB or two. They cannot be
/// dropped, so past it one takes the place of all that removes everything.
pub const TOMBSTONES: usize = 1 << 14;

/// Records of one key: the variants of an HTTP response. The oldest makes room. Each lookup and
/// each put of the key compares its tag with those of all: some microseconds.
pub const VARIANTS: usize = 256;

/// Longest key in bytes: above the HTTP cache's and above any NDN name.
pub const KEY_BYTES: usize = 32 << 10;

/// Longest mark in bytes: one names a URL. It is written twice.
pub const MARK_BYTES: usize = 32 << 10;

/// Bytes of a part of a value that is read in parts, each with a checksum of its own in memory:
/// large enough that reading costs no more than in one go, small enough for thousands of slow
/// readers.
pub const PART_BYTES: u32 = 64 << 10;
