//! The limits of this crate that several files share or an operator meets, each with its reason.

use std::time::Duration;

/// Regions of a log. Two are kept free, one is being written, and a quarter of the rest is garbage.
/// Fewer regions would leave little room for objects.
pub const MIN_REGIONS: u32 = 8;

/// A region's number has 32 bits in the index. The limit is far below, so that the table of regions
/// (56 bytes each) stays small.
pub const MAX_REGIONS: u32 = 1 << 20;

/// The smallest region: a header, a trailer and some records. Hosts use at least a MiB; tests use
/// this.
pub const MIN_REGION_BYTES: u32 = 1 << 10;

/// The largest region: offsets have 32 bits, and the entries of small records still fit into
/// memory.
pub const MAX_REGION_BYTES: u32 = 1 << 30;

/// Reclaiming begins when fewer regions are free: one for rewriting, one for new records meanwhile.
pub const FREE_REGIONS: usize = 2;

/// An appended record is on the disk after this time, plus the time that the disk takes. This is
/// half of the promised second; the other half is for the disk.
pub const SYNC_AFTER: Duration = Duration::from_millis(500);

/// Appended bytes that start a write before that time. Disks reach their throughput with one MiB
/// per write.
pub const WRITE_BYTES: usize = 1 << 20;

/// Removals and marks that wait for room: a MiB or two. They cannot be dropped, so beyond this
/// number one removal of everything replaces them all.
pub const TOMBSTONES: usize = 1 << 14;

/// Records of one key: the variants of an HTTP response. A new one replaces the oldest. Each lookup
/// and each put of the key compares its tag with all of them, which takes a few microseconds.
pub const VARIANTS_PER_KEY: usize = 256;

/// Longest key in bytes: above the HTTP cache's and above any NDN name.
pub const KEY_BYTES: usize = 32 << 10;

/// Longest mark in bytes. A mark names a URL, and is written twice.
pub const MARK_BYTES: usize = 32 << 10;

/// Bytes of a part of a value that is read in parts, each with a checksum of its own in memory:
/// large enough that reading is as fast as in one piece, small enough for thousands of slow
/// readers.
pub const PART_BYTES: u32 = 64 << 10;
