//! Bounds of the host, each with its reason.

use std::time::Duration;

/// Republished entries that wait for the thread. Beyond, the client of NATS drops some, and the
/// follower reads them.
pub const SUBSCRIPTION_ENTRIES: usize = 16 * 1024;

/// The time for one request to the log: as long as the election of a leader, 6 to 7 s.
pub const REQUEST: Duration = Duration::from_secs(8);

/// Reads of the log at once.
pub const READS: usize = 16;

/// Orders of clients that wait for the thread.
pub const ORDERS: usize = 4096;

/// URLs that unsafe requests have invalidated, and that wait for the thread. Beyond, they are
/// dropped and counted. Each has at most the length of a request's target.
pub const INVALIDATED: usize = 16 * 1024;

/// Bytes of the URLs of one entry of the log, less than it may have, because JSON escapes some.
pub const INVALIDATED_BYTES: usize = larder_fleet::limits::MESSAGE_BYTES / 2;

/// Invalidated URLs are collected for so long, so that many share an entry of the log.
pub const COLLECT: Duration = Duration::from_millis(10);

/// The longest pause before another connection is tried. Each one is chosen at random up to it, so
/// that the nodes of a fleet do not come at once.
pub const RECONNECT_LONGEST: Duration = Duration::from_secs(2);

/// The time between signs of life on a connection. After two without an answer, another server is
/// tried: a machine that has lost its power sends none.
pub const PING: Duration = Duration::from_secs(3);

/// The pause before the disk is asked again whether it has a purge.
pub const SETTLE_AGAIN: Duration = Duration::from_secs(5);

/// Bytes of a text of another program in a line of the log.
pub const EXCERPT_BYTES: usize = 200;

/// A problem that comes again is in the log again after this. The status page has it before.
pub const COMPLAIN_AGAIN: Duration = Duration::from_secs(3600);

/// Problems that are remembered for [`COMPLAIN_AGAIN`]. A server refuses one subject or the other.
pub const COMPLAINTS: usize = 32;

/// Lines of the outbox for purges that have left it, after which the file is written anew.
pub const DEAD_LINES: usize = 4096;

/// The time for the end of the thread.
pub const STOP: Duration = Duration::from_secs(5);

/// The smallest `max_lag`. A proof takes the time of a beat: a sixth of it.
pub const LEAST_LAG: Duration = Duration::from_secs(1);

/// Bytes of the name of a node or a fleet.
pub const NAME_BYTES: usize = larder_fleet::limits::NAME_BYTES;

/// A URL that an unsafe request has changed at this node is fetched from its origin for so long:
/// its owner learns of the change later.
pub const INVALIDATED_KEEP: Duration = Duration::from_secs(30);

/// Such URLs that are remembered. Beyond, no owner is asked for anything for as long.
pub const RECENTLY_INVALIDATED: usize = 16 * 1024;

/// The nodes on `/status` are listed again after so long: a list has up to 4,096 of them.
pub const SHOW_NODES: Duration = Duration::from_millis(100);
