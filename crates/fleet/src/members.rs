//! The nodes of a fleet that are there.

use crate::limits;
use crate::message::is_name;
use crate::note::{Lease, Note, Standing, Word};
use crate::outbox::{Action, Outbox};
use crate::peers::{Owners, PeerOffer};
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
    /// What the node says of itself.
    says: Lease,
    /// The leases of the other nodes.
    heard: BTreeMap<String, Heard>,
    /// Nodes whose lease ended without a word, and when.
    lost: BTreeMap<String, Time>,
    /// When the node heard its own renewal, the first time on this connection and the last time.
    own: Option<(Time, Time)>,
    connected: bool,
    /// Whether the bucket was read on this connection.
    is_read: bool,
    next_renewal: Time,
    next_read: Time,
    /// Counts the changes of what the nodes offer.
    offer_changes: u64,
    /// The processes that renew its lease.
    voices: Voices,
}

/// The lease of another node.
#[derive(Debug)]
struct Heard {
    /// When it was last renewed.
    renewed: Time,
    says: Lease,
    voices: Voices,
}

/// The processes that renew the lease of one name. An upgrade and a restart have another process
/// from a moment on; two nodes of one name renew it by turns.
#[derive(Debug, Default)]
struct Voices {
    /// The process that was heard last, and when.
    last: Option<(String, Time)>,
    /// The one before it, and when.
    before: Option<(String, Time)>,
    /// Since when they take turns, and their last turn.
    turns: Option<(Time, Time)>,
}

impl Voices {
    fn hear(&mut self, now: Time, says: &Lease) {
        let Some(standing) = &says.standing else {
            // An earlier version does not tell.
            return;
        };
        let instance = &standing.instance;
        let is_recent = |at: Time| now.since(at) <= limits::LEASE;
        if let Some((last, at)) = &mut self.last
            && last == instance
        {
            *at = now;
            return;
        }
        let is_turn = |voice: &(String, Time)| voice.0 == *instance && is_recent(voice.1);
        if self.before.as_ref().is_some_and(is_turn) {
            let turns = self.turns.filter(|(_, last)| is_recent(*last));
            self.turns = Some((turns.map_or(now, |(first, _)| first), now));
        }
        self.before = self.last.replace((instance.clone(), now));
    }

    /// Returns whether there are two nodes.
    fn are_two(&self, now: Time) -> bool {
        self.turns.is_some_and(|(first, last)| {
            last.since(first) >= limits::TURNS && now.since(last) <= limits::LEASE
        })
    }
}

/// A node of the fleet, as [`Members::list`] shows it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name.
    pub node: String,
    /// What it says of itself.
    pub says: Lease,
    /// When it was last heard; `None` for the node itself.
    pub renewed: Option<Time>,
    /// Whether there are two nodes of this name. Both count as one, so a purge may seem executed
    /// that one of them has not.
    pub are_two: bool,
}

impl Members {
    /// Creates the list of a node of this name, which knows only itself, and offers this to the
    /// others.
    pub fn new(node: &str, offer: Option<PeerOffer>) -> Members {
        let says = Lease {
            offer,
            standing: None,
        };
        Members {
            node: node.to_owned(),
            says,
            heard: BTreeMap::new(),
            lost: BTreeMap::new(),
            own: None,
            connected: false,
            is_read: false,
            next_renewal: Time::ZERO,
            next_read: Time::ZERO,
            offer_changes: 1,
            voices: Voices::default(),
        }
    }

    /// Sets how the node stands, which its next renewal tells. It comes soon if the node has lost
    /// its fleet or follows it again.
    pub fn set_standing(&mut self, now: Time, standing: Standing) {
        let before = self.says.standing.as_ref();
        if before.is_none_or(|before| before.is_sound() != standing.is_sound()) {
            self.next_renewal = self.next_renewal.min(now + limits::RENEW_SOON);
        }
        self.says.standing = Some(standing);
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
        match &note.word {
            Word::Lease(says) if note.node == self.node => {
                self.voices.hear(now, says);
                if self.is_own(says) {
                    self.hear_own(now);
                }
            }
            Word::Lease(says) => self.hear(now, &note.node, says.clone()),
            // Another process of this node has stopped.
            Word::Left if note.node == self.node => {}
            Word::Left => {
                let left = self.heard.remove(&note.node);
                self.offer_changes +=
                    u64::from(left.is_some_and(|heard| heard.says.offer.is_some()));
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
                // Its next renewal says what it offers.
                self.hear(now, &name, Lease::default());
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
            out.push(Action::Say(self.note(Word::Lease(self.says.clone()))));
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

    /// Returns the nodes with a live lease, this one first.
    pub fn list(&self, now: Time) -> impl Iterator<Item = Member> {
        let own = Member {
            node: self.node.clone(),
            says: self.says.clone(),
            renewed: None,
            are_two: self.voices.are_two(now),
        };
        let others = self.heard.iter().map(move |(node, heard)| Member {
            node: node.clone(),
            says: heard.says.clone(),
            renewed: Some(heard.renewed),
            are_two: heard.voices.are_two(now),
        });
        std::iter::once(own).chain(others)
    }

    /// Returns a number that changes with [`Members::owners`].
    pub fn offer_changes(&self) -> u64 {
        self.offer_changes
    }

    /// Returns the nodes that share their responses with this one.
    pub fn owners(&self) -> Owners {
        let offers = self.heard.iter();
        let offers = offers.filter_map(|(node, heard)| Some((&**node, heard.says.offer.as_ref()?)));
        Owners::new(&self.node, self.says.offer.as_ref(), offers)
    }

    fn note(&self, word: Word) -> Note {
        Note {
            node: self.node.clone(),
            word,
        }
    }

    /// Returns whether this process has sent it, as far as it says.
    fn is_own(&self, says: &Lease) -> bool {
        match (&says.standing, &self.says.standing) {
            (Some(said), Some(own)) => said.instance == own.instance,
            _ => true,
        }
    }

    fn hear(&mut self, now: Time, name: &str, says: Lease) {
        let known = self.heard.get(name);
        if is_name(name) && (known.is_some() || self.heard.len() < limits::MEMBERS) {
            let before = known.and_then(|heard| heard.says.offer.as_ref());
            self.offer_changes += u64::from(before != says.offer.as_ref());
            self.lost.remove(name);
            let heard = self.heard.entry(name.to_owned()).or_insert_with(|| Heard {
                renewed: now,
                says: Lease::default(),
                voices: Voices::default(),
            });
            heard.voices.hear(now, &says);
            (heard.renewed, heard.says) = (now, says);
        }
    }

    /// Ends the leases that were not renewed while the node heard its own renewals.
    fn hear_own(&mut self, now: Time) {
        let (mut first, last) = self.own.unwrap_or((now, now));
        if now.since(last) > limits::RENEW_GAP {
            // Nodes may have come that it did not hear.
            first = now;
            for heard in self.heard.values_mut() {
                heard.renewed = now;
            }
        }
        self.own = Some((first, now));
        let has_ended = |_: &String, heard: &mut Heard| now.since(heard.renewed) > limits::LEASE;
        for (name, heard) in self.heard.extract_if(.., has_ended) {
            self.offer_changes += u64::from(heard.says.offer.is_some());
            self.lost.insert(name, now);
        }
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
