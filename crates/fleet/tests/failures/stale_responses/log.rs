//! A model of the log: an ordered stream of three replicated servers.

use larder_fleet::{Body, Id, LogDescription, LogEntry, ReadAnswer, ReadFrom};
use std::collections::HashMap;

/// The stream as its majority has it.
#[derive(Debug)]
pub struct Log {
    identity: u64,
    /// The entry with sequence 1 and all after it, also those that are not kept any more.
    pub entries: Vec<LogEntry>,
    /// The first kept sequence.
    pub first: u64,
    /// The duplicate window.
    seen: HashMap<Id, u64>,
    /// Rises with each loss of entries.
    pub history: u32,
}

impl Log {
    pub fn new() -> Log {
        Log {
            identity: 1,
            entries: Vec::new(),
            first: 1,
            seen: HashMap::new(),
            history: 0,
        }
    }

    pub fn last(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Returns the sequence, and whether the entry is new.
    pub fn publish(&mut self, id: &Id, body: &Body) -> (u64, bool) {
        if let Some(sequence) = self.seen.get(id) {
            return (*sequence, false);
        }
        let sequence = self.last() + 1;
        self.seen.insert(id.clone(), sequence);
        self.entries.push(LogEntry {
            sequence,
            id: id.clone(),
            body: body.clone(),
        });
        (sequence, true)
    }

    /// Returns to an older copy. `remembers`: the servers still know the ids of lost entries.
    pub fn roll_back(&mut self, last: u64, remembers: bool) {
        self.entries.truncate(last as usize);
        if !remembers {
            self.seen.retain(|_, sequence| *sequence <= last);
        }
        self.history += 1;
    }

    /// Keeps nothing before `first`. Entries are kept for longer than the duplicate window.
    pub fn forget(&mut self, first: u64) {
        self.first = first;
        self.seen.retain(|_, sequence| *sequence >= first);
    }

    /// Is deleted, and created with another identity.
    pub fn create_anew(&mut self) {
        self.roll_back(0, false);
        self.first = 1;
        self.identity += 1;
    }

    /// The description, from a server that knows entries up to `last`.
    pub fn description(&self, last: u64) -> LogDescription {
        LogDescription {
            identity: format!("log-{}", self.identity),
            first: self.first,
            last,
        }
    }

    /// A read that a server answers that knows entries up to `last`, with so many entries at most.
    pub fn read(&self, from: u64, to: u64, last: u64, most: u64) -> ReadAnswer {
        let end = to.min(last).min(self.last()).min(from + most - 1);
        if from < self.first || from > end {
            return ReadAnswer::NotFound;
        }
        ReadAnswer::Found(self.entries[from as usize - 1..end as usize].to_vec())
    }
}

/// Returns how much of the log the answering server knows. `lag` is that of a replica, and
/// `deposed` the end that a leader without a majority knows.
pub fn known(log: &Log, source: ReadFrom, lag: u64, deposed: Option<u64>) -> u64 {
    match (source, deposed) {
        (ReadFrom::Leader, Some(last)) => last.min(log.last()),
        (ReadFrom::Leader, None) => log.last(),
        (ReadFrom::AnyReplica, _) => log.last().saturating_sub(lag),
    }
}
