//! The limits of this crate that several files share or an operator meets, each with its reason.

/// Bytes of a spec's text. The longest sensible pipeline is below 200, and a longer configuration
/// value would make the parser's errors unreadable.
pub const MAX_SPEC_BYTES: usize = 512;

/// Stages of one spec. Each admission stage costs a virtual call a request; no publication uses
/// more than a few.
pub const MAX_STAGES: usize = 8;

/// Objects of one engine: slots are `u32` and the last value marks the end of a list.
pub const MAX_OBJECTS: usize = u32::MAX as usize - 1;

/// Requests of a trace that offline policies may foresee. The longest published CDN trace
/// (`adaptsize`, 450 million) fits, in 11 GB.
pub const MAX_FUTURE_REQUESTS: usize = 1 << 29;

/// Longest history of Filter: 64 MB of queue, ten times the longest in the paper's sweep (1e6).
pub const FILTER_MAX_WINDOW: u64 = 1 << 24;

/// Shortest derived window of a frequency sketch. A cache of a few large objects must see a second
/// request, too.
pub const SKETCH_MIN_WINDOW: u64 = 640;

/// Longest window of a frequency sketch: 1 GiB of counters. The filter paper's longest is 5.5e8,
/// fifty requests each for a tenth of 1.1e8 packets.
pub const SKETCH_MAX_WINDOW: u64 = 1 << 30;

/// Longest window of WLFU: 128 MB of queue, and at most seven times as much for its counts, if
/// every object is requested once.
pub const WLFU_MAX_WINDOW: u64 = 1 << 24;

/// Ghosts of one list. The cache's bytes bound a policy's ghosts; this bound matters if small
/// objects fill a large cache. About 500 MB.
pub const MAX_GHOSTS: usize = 1 << 24;

/// Fewest requests between two computations of LHD's densities. A computation takes about 20 µs, so
/// 5 ns a request.
pub const LHD_MIN_INTERVAL: u64 = 1 << 12;

/// Most requests between two computations of LHD's densities: the authors' interval.
pub const LHD_MAX_INTERVAL: u64 = 1 << 20;
