//! The limits of this crate that several files share or an operator meets, each with its reason.

/// Bytes of one line of a text trace. The longest URL that servers accept is 8 KiB; some logs have
/// a few fields of that length.
pub const MAX_LINE_BYTES: usize = 64 << 10;

/// Bytes that detect a format: enough for some hundred lines of a log, which may begin with lines
/// of another kind, and with a few that are too long.
pub const SNIFFED_BYTES: usize = 256 << 10;

/// Memory for an xz stream: the highest preset of the xz tool needs 65 MiB to decode.
pub const MAX_XZ_MEMORY_BYTES: u64 = 128 << 20;

/// Window of a zstd stream, as a power of two: 128 MiB, the maximum of the zstd tool without an
/// option.
pub const MAX_ZSTD_WINDOW_LOG: u32 = 27;

/// URLs or keys whose size a reader of logs remembers, for requests that do not state it (304, or a
/// miss at Twitter). 16 bytes each.
pub const MAX_REMEMBERED_URLS: usize = 1 << 22;

/// Blocks of one line of an ARC trace. No disk request has half a gigabyte.
pub const MAX_ARC_BLOCKS: u64 = 1 << 20;

/// Requests between two checks for an engine's jobs. A tuning may be this much late, of 250,000.
pub const JOB_INTERVAL_REQUESTS: u64 = 256;

/// Requests from a joint table, which are shuffled in memory: 4 GiB of it.
pub const JOINT_MAX_REQUESTS: usize = 1 << 30;

/// Requests of a trace whose objects get windows, which are sorted in memory: 8 GiB of it.
pub const WINDOWS_MAX_REQUESTS: usize = 1 << 27;

/// Objects of a CDN's catalogue: five times the larger of the two published ones, 1 GiB of sizes.
pub const CDN_MAX_OBJECTS: usize = 1 << 28;

/// Views of videos that run at once on average: half a million times the filter paper's, 128 MiB.
pub const VIDEO_MAX_VIEWS: usize = 1 << 22;

/// Sets of objects whose estimates give the error of a sampled curve. With more, each would be too
/// small a sample to behave as the whole does; with fewer, Student's t grows.
pub const CURVE_SETS: usize = 8;

/// The largest capacity of a curve, in bytes: a double counts them exactly up to here (8 PiB).
pub const CURVE_MAX_BYTES: u64 = 1 << 53;

/// Windows of a breakdown over time: 3 MB a cache, and more than a plot can show.
pub const BREAKDOWN_MAX_WINDOWS: usize = 1 << 16;
