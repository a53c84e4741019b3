//! Bounds that an operator may want to know.

use std::time::Duration;

/// Writes at the same time.
pub const WRITES: usize = 32;

/// Reads at the same time. A request for which there is no place asks the origin.
pub const READS: usize = 256;

/// The time for a connection to the store.
pub const CONNECT: Duration = Duration::from_secs(2);

/// The time for the head of the store's response to a write.
pub const RESPONSE: Duration = Duration::from_secs(5);

/// Results that decide whether the store is left alone: half of them failed.
pub const RESULTS: usize = 20;

/// The time for which a failing store is left alone.
pub const PAUSE: Duration = Duration::from_secs(30);

/// The time between two writes of a filter that has changed.
pub const FILTER_WRITES: Duration = Duration::from_secs(60);

/// The time between two looks at the filters of other nodes.
pub const FILTER_READS: Duration = Duration::from_secs(600);

/// The largest layer of a filter, in bytes: it knows as many objects.
pub const LAYER_BYTES: usize = 16 << 20;

/// The time in which the queue is written at a stop.
pub const STOP: Duration = Duration::from_secs(5);
