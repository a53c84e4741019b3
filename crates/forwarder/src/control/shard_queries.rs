//! Queries to other shards, and the commands and datasets that wait for them.

use super::erasure::Erasure;
use crate::face::{FaceCounters, FaceId};
use crate::stats::Stats;
use crate::tables::prefix_figures::PrefixFigures;
use larder_packet::mgmt::CsObject;
use larder_packet::{Name, NameRef};
use std::collections::HashMap;

/// What a shard is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardQuery {
    /// What it has counted.
    Figures,
    /// What it has stored under a prefix.
    Stored(Name),
    /// To erase what it has stored under a prefix, so many at most, for the client at a face.
    Erase(Name, usize, FaceId),
}

/// What it says.
#[derive(Clone, Debug)]
pub enum Report {
    /// What it has counted: in all, of each face by number, and by prefix.
    Figures(Box<Stats>, Vec<(FaceId, FaceCounters)>, Vec<PrefixFigures>),
    /// What it has stored.
    Stored(Vec<CsObject>),
    /// How many it erased, and whether there are more.
    Erased(usize, bool),
    /// Whether what was erased of the second tier stays so whatever happens; else one line that
    /// says why not.
    Settled(Result<(), String>),
}

/// The questions that wait, and what was said to the one that is being answered.
#[derive(Default)]
pub(crate) struct ShardQueries {
    pub(crate) waiting: HashMap<u64, PendingQuery>,
    pub(crate) next_ticket: u64,
    pub(crate) said: Vec<Report>,
}

pub(crate) struct PendingQuery {
    pub(crate) from: FaceId,
    /// Of the command, or the dataset.
    pub(crate) name: Name,
    pub(crate) goal: Goal,
}

pub(crate) enum Goal {
    /// So many shards have not said their part.
    Dataset { said: Vec<Report>, left: usize },
    /// This shard is at work.
    Erase { shard: usize, so_far: Erasure },
    /// The host waits for the second tier.
    Settle { done: Erasure },
}

impl ShardQueries {
    /// Whether this face sent the command already, and waits.
    pub(crate) fn contains(&self, from: FaceId, command: NameRef<'_>) -> bool {
        self.waiting.values().any(|pending_query| pending_query.from == from && pending_query.name.as_name() == command)
    }

    pub(crate) fn add(&mut self, pending_query: PendingQuery) -> u64 {
        self.next_ticket += 1;
        self.waiting.insert(self.next_ticket, pending_query);
        self.next_ticket
    }
}
