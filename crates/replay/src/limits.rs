//! The limits of this crate that several files share or an operator meets, each with its reason.

use std::time::Duration;

/// Bytes of one line of a text trace. The longest URL that servers accept is 8 KiB; some logs have
/// a few fields of that length.
pub const MAX_LINE_BYTES: usize = 64 << 10;

/// Bytes that detect a format: enough for the first line of all traces seen so far.
pub const SNIFFED_BYTES: usize = 4096;

/// Bytes of a compressed trace of no known format that are decompressed to find damage: about a
/// second of work.
pub const CHECKED_BYTES: u64 = 64 << 20;

/// Memory for an xz stream: the highest preset of the xz tool needs 65 MiB to decode.
pub const MAX_XZ_MEMORY: u64 = 128 << 20;

/// Window of a zstd stream, as a power of two: 128 MiB, the maximum of the zstd tool without an
/// option.
pub const MAX_ZSTD_WINDOW_LOG: u32 = 27;

/// URLs or keys whose size a reader of logs remembers, for requests that do not state it (304, or a
/// miss at Twitter). 16 bytes each.
pub const MAX_REMEMBERED_URLS: usize = 1 << 22;

/// Blocks of one line of an ARC trace. No disk request has half a gigabyte.
pub const MAX_ARC_BLOCKS: u64 = 1 << 20;

/// Requests between two checks for an engine's jobs. A tuning may be this much late, of 250,000.
pub const JOB_INTERVAL: u64 = 256;

/// Bytes of a binary trace read at once: large against a system call, small against the
/// second-level cache.
pub const RECORDS_BUFFER_BYTES: usize = 128 << 10;

/// Records of an oracleGeneral file that get their next accesses at once: 1.5 MiB, large against a
/// seek.
pub const LINK_CHUNK_RECORDS: usize = 1 << 16;

/// Bins of a joint table of popularity and size: two hundred times as many as in published tables.
pub const JOINT_MAX_BINS: usize = 1 << 20;

/// Requests from a joint table, which are shuffled in memory: 4 GiB of it.
pub const JOINT_MAX_REQUESTS: usize = 1 << 30;

/// Requests of a trace whose objects get windows, which are sorted in memory: 8 GiB of it.
pub const WINDOWS_MAX_REQUESTS: usize = 1 << 27;

/// Objects of a CDN's catalogue: five times the larger of the two published ones, 1 GiB of sizes.
pub const CDN_MAX_OBJECTS: usize = 1 << 28;

/// Views of videos that run at once on average: half a million times the filter paper's, 128 MiB.
pub const VIDEO_MAX_VIEWS: usize = 1 << 22;

/// Ranks of a Zipf law that a model treats separately. Above them, blocks of 4 ranks in 1024 grow
/// with the rank: the rates in one differ by half a per cent, which changes a hit ratio by less
/// than 10⁻⁶.
pub const MODEL_EXACT_RANKS: u64 = 1024;

/// Request counts of a trace's objects that a model treats separately: the many objects with few
/// requests decide its first requests.
pub const MODEL_EXACT_COUNTS: u64 = 64;

/// Groups per octave of larger counts, and of sizes. A group's members differ by 4 %, and count
/// with their mean.
pub const MODEL_GROUPS_AN_OCTAVE: f64 = 16.0;

/// Sets of objects whose estimates give the error of a sampled curve. With more, each would be too
/// small a sample to behave as the whole does; with fewer, Student's t grows.
pub const CURVE_SETS: usize = 8;

/// The largest capacity of a curve, in bytes: a double counts them exactly up to here (8 PiB).
pub const CURVE_MAX_BYTES: u64 = 1 << 53;

/// Least slots in the order of recency, so that small caches rarely rebuild it, too.
pub const CURVE_MIN_SLOTS: usize = 1 << 12;

/// Slots per object when the order is rebuilt. It lasts for twice as many requests as there are
/// objects, so that rebuilding costs less than a request.
pub const CURVE_SLOTS_AN_OBJECT: usize = 3;

/// Objects of a miniature cache of a running node, by its size. Small caches have more, because the
/// hit ratio rises most there. With as many objects again in the parts that measure the error, six
/// policies take up to 29 MB on the traces, and less than 32 MiB with the names of their keys. A
/// seventh policy makes all samples smaller.
pub const WHAT_IF_OBJECTS: [usize; 8] = [2_800, 2_800, 2_800, 2_800, 1_440, 1_440, 1_440, 1_440];

/// The part of a sample that stays when its caches have too many objects. With a half, they would
/// have half as many at worst, with the same memory reserved.
pub const WHAT_IF_STEP: (u64, u64) = (7, 8);

/// A sample of a running node has at least one of 2^24 keys, because other bits of the hash select
/// the parts of a sample.
pub const WHAT_IF_LEAST_RATE_BITS: u32 = 24;

/// Requests of the sample between two checks of the number of objects.
pub const WHAT_IF_CHECK_REQUESTS: u64 = 256;

/// Keys of the sample whose names are known, for purges by prefix and tag: twice as many at most.
/// With names of 100 bytes they take 3 MB, with the longest 8 MB.
pub const WHAT_IF_KEYS: usize = 1 << 13;

/// Variants of a key that are remembered: as many as in the HTTP cache.
pub const WHAT_IF_VARIANTS: usize = 32;

/// The time between two marks, from which the statistics of a running node count.
pub const WHAT_IF_MARK: Duration = Duration::from_secs(300);

/// The number of marks: an hour.
pub const WHAT_IF_MARKS: usize = 12;

/// Windows of a breakdown over time: 3 MB a cache, and more than a plot can show.
pub const BREAKDOWN_MAX_WINDOWS: usize = 1 << 16;
