//! What a follower does with its connection, and with its one request.

use crate::outbox::Token;
use larder_units::Time;

/// Why the description is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// After a connection, or to begin at the end.
    Connected,
    /// An applied entry was not found.
    CheckNotFound,
    /// The next entry was not found.
    NextNotFound,
}

/// What a follower does with a connection.
#[derive(Debug)]
pub(super) enum Phase {
    Disconnected,
    /// It reads the description.
    Describing(Why),
    /// It reads the last entry, to begin there.
    Beginning {
        last: u64,
    },
    /// It compares applied entries with the log's.
    Checking,
    /// It applies entries.
    Reading,
}

/// The one request of a follower.
#[derive(Debug)]
pub(super) enum Request {
    None,
    Sent {
        token: Token,
        deadline: Time,
    },
    /// It waits before it repeats the last one.
    Paused {
        until: Time,
    },
}

/// Fruitless answers since the last success.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    pub(super) not_found: u32,
    pub(super) pauses: u32,
    /// Descriptions that said that the entry must be there.
    pub(super) rounds: u32,
}
