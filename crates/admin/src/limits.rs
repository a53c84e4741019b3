//! Every bound of the admin server, with its reason.

use std::time::Duration;

/// The time for requests of the admin server at a stop: its pages take milliseconds.
pub const ADMIN_STOP_GRACE: Duration = Duration::from_secs(5);

/// Concurrent connections to the admin server: a scraper, a person, and their retries.
pub const ADMIN_CONNECTIONS: usize = 32;

/// Bytes of the body of a purge request: the longest URL that is keyed, and its JSON.
pub const PURGE_BYTES: usize = 32 * 1024;

/// The time for a client of the admin server to send a request, and the next one, because a silent
/// client must not hold one of so few places. A scraper with an interval of 15 s connects anew.
pub const ADMIN_HEADER_READ: Duration = Duration::from_secs(5);

/// Pages that show the console at once. Each holds one of [`ADMIN_CONNECTIONS`], of which scrapers
/// and health checks keep half.
pub const CONSOLE_STREAMS: usize = 16;

/// The seconds between two points of the console's last hour, and their number.
pub const HISTORY_HOUR: (u64, usize) = (10, 360);

/// The seconds between two points of the console's last day, and their number. Both rings have 650
/// points of some 0.6 KiB.
pub const HISTORY_DAY: (u64, usize) = (300, 288);

/// The seconds between two writes of the file of the history: what a crash loses.
pub const HISTORY_SAVE_SECONDS: u64 = 60;

/// The largest file of a history that is read: a full one has less than half of it.
pub const HISTORY_FILE_BYTES: u64 = 1 << 20;

/// The time that a stop or an upgrade gives the last write of the history: it is a file of at most
/// 1 MiB, and without it only the last minute is missing.
pub const HISTORY_LEAVE: Duration = Duration::from_secs(2);

/// The seconds between two status pages in a stream of the console. A node with thousands of faces
/// has a page of megabytes.
pub const CONSOLE_STATUS_SECONDS: u64 = 5;
