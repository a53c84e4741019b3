//! Every bound of the what-if analysis and of captures, with its reason.

use std::time::Duration;

/// The time between two looks of the analysis at the observations of a cache: with the number that
/// a cache keeps (`OBSERVATIONS` of its limits) it bounds the requests in the sample per second.
pub const WHAT_IF_TURN: Duration = Duration::from_millis(100);

/// The same after a look that found more than [`WHAT_IF_MANY`], and during a capture, which loses
/// what a shard cannot keep.
pub const WHAT_IF_BUSY_TURN: Duration = Duration::from_millis(10);

/// Observations of a look that are many: half of what one shard keeps. A small cache has one shard,
/// and popular objects may all be in the same one.
pub const WHAT_IF_MANY: usize = 1 << 9;

/// The same while there are none.
pub const WHAT_IF_IDLE_TURN: Duration = Duration::from_secs(1);

/// Each what-if analysis spends at most one part in this many of the time that passes on the
/// requests of its sample. If it spends more, the sample becomes smaller.
pub const WHAT_IF_SHARE: u32 = 33;

/// The same, of the processor time of the whole node, so that a request costs little more with the
/// analysis than without it.
pub const WHAT_IF_NODE_SHARE: u32 = 20;

/// One part in this many of the time that passes is always allowed: of a node with little work, a
/// twentieth would leave a sample that is too small for an estimate.
pub const WHAT_IF_LEAST_SHARE: u32 = 330;

/// The time between two looks at these shares. A new node takes all requests into its sample, so
/// its first seconds cost most.
pub const WHAT_IF_SHARE_TIME: Duration = Duration::from_millis(250);

/// Time that was allowed and not used is kept, up to that of so many looks, a minute: a burst of
/// requests makes no sample smaller for ever.
pub const WHAT_IF_SAVED_LOOKS: u32 = 240;

/// Captures of the traffic of a cache at a time.
pub const CAPTURES: usize = 4;

/// Bytes of a piece of a capture at most.
pub const CAPTURE_PIECE: usize = 64 << 10;

/// Pieces of a capture that may be on their way to its client: 1 MiB.
pub const CAPTURE_PIECES: usize = 16;

/// Bytes of a capture that may wait behind these: ten seconds at ten thousand requests in the
/// sample per second.
pub const CAPTURE_WAITING: usize = 4 << 20;

/// The time between two results of the what-if analysis.
pub const WHAT_IF_REPORT: Duration = Duration::from_secs(1);
