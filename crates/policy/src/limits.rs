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

/// Shortest derived history of Filter. A cache of a few large objects must see a second request,
/// too.
pub const FILTER_MIN_WINDOW: u64 = 64;

/// Largest counter table of Filter, the paper's own: 2^24 slots of 16 bits, 32 MB.
pub const FILTER_MAX_TABLE: u64 = 1 << 24;

/// Smallest counter table of Filter: 2 KB.
pub const FILTER_MIN_TABLE: u64 = 1 << 10;

/// Slots of Filter's derived table at first: 128 KB, 512 requests of history. Fewer would save no
/// memory to speak of.
pub const FILTER_FIRST_TABLE: usize = 1 << 16;

/// Slots of Filter's table a request of its window: at most 1/128 false positives. The paper has
/// 168 at C = 1e5. They add to an insertion ratio of about .03, so 1/32 would double it.
pub const FILTER_SLOTS_A_REQUEST: u64 = 128;

/// Filter's derived table takes at most one part in this many of the capacity's bytes, or
/// [`FILTER_ALWAYS_AFFORDABLE_TABLE`].
pub const FILTER_CAPACITY_SHARE: u64 = 16;

/// Slots that Filter's derived table may have with any capacity: 8 MB. A 64 MiB cache of full NDN
/// packets takes 2 MB, of 1 KB packets 8 MB. Traces without sizes give capacities in objects, for
/// which a share of the bytes would be meaningless.
pub const FILTER_ALWAYS_AFFORDABLE_TABLE: u64 = 1 << 22;

/// Arrivals in Filter's mean size of arriving objects, before both sums are halved: enough for a
/// mean within a few per cent, few enough to follow a change of traffic.
pub const FILTER_ARRIVALS: u64 = 8192;

/// Objects of [`FILTER_TYPICAL_OBJECT_BYTES`] that Filter assumes to have arrived before the first:
/// a few unusual sizes must not set the window.
pub const FILTER_PRIOR_ARRIVALS: u64 = 16;

/// Assumed bytes of an object for Filter's first window: a full NDN packet.
pub const FILTER_TYPICAL_OBJECT_BYTES: u64 = 8 << 10;

/// Longest interval of AdaptSize, in requests: bounds its statistics (see
/// [`ADAPTSIZE_MAX_OBJECTS`]).
pub const ADAPTSIZE_MAX_INTERVAL: u64 = 1_000_000;

/// Shortest interval of AdaptSize. Below a thousand requests every object seems to be requested
/// once.
pub const ADAPTSIZE_MIN_INTERVAL: u64 = 1_000;

/// Least and most requests of AdaptSize's derived interval, if enough of them are repeats. The
/// maximum is the paper's interval; with fewer than the minimum, the rates of most objects are 0 or
/// 1.
pub const ADAPTSIZE_DERIVED_INTERVAL: [u64; 2] = [25_000, 250_000];

/// Requests of AdaptSize's derived interval for each stored object: two to four requests for an
/// object that is just worth storing.
pub const ADAPTSIZE_REQUESTS_AN_OBJECT: u64 = 4;

/// AdaptSize's derived interval continues until this many requests are repeats. The model learns
/// only from repeats, and each of some thousand bins should have a few.
pub const ADAPTSIZE_REPEATS: u64 = 12_500;

/// Objects that AdaptSize counts in one interval, for a host that does not run its jobs. Further
/// new objects are not counted. 16 bytes each.
pub const ADAPTSIZE_MAX_OBJECTS: usize = 1 << 20;

/// Rounds of AdaptSize's golden-section search. The bracket of two octaves shrinks by 0.618^10, to
/// a sixtieth of an octave, 1 % of c. The authors' programs take 15, to a thousandth, from a whole
/// range.
pub const ADAPTSIZE_SEARCH_ROUNDS: usize = 10;

/// Rounds of the solution of AdaptSize's Lemma 1. Newton needs 4 to 8. A step that leaves more than
/// half of the bracket is replaced by a bisection.
pub const ADAPTSIZE_SOLVER_ROUNDS: usize = 100;

/// Keys that After counts for each stored object: as many requests as TinyLFU's window.
pub const AFTER_KEYS_AN_OBJECT: u64 = 10;

/// Fewest keys of After's derived table: those in one megabyte of nginx's zone, according to its
/// documentation.
pub const AFTER_MIN_KEYS: u64 = 8_000;

/// Most keys that After counts: about 700 MB, as many as in two gigabytes of nginx's zone.
pub const AFTER_MAX_KEYS: u64 = 1 << 24;

/// Objects that one of Bloom's filters holds, for each stored object.
pub const BLOOM_WINDOW_AN_OBJECT: u64 = 4;

/// Fewest objects of Bloom's derived window: 2 KB a filter.
pub const BLOOM_MIN_WINDOW: u64 = 1 << 10;

/// Most objects that one of Bloom's filters holds: two filters of 512 MB.
pub const BLOOM_MAX_WINDOW: u64 = 1 << 28;

/// Requests after which a frequency sketch halves its counts, for each stored object: Caffeine's
/// W/C. Counts end at 15, so a longer window would not distinguish popular objects.
pub const SKETCH_WINDOW_AN_OBJECT: u64 = 10;

/// Shortest derived window of a frequency sketch. A cache of a few large objects must see a second
/// request, too.
pub const SKETCH_MIN_WINDOW: u64 = 640;

