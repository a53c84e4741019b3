//! Bounds that an operator may want to know.

use std::time::Duration;

/// Writes at the same time.
pub const WRITES: usize = 32;

/// Reads at the same time. A request for which there is no place asks the origin.
pub const READS: usize = 128;

/// The time for a connection to the store.
pub const CONNECT: Duration = Duration::from_secs(2);

/// The time for the head of the store's response, beside that for a body that is sent.
pub const RESPONSE: Duration = Duration::from_secs(5);

/// Bytes of a body that are sent in a second at least.
pub const SLOWEST: u64 = 256 << 10;

/// Removals that wait. Further ones are left to the bucket's rule.
pub const REMOVALS: u64 = 1024;

/// Names of removed objects that are remembered, and of notes.
pub const NAMES: usize = 1 << 16;

/// The time after which a note is written again: something may have removed it.
pub const NOTE: Duration = Duration::from_secs(86_400);

/// The time for the next piece of a body: then the rest comes from the origin.
pub const PIECE: Duration = Duration::from_secs(5);

/// Results that decide whether the store is left alone: half of them failed.
pub const RESULTS: usize = 20;

/// The time for which a failing store is left alone.
pub const PAUSE: Duration = Duration::from_secs(30);

/// The time between two writes of a filter that has changed.
pub const FILTER_WRITES: Duration = Duration::from_secs(60);

/// The time between two looks at the filters of other nodes.
pub const FILTER_READS: Duration = Duration::from_secs(600);

/// The time for reading them.
pub const FILTERS: Duration = Duration::from_secs(120);

/// The time after which an idle connection is not used again: a store may have forgotten it.
pub const IDLE: Duration = Duration::from_secs(15);

/// The largest layer of a filter, in bytes: it knows as many objects.
pub const LAYER_BYTES: usize = 16 << 20;

/// The time in which the queue is written at a stop, and then as long for the filter.
pub const STOP: Duration = Duration::from_secs(3);
