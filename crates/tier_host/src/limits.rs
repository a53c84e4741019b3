//! Every bound of the threads of a disk tier, with its reason.

use std::time::Duration;

/// The time between two warnings about a disk: the first tells the problem, the counters its
/// frequency.
pub const WARNINGS: Duration = Duration::from_secs(1);

/// Threads that read from a disk tier. The page cache needs one; an SSD answers several at once.
pub const DISK_READERS: usize = 4;

/// Threads that read parts of values whose readers have begun to send them: they wait for no other
/// reads.
pub const DISK_PART_READERS: usize = 2;

/// Values that are checked at once before they are read in parts. Each may be as long as a region,
/// up to 256 MiB, so one behind so many others still begins within [`DISK_PATIENCE`] on a disk of 1
/// GB/s, unless all are that long.
pub const DISK_OPENS: usize = 16;

/// A part that a disk tier has not read within this time ends its body: a client waits as long for
/// it.
pub const DISK_PART_PATIENCE: Duration = Duration::from_secs(60);

/// Reads that wait for a disk tier, some 200 bytes each and the value's. Above this, the origin is
/// asked instead. Responses that are read whole are reserved before, and Data has the forwarder's
/// own bound (`larder_forwarder::limits::TIER_LOOKUPS`). Consumers with a window request hundreds
/// of segments at once.
pub const DISK_READS_WAITING: usize = 2048;

/// The writer of a disk tier looks for work at least this often: it is woken for all work that it
/// knows.
pub const DISK_IDLE: Duration = Duration::from_secs(5);

/// The longest wait for a read or a sync of a disk tier. After that, the origin is asked, and a
/// removal reports an error. A disk under load takes less than a second; one that repeats failed
/// operations takes ten and more.
pub const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// A part of a value, whose reader has begun to send it, is requested again after this time if the
/// queue of reads is full.
pub const DISK_RETRY: Duration = Duration::from_millis(10);

/// The interval in which a node that stops checks its disk tier: too short to be noticed.
pub const DISK_STOP_LOOK: Duration = Duration::from_millis(5);

/// The share of the cache's capacity (a sixteenth), from 8 MiB to 1 GiB, for what waits to be
/// written to the disk tier. It is taken from the room for bodies in progress (that of HTTP:
/// `larder_http::limits::filling`), and leaves at least half of that. A cache of less than 64 MiB,
/// with a queue of 8, holds more than both. Reclaiming is not counted: it reads one record at a
/// time.
pub const QUEUE_SHARE: u64 = 16;

/// The smallest such queue: several of the disk's writes (1 MiB,
/// `larder_disk::limits::WRITE_BYTES`). A queue of a single write would be full, and drop records,
/// before that write is due.
pub const QUEUE_LEAST_BYTES: u64 = 8 << 20;

/// The largest such queue.
pub const QUEUE_MOST_BYTES: u64 = 1 << 30;
