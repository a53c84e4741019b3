//! What a core asks of its host.

use crate::ids::Id;
use crate::message::{Message, Publication};
use crate::note::Note;
use std::sync::Arc;

/// The number of a request of a [`crate::Follower`]. Its answer has the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub(crate) u64);

/// The number of a change of the cache, in their order. It rises by one with each
/// [`Action::Apply`] and [`Action::MakeStale`], and starts anew with each start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark(pub(crate) u64);

/// The number of an accepted purge in the journal. It is unique in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JournalKey(pub u64);

/// Where a read is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// Any replica, by direct get. It may lag.
    AnyReplica,
    /// The leader of the log.
    Leader,
}

/// The reason why all stored responses become stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StaleReason {
    /// The node has no position in the log. It begins at the end. An entry that its journal knows
    /// is compared with the log's then.
    Began,
    /// The log does not keep entries any more that the node has not applied, or has to compare.
    Missed,
    /// The log has lost entries that the node, or a client of it, had seen.
    RolledBack,
    /// The log was deleted and created anew.
    IdentityChanged,
    /// A node of the fleet found a roll-back.
    Barrier,
    /// An entry is not readable.
    Unreadable,
}

impl StaleReason {
    /// Returns whether [`crate::Acceptor::publish_again`] publishes purges: the log may have lost
    /// acknowledged ones, or the node cannot know whether it has. After
    /// [`StaleReason::RolledBack`] the node's own barrier follows, so it is not among them.
    pub const fn entries_lost(self) -> bool {
        !matches!(self, StaleReason::RolledBack | StaleReason::Unreadable)
    }
}

/// An entry of the log, which a node knows after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The identity of the log, from its metadata.
    pub identity: String,
    /// The sequence. In a position, that of the last applied beat: what came after is applied
    /// again.
    pub applied: u64,
    /// The id of the entry.
    pub id: Id,
}

/// A purge of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journaled {
    /// Its key.
    pub key: JournalKey,
    /// The purge.
    pub message: Arc<Message>,
    /// Its entry in the log, if the log has it.
    pub entry: Option<Kept>,
}

/// A change of the journal, the file of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalAction {
    /// Write this purge. When it is durable (synced), the host calls
    /// [`crate::Acceptor::on_journaled`].
    Write {
        /// Its key.
        key: JournalKey,
        /// The purge.
        message: Arc<Message>,
    },
    /// Note that the log has this purge, or, without an entry, that it may not have it any more.
    /// The latter is durable before a later note of any purge is.
    Acknowledged {
        /// Its key.
        key: JournalKey,
        /// Its entry in the log.
        entry: Option<Kept>,
    },
    /// Remove this purge. It need not be durable soon.
    Remove {
        /// Its key.
        key: JournalKey,
    },
}

/// The answer for the client of an accepted purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The purge is in the log.
    Acknowledged {
        /// Its sequence.
        sequence: u64,
    },
    /// The log did not answer for [`crate::limits::ANSWER_TIMEOUT`]. The purge may be in the log,
    /// and is repeated until it is.
    Unknown,
    /// The journal could not be written. The purge is not accepted.
    NotJournaled,
}

/// The number of a waiting client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitKey(pub(crate) u64);

/// Which nodes have applied an entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// Nodes with a live lease. `None` if it is not known which nodes there are, or whether the
    /// log still has the entry.
    pub members: Option<usize>,
    /// Those of them that have applied the entry.
    pub applied: usize,
    /// The names of the nodes of which it is not known: those that do not answer, and those whose
    /// lease ended without a word.
    pub lost: Vec<String>,
}

/// A request to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the log's description from its leader, and call
    /// [`crate::Follower::on_description`].
    ReadDescription {
        /// For the answer.
        token: Token,
    },
    /// Read the entries of these sequences, and call [`crate::Follower::on_read`].
    Read {
        /// For the answer.
        token: Token,
        /// The first sequence.
        from: u64,
        /// The last sequence, at most [`crate::limits::READ_ENTRIES`] - 1 above.
        to: u64,
        /// Where it is answered.
        source: ReadFrom,
    },
    /// Publish this message with its id, once, and pass its acknowledgement to
    /// [`crate::Follower::on_acknowledged`], and also to [`crate::Acceptor::on_acknowledged`] if
    /// it is a purge. The core repeats it if necessary.
    Publish(Publication),
    /// Apply this purge to memory and to the queue of the disk tier.
    Apply {
        /// The number of the change.
        mark: Mark,
        /// The sequence of its entry.
        sequence: u64,
        /// The purge.
        message: Arc<Message>,
    },
    /// Make all stored responses stale, and those that were requested from an origin before: each
    /// is validated before it is used. No permission to serve stale responses applies.
    MakeStale {
        /// The number of the change.
        mark: Mark,
        /// Why.
        reason: StaleReason,
    },
    /// Keep this position on disk, in the place of the last one. It need not be durable soon.
    Keep(Kept),
    /// Change the journal.
    Journal(JournalAction),
    /// Answer the client of this accepted purge.
    Answer {
        /// The key that [`crate::Acceptor::accept`] returned.
        key: JournalKey,
        /// The answer.
        answer: Answer,
    },
    /// Publish this note, outside the log. It may be lost.
    Say(Note),
    /// Read the names in the bucket of leases, and call [`crate::Members::on_read`].
    ReadLeases,
    /// Tell the client which nodes have executed its purge.
    Waited {
        /// The key that [`crate::Waits::wait`] returned.
        key: WaitKey,
        /// The nodes.
        waited: Waited,
    },
}

/// The actions of a core, which the host carries out in their order.
#[derive(Debug, Default)]
pub struct Outbox {
    actions: Vec<Action>,
}

impl Outbox {
    /// Creates an empty outbox.
    pub const fn new() -> Self {
        Outbox {
            actions: Vec::new(),
        }
    }

    /// Returns the actions, first to last, and leaves the outbox empty.
    pub fn drain(&mut self) -> impl Iterator<Item = Action> + '_ {
        self.actions.drain(..)
    }

    /// Returns whether there are no actions.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    pub(crate) fn push(&mut self, action: Action) {
        self.actions.push(action);
    }
}
