//! The purges that a node accepts.

use crate::ids::{Id, Ids};
use crate::limits;
use crate::message::{Body, Message, MessageError, Publication};
use crate::outbox::{
    Action, Answer, JournalAction, JournalKey, Journaled, Kept, Outbox, StaleReason,
};
use larder_units::Time;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

/// The bounds of an outbox.
#[derive(Clone, Copy, Debug)]
pub struct AcceptorConfig {
    /// How long an acknowledged purge stays. It is longer than the interval after which the log's
    /// servers sync their files, and the time until a roll-back is found.
    pub keep: Duration,
    /// Purges in the outbox.
    pub entries: usize,
    /// Bytes of them.
    pub bytes: usize,
}

impl Default for AcceptorConfig {
    fn default() -> Self {
        AcceptorConfig {
            keep: limits::OUTBOX_KEEP,
            entries: limits::OUTBOX_ENTRIES,
            bytes: limits::OUTBOX_BYTES,
        }
    }
}

/// A reason why a purge is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The outbox is full.
    Full {
        /// Purges in it.
        entries: usize,
        /// Bytes of them.
        bytes: usize,
    },
    /// A purge with this id is in the outbox, with this key.
    Known(JournalKey),
    /// The message cannot be published.
    Message(MessageError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Full { entries, bytes } => write!(
                f,
                "the outbox is full, with {entries} purges of {bytes} bytes; send fewer purges, \
                 or more items in each"
            ),
            Refused::Known(_) => f.write_str("a purge with this id is being published already"),
            Refused::Message(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptorCounters {
    /// Purges that were accepted.
    pub accepted: u64,
    /// Purges that were refused.
    pub refused: u64,
    /// Publications, with repetitions.
    pub published: u64,
    /// Acknowledgements of the log.
    pub acknowledged: u64,
    /// Answers "unknown".
    pub unknown: u64,
    /// Purges that were published again under new ids.
    pub published_again: u64,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The journal is written.
    Journaling,
    /// It waits for a publication.
    Ready,
    /// It is published, so many times.
    Published { times: u32 },
    /// It is in the log. `is_noted`: the journal has its entry.
    Acknowledged { is_noted: bool },
}

#[derive(Debug)]
struct Entry {
    message: Arc<Message>,
    bytes: usize,
    stage: Stage,
    /// When the stage ends: a repetition, or the removal.
    due: Option<Time>,
    /// When the client gets its answer, if it has none.
    answer_by: Option<Time>,
}

/// The outbox of a node: the purges that it has accepted and that are, or should be, in the log.
///
/// A purge is journaled, then published, and published again with the same id until the log
/// acknowledges it. It stays for a while, because the log may lose what it has acknowledged.
#[derive(Debug)]
pub struct Acceptor {
    config: AcceptorConfig,
    ids: Ids,
    next_key: u64,
    entries: BTreeMap<JournalKey, Entry>,
    bytes: usize,
    by_id: HashMap<Id, JournalKey, BuildHasherDefault<DefaultHasher>>,
    ready: VecDeque<JournalKey>,
    /// Entries in [`Stage::Published`].
    published: usize,
    connected: bool,
    /// Whether the log may have lost entries, as far as the follower knows.
    is_in_doubt: bool,
    /// The times of `due` and `answer_by`.
    times: BTreeSet<(Time, JournalKey)>,
    counters: AcceptorCounters,
}

impl Acceptor {
    /// Creates an empty outbox. `nonce` is random, and new at each start.
    pub fn new(config: AcceptorConfig, nonce: u128) -> Self {
        Acceptor {
            config,
            ids: Ids::new(nonce),
            next_key: 1,
            entries: BTreeMap::new(),
            bytes: 0,
            by_id: HashMap::default(),
            ready: VecDeque::new(),
            published: 0,
            connected: false,
            is_in_doubt: true,
            times: BTreeSet::new(),
            counters: AcceptorCounters::default(),
        }
    }

    /// Returns an id for a purge without one.
    pub fn next_id(&mut self) -> Id {
        self.ids.next_id()
    }

    /// Takes the purges of the journal. The host calls it once, before all other calls, and passes
    /// the result to [`crate::Follower::on_started`]: the entries of the last
    /// [`limits::WITNESSES`] purges that the log had. The follower compares them with the log's.
    ///
    /// The other purges are published under new ids: the servers may have lost them, and know
    /// their ids.
    pub fn on_journal_read(
        &mut self,
        now: Time,
        journal: Vec<Journaled>,
        out: &mut Outbox,
    ) -> Vec<Kept> {
        // All from one log: the one that the last purge is in.
        let entries = journal.iter().rev().filter_map(|of| of.entry.as_ref());
        let log = entries.clone().next().map(|entry| entry.identity.clone());
        let of_log = entries.filter(|entry| Some(&entry.identity) == log.as_ref());
        let mut witnesses: Vec<Kept> = of_log.cloned().collect();
        witnesses.sort_by_key(|entry| entry.applied);
        let first = witnesses.len().saturating_sub(limits::WITNESSES);
        witnesses.drain(..first);
        let first = witnesses.first().map_or(0, |entry| entry.applied);
        for Journaled {
            key,
            message,
            entry,
        } in journal
        {
            self.next_key = self.next_key.max(key.0.saturating_add(1));
            let is_compared =
                entry.is_some_and(|entry| Some(entry.identity) == log && entry.applied >= first);
            if is_compared {
                let stage = Stage::Acknowledged { is_noted: true };
                self.insert(key, message, stage, None);
                self.keep(now, key);
            } else {
                self.insert(key, message, Stage::Ready, None);
            }
        }
        self.publish_again(now, StaleReason::Began, out);
        witnesses
    }

    /// Accepts a purge, and returns its key, with which the answer for the client comes
    /// ([`Action::Answer`]).
    ///
    /// # Errors
    /// [`Refused`].
    pub fn accept(
        &mut self,
        now: Time,
        message: Message,
        out: &mut Outbox,
    ) -> Result<JournalKey, Refused> {
        if let Err(error) = message.encode() {
            self.counters.refused += 1;
            return Err(Refused::Message(error));
        }
        if let Some(key) = self.by_id.get(&message.id) {
            return Err(Refused::Known(*key));
        }
        let bytes = message.memory_bytes();
        if self.entries.len() >= self.config.entries || self.bytes + bytes > self.config.bytes {
            self.counters.refused += 1;
            return Err(Refused::Full {
                entries: self.entries.len(),
                bytes: self.bytes,
            });
        }
        self.counters.accepted += 1;
        let key = JournalKey(self.next_key);
        self.next_key += 1;
        let message = Arc::new(message);
        let answer_by = now + limits::ANSWER_TIMEOUT;
        self.insert(key, message.clone(), Stage::Journaling, Some(answer_by));
        out.push(Action::Journal(JournalAction::Write { key, message }));
        Ok(key)
    }

    /// Takes note that the last [`JournalAction::Write`] of this key is durable, or could not be
    /// written.
    pub fn on_journaled(&mut self, now: Time, key: JournalKey, durable: bool, out: &mut Outbox) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if !matches!(entry.stage, Stage::Journaling) {
            return;
        }
        if !durable && entry.answer_by.is_some() {
            out.push(Action::Answer {
                key,
                answer: Answer::NotJournaled,
            });
            self.remove(key);
            return;
        }
        entry.stage = Stage::Ready;
        self.ready.push_back(key);
        self.publish_ready(now, out);
    }

    /// Takes an acknowledgement of the log: this id has this sequence. `log` is the identity of
    /// [`crate::Follower::position`]: with it, the journal notes the entry, and a restart compares
    /// it with the log's before it publishes the purge again.
    pub fn on_acknowledged(
        &mut self,
        now: Time,
        id: &Id,
        sequence: u64,
        log: Option<&str>,
        out: &mut Outbox,
    ) {
        let Some(key) = self.by_id.get(id).copied() else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        match entry.stage {
            Stage::Published { .. } => self.published -= 1,
            Stage::Journaling | Stage::Ready | Stage::Acknowledged { .. } => return,
        }
        self.counters.acknowledged += 1;
        let is_noted = log.is_some();
        entry.stage = Stage::Acknowledged { is_noted };
        if entry.answer_by.take().is_some() {
            out.push(Action::Answer {
                key,
                answer: Answer::Acknowledged { sequence },
            });
        }
        self.keep(now, key);
        if let Some(log) = log {
            let entry = Kept {
                identity: log.to_owned(),
                applied: sequence,
                id: id.clone(),
            };
            let entry = Some(entry);
            out.push(Action::Journal(JournalAction::Acknowledged { key, entry }));
        }
        self.publish_ready(now, out);
    }

    /// Takes note of a new connection: what has no acknowledgement is published at once, and what
    /// has one stays for its whole time again, because the log may have lost it meanwhile.
    pub fn on_connected(&mut self, now: Time, out: &mut Outbox) {
        self.connected = true;
        let keep = self.config.keep;
        let planned = self.entries.iter_mut().filter_map(|(key, entry)| {
            let due = match &mut entry.stage {
                Stage::Published { times } => {
                    *times = 0;
                    now
                }
                Stage::Acknowledged { .. } => now + keep,
                Stage::Journaling | Stage::Ready => return None,
            };
            let old = entry
                .due
                .replace(due)
                .filter(|old| entry.answer_by != Some(*old));
            Some((old.map(|old| (old, *key)), (due, *key)))
        });
        let planned: Vec<_> = planned.collect();
        for (old, new) in planned {
            if let Some(old) = old {
                self.times.remove(&old);
            }
            self.times.insert(new);
        }
        self.on_timeout(now, out);
    }

    /// Takes note that there is no connection. Nothing leaves the outbox until there is one: a
    /// roll-back cannot be noticed meanwhile.
    pub fn on_disconnected(&mut self) {
        self.connected = false;
    }

    /// Sets whether the log may have lost entries ([`crate::Follower::doubts_log`]). Nothing leaves
    /// the outbox meanwhile: it may have to be published again. The host calls it before
    /// [`Acceptor::on_timeout`].
    pub fn set_in_doubt(&mut self, now: Time, is_in_doubt: bool) {
        if std::mem::replace(&mut self.is_in_doubt, is_in_doubt) && !is_in_doubt {
            for (key, entry) in &mut self.entries {
                if matches!(entry.stage, Stage::Acknowledged { .. }) && entry.due.is_none() {
                    entry.due = Some(now);
                    self.times.insert((now, *key));
                }
            }
        }
    }

    /// Publishes all purges of the outbox again, under new ids: the servers may know the ids of
    /// entries that they have lost, and would drop a repetition. The host calls it after each
    /// [`Action::MakeStale`]; it does nothing if the log has lost nothing
    /// ([`StaleReason::entries_lost`]).
    ///
    /// [`StaleReason::Began`]: not those whose entries the follower compares with the log's.
    pub fn publish_again(&mut self, now: Time, reason: StaleReason, out: &mut Outbox) {
        if !reason.entries_lost() {
            return;
        }
        self.ready.clear();
        self.published = 0;
        self.by_id.clear();
        for (key, entry) in &mut self.entries {
            let is_published = match entry.stage {
                Stage::Journaling => false,
                Stage::Acknowledged { is_noted } => !is_noted || reason != StaleReason::Began,
                Stage::Ready | Stage::Published { .. } => true,
            };
            if is_published {
                if matches!(entry.stage, Stage::Acknowledged { is_noted: true }) {
                    let (key, entry) = (*key, None);
                    out.push(Action::Journal(JournalAction::Acknowledged { key, entry }));
                }
                let mut message = (*entry.message).clone();
                message.id = self.ids.next_id();
                entry.message = Arc::new(message);
                entry.stage = Stage::Ready;
                entry.due = None;
                self.ready.push_back(*key);
                self.counters.published_again += 1;
            }
            self.by_id.insert(entry.message.id.clone(), *key);
        }
        self.publish_ready(now, out);
    }

    /// Does what is due.
    pub fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        while let Some((at, key)) = self.times.first().copied()
            && at <= now
        {
            self.times.pop_first();
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            if entry.answer_by == Some(at) {
                entry.answer_by = None;
                self.counters.unknown += 1;
                out.push(Action::Answer {
                    key,
                    answer: Answer::Unknown,
                });
            }
            if entry.due == Some(at) {
                entry.due = None;
                match entry.stage {
                    Stage::Published { .. } => self.publish(now, key, out),
                    // A late timer: the machine was stopped, and may have no connection any more.
                    Stage::Acknowledged { .. } if at + limits::REPEAT < now => {
                        entry.due = Some(now + self.config.keep);
                        self.times.insert((now + self.config.keep, key));
                    }
                    Stage::Acknowledged { .. } if !self.connected => {}
                    Stage::Acknowledged { .. } if self.is_in_doubt => {}
                    Stage::Acknowledged { .. } => {
                        self.remove(key);
                        out.push(Action::Journal(JournalAction::Remove { key }));
                    }
                    Stage::Journaling | Stage::Ready => {}
                }
            }
        }
        self.publish_ready(now, out);
    }

    /// Returns the time of the next [`Acceptor::on_timeout`], if any.
    pub fn next_timeout(&self) -> Option<Time> {
        self.times.first().map(|(at, _)| *at)
    }

    /// Returns whether less than a quarter of the outbox is used. What any client may cause is
    /// accepted only then, so that it leaves room for the purges of operators.
    pub fn has_much_room(&self) -> bool {
        self.entries.len() < self.config.entries / 4 && self.bytes < self.config.bytes / 4
    }

    /// Returns the number of purges in the outbox.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the outbox has no purges.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the bytes of the purges in the outbox.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the counts since the start.
    pub fn counters(&self) -> AcceptorCounters {
        self.counters
    }

    fn insert(
        &mut self,
        key: JournalKey,
        message: Arc<Message>,
        stage: Stage,
        answer_by: Option<Time>,
    ) {
        let bytes = message.memory_bytes();
        self.bytes += bytes;
        self.by_id.insert(message.id.clone(), key);
        self.times.extend(answer_by.map(|at| (at, key)));
        let entry = Entry {
            message,
            bytes,
            stage,
            due: None,
            answer_by,
        };
        self.entries.insert(key, entry);
    }

    /// Plans the removal of an acknowledged purge.
    fn keep(&mut self, now: Time, key: JournalKey) {
        let due = now + self.config.keep;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.due = Some(due);
            self.times.insert((due, key));
        }
    }

    fn remove(&mut self, key: JournalKey) {
        if let Some(entry) = self.entries.remove(&key) {
            self.bytes -= entry.bytes;
            if self.by_id.get(&entry.message.id) == Some(&key) {
                self.by_id.remove(&entry.message.id);
            }
        }
    }

    fn publish_ready(&mut self, now: Time, out: &mut Outbox) {
        while self.published < limits::PUBLICATIONS {
            let Some(key) = self.ready.pop_front() else {
                return;
            };
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            if matches!(entry.stage, Stage::Ready) {
                entry.stage = Stage::Published { times: 0 };
                self.published += 1;
                self.publish(now, key, out);
            }
        }
    }

    /// Publishes an entry in [`Stage::Published`], and plans the repetition.
    fn publish(&mut self, now: Time, key: JournalKey, out: &mut Outbox) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let Stage::Published { times } = &mut entry.stage else {
            return;
        };
        // Each 2 s while the client waits, then with pauses that double.
        let waits = limits::ANSWER_TIMEOUT.as_nanos() / limits::REPEAT.as_nanos();
        let doublings = times.saturating_sub(waits as u32).min(8);
        let pause = (limits::REPEAT * 2u32.pow(doublings)).min(limits::REPEAT_LONGEST);
        *times += 1;
        entry.due = Some(now + pause);
        self.times.insert((now + pause, key));
        self.counters.published += 1;
        out.push(Action::Publish(Publication {
            id: entry.message.id.clone(),
            body: Body::Purge(entry.message.clone()),
        }));
    }
}
