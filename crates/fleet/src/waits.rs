//! Clients that wait until all nodes have executed a purge.

use crate::ids::Id;
use crate::limits;
use crate::members::Members;
use crate::note::{Note, Position, Word};
use crate::outbox::{Action, Outbox, WaitKey, Waited};
use larder_units::Time;
use std::collections::BTreeMap;

#[derive(Debug)]
struct Wait {
    position: Position,
    until: Time,
}

/// The waiting clients of a node, and its answers to other nodes that wait.
///
/// A node asks all others by a note, and again while some have not answered. Another one answers
/// when it has applied what is asked for, under the same id: a log that was rolled back has other
/// entries at the same positions. While nobody waits, nothing is said. A client gets its outcome
/// when all nodes with a live lease have answered, after [`limits::WAIT`] at the latest. It learns
/// that nothing is known when the node ceases to follow the log.
#[derive(Debug)]
pub struct Waits {
    node: String,
    /// The identity of the log, and the last applied sequence.
    position: Option<(String, u64)>,
    next_key: u64,
    waits: BTreeMap<WaitKey, Wait>,
    /// What members have applied of what is asked for here.
    reported: BTreeMap<String, Position>,
    /// The last question, and whether a client has come after it.
    asked_at: Option<Time>,
    is_new: bool,
    /// The last entry that each other node waits for, and until when.
    awaited: BTreeMap<String, (Position, Time)>,
    answered_at: Option<Time>,
}

impl Waits {
    /// Creates the state of a node of this name, for which nobody waits.
    pub fn new(node: &str) -> Waits {
        Waits {
            node: node.to_owned(),
            position: None,
            next_key: 1,
            waits: BTreeMap::new(),
            reported: BTreeMap::new(),
            asked_at: None,
            is_new: false,
            awaited: BTreeMap::new(),
            answered_at: None,
        }
    }

    /// Sets what this node has applied ([`crate::Follower::position`]), after the host has carried
    /// it out. [`Waits::on_timeout`] follows.
    pub fn set_position(&mut self, position: Option<(&str, u64)>) {
        match (&mut self.position, position) {
            (Some((known, reached)), Some((log, sequence))) if known == log => *reached = sequence,
            (known, position) => {
                *known = position.map(|(log, sequence)| (log.to_owned(), sequence));
            }
        }
    }

    /// Lets a client wait until all nodes have applied this. [`Waits::on_timeout`] follows, and
    /// [`Action::Waited`] some time.
    pub fn wait(&mut self, now: Time, position: Position) -> WaitKey {
        let key = WaitKey(self.next_key);
        self.next_key += 1;
        let until = now + limits::WAIT;
        self.waits.insert(key, Wait { position, until });
        self.is_new = true;
        key
    }

    /// Ends a wait without an outcome: its client has gone.
    pub fn forget(&mut self, key: WaitKey) {
        self.waits.remove(&key);
    }

    /// Takes a note of a node. [`Waits::on_timeout`] follows.
    pub fn on_note(&mut self, now: Time, note: Note, members: &Members) {
        if note.node == self.node {
            return;
        }
        match note.word {
            Word::Wait(asked) => {
                let is_same = self.position.as_ref().is_some_and(|of| of.0 == asked.log);
                let is_known = self.awaited.contains_key(&note.node);
                // It asks again, if this node comes to follow the same log.
                if is_same && (is_known || self.awaited.len() < limits::AWAITED) {
                    let until = now + limits::WAIT;
                    self.awaited.insert(note.node, (asked, until));
                }
            }
            Word::Applied { to, .. } if to != self.node => {}
            Word::Applied {
                position: applied, ..
            } => {
                let mut waits = self.waits.values();
                let is_asked = waits.any(|wait| wait.position == applied);
                let known = self.reported.get(&note.node);
                let is_more = known.is_none_or(|known| known.sequence < applied.sequence);
                if is_asked && is_more && members.is_live(&note.node) {
                    self.reported.insert(note.node, applied);
                }
            }
            Word::Lease(_) | Word::Left => {}
        }
    }

