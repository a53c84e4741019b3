//! A model of three servers of NATS: the log, its replication, and what they send to the nodes.

use larder_fleet::{Body, Id, LogDescription, LogEntry, Note, ReadAnswer};
use larder_units::Time;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Servers of the log. Each has a third of the nodes.
pub const SERVERS: usize = 3;

/// Processor cores of a server.
pub const CORES: u32 = 4;

/// Processor time for what a server writes to a connection at once. nats-server 2.15, 400
/// subscribers and a message of 250 bytes each 2 ms: 6.9 us a message.
pub const WRITE: Duration = Duration::from_nanos(5_500);

/// Processor time for each message of it. Without pauses between messages: 1.2 us to 100
/// subscribers, 2.3 us to 1,000.
pub const MESSAGE: Duration = Duration::from_nanos(2_300);

/// Processor time of the leader for an entry or a renewal, which it sends to the other servers. It
/// takes one entry after the other.
pub const APPEND: Duration = Duration::from_micros(20);

/// Processor time for a request: of a description, of entries, of the leases.
const REQUEST: Duration = Duration::from_micros(20);

/// Bytes of headers and protocol around a body.
const HEADERS: usize = 200;

/// What a server sends to all nodes.
#[derive(Clone)]
pub enum Word {
    Entry(LogEntry),
    Note(Arc<Note>),
}

/// A message to all nodes, and its bytes on a connection.
#[derive(Clone)]
pub struct Delivery {
    pub word: Word,
    pub bytes: usize,
}

/// A server.
#[derive(Default)]
pub struct Server {
    /// What it has not sent yet.
    pub waiting: Vec<Delivery>,
    /// Whether it has planned to send.
    pub is_planned: bool,
    pub is_down: bool,
    /// What it does ends then.
    busy_until: Time,
    /// The time for which it was busy, with all its cores.
    pub busy: Duration,
    pub messages: u64,
    pub bytes: u64,
}

impl Server {
    /// Takes processor time, divided among the cores, and returns when that ends.
    pub fn take(&mut self, now: Time, cost: Duration) -> Time {
        let cost = cost / CORES;
        self.busy += cost;
        self.busy_until = self.busy_until.max(now) + cost;
        self.busy_until
    }

    pub fn free_at(&self, now: Time) -> Time {
        self.busy_until.max(now)
    }

    /// Takes an entry or a renewal, as the leader.
    pub fn append(&mut self, now: Time) {
        self.take(now, APPEND);
    }

    /// Writes messages to one connection, and returns when that has happened.
    pub fn write(&mut self, now: Time, messages: &[Delivery]) -> Time {
        self.messages += messages.len() as u64;
        self.bytes += messages.iter().map(|m| m.bytes as u64).sum::<u64>();
        self.take(now, WRITE + MESSAGE * messages.len() as u32)
    }

    /// Answers a request, of so many messages.
    pub fn answer(&mut self, now: Time, messages: usize) -> Time {
        self.messages += messages as u64;
        self.bytes += (messages * HEADERS) as u64;
        self.take(now, REQUEST + MESSAGE * messages as u32)
    }
}

/// The log as its majority has it.
#[derive(Default)]
pub struct Log {
    pub entries: Vec<LogEntry>,
    /// The duplicate window.
    known: HashMap<Id, u64>,
    /// The leader has appended all so far then.
    appended_at: Time,
}

impl Log {
    /// Appends an entry, and returns it and whether it is new.
    pub fn append(&mut self, id: Id, body: Body) -> (LogEntry, bool) {
        if let Some(sequence) = self.known.get(&id) {
            return (self.entries[*sequence as usize - 1].clone(), false);
        }
        let sequence = self.entries.len() as u64 + 1;
        self.known.insert(id.clone(), sequence);
        let entry = LogEntry { sequence, id, body };
        self.entries.push(entry.clone());
        (entry, true)
    }

    /// Returns when the leader has appended one more entry.
    pub fn append_at(&mut self, now: Time) -> Time {
        self.appended_at = self.appended_at.max(now) + APPEND;
        self.appended_at
    }

    pub fn description(&self) -> LogDescription {
        LogDescription {
            identity: "log".to_owned(),
            first: 1,
            last: self.entries.len() as u64,
        }
    }

    pub fn read(&self, from: u64, to: u64) -> ReadAnswer {
        let to = to.min(self.entries.len() as u64);
        if from > to {
            return ReadAnswer::NotFound;
        }
        ReadAnswer::Found(self.entries[from as usize - 1..to as usize].to_vec())
    }
}

/// Returns an entry as it is sent to all nodes.
pub fn delivery_of(entry: LogEntry) -> Delivery {
    let body = match &entry.body {
        Body::Purge(message) => message.encode().map_or(0, |bytes| bytes.len()),
        _ => 2,
    };
    Delivery {
        word: Word::Entry(entry),
        bytes: HEADERS + body,
    }
}

/// Returns a note as it is sent to all nodes.
pub fn delivery_of_note(note: Note) -> Delivery {
    let bytes = HEADERS + note.payload().len();
    Delivery {
        word: Word::Note(Arc::new(note)),
        bytes,
    }
}
