//! Every limit of this crate, each with its reason.

/// Bytes of a spec's text. The longest sensible pipeline is under 200; a configuration field must not make the parser's errors unreadable.
pub const MAX_SPEC_BYTES: usize = 512;

/// Stages of one spec. Each admission stage costs a virtual call a request; more than a few have no published use.
pub const MAX_STAGES: usize = 8;

/// Objects of one engine: slots are `u32` and the last value marks the end of a list.
pub const MAX_OBJECTS: usize = u32::MAX as usize - 1;

/// Longest history of Filter: 64 MB of queue, ten times the longest in the paper's sweep (1e6).
pub const FILTER_MAX_WINDOW: u64 = 1 << 24;

/// Shortest derived history of Filter: a cache of a few large objects still needs to see a second request.
pub const FILTER_MIN_WINDOW: u64 = 64;

/// Largest counter table of Filter, the paper's own: 2^24 slots of 16 bits, 32 MB.
pub const FILTER_MAX_TABLE: u64 = 1 << 24;

/// Smallest counter table of Filter: 2 KB.
pub const FILTER_MIN_TABLE: u64 = 1 << 10;

/// Slots of Filter's table a request of its window: at most 1/128 false positives. The paper has 168 at C = 1e5. They add to an insertion
/// ratio of about .03, so 1/32 would double it.
pub const FILTER_SLOTS_A_REQUEST: u64 = 128;

/// Filter's derived table takes at most one part in this many of the capacity's bytes, or [`FILTER_ALWAYS_AFFORDABLE_TABLE`].
pub const FILTER_CAPACITY_SHARE: u64 = 16;

/// Slots that Filter's derived table may have beside a cache of any size: 8 MB. A 64 MiB cache of full NDN packets takes 2 MB, of 1 KB packets
/// 8 MB; traces without sizes give capacities in objects, to which a share of the bytes would be no measure.
pub const FILTER_ALWAYS_AFFORDABLE_TABLE: u64 = 1 << 22;

/// Arrivals over which Filter takes the mean size of what arrives, before both sums are halved: enough for a mean within some per cent, few
/// enough to follow a change of traffic.
pub const FILTER_ARRIVALS: u64 = 8192;

/// Objects of [`FILTER_TYPICAL_OBJECT_BYTES`] that count as arrived before the first: a few odd sizes must not set the window.
pub const FILTER_PRIOR_ARRIVALS: u64 = 16;

/// Bytes of an object, for Filter's first window: a full NDN packet.
pub const FILTER_TYPICAL_OBJECT_BYTES: u64 = 8 << 10;

/// Longest interval of AdaptSize, in requests: bounds its statistics (see [`ADAPTSIZE_MAX_OBJECTS`]).
pub const ADAPTSIZE_MAX_INTERVAL: u64 = 1_000_000;

/// Shortest interval of AdaptSize: below a thousand requests every object looks requested once.
pub const ADAPTSIZE_MIN_INTERVAL: u64 = 1_000;

/// Objects that AdaptSize counts in one interval, for a host that does not run its jobs: further new ones are not counted. 16 bytes each.
pub const ADAPTSIZE_MAX_OBJECTS: usize = 1 << 20;

/// Rounds of AdaptSize's golden-section search: the bracket of two octaves shrinks by 0.618^15, to a thousandth of an octave and a half.
pub const ADAPTSIZE_SEARCH_ROUNDS: usize = 15;

/// Rounds of the solution of AdaptSize's Lemma 1. Newton needs 4 to 8; where it leaves half of the bracket, the bracket is halved.
pub const ADAPTSIZE_SOLVER_ROUNDS: usize = 100;

/// Objects due before a newcomer that agd counts: one that outlasts this many is let in, so that a large object costs a bounded walk where it
/// is refused.
pub const AGD_VICTIMS_COUNTED: usize = 256;

/// Counters of agd's history an object of the cache, a byte each: with 8, mix 1 GiB loses a point of hit ratio.
pub const AGD_COUNTERS_AN_OBJECT: usize = 16;

/// Smallest history of agd: 4 KB.
pub const AGD_MIN_COUNTERS: usize = 1 << 12;

/// Largest history of agd: 1 GiB, for 64 million objects.
pub const AGD_MAX_COUNTERS: usize = 1 << 30;

/// agd halves its counts after this many times as many requests as the cache has objects: with 8, Twitter 5 MiB loses half a point.
pub const AGD_HALF_LIFE_TURNS: usize = 128;

/// Objects that agd takes a cache to have at least, in counting its turns: counts need some thousand requests to mean anything.
pub const AGD_MIN_TURN: usize = 64;

/// agd samples one object in 2^this for its shadows, at most: six shadows then cost three quarters of the requests again, in caches that are small.
pub const AGD_LEAST_SAMPLE_SHIFT: u32 = 3;

/// Objects that a shadow of agd should have, to twice as many: the sample gets smaller as the cache grows. Six of these stay in a second-level
/// cache, and differences of half a point show in some thousand requests.
pub const AGD_SHADOW_OBJECTS: usize = 1024;
