//! Queries to other shards, and the commands and datasets that wait for them.

use super::erasure::Erasure;
use crate::face::{FaceCounters, FaceId};
use crate::stats::Stats;
use crate::tables::prefix_figures::PrefixFigures;
use larder_packet::mgmt::CsObject;
use larder_packet::{Name, NameRef};
use std::collections::HashMap;

/// A query of the first shard to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardQuery {
    /// Query the counters.
    Figures,
    /// Query the objects stored under a prefix.
    Stored(Name),
    /// Erase at most this many objects stored under a prefix, for the client at a face.
    Erase(Name, usize, FaceId),
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub enum Report {
    /// The counters: of the shard, of each face by number, and by prefix.
    Figures(Box<Stats>, Vec<(FaceId, FaceCounters)>, Vec<PrefixFigures>),
    /// The stored objects.
    Stored(Vec<CsObject>),
    /// The number of erased objects, and whether there are more.
    Erased(usize, bool),
    /// Whether the second tier's erasure is durable; the error is one line with the reason.
    Settled(Result<(), String>),
}

/// The queries that wait, and the answers from which a dataset is being created.
#[derive(Default)]
pub(crate) struct ShardQueries {
    pub(crate) waiting: HashMap<u64, PendingQuery>,
    pub(crate) next_ticket: u64,
    pub(crate) said: Vec<Report>,
}

pub(crate) struct PendingQuery {
    pub(crate) from: FaceId,
    /// The name of the command or the dataset.
    pub(crate) name: Name,
    pub(crate) goal: Goal,
}

pub(crate) enum Goal {
    /// This many shards have not answered.
    Dataset { said: Vec<Report>, left: usize },
    /// This shard is at work.
    Erase { shard: usize, so_far: Erasure },
    /// The host waits for the second tier.
    Settle { done: Erasure },
}

impl ShardQueries {
    /// Returns true if this face sent the command already and it still waits.
    pub(crate) fn contains(&self, from: FaceId, command: NameRef<'_>) -> bool {
        self.waiting.values().any(|pending_query| {
            pending_query.from == from && pending_query.name.as_name() == command
        })
    }

    pub(crate) fn add(&mut self, pending_query: PendingQuery) -> u64 {
        self.next_ticket += 1;
        self.waiting.insert(self.next_ticket, pending_query);
        self.next_ticket
    }

    // ---- Answers of other shards, while a dataset is created ----

    pub(crate) fn figures_of_others(
        &self,
    ) -> impl Iterator<Item = (&Stats, &[(FaceId, FaceCounters)], &[PrefixFigures])> {
        self.said.iter().filter_map(|report| match report {
            Report::Figures(stats, faces, by_prefix) => {
                Some((&**stats, &faces[..], &by_prefix[..]))
            }
            _ => None,
        })
    }

    pub(crate) fn stored_by_others(&self) -> impl Iterator<Item = CsObject> {
        let stored = self.said.iter().filter_map(|report| match report {
            Report::Stored(objects) => Some(objects),
            _ => None,
        });
        stored.flatten().cloned()
    }
}
