//! Bounds of the ACME client, each with its reason.

use std::time::Duration;

/// Orders at once: a hundred hosts have their certificates within minutes, and an authority that is
/// slow for one host does not hold up all.
pub const ORDERS: usize = 4;

/// The time for one order. Authorities check a host within seconds, some within minutes.
pub const ORDER: Duration = Duration::from_secs(300);

/// The time that a stop waits for the thread, which may wait for a folder on the network.
pub const STOP: Duration = Duration::from_secs(2);

/// The time for the authority to check a host, and to issue a certificate.
pub const CHECK: Duration = Duration::from_secs(120);

/// The time for one request to the authority.
pub const REQUEST: Duration = Duration::from_secs(30);

/// Times that an order is begun again at once because the authority refused a nonce: it may restart
/// or run on several machines. If it refuses half of the nonces, two of five attempts fail: with
/// six, one order in two hundred failed.
pub const TRIES: u32 = 12;

/// Bytes of an authority's response: a chain of certificates has some KiB.
pub const RESPONSE_BYTES: usize = 1 << 20;

/// Characters of the reason for a failed order: the text is an authority's, for people.
pub const REASON_CHARACTERS: usize = 500;

/// Bytes of a file of the folder.
pub const FILE_BYTES: u64 = 1 << 20;

/// The interval of looks at the clock and at the files of the folder, which another node may have
/// changed.
pub const LOOK: Duration = Duration::from_secs(10);

/// The interval of looks at the open challenges of other nodes.
pub const CHALLENGE_LOOK: Duration = Duration::from_secs(1);

/// The time between the file of a challenge and the request to check the host: the other nodes have
/// looked then, with two seconds for a slow folder. The authority may ask each of them, and only
/// once.
pub const CHALLENGE_WAIT: Duration = Duration::from_secs(3);

/// Files of challenges that a node reads: a hundred nodes with [`ORDERS`] each.
pub const CHALLENGE_FILES: usize = 400;

/// Bytes of such a file: a token, a dot and the 43 characters of a digest.
pub const CHALLENGE_BYTES: usize = 256;

/// Files of challenges that are older were left by a process that was killed.
pub const CHALLENGE_AGE: Duration = Duration::from_secs(3600);

/// The wait for another process that creates the account.
pub const ACCOUNT_WAIT: Duration = Duration::from_secs(60);
