//! The nodes of a fleet that are there.

use crate::limits;
use crate::message::is_name;
use crate::note::{Note, Word};
use crate::outbox::{Action, Outbox};
use larder_units::Time;
use std::collections::BTreeMap;

/// The list of the nodes with a live lease, as one of them sees it.
///
/// Each node renews its lease, and all hear it. A lease ends by the own clock, from the time of
/// reception on, and only while the node hears its own renewals: otherwise the servers are away,
/// or the node was stopped, and the list stays as it is. After such a gap, all leases begin anew.
#[derive(Debug)]
pub struct Members {
    node: String,
    /// When the lease of another node was last renewed.
    heard: BTreeMap<String, Time>,
    /// Nodes whose lease ended without a word, and when.
    lost: BTreeMap<String, Time>,
    /// When the node heard its own renewal, the first time on this connection and the last time.
    own: Option<(Time, Time)>,
    connected: bool,
    /// Whether the bucket was read on this connection.
    is_read: bool,
    next_renewal: Time,
    next_read: Time,
}

impl Members {
    /// Creates the list of a node of this name, which knows only itself.
    pub fn new(node: &str) -> Members {
        Members {
            node: node.to_owned(),
            heard: BTreeMap::new(),
            lost: BTreeMap::new(),
            own: None,
            connected: false,
            is_read: false,
            next_renewal: Time::ZERO,
            next_read: Time::ZERO,
        }
    }

    /// Takes note that the host subscribes to the notes, from now on.
    pub fn on_connected(&mut self, now: Time, out: &mut Outbox) {
        self.connected = true;
        self.is_read = false;
        self.own = self.own.map(|(_, last)| (now, last));
        (self.next_renewal, self.next_read) = (now, now);
        self.on_timeout(now, out);
    }

    /// Takes note that renewals may be lost. The list stays.
    pub fn on_disconnected(&mut self) {
        self.connected = false;
    }

    /// Takes a note of a node about its lease.
    pub fn on_note(&mut self, now: Time, note: &Note) {
        match note.word {
            Word::Lease if note.node == self.node => self.hear_own(now),
            Word::Lease => self.hear(now, &note.node),
            // Another process of this node has stopped.
            Word::Left if note.node == self.node => {}
            Word::Left => {
                self.heard.remove(&note.node);
                self.lost.remove(&note.node);
            }
            Word::Wait(_) | Word::Applied(_) => {}
        }
    }

    /// Takes the names in the bucket, or `None` if it could not be read. Leases that are known
    /// already are not renewed by it.
    pub fn on_read(&mut self, now: Time, names: Option<Vec<String>>) {
        let Some(names) = names else {
            self.next_read = self.next_read.min(now + limits::RENEW);
            return;
        };
        self.is_read = true;
        for name in names {
            if name != self.node && !self.heard.contains_key(&name) {
                self.hear(now, &name);
            }
        }
    }

    /// Does what is due: [`Action::Say`] and [`Action::ReadLeases`].
    pub fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        if !self.connected {
            return;
        }
        if self.next_renewal <= now {
            self.next_renewal = now + limits::RENEW;
            out.push(Action::Say(self.note(Word::Lease)));
        }
        if self.next_read <= now {
            self.next_read = now + limits::LEASES_AGAIN;
            out.push(Action::ReadLeases);
        }
    }

    /// Returns the time of the next [`Members::on_timeout`], if any.
    pub fn next_timeout(&self) -> Option<Time> {
        let due = self.next_renewal.min(self.next_read);
        self.connected.then_some(due)
    }

    /// Returns the note of a planned stop.
    pub fn leave(&mut self) -> Note {
        self.connected = false;
        self.note(Word::Left)
    }

    /// Returns the names of the nodes with a live lease. The node itself is among them.
    pub fn live(&self) -> impl Iterator<Item = &str> {
        let others = self.heard.keys().map(String::as_str);
        std::iter::once(self.node.as_str()).chain(others)
    }

    /// Returns their number.
    pub fn count(&self) -> usize {
        1 + self.heard.len()
    }

    /// Returns the names of the nodes whose lease ended without a word, within
    /// [`limits::LOST_KEEP`].
    pub fn lost(&self) -> impl Iterator<Item = &str> {
        self.lost.keys().map(String::as_str)
    }

    /// Returns whether a node of this name has a live lease.
    pub fn is_live(&self, node: &str) -> bool {
        node == self.node || self.heard.contains_key(node)
    }

    /// Returns whether the list is complete at `now`: the bucket was read on this connection, and
    /// the node has heard its own renewals for a whole lease, and still does. The bucket alone may
    /// be empty: it is in the memory of the servers.
    pub fn is_complete(&self, now: Time) -> bool {
        let hears = self.own.is_some_and(|(first, last)| {
            last.since(first) >= limits::LEASE && now.since(last) <= limits::RENEW_GAP
        });
        self.connected && self.is_read && hears
    }

    fn note(&self, word: Word) -> Note {
        Note {
            node: self.node.clone(),
            word,
        }
    }

    fn hear(&mut self, now: Time, name: &str) {
        let known = self.heard.contains_key(name);
        if is_name(name) && (known || self.heard.len() < limits::MEMBERS) {
            self.lost.remove(name);
            self.heard.insert(name.to_owned(), now);
        }
    }

    /// Ends the leases that were not renewed while the node heard its own renewals.
    fn hear_own(&mut self, now: Time) {
        let (mut first, last) = self.own.unwrap_or((now, now));
        if now.since(last) > limits::RENEW_GAP {
            // Nodes may have come that it did not hear.
            first = now;
            self.heard.values_mut().for_each(|heard| *heard = now);
        }
        self.own = Some((first, now));
        let lost = self
            .heard
            .extract_if(.., |_, heard| now.since(*heard) > limits::LEASE);
        self.lost.extend(lost.map(|(name, _)| (name, now)));
        self.lost
            .retain(|_, since| now.since(*since) <= limits::LOST_KEEP);
        while self.lost.len() > limits::MEMBERS {
            let oldest = self.lost.iter().min_by_key(|(_, since)| **since);
            let Some(name) = oldest.map(|(name, _)| name.clone()) else {
                return;
            };
            self.lost.remove(&name);
        }
    }
}
