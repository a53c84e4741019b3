//! Ids of messages.

use std::sync::Arc;

/// The id of an entry of the log. It is unique, of at most [`crate::limits::ID_BYTES`] bytes. The
/// log stores two messages with the same id within its duplicate window once.
pub type Id = Arc<str>;

/// A source of ids: a random number of the host, and a counter.
#[derive(Clone, Debug)]
pub struct Ids {
    nonce: u128,
    next: u64,
}

impl Ids {
    /// Creates a source. `nonce` is random (from the host's entropy), and new at each start.
    pub const fn new(nonce: u128) -> Self {
        Ids { nonce, next: 0 }
    }

    /// Returns an id that no other call returns.
    pub fn next_id(&mut self) -> Id {
        self.next += 1;
        format!("{:032x}-{}", self.nonce, self.next).into()
    }
}
