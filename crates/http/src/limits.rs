//! The limits of this crate that several files share or an operator meets, each with its reason.

use std::time::Duration;

/// The variants of one key take up to a sixteenth of the capacity together (RFC 9111 §4.1): an
/// origin that varies on `User-Agent` or `Cookie` must not fill the cache with copies of one page.
/// The oldest make room.
pub const VARIANTS_SHARE: u64 = 16;

/// The number of variants of a key that may exceed that share: some encodings or formats of a large
/// object.
pub const VARIANTS_FREE: usize = 8;

/// Variants of a key, the newest first, that are compared with a request. If none matches, a hash
/// of the request's values finds the others. So a key with few variants needs no hash, and one with
/// many no long search.
pub const VARIANTS_WALKED: usize = 8;

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

/// The inverse of the share of the memory for bodies in progress that is kept for small ones.
/// Otherwise a few clients that read large ones slowly would prevent all storing. An eighth still
/// holds eight of the largest that count as small.
pub const SMALL_FILLS_SHARE: u64 = 8;

/// A body in progress is small up to this share of that memory: with a capacity of 64 MiB and 16
/// MiB for bodies in progress, this is 256 KiB, above most pages and scripts.
pub const SMALL_FILL: u64 = 64;

/// First buffer of a body of unknown length. It doubles from there: small bodies cost one page or
/// four, not the object limit.
pub const FILL_START_BYTES: usize = 16 * 1024;

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

/// Longest line that is shared. Content-Security-Policy takes up to some KiB.
pub const SHARED_LINE_BYTES: usize = 8 * 1024;

/// Header lines that the table remembers to have seen once (4 bytes each). A response has about
/// three lines of its own. So a line is recognised if it comes again within some thousand
/// responses.
pub const SEEN_LINES: usize = 8192;

/// The time for which requests for a key do not wait for each other after a response that could not
/// be shared (as in Varnish's hit-for-miss). Each response may end it, so a longer time only costs
/// one burst of requests just after a change.
pub const ALONE: Duration = Duration::from_secs(120);

/// Keys for which that is remembered (16 bytes each). If two of them have the same position, the
/// older is forgotten, and one burst of its requests waits.
pub const ALONE_PLACES: usize = 4096;

/// The time for which the fields of a `Vary` count for a URL, after the last response with them. A
/// superfluous name only costs a request that could have been collapsed.
pub const VARY_REMEMBERED: Duration = Duration::from_secs(600);

/// URLs whose fields are remembered. If two have the same position, the older is forgotten, and its
/// next burst waits for one response.
pub const VARY_PLACES: usize = 4096;

/// Bytes of these names for one URL. A list has about fifty.
pub const VARY_REMEMBERED_BYTES: usize = 512;

/// Longest stored `Cache-Status` of other caches, in bytes. Each cache on the path adds about
/// fifty.
pub const EARLIER_BYTES: usize = u16::MAX as usize;

/// Shards of a cache: four times the threads of a large machine. The number of a shard and of an
/// entry in it are 32 bits together, so a shard has 2^26 entries.
pub const SHARDS: u16 = 64;

/// Longest selecting fields of a stored response (RFC 9111 §4.1), in bytes: as long as the longest
/// header block that servers commonly accept.
pub const SELECTOR_BYTES: usize = u16::MAX as usize;

/// The least number of positions that a shard has as its share of [`ALONE_PLACES`], [`VARY_PLACES`]
/// and [`FAILURE_PLACES`]: with few positions, chance collisions would make it forget.
pub const SHARD_PLACES_LEAST: usize = 256;

/// Hits that a shard collects before it passes them to the policy engine, if that is free. With 64,
/// the engine's lock is held for two microseconds once in 64 hits, and its cache misses overlap.
pub const HITS_BATCH: usize = 64;

/// Hits that a shard collects while other shards use the engine. Beyond this, hits are not counted:
/// with so many threads that the engine is always busy, it gets a sample.
pub const HITS_MOST: usize = 512;

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

/// Ranges in one request. PDF readers send a few dozen; each costs some lines in the answer. A
/// request for more gets the whole body.
pub const RANGES: usize = 64;

