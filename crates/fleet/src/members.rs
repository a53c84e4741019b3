//! The nodes of a fleet that are there.

use crate::limits;
use crate::message::is_name;
use crate::note::{Lease, Note, Standing, Word};
use crate::outbox::{Action, Outbox};
use crate::peers::{Owners, PeerOffer, hash};
use larder_units::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// The list of the nodes with a live lease, as one of them sees it.
///
/// Each node renews its lease, and all hear it. A lease ends by the own clock, from the time of
/// reception on, and only while the node hears its own renewals: otherwise the servers are away,
/// or the node was stopped, and the list stays as it is. After such a gap, all leases begin anew.
/// The time without a connection is none of a lease.
///
/// In a fleet of more than [`limits::RENEW_NODES`], renewals are rarer, and each says when the next
/// one comes.
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
    /// Since when it has no connection.
    disconnected: Option<Time>,
    /// Whether the bucket was read on this connection.
    is_read: bool,
    next_renewal: Time,
    /// The time to the next renewal, as the last one has said it, and as the one before has.
    renewals: [Duration; 2],
    /// Renewals since the node has connected, or since they come at other times.
    said: u32,
    /// Where between two renewals of others its own ones lie, from 0 to 1.
    phase: f64,
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
    /// Absent if its name was in the bucket only.
    says: Option<Lease>,
    voices: Voices,
}

impl Heard {
    fn offer(&self) -> Option<&PeerOffer> {
        self.says.as_ref()?.offer.as_ref()
    }

    /// Returns how long its lease lasts, in a fleet in which others last for so long.
    fn lasts(&self, usual: Duration) -> Duration {
        self.says.as_ref().map_or(usual, Lease::lasts)
    }
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
        let is_recent = |at: Time| now.since(at) <= says.lasts();
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

    /// Returns whether there are two nodes, whose lease is this one.
    fn are_two(&self, now: Time, says: &Lease) -> bool {
        self.turns.is_some_and(|(first, last)| {
            last.since(first) >= limits::TURNS && now.since(last) <= says.lasts()
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
            ..Lease::default()
        };
        Members {
            node: node.to_owned(),
            says,
            heard: BTreeMap::new(),
            lost: BTreeMap::new(),
            own: None,
            connected: false,
            disconnected: None,
            is_read: false,
            next_renewal: Time::ZERO,
            renewals: [limits::RENEW; 2],
            said: 0,
            phase: hash(node) as f64 / u64::MAX as f64,
            next_read: Time::ZERO,
            offer_changes: 1,
            voices: Voices::default(),
        }
    }

    /// Sets how the node stands, which its next renewal tells. It comes soon if the node has lost
    /// its fleet or follows it again, unless many nodes may do so at once.
    pub fn set_standing(&mut self, now: Time, standing: Standing) {
        let before = self.says.standing.as_ref();
        if before.is_none_or(|before| before.is_sound() != standing.is_sound()) {
            let soon = limits::RENEW_SOON + self.spread(self.renewals[0]);
            self.next_renewal = self.next_renewal.min(now + soon);
        }
        self.says.standing = Some(standing);
    }

    /// Takes note that the host subscribes to the notes, from now on.
    pub fn on_connected(&mut self, now: Time, out: &mut Outbox) {
        if let Some(since) = self.disconnected.take() {
            for heard in self.heard.values_mut() {
                heard.renewed = (heard.renewed + now.since(since)).min(now);
            }
        }
        self.connected = true;
        self.is_read = false;
        self.said = 0;
        self.own = self.own.map(|(_, last)| (now, last));
        (self.next_renewal, self.next_read) = (now, now);
        self.on_timeout(now, out);
    }

    /// Takes note that renewals may be lost. The list stays.
    pub fn on_disconnected(&mut self, now: Time) {
        self.connected = false;
        self.disconnected.get_or_insert(now);
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
            Word::Lease(says) => self.hear(now, &note.node, Some(says.clone())),
            // Another process of this node has stopped.
            Word::Left if note.node == self.node => {}
            Word::Left => {
                let left = self.heard.remove(&note.node);
                self.offer_changes += u64::from(left.is_some_and(|heard| heard.offer().is_some()));
                self.lost.remove(&note.node);
            }
            Word::Wait(_) | Word::Applied { .. } => {}
        }
    }

    /// Takes the names in the bucket, or `None` if it could not be read. Leases that are known
    /// already are not renewed by it, and neither are those that have ended: the bucket keeps them
    /// for [`limits::LEASE_LONGEST`].
    pub fn on_read(&mut self, now: Time, names: Option<Vec<String>>) {
        let Some(names) = names else {
            self.next_read = self.next_read.min(now + limits::RENEW);
            return;
        };
        self.is_read = true;
        for name in names {
            let is_known = self.heard.contains_key(&name) || self.lost.contains_key(&name);
            if name != self.node && !is_known {
                // Its next renewal says what it offers.
                self.hear(now, &name, None);
            }
        }
    }