/// Longest window of a frequency sketch: 1 GiB of counters. The filter paper's longest is 5.5e8,
/// fifty requests each for a tenth of 1.1e8 packets.
pub const SKETCH_MAX_WINDOW: u64 = 1 << 30;

/// Smallest table of a frequency sketch, in cache lines: 4 KB, so that the header is negligible.
pub const SKETCH_MIN_BLOCKS: usize = 64;

/// Longest interval of HillClimb, in requests: a capacity of 2^63 bytes would make it 1.4 million.
pub const HILLCLIMB_MAX_INTERVAL: u64 = 1 << 24;

/// The share of the protected segment in W-TinyLFU's main part, as in Caffeine and in the paper's
/// section 4.
pub const WTINYLFU_PROTECTED: f64 = 0.8;

/// Requests in WLFU's window for each stored object: as many as in TinyLFU's sketch, so that both
/// can be compared.
pub const WLFU_WINDOW_AN_OBJECT: u64 = 10;

/// Shortest derived window of WLFU. A cache of a few large objects must see a second request, too.
pub const WLFU_MIN_WINDOW: u64 = 640;

/// Longest window of WLFU: 128 MB of queue, and at most seven times as much for its counts, if
/// every object is requested once.
pub const WLFU_MAX_WINDOW: u64 = 1 << 24;

/// Counts that WLFU distinguishes. Objects with more requests are ordered by recency only.
pub const WLFU_LEVELS: usize = 4096;

/// Longest window of ProbCache: a day of traffic. Beyond that its chances are close to 0.
pub const PROBCACHE_MAX_WINDOW: u64 = 86_400;

/// Ghosts of one list. The cache's bytes bound a policy's ghosts; this bound matters if small
/// objects fill a large cache. About 500 MB.
pub const MAX_GHOSTS: usize = 1 << 24;

/// Segments of SLRU. The published ones have two to eight, and a request may visit all.
pub const SLRU_MAX_SEGMENTS: u64 = 16;

/// Parts of a segment of S4LRU: a hundredth is finer than any published partition.
pub const SLRU_MAX_PARTS: u64 = 100;

/// Largest K of LRU-K. The paper finds little gain beyond 3; an experiment that tunes K needs
/// values beyond the best one. Each costs 8 bytes per stored or remembered object.
pub const LRU_K_MAX: usize = 64;

/// Fewest requests between two computations of LHD's densities. A computation takes about 20 µs, so
/// 5 ns a request.
pub const LHD_MIN_INTERVAL: u64 = 1 << 12;

/// Most requests between two computations of LHD's densities: the authors' interval.
pub const LHD_MAX_INTERVAL: u64 = 1 << 20;
/// Objects due before a newcomer that agd counts. A newcomer that outlasts this many is admitted,
/// so that the decision about a large object is bounded.
pub const AGD_VICTIMS_COUNTED: usize = 256;

/// Counters of agd's sketch for each stored object, a byte each. With 8, mix 1 GiB loses a point of
/// hit ratio.
pub const AGD_COUNTERS_AN_OBJECT: usize = 16;

/// Smallest sketch of agd: 4 KB.
pub const AGD_MIN_COUNTERS: usize = 1 << 12;

/// Largest sketch of agd: 1 GiB, for 64 million objects.
pub const AGD_MAX_COUNTERS: usize = 1 << 30;

/// Objects that agd's table remembers for each stored object, four bytes each. With 8, local mix
/// and cdn .1 % lose .2 to .4 points of the byte hits.
pub const AGD_ENTRIES_AN_OBJECT: usize = 4;

/// Entries of agd's smallest table: 4 KB.
pub const AGD_MIN_ENTRIES: usize = 1 << 10;

/// Entries of agd's largest table: 1 GiB, for 64 million objects.
pub const AGD_MAX_ENTRIES: usize = 1 << 28;

/// agd halves its counts after this many misses for each entry of its table. Without this, *equal*
/// 1 % and mix with the longer locality .1 % lose .2 points of the byte hits.
pub const AGD_MISSES_AN_ENTRY: usize = 4;

/// agd halves its counts after this many requests for each stored object. With 8, Twitter 5 MiB
/// loses half a point.
pub const AGD_HALF_LIFE_TURNS: usize = 128;

/// The least number of stored objects that agd assumes when it counts turns of the cache: counts
/// mean nothing before some thousand requests.
pub const AGD_MIN_TURN: usize = 64;

/// agd samples at most one object in 2^this for its shadows. With 4, CloudPhysics, whose trace is
/// short, has 3 points less, and Twitter 512 KiB .2.
pub const AGD_LEAST_SAMPLE_SHIFT: u32 = 3;

/// Objects that a shadow of agd should have; a quarter to twice as many are allowed. The sample
/// shrinks as the cache grows, and grows if the cache shrinks. With half as many, mix 1 GiB and
/// Twitter 5 MiB end on a power beside the best, .003 and .002 below; with twice as many the
/// shadows leave the second-level cache.
pub const AGD_SHADOW_OBJECTS: usize = 2048;

/// Objects that agd's shadows store together, at most: 34 MB, and 4 MB of index. In a cache whose
/// power keeps few large objects, the shadows of other powers keep many small ones in the same
/// room. With fewer of the large ones in the sample, chance would decide about them.
pub const AGD_SHADOWED_OBJECTS: usize = 1 << 18;