/// Ranges at most this far apart are merged, because the lines between two parts are as long.
pub const RANGE_GAP_BYTES: u64 = 80;

/// Slices of one body. With slices of 1 MiB this is 64 GiB; a longer body bypasses the cache, which
/// would not hold a useful part of it.
pub const SLICES: u64 = 1 << 16;

/// Slices of each range that are looked up before the head of the answer is sent, to distinguish a
/// hit from a miss: about 100 microseconds under the cache's lock. For later slices, the head may
/// state a hit although the origin is asked.
pub const SLICES_LOOKED_AT: usize = 256;

/// The inverse of the share of the second tier that one object may take if it is stored in slices
/// while it passes: a few such objects must not displace all others.
pub const OBJECT_SHARE_OF_TIER: u64 = 8;

/// The smallest slice. Below, the structures around it and the request for each cost more than the
/// bytes.
pub const SLICE_BYTES_LEAST: u64 = 4096;

/// The number of retries of one client request at the origin: the origin gets it once with a
/// condition, once for a slice, and once in its own form.
pub const RETRIES: usize = 2;

/// Stored responses that one step of a purge visits: a millisecond or two, in which no request is
/// answered.
pub const PURGE_STEP: usize = 4096;

/// Purged URLs, tags and hosts that a cache remembers exactly, and its second tier too: up to 6 MB
/// each. If there are more, the older half moves to the table of [`FORGOTTEN_PURGES`].
pub const PURGED_NAMES: usize = 1 << 16;

/// Table entries for purges that are no longer exact, by hash, 16 bytes each. The table is
/// allocated, with 16 MiB, when the first purge moves there. After 100,000 purges that were all
/// later than a response, it is fetched once unnecessarily with a chance of one in eleven for each
/// of its tags.
pub const FORGOTTEN_PURGES: usize = 1 << 20;

/// Purged prefixes that are remembered exactly. If there are more, the older half is shortened to
/// the host.
pub const PURGED_PREFIXES: usize = 1 << 14;

/// Bytes of these prefixes: 256 each on average.
pub const PURGED_PREFIX_BYTES: usize = 4 << 20;

/// The memory of one tag of one stored response in the index of tags: an entry in its table, which
/// is at least 7/16 full.
pub const TAG_BYTES: u64 = 56;

/// The time after its freshness for which a response may be served while the origin cannot be
/// reached (RFC 9111 §4.2.4 allows this to a disconnected cache, and does not limit the time). An
/// hour is the length of an outage. A response with must-revalidate is never served in this way.
pub const STALE_WHILE_DISCONNECTED: Duration = Duration::from_secs(3600);

/// An origin's clock is behind if its `Date` is at least this much older than the receipt. A
/// smaller difference is rounding to seconds, or a slow application.
pub const CLOCK_BEHIND: Duration = Duration::from_secs(5);

/// While an origin fails, it is tried again for a key at this interval, in the background. A second
/// is short enough for clients and long enough for an origin that starts.
pub const FAILURE_RETRY: Duration = Duration::from_secs(1);

/// The time for which a failure is remembered. Tries renew it, so it ends if nothing is requested.
pub const FAILURE_REMEMBERED: Duration = Duration::from_secs(60);

/// Keys whose failing origin is remembered, 32 bytes each. If two have the same position, the older
/// is forgotten, and one of its clients waits for the origin again.
pub const FAILURE_PLACES: usize = 4096;

/// A request with this many own entries in Via or CDN-Loop is treated as a loop. Nobody builds a
/// chain of so many caches. Each round costs a connection on both sides.
pub const OWN_VIA: usize = 8;

/// Observations that a shard keeps until its host takes them: those of a tenth of a second at ten
/// thousand requests per second in the sample. With 64 shards and 100 bytes each they take 6 MB.
pub const OBSERVATIONS: usize = 1 << 10;

/// Bytes of key and tags of an observation. Purges by prefix or tag do not find longer ones in the
/// what-if analysis. All shards together keep 33 MB of them, if all are that long and new.
pub const LABEL_BYTES: usize = 512;
