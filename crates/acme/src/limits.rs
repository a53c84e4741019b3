//! Bounds of an ACME client, each with its reason.

use std::time::Duration;

/// Hosts with a certificate of their own: each is an order every few weeks, and authorities allow
/// some hundred orders in a few hours.
pub const HOSTS: usize = 1000;

/// Bytes of a host's name. DNS allows 253 (RFC 1035 §2.3.4). The name of a file has at most 255,
/// and the files of a host have its name with up to 27 other bytes.
pub const HOST_BYTES: usize = 220;

/// Bytes of one label of it.
pub const LABEL_BYTES: usize = 63;

/// Bytes of a challenge's token. Authorities send 22 to 43; the name of a file has at most 255.
pub const TOKEN_BYTES: usize = 128;

/// The pause after the first failure of an order. It doubles with each further one.
pub const RETRY_FIRST: Duration = Duration::from_secs(60);

/// The longest pause after failures. A wrong DNS record is corrected within hours, and an authority
/// may refuse an account that repeats what fails.
pub const RETRY_LONGEST: Duration = Duration::from_secs(6 * 3600);

/// The longest pause while the authority cannot be reached: it checks no host then, so an early
/// repetition costs it nothing.
pub const UNREACHABLE_LONGEST: Duration = Duration::from_secs(15 * 60);

/// Orders of one host that an authority may refuse in [`FAILURES_PERIOD`]: Let's Encrypt refuses
/// the host for a while after the fifth.
pub const FAILURES: usize = 4;

/// See [`FAILURES`].
pub const FAILURES_PERIOD: Duration = Duration::from_secs(3600);

/// The authority is asked again for its renewal window after this, at the earliest (RFC 9773 §4.3
/// suggests these limits).
pub const WINDOW_EARLIEST: Duration = Duration::from_secs(60);

/// And at the latest.
pub const WINDOW_LATEST: Duration = Duration::from_secs(24 * 3600);

/// The authority is asked again after this if it gave no window: it may have none, or be away.
pub const WINDOW_AGAIN: Duration = Duration::from_secs(6 * 3600);
