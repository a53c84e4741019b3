//! The limits of this crate that several files share or an operator meets, each with its reason.

use std::time::Duration;

/// The variants of one key take up to a sixteenth of the capacity together (RFC 9111 §4.1): an
/// origin that varies on `User-Agent` or `Cookie` must not fill the cache with copies of one page.
/// The oldest make room.
pub const VARIANTS_SHARE: u64 = 16;

/// The memory of a variant in its index: an entry of 16 bytes in a table that is at least 7/16
/// full.
pub const VARIANT_BYTES: u64 = 36;

/// Field names in one `Vary`. Real ones have one to five; each costs a lookup on every hit. A
/// response with more names is not stored.
pub const VARY_NAMES: usize = 16;

/// Longest cache key in bytes: scheme, authority and target. Servers commonly refuse targets above
/// 8 KB; a request with a longer key bypasses the cache.
pub const KEY_BYTES: usize = 16 * 1024;

/// Longest stored header block, in bytes of names and values. Browsers and servers stop at 32 to 64
/// KB.
pub const STORED_HEADER_BYTES: usize = 64 * 1024;

/// Longest freshness lifetime. RFC 9111 §1.2.2: larger values count as 2^31 seconds (68 years).
pub const LIFETIME_SECONDS: u64 = 1 << 31;

/// Longest heuristic lifetime. RFC 9111 §4.2.2 suggests 10 % of the time since Last-Modified. A
/// page that has not changed for ten years would be kept for one year; a day bounds the damage if
/// the origin states no lifetime.
pub const HEURISTIC_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Memory for bodies that are not stored, in addition to the stored ones: bodies on their way into
/// the store, and bodies that have left it while clients read them. A quarter of the capacity; of a
/// large one, an eighth and 32 MiB more. So the sum stays below 1.15 times the capacity and 64 MB,
/// with a few per cent for the allocator's losses. Beyond this limit, responses are still
/// forwarded, but not stored.
pub fn filling(capacity: u64) -> u64 {
    (capacity / 4).min(capacity / 8 + (32 << 20))
}

/// The memory of a body that is not small, in addition to its bytes: the structures by which
/// readers share it. A test checks that it covers their sizes.
pub const LARGE_BODY_OVERHEAD_BYTES: u64 = 128;

/// A stored body is small up to this size: it is in one piece of memory with the header lines, and
/// a hit copies it. Copying a page costs less than sharing it, which needs a reference counter and
/// a second piece in the write to the socket.
pub const INLINE_BODY_BYTES: usize = 4096;

/// Memory for header lines that stored responses share, in addition to the stored responses. A line
/// of 60 bytes takes 250 there, so 256 MiB of capacity have room for 8,000 of them. A site has a
/// few dozen.
///
/// Each shard has its own copy of a line that all sites have. So one of many shards has more than
/// its part, and all together have at most a sixteenth of the capacity.
pub const fn shared_lines(capacity: u64, shards: u16) -> u64 {
    let one = capacity / 128;
    let part = capacity / 16 / shards as u64;
    if one < part { one } else { part }
}

/// The time for which requests for a key do not wait for each other after a response that could not
/// be shared (as in Varnish's hit-for-miss). Each response may end it, so a longer time only costs
/// one burst of requests just after a change.
pub const HIT_FOR_MISS_DURATION: Duration = Duration::from_secs(120);

/// Shards of a cache: four times the threads of a large machine. The number of a shard and of an
/// entry in it are 32 bits together, so a shard has 2^26 entries.
pub const SHARDS: u16 = 64;

/// The bytes that may be ahead of the slowest reader of a body in progress that is no longer
/// collected: a socket buffer. It takes them from the memory for bodies in progress if half of that
/// is free, because a body that is not stored must not displace one that may be. Otherwise one
/// piece is ahead, as for a single reader of a body that is not collected.
pub const WINDOW_BYTES: usize = 256 * 1024;

/// The largest piece that a reader of a body in progress copies at once: the size of one write to a
/// socket.
pub const PIECE_BYTES: usize = 64 * 1024;

/// The first read of a response that stays in the second tier: its head. Heads of
/// [`STORED_HEADER_BYTES`] fit, with their selecting fields. A response with a longer head is not
/// streamed.
pub const TIER_FIRST_BYTES: usize = 2 * STORED_HEADER_BYTES;

/// Longest part of an object before its body, in bytes: such a head, and its key. A longer one is
/// no object.
pub const OBJECT_HEAD_BYTES: usize = TIER_FIRST_BYTES + 2 * KEY_BYTES;

/// Ranges in one request. PDF readers send a few dozen; each costs some lines in the answer. A
/// request for more gets the whole body.
pub const RANGES: usize = 64;

/// Slices of one body. With slices of 1 MiB this is 64 GiB; a longer body bypasses the cache, which
/// would not hold a useful part of it.
pub const SLICES: u64 = 1 << 16;

/// The smallest slice. Below, the structures around it and the request for each cost more than the
/// bytes.
pub const SLICE_BYTES_LEAST: u64 = 4096;

/// The number of retries of one client request at the origin: the origin gets it once with a
/// condition, once for a slice, and once in its own form.
pub const RETRIES: usize = 2;

/// Purged URLs, tags and hosts that a cache remembers exactly, and its second tier too: up to 6 MB
/// each. If there are more, the older half moves to an inexact table (`purge_table.rs`).
pub const PURGED_NAMES: usize = 1 << 16;

/// Purged prefixes that are remembered exactly. If there are more, the older half is shortened to
/// the host.
pub const PURGED_PREFIXES: usize = 1 << 14;

/// Bytes of the exactly remembered prefixes: 256 each on average.
pub const PURGED_PREFIX_BYTES: usize = 4 << 20;

/// The memory of one tag of one stored response in the index of tags: an entry in its table, which
/// is at least 7/16 full.
pub const TAG_BYTES: u64 = 56;

/// The time after its freshness for which a response may be served while the origin cannot be
/// reached (RFC 9111 §4.2.4 allows this to a disconnected cache, and does not limit the time). An
/// hour is the length of an outage. A response with must-revalidate is never served in this way.
pub const STALE_WHILE_DISCONNECTED: Duration = Duration::from_secs(3600);

/// While an origin fails, it is tried again for a key at this interval, in the background. A second
/// is short enough for clients and long enough for an origin that starts.
pub const FAILURE_RETRY: Duration = Duration::from_secs(1);

/// Observations that a shard keeps until its host takes them: those of a tenth of a second at ten
/// thousand requests per second in the sample. With 64 shards and 100 bytes each they take 6 MB.
pub const OBSERVATIONS: usize = 1 << 10;
