//! What a follower gets from its host, and what it reports.

use crate::message::LogEntry;
use std::time::Duration;

/// What a follower needs to know of its node.
#[derive(Clone, Debug)]
pub struct FollowerConfig {
    /// The name of the node: [`crate::is_name`].
    pub node: String,
    /// How long after its acknowledgement a purge may be unknown to the node. At least one second.
    pub max_lag: Duration,
    /// Beats in each `max_lag`: [`crate::limits::BEATS`] to begin with.
    pub beats: u32,
}

/// The relation of a node to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FollowerState {
    /// The kept position has not been read yet. Nothing stored is served without validation.
    Starting,
    /// A proof of freshness is younger than `max_lag`, and no entry is missing.
    Following,
    /// A proof is younger than `max_lag`, and entries are missing or the connection is.
    Catching,
    /// No proof is young enough. Nothing stored is served without validation.
    Lagging,
    /// The log has lost entries. When the new end of the log is known, everything becomes stale
    /// and the state is [`FollowerState::Lagging`].
    RolledBack,
}

/// The description of the log, from its leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDescription {
    /// A random text in the log's metadata, which is made with the log.
    pub identity: String,
    /// The first sequence that the log keeps: one above the last if it keeps none.
    pub first: u64,
    /// The last sequence; 0 if there was none.
    pub last: u64,
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadAnswer {
    /// Entries in the order of their sequences, from the first one that was asked for, without a
    /// gap. They may end before the last one that was asked for.
    Found(Vec<LogEntry>),
    /// The first entry that was asked for is not there.
    NotFound,
    /// There was no answer.
    Failed,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowerCounters {
    /// Entries that were applied.
    pub applied: u64,
    /// Entries that came again.
    pub duplicates: u64,
    /// Reads of missing entries.
    pub reads: u64,
    /// Beats that were sent.
    pub beats: u64,
    /// Proofs of freshness.
    pub proofs: u64,
    /// Doubts about an applied entry, which the leader resolved.
    pub doubts: u64,
    /// Times that the log did not keep what the node had not applied, or had to compare.
    pub missed: u64,
    /// Times that the log had lost entries, or was made anew.
    pub rolled_back: u64,
    /// Barriers of any node that were applied.
    pub barriers: u64,
    /// Entries that were not readable.
    pub unreadable: u64,
}