    /// Does what is due: [`Action::Say`] and [`Action::ReadLeases`].
    pub fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        if !self.connected {
            return;
        }
        if self.next_renewal <= now {
            self.next_renewal = now + self.plan_renewal();
            out.push(Action::Say(self.note(Word::Lease(self.says.clone()))));
        }
        if self.next_read <= now {
            self.next_read = now + self.renewals[0] * limits::LEASES_AGAIN;
            out.push(Action::ReadLeases);
        }
    }

    /// Says when the next renewal comes, and returns after what time.
    fn plan_renewal(&mut self) -> Duration {
        let many = self.count().div_ceil(limits::RENEW_NODES);
        let many = u32::try_from(many).unwrap_or(u32::MAX);
        let renewal = limits::RENEW.saturating_mul(many);
        let renewal = renewal.min(limits::RENEW_LONGEST);
        let [before, _] = self.renewals;
        self.renewals = [renewal, before];
        let is_usual = renewal == limits::RENEW;
        self.says.renewal_seconds = (!is_usual).then_some(renewal.as_secs());
        if renewal != before {
            self.said = 0;
        }
        self.said = self.said.saturating_add(1);
        match self.said {
            // One of both may be lost, and others have to hear when the node speaks again.
            1 => limits::RENEW,
            // All nodes may have connected, or learnt of others, at once.
            2 => limits::RENEW + self.spread(renewal),
            _ => renewal,
        }
    }

    /// Returns a pause of the node's own, so that the nodes of a large fleet do not speak at once.
    fn spread(&self, renewal: Duration) -> Duration {
        renewal.saturating_sub(limits::RENEW).mul_f64(self.phase)
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

    /// Returns how many beats a node of this fleet publishes in each `max_lag`.
    pub fn beats(&self) -> u32 {
        if self.count() > limits::RENEW_NODES {
            limits::BEATS_OF_MANY
        } else {
            limits::BEATS
        }
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
        let lease = self.renewals[0] * limits::RENEWALS;
        let hears = self.own.is_some_and(|(first, last)| {
            last.since(first) >= lease && now.since(last) <= self.longest_gap()
        });
        self.connected && self.is_read && hears
    }

    /// Returns the nodes with a live lease, this one first.
    pub fn list(&self, now: Time) -> impl Iterator<Item = Member> {
        let own = Member {
            node: self.node.clone(),
            says: self.says.clone(),
            renewed: None,
            are_two: self.voices.are_two(now, &self.says),
        };
        let others = self.heard.iter().map(move |(node, heard)| {
            let says = heard.says.clone().unwrap_or_default();
            Member {
                node: node.clone(),
                are_two: heard.voices.are_two(now, &says),
                says,
                renewed: Some(heard.renewed),
            }
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
        let offers = offers.filter_map(|(node, heard)| Some((&**node, heard.offer()?)));
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

    /// A node that has not heard its own renewal for longer does not know which renewals of others
    /// it has missed.
    fn longest_gap(&self) -> Duration {
        let [now, before] = self.renewals;
        now.max(before) * 2
    }

    fn hear(&mut self, now: Time, name: &str, says: Option<Lease>) {
        let known = self.heard.get(name);
        if !is_name(name) || known.is_none() && self.heard.len() >= limits::MEMBERS {
            return;
        }
        let before = known.and_then(Heard::offer);
        let offers = says.as_ref().and_then(|says| says.offer.as_ref());
        self.offer_changes += u64::from(before != offers);
        self.lost.remove(name);
        let heard = self.heard.entry(name.to_owned()).or_insert_with(|| Heard {
            renewed: now,
            says: None,
            voices: Voices::default(),
        });
        if let Some(says) = &says {
            heard.voices.hear(now, says);
        }
        (heard.renewed, heard.says) = (now, says);
    }

    /// Ends the leases that were not renewed while the node heard its own renewals.
    fn hear_own(&mut self, now: Time) {
        let (mut first, last) = self.own.unwrap_or((now, now));
        if now.since(last) > self.longest_gap() {
            // Others may have spoken that it did not hear.
            first = now;
            for heard in self.heard.values_mut() {
                heard.renewed = now;
            }
        }
        self.own = Some((first, now));
        let usual = self.renewals[0] * limits::RENEWALS;
        let has_ended =
            |_: &String, heard: &mut Heard| now.since(heard.renewed) > heard.lasts(usual);
        for (name, heard) in self.heard.extract_if(.., has_ended) {
            self.offer_changes += u64::from(heard.offer().is_some());
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