    /// Does what can be done at `now`: [`Action::Say`] and [`Action::Waited`]. `id_of` returns the
    /// id of an applied entry ([`crate::Follower::id_of`]).
    pub fn on_timeout<'a>(
        &mut self,
        now: Time,
        members: &Members,
        id_of: impl Fn(u64) -> Option<&'a Id>,
        out: &mut Outbox,
    ) {
        self.end_waits(now, members, out);
        if let Some(at) = self.ask_due()
            && at <= now
            && let Some(last) = self
                .waits
                .values()
                .max_by_key(|wait| wait.position.sequence)
        {
            let word = Word::Wait(last.position.clone());
            (self.asked_at, self.is_new) = (Some(now), false);
            out.push(Action::Say(self.note(word)));
        }
        self.awaited.retain(|_, (_, until)| *until > now);
        if self.answer_due().is_some_and(|at| at <= now) {
            self.answer(now, id_of, out);
        }
    }

    /// Answers other nodes.
    fn answer<'a>(&mut self, now: Time, id_of: impl Fn(u64) -> Option<&'a Id>, out: &mut Outbox) {
        let Some((log, reached)) = &self.position else {
            return;
        };
        let mut said: Vec<Word> = Vec::new();
        // What is reached under another id is forgotten: the node asks again.
        self.awaited.retain(|to, (asked, _)| {
            if asked.log != *log || asked.sequence > *reached || said.len() >= limits::ANSWERS {
                return asked.log == *log;
            }
            if id_of(asked.sequence).is_some_and(|id| **id == *asked.id) {
                said.push(Word::Applied {
                    position: asked.clone(),
                    to: to.clone(),
                });
            }
            false
        });
        if !said.is_empty() {
            self.answered_at = Some(now);
        }
        for word in said {
            out.push(Action::Say(self.note(word)));
        }
    }

    /// Returns the time of the next [`Waits::on_timeout`], if any.
    pub fn next_timeout(&self) -> Option<Time> {
        let end = self.waits.values().map(|wait| wait.until).min();
        let dues = [end, self.ask_due(), self.answer_due()];
        dues.into_iter().flatten().min()
    }

    /// Ends all waits. Nothing is known then.
    pub fn stop(&mut self, members: &Members, out: &mut Outbox) {
        for (key, wait) in std::mem::take(&mut self.waits) {
            let mut waited = self.outcome(&wait.position, members);
            waited.members = None;
            out.push(Action::Waited { key, waited });
        }
    }

    fn ask_due(&self) -> Option<Time> {
        if self.waits.is_empty() {
            return None;
        }
        let pause = if self.is_new {
            limits::NOTE_INTERVAL
        } else {
            limits::ASK_AGAIN
        };
        Some(self.asked_at.map_or(Time::ZERO, |at| at + pause))
    }

    fn answer_due(&self) -> Option<Time> {
        let (_, reached) = self.position.as_ref()?;
        let mut awaited = self.awaited.values();
        let is_due = awaited.any(|(asked, _)| asked.sequence <= *reached);
        let at = self.answered_at;
        is_due.then(|| at.map_or(Time::ZERO, |at| at + limits::NOTE_INTERVAL))
    }

    fn end_waits(&mut self, now: Time, members: &Members, out: &mut Outbox) {
        if self.waits.is_empty() {
            return;
        }
        let is_complete = members.is_complete(now);
        let mut over = Vec::new();
        for (key, wait) in &self.waits {
            let position = &wait.position;
            let of_log = self.position.as_ref().map(|(log, _)| log);
            let follows = of_log == Some(&position.log);
            let all_have = || members.live().all(|node| self.has_applied(node, position));
            if wait.until <= now || !follows || is_complete && all_have() {
                let mut waited = self.outcome(position, members);
                waited.members = waited.members.filter(|_| follows && is_complete);
                over.push((*key, waited));
            }
        }
        for (key, waited) in over {
            self.waits.remove(&key);
            out.push(Action::Waited { key, waited });
        }
        if self.waits.is_empty() {
            self.reported.clear();
        }
    }

    fn has_applied(&self, node: &str, position: &Position) -> bool {
        let of = if node == self.node {
            let own = self.position.as_ref();
            own.map(|(log, sequence)| (log, *sequence))
        } else {
            let reported = self.reported.get(node);
            reported.map(|of| (&of.log, of.sequence))
        };
        of.is_some_and(|(log, reached)| *log == position.log && reached >= position.sequence)
    }

    fn outcome(&self, position: &Position, members: &Members) -> Waited {
        let has_applied = |node: &&str| self.has_applied(node, position);
        let lost = members.live().chain(members.lost());
        Waited {
            members: Some(members.count()),
            applied: members.live().filter(has_applied).count(),
            lost: lost
                .filter(|node| !has_applied(node))
                .map(str::to_owned)
                .collect(),
        }
    }

    fn note(&self, word: Word) -> Note {
        Note {
            node: self.node.clone(),
            word,
        }
    }
}
