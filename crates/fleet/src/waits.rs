//! Clients that wait until all nodes have executed a purge.

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
/// when it has applied what is asked for. While nobody waits, nothing is said. A client gets its
/// outcome when all nodes with a live lease have answered, after [`limits::WAIT`] at the latest.
#[derive(Debug)]
pub struct Waits {
    node: String,
    position: Option<Position>,
    next_key: u64,
    waits: BTreeMap<WaitKey, Wait>,
    /// What other nodes have applied, while somebody waits here.
    reported: BTreeMap<String, Position>,
    /// The last question, and whether a client has come after it.
    asked_at: Option<Time>,
    is_new: bool,
    /// The sequences that other nodes wait for, and until when.
    awaited: BTreeMap<u64, Time>,
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
        let Some((log, sequence)) = position else {
            self.position = None;
            return;
        };
        match &mut self.position {
            Some(known) if known.log == log => known.sequence = sequence,
            known => {
                let log = log.to_owned();
                *known = Some(Position { log, sequence });
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

    /// Takes a note of a node. [`Waits::on_timeout`] follows.
    pub fn on_note(&mut self, now: Time, note: Note) {
        if note.node == self.node {
            return;
        }
        match note.word {
            Word::Wait(asked) => {
                let is_same = self.position.as_ref().is_some_and(|of| of.log == asked.log);
                // It asks again, if this node comes to follow the same log.
                if is_same && self.awaited.len() < limits::AWAITED {
                    self.awaited.insert(asked.sequence, now + limits::WAIT);
                }
            }
            Word::Applied(position) if !self.waits.is_empty() => {
                let is_known = self.reported.contains_key(&note.node);
                if is_known || self.reported.len() < limits::MEMBERS {
                    self.reported.insert(note.node, position);
                }
            }
            Word::Applied(_) | Word::Lease | Word::Left => {}
        }
    }

    /// Does what can be done at `now`: [`Action::Say`] and [`Action::Waited`].
    pub fn on_timeout(&mut self, now: Time, members: &Members, out: &mut Outbox) {
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
        self.awaited.retain(|_, until| *until > now);
        if let Some(at) = self.answer_due()
            && at <= now
            && let Some(position) = &self.position
        {
            let word = Word::Applied(position.clone());
            let reached = position.sequence;
            self.awaited.retain(|sequence, _| *sequence > reached);
            self.answered_at = Some(now);
            out.push(Action::Say(self.note(word)));
        }
    }

    /// Returns the time of the next [`Waits::on_timeout`], if any.
    pub fn next_timeout(&self) -> Option<Time> {
        let end = self.waits.values().map(|wait| wait.until).min();
        let dues = [end, self.ask_due(), self.answer_due()];
        dues.into_iter().flatten().min()
    }

    /// Ends all waits, as they are.
    pub fn stop(&mut self, members: &Members, out: &mut Outbox) {
        for (key, wait) in std::mem::take(&mut self.waits) {
            let waited = self.outcome(&wait.position, members);
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
        let reached = self.position.as_ref()?.sequence;
        let (first, _) = self.awaited.first_key_value()?;
        let at = self.answered_at;
        (*first <= reached).then(|| at.map_or(Time::ZERO, |at| at + limits::NOTE_INTERVAL))
    }

    fn end_waits(&mut self, now: Time, members: &Members, out: &mut Outbox) {
        if self.waits.is_empty() {
            return;
        }
        let is_over = |wait: &Wait| {
            let mut live = members.live();
            wait.until <= now
                || members.is_complete() && live.all(|node| self.has_applied(node, &wait.position))
        };
        let over = self.waits.iter().filter(|(_, wait)| is_over(wait));
        let over: Vec<_> = over
            .map(|(key, wait)| (*key, self.outcome(&wait.position, members)))
            .collect();
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
            self.position.as_ref()
        } else {
            self.reported.get(node)
        };
        of.is_some_and(|of| of.log == position.log && of.sequence >= position.sequence)
    }

    fn outcome(&self, position: &Position, members: &Members) -> Waited {
        let has_applied = |node: &&str| self.has_applied(node, position);
        let lost = members.live().chain(members.lost());
        Waited {
            members: members.count(),
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
